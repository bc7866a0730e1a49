"""The MILP on graphs small enough to see the answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from foundation.arrays import FloatArray, IntArray
from placement.dag_model import DagTask
from placement.errors import (
    CapacityUnattainable,
    DeadlineUnattainable,
    NetworkError,
    NoNode,
    SettingsError,
    SolverStopped,
)
from placement.exact_dag import DagPlacement, solve_dag
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.program import MilpSettings

# A line of nodes n0 … n4, 20 ms of one way apart.
view = NetworkView(
    nodes=tuple(Node(name=f"n{i}", position_ms=np.array([40.0 * i])) for i in range(5))
)
free_of_charge = np.zeros(5)


def diamond(cost_us: float = 0) -> QueryGraph:
    """a feeds b and c, both feed d: a circle without direction. Most traffic is between a and b."""
    rates = {"Sa": 1000, "ab": 3000, "ac": 100, "bd": 200, "cd": 100, "dT": 50}
    return QueryGraph(
        name="q",
        operators=(
            Operator(name="S", pinned="n0"),
            Operator(name="T", pinned="n4"),
            *(Operator(name=name, cost_us=cost_us) for name in "abcd"),
        ),
        links=tuple(
            Link(source=pair[0], target=pair[1], rate_bytes_s=rate, tuples_s=100)
            for pair, rate in rates.items()
        ),
    )


def anywhere(nodes: Iterable[int] = range(5)) -> dict[str, np.typing.NDArray[np.int64]]:
    return {name: np.array(list(nodes), dtype=np.int64) for name in "abcd"}


def solved(
    graph: QueryGraph,
    over: NetworkView,
    candidates: Mapping[str, IntArray],
    price_ms: FloatArray,
    *,
    settings: MilpSettings | None = None,
    capacity_left: FloatArray | None = None,
    deadline_ms: float | None = None,
    hop_overhead_ms: float = 0.0,
    apart: bool = False,
) -> DagPlacement:
    task = DagTask(
        graph=graph,
        view=over,
        candidates=candidates,
        price_bytes=graph.mean_input_rate * price_ms / 1e3,
        capacity_left=capacity_left,
        deadline_ms=deadline_ms,
        hop_overhead_ms=hop_overhead_ms,
        apart=apart,
    )
    return solve_dag(task, settings)


def places(found: DagPlacement) -> str:
    return " ".join(found.primaries[name] for name in "abcd")


def test_all_gather_where_most_data_comes_from():
    found = solved(diamond(), view, anywhere(), free_of_charge)
    assert places(found) == "n0 n0 n0 n0"
    assert found.primaries["S"] == "n0"
    assert found.primaries["T"] == "n4"
    assert found.cost == pytest.approx(50 * 80 / 1e3)
    assert found.optimal
    assert found.gap <= 1e-6
    assert found.bound == pytest.approx(found.cost)


def test_candidates_restrict():
    candidates = anywhere() | {"b": np.array([3, 2])}
    found = solved(diamond(), view, candidates, free_of_charge)
    assert places(found) == "n2 n2 n2 n2"


def test_a_busy_node_is_avoided_if_its_price_exceeds_the_way():
    price_ms = np.array([15.0, 0, 0, 0, 0])
    found = solved(diamond(), view, anywhere(), price_ms)
    # Moving all four saves 4400 bytes/s · 15 ms and costs 1000 · 20 less the last 50 · 20.
    assert places(found) == "n1 n1 n1 n1"
    assert found.cost == pytest.approx((1000 * 20 + 50 * 60) / 1e3)


def test_capacity_spreads_a_query():
    """Four operators of 0.1, 0.1, 0.1 and 0.2 cores: S's node takes the two linked most."""
    graph = diamond(cost_us=1000)
    assert [graph.cores(name) for name in "abcd"] == pytest.approx([0.1, 0.1, 0.1, 0.2])
    left = np.array([0.2, 0.3, 1, 1, 1])
    found = solved(graph, view, anywhere(), free_of_charge, capacity_left=left)
    assert places(found) == "n0 n0 n1 n1"


def test_a_full_node_takes_nothing():
    left = np.array([-0.5, 0, 1, 1, 1])
    found = solved(diamond(cost_us=1000), view, anywhere(), free_of_charge, capacity_left=left)
    assert places(found) == "n2 n2 n2 n2"


def test_a_deadline_changes_a_placement():
    """Cheapest is the node behind the source; in time is only the one between."""
    graph = QueryGraph(
        name="q",
        operators=(
            Operator(name="S", pinned="n1"),
            Operator(name="T", pinned="n2"),
            Operator(name="a"),
        ),
        links=(
            Link(source="S", target="a", rate_bytes_s=100, tuples_s=1),
            Link(source="a", target="T", rate_bytes_s=100, tuples_s=1),
        ),
    )
    candidates = {"a": np.array([0, 2])}
    price_ms = np.array([0, 0, 100.0, 0, 0])
    assert solved(graph, view, candidates, price_ms).primaries["a"] == "n0"
    in_time = solved(graph, view, candidates, price_ms, deadline_ms=60, hop_overhead_ms=1)
    assert in_time.primaries["a"] == "n2"
    exactly = solved(graph, view, candidates, price_ms, deadline_ms=62, hop_overhead_ms=1)
    assert exactly.primaries["a"] == "n0"


