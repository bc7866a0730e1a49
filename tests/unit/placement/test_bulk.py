"""Plans in rounds: queries that are placed beside each other, and what is put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from placement.bulk import (
    Around,
    BulkPlan,
    BulkSettings,
    Candidate,
    Outcome,
    place_apart,
    plan_in_rounds,
)
from placement.errors import GraphError, NoNode, SettingsError
from placement.evaluation.load import Load
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.planner import plan
from placement.records import Request
from placement.secondaries import SecondarySearch
from placement.settings import Placer, Settings
from tests.unit.placement.on_a_line import line
from topology.cpu import Linear

SITES = {"s": 0.0, "t": 40.0}
view = line({f"n{i}": 10.0 * i for i in range(5)}, SITES)
spreading = Settings(cpu=Linear(10.0), operator_load=1.0)


def request(
    name: str, *, bound_ms: float = 1e3, deadline_ms: float = 1e3, cost_us: float = 0.0
) -> Request:
    """One operator between both sites; 10 tuples/s, so 100,000 µs a tuple take a core."""
    operator = f"{name}.o"
    graph = QueryGraph(
        name=name,
        operators=(
            Operator(name="S", pinned="s"),
            Operator(name="T", pinned="t"),
            Operator(name=operator, cost_us=cost_us),
        ),
        links=(
            Link(source="S", target=operator, rate_bytes_s=1000, tuples_s=10),
            Link(source=operator, target="T", rate_bytes_s=900, tuples_s=10),
        ),
    )
    return Request(graph, deadline_ms, bound_ms, 0.0)


def placed(
    requests: Sequence[Request],
    *,
    over: NetworkView = view,
    round_size: int = 100,
    excess: int = 1,
    settings: Settings = spreading,
    said: list[str] | None = None,
) -> BulkPlan:
    return plan_in_rounds(
        requests,
        over,
        bulk=BulkSettings(round_size=round_size, excess=excess),
        settings=settings,
        rng=np.random.default_rng(1),
        say=None if said is None else said.append,
    )


queries = [request(f"q{i}") for i in range(6)]


def replicas(found: BulkPlan) -> dict[str, int]:
    nodes = [node for each in found.plan.placements for node in (each.primary, each.secondary)]
    return {node: nodes.count(node) for node in nodes}


def test_rounds_of_one_are_the_planner() -> None:
    found = placed(queries, round_size=1)
    assert found.plan == plan(queries, view, settings=spreading, rng=np.random.default_rng(1))
    assert (found.rounds, found.placings, found.refused) == (6, 6, {})


def test_a_round_of_all_leaves_no_node_much_fuller_than_one_by_one() -> None:
    found = placed(queries, round_size=6, excess=0)
    assert [query.query for query in found.plan.queries] == [f"q{i}" for i in range(6)]
    alone = placed(queries, round_size=1)
    assert max(replicas(found).values()) <= max(replicas(alone).values()) + 1
    assert found.rounds < 6 <= found.placings


def test_what_is_put_back_takes_further_rounds() -> None:
    strict, lenient = (placed(queries, round_size=6, excess=excess) for excess in (0, 100))
    assert (lenient.rounds, lenient.placings) == (1, 6)
    assert strict.rounds > 1
    assert len(strict.plan.placements) == len(lenient.plan.placements) == 6


def test_the_first_query_of_a_round_is_never_put_back() -> None:
    """Two nodes that all want: still each round places at least one more."""
    tight = line({"n0": 0.0, "n1": 10.0}, SITES)
    found = placed(queries, over=tight, excess=0)
    assert len(found.plan.queries) == 6
    assert found.rounds <= 6


def test_no_round_fills_a_node_over_its_capacity() -> None:
    """Two nodes with room for three replicas each: three queries of the six, whoever is asked."""
    cramped = line({"n0": 10.0, "n1": 20.0}, SITES, capacity_cores={"n0": 3.0, "n1": 3.0})
    demanding = [request(f"q{i}", cost_us=100_000) for i in range(6)]
    found = placed(demanding, over=cramped)
    assert replicas(found) == {"n0": 3, "n1": 3}
    assert sorted(found.refused) == ["q3", "q4", "q5"]
    assert "no node has the 1 cores left that it needs" in found.refused["q3"]


def test_a_placer_that_knows_no_capacity_comes_to_an_end_as_well() -> None:
    cramped = line({"n0": 10.0, "n1": 20.0}, SITES, capacity_cores={"n0": 1.0, "n1": 1.0})
    demanding = [request(f"q{i}", cost_us=100_000) for i in range(3)]
    papers = replace(spreading, placer=Placer.NEAREST, secondary_search=SecondarySearch.OUTWARDS)
    found = placed(demanding, over=cramped, settings=papers)
    assert found.plan == plan(demanding, cramped, settings=papers, rng=np.random.default_rng(1))


def test_refusals_name_query_and_figures_and_leave_the_others_alone() -> None:
    far = line({"n0": 5.0, "n1": 15.0}, SITES)
    hurried, late = request("hurried", bound_ms=1.0), request("late", deadline_ms=1.0)
    found = placed([queries[0], hurried, late, queries[1]], over=far)
    assert [query.query for query in found.plan.queries] == ["q0", "q1"]
    assert list(found.refused) == ["hurried", "late"]
    assert (
        "query hurried, operator hurried.o: no node can stand by within 1 ms"
        in (found.refused["hurried"])
    )
    assert "query late: no placement tried delivers within 1 ms" in found.refused["late"]


def test_progress_is_told_round_by_round() -> None:
    said: list[str] = []
    found = placed(queries, round_size=4, excess=100, said=said)
    assert said == [
        "round 1: 4 of 6 queries are placed",
        "round 2: 6 of 6 queries are placed",
    ]
    assert found.rounds == 2


def test_nothing_to_place_takes_no_round() -> None:
    found = placed([])
    assert (found.rounds, found.placings, found.plan.placements) == (0, 0, ())


def test_a_query_that_is_all_pinned_is_placed_by_saying_so() -> None:
    graph = QueryGraph(
        name="fixed",
        operators=(Operator(name="S", pinned="s"), Operator(name="T", pinned="t")),
        links=(Link(source="S", target="T", rate_bytes_s=100, tuples_s=1),),
    )
    found = placed([Request(graph, 1e3, 1e3, 0.0)])
    assert found.plan.placements == ()
    assert found.plan.queries[0].network_usage == pytest.approx(100 * 0.040)


def test_expected_replicas_count_for_those_behind_only() -> None:
    start = Load(view, operator_load=1.0, cpu=Linear(10.0))
    around = Around(start=start, expected=(np.array([0, 0]), np.array([3])))
    assert around.before(0).replicas.tolist() == [0] * 7
    assert around.before(1).replicas.tolist() == [2, 0, 0, 0, 0, 0, 0]
    assert around.before(2).replicas.tolist() == [2, 0, 0, 1, 0, 0, 0]
    assert around.before(2).used_cores.tolist() == [0.0] * 7


def test_a_round_may_be_placed_in_any_order() -> None:
    def backwards(them: Sequence[Candidate], around: Around) -> Iterable[Outcome]:
        return place_apart(reversed(them), around, view, spreading)

    found = plan_in_rounds(
        queries,
        view,
        bulk=BulkSettings(round_size=4),
        settings=spreading,
        rng=np.random.default_rng(1),
        place=backwards,
    )
    assert found == placed(queries, round_size=4)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("round_size", 0, "round_size 0 is not a number ≥ 1"),
        ("excess", -1, "excess -1 is not a number ≥ 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(field: str, value: int, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        replace(BulkSettings(), **{field: value})


def test_contradicting_queries_are_refused_by_name() -> None:
    with pytest.raises(GraphError, match="query q0, name: is given to two queries"):
        placed([queries[0], queries[0]])
    with pytest.raises(GraphError, match=r"query q0, recovery_bound_ms: -1\.0 is not"):
        placed([request("q0", bound_ms=-1.0)])
    misplaced = line({"n0": 0.0, "n1": 10.0}, {"s": 0.0})
    with pytest.raises(GraphError, match=r"query q0, operator T: cannot be pinned: .*'t'"):
        placed(queries, over=misplaced)


def test_a_network_without_hosts_is_refused() -> None:
    sites = NetworkView(
        nodes=tuple(
            Node(name=name, position_ms=np.zeros(1), hosts_operators=False) for name in SITES
        )
    )
    with pytest.raises(NoNode, match=r"query q0, operator q0\.o: the network has no node"):
        placed(queries, over=sites)