def test_a_deadline_missed_by_less_than_the_solver_notices_is_missed():
    graph = diamond()
    candidates = {name: np.array([0, 1]) for name in "abcd"}
    price_ms = np.array([1000.0, 0, 0, 0, 0])
    nudged = NetworkView(
        nodes=(
            *view.nodes[:4],
            replace(view.nodes[4], position_ms=np.array([160 + 1e-7])),
        ),
    )
    with pytest.raises(DeadlineUnattainable) as error:
        solved(graph, nudged, candidates, price_ms, deadline_ms=80, hop_overhead_ms=0)
    assert 80 < error.value.best_ms < 80 + 1e-6


def test_linked_operators_apart():
    found = solved(diamond(), view, anywhere(), free_of_charge, apart=True)
    node = found.primaries
    assert all(node[link.source] != node[link.target] for link in diamond().links[1:5])
    assert {node["a"], node["b"]} == {"n0", "n1"}


def test_an_unattainable_deadline_says_what_can_be_had():
    message = r"query q: .* within 50 ms; the best takes 88\.0 ms \(S @ n0 → a @ .* → T @ n4\)"
    with pytest.raises(DeadlineUnattainable, match=message) as error:
        solved(diamond(), view, anywhere(), free_of_charge, deadline_ms=50, hop_overhead_ms=2)
    assert error.value.best_ms == pytest.approx(88)


def test_an_operator_too_large_for_every_candidate_is_named():
    left = np.full(5, 0.15)
    with pytest.raises(CapacityUnattainable, match=r"query q: d need 0\.2 cores") as error:
        solved(
            diamond(cost_us=1000),
            view,
            anywhere(),
            free_of_charge,
            capacity_left=left,
            deadline_ms=1000,
        )
    assert error.value.operators == ("d",)
    assert error.value.left_cores == pytest.approx(0.75)


def test_operators_that_do_not_fit_together_are_named():
    left = np.array([0.2, 0.2, 0, 0, 0])
    with pytest.raises(CapacityUnattainable) as error:
        solved(diamond(cost_us=1000), view, anywhere(), free_of_charge, capacity_left=left)
    assert error.value.operators == ("a", "b", "c", "d")
    assert error.value.needed_cores == pytest.approx(0.5)
    assert error.value.left_cores == pytest.approx(0.4)


def test_neighbours_with_one_candidate_cannot_be_apart():
    with pytest.raises(NoNode, match="away from its neighbours"):
        solved(diamond(), view, anywhere([2]), free_of_charge, apart=True)


def test_an_operator_without_candidates_is_named():
    with pytest.raises(NoNode, match="operator c: has no candidate"):
        solved(diamond(), view, anywhere() | {"c": np.array([], dtype=np.int64)}, free_of_charge)


@pytest.mark.parametrize("index", [-1, 5])
def test_a_candidate_that_is_no_node_is_named(index: int):
    with pytest.raises(NetworkError, match=rf"operator b: candidates .*{index}.* 5 nodes"):
        solved(diamond(), view, anywhere() | {"b": np.array([1, index])}, free_of_charge)


@pytest.mark.parametrize("price_ms", [math.nan, math.inf, -1])
def test_a_price_that_is_none_is_named(price_ms: float):
    price_bytes = diamond().mean_input_rate * price_ms / 1e3
    with pytest.raises(NetworkError, match=rf"price_bytes of node 'n2' is {price_bytes}"):
        solved(diamond(), view, anywhere(), np.array([0, 0, price_ms, 0, 0]))


def test_capacities_of_another_network_are_refused():
    with pytest.raises(NetworkError, match=r"capacity_left has shape \(4,\), not \(5,\)"):
        solved(diamond(), view, anywhere(), free_of_charge, capacity_left=np.ones(4))


def test_no_time_no_answer():
    with pytest.raises(SolverStopped, match=r"query q: .*limit"):
        solved(
            diamond(), view, anywhere(), free_of_charge, settings=MilpSettings(time_limit_s=1e-9)
        )


def test_nothing_to_place():
    graph = QueryGraph(
        name="q",
        operators=(Operator(name="S", pinned="n0"), Operator(name="T", pinned="n1")),
        links=(Link(source="S", target="T", rate_bytes_s=10, tuples_s=1),),
    )
    found = solved(graph, view, {}, free_of_charge)
    assert found.primaries == {"S": "n0", "T": "n1"}
    assert found.cost == pytest.approx(0.2)
    empty = QueryGraph(name="empty", operators=(), links=())
    assert solved(empty, view, {}, free_of_charge).primaries == {}


@pytest.mark.parametrize("gap", [-1, math.nan, math.inf])
def test_the_gap_is_a_share(gap: float):
    with pytest.raises(SettingsError, match=f"gap {gap}"):
        MilpSettings(gap=gap)


@pytest.mark.parametrize("time_limit_s", [0, -1, math.nan])
def test_the_time_limit_is_positive(time_limit_s: float):
    with pytest.raises(SettingsError, match=f"time_limit_s {time_limit_s}"):
        MilpSettings(time_limit_s=time_limit_s)


def test_the_node_limit_is_positive():
    with pytest.raises(SettingsError, match="node_limit 0"):
        MilpSettings(node_limit=0)
