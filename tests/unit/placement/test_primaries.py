"""Which node runs each operator: nearest, cheapest, with room, in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement.errors import DeadlineUnattainable, NoNode
from placement.evaluation.load import Load
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.primaries import PrimaryTask, choose_primaries, nearest_nodes
from placement.records import Request
from placement.settings import Placer, Settings
from tests.unit.placement.on_a_line import line, load_of, query

hosts = {f"n{i}": 10.0 * i for i in range(5)}
sites = {"s": 0.0, "t": 40.0}
view = line(hosts, sites)
ends = {"S": "s", "T": "t"}
chain = query({"Sa": 1000, "ab": 100, "bT": 10}, ends)


def chosen(
    graph: QueryGraph,
    points_ms: dict[str, float],
    *,
    over: NetworkView = view,
    load: Load | None = None,
    keep: dict[str, str] | None = None,
    placer: Placer = Placer.EXACT,
    candidates: int = 2,
    deadline_ms: float = 1000,
    bound_ms: float = 1000,
) -> str:
    """Nodes by the names of the operators; points are places on the line."""
    found = choose_primaries(
        PrimaryTask(
            request=Request(graph, deadline_ms, bound_ms, 0),
            points_ms={name: np.array([2 * at_ms]) for name, at_ms in points_ms.items()},
            view=over,
            load=load or load_of(over),
            keep=keep or {},
            settings=Settings(
                operator_load=0, hop_overhead_ms=0, placer=placer, candidates=candidates
            ),
        )
    )
    return " ".join(found[name] for name in sorted(graph.to_place))


def test_the_paper_takes_the_nearest_nodes():
    assert chosen(chain, {"a": 14, "b": 16}, placer=Placer.NEAREST) == "n1 n2"


def nearest_to_14_ms(keep: dict[str, str]) -> dict[str, str]:
    return nearest_nodes(
        PrimaryTask(
            request=Request(chain, 1e9, 1e9, 0),
            points_ms={name: np.array([2 * 14.0]) for name in "ab"},
            view=view,
            load=load_of(view, operator_load=1.3),
            keep=keep,
        )
    )


def test_operators_of_a_query_are_load_to_each_other():
    """§4.4 with the CPU axis: 1 core on n1 counts for 10 ms, n2 is 6 · 2 ms away."""
    found = nearest_to_14_ms({})
    assert (found["a"], found["b"]) == ("n1", "n2")


def test_what_is_kept_is_load_too():
    found = nearest_to_14_ms({"b": "n1"})
    assert (found["a"], found["b"]) == ("n2", "n1")


@pytest.mark.parametrize("placer", Placer)
def test_pins_and_kept_places_are_honoured(placer: Placer):
    found = chosen(chain, {"a": 14, "b": 16}, keep={"a": "n4"}, placer=placer)
    assert found.startswith("n4 ")


@pytest.mark.parametrize("placer", Placer)
def test_without_hosts_there_is_no_node(placer: Placer):
    with pytest.raises(NoNode, match="operator a: the network has no node that runs operators"):
        chosen(chain, {"a": 0, "b": 0}, over=line({}, sites), placer=placer)


def test_the_cheapest_of_the_candidates_is_taken():
    """a wants to the source. b's primary leaves the node where a's is to its secondary.

    On n2 and n3: 20 + 1 + 0.1. Anywhere, with a's secondary on n0: 10 + 1 + 0.2.
    """
    assert chosen(chain, {"a": 28, "b": 28}) == "n2 n3"
    assert chosen(chain, {"a": 28, "b": 28}, candidates=5) == "n1 n2"


def test_a_bound_that_no_secondary_keeps_does_not_hinder_primaries():
    """The search for secondaries tells what is missing; here primaries alone count."""
    off = line(hosts, {"s": 1, "t": 40})
    assert chosen(chain, {"a": 5, "b": 5}, over=off, candidates=5, bound_ms=0.5) == "n0 n0"


def test_more_candidates_are_taken_if_the_nearest_have_no_room_for_all():
    """Four operators of half a core around n0, on nodes of half a core."""
    graph = query(dict.fromkeys(("Sa", "Sb", "Sc", "Sd"), 5000.0), ends, cost_us=10_000)
    small = line(hosts, sites, capacity_cores=dict.fromkeys(hosts, 0.5))
    found = chosen(graph, dict.fromkeys("abcd", 0.0), over=small, candidates=1)
    assert sorted(found.split()) == ["n0", "n1", "n2", "n3"]
    tiny = line(hosts, sites, capacity_cores=dict.fromkeys(("n0", "n1", "n2", "n3"), 0.1))
    found = chosen(graph, dict.fromkeys("abcd", 0.0), over=tiny, candidates=1)
    assert found == "n4 n4 n4 n4"
    full = line(hosts, sites, capacity_cores=dict.fromkeys(hosts, 0.5) | {"n3": 0.1, "n4": 0.1})
    with pytest.raises(NoNode, match=r"operator d: its candidates have no 0\.5 cores left"):
        chosen(graph, dict.fromkeys("abcd", 0.0), over=full, candidates=1)


away = line({"back": -10, "on": 10, "farther": 11}, {"s": 0, "t": 20})
detour = query({"Sa": 1000, "aT": 1}, {"S": "s", "T": "t"}, cost_us=0)


@pytest.mark.parametrize("placer", Placer)
def test_a_missed_deadline_is_repaired_among_the_candidates(placer: Placer):
    """40 ms by way of back, 20 by way of the others."""
    points_ms = {"a": -6.0}
    assert chosen(detour, points_ms, over=away, placer=placer, candidates=1) == "back"
    within = chosen(detour, points_ms, over=away, placer=placer, candidates=3, deadline_ms=25)
    assert within == "on"


def test_what_runs_is_moved_only_if_the_deadline_cannot_be_met_around_it():
    pair = query({"Sa": 1000, "ab": 1000, "bT": 1}, {"S": "s", "T": "t"})
    points_ms = {"a": -6.0, "b": -6.0}
    around = chosen(pair, points_ms, over=away, keep={"a": "on"}, candidates=3, deadline_ms=22)
    assert around.split()[0] == "on"
    moved = chosen(pair, points_ms, over=away, keep={"a": "back"}, candidates=3, deadline_ms=22)
    assert "back" not in moved


def test_a_repair_leaves_no_node_overfull():
    """Both operators miss the deadline on back; on has room for one of them."""
    pair = query({"Sa": 5000, "aT": 1, "Sb": 5000, "bT": 1}, ends, cost_us=10_000)
    over = line(
        {"back": -10, "on": 10, "farther": 11},
        {"s": 0, "t": 20},
        capacity_cores={"on": 0.5, "farther": 0.5},
    )
    found = chosen(pair, {"a": -6, "b": -6}, over=over, candidates=3, deadline_ms=40)
    assert sorted(found.split()) == ["farther", "on"]
    narrow = line({"back": -10, "on": 10}, {"s": 0, "t": 20}, capacity_cores={"on": 0.5})
    with pytest.raises(DeadlineUnattainable) as raised:
        chosen(pair, {"a": -6, "b": -6}, over=narrow, candidates=2, deadline_ms=35)
    assert raised.value.best_ms == pytest.approx(50)


def test_an_unattainable_deadline_tells_the_fastest_way():
    with pytest.raises(DeadlineUnattainable) as raised:
        chosen(detour, {"a": -6}, over=away, candidates=3, deadline_ms=15)
    error = raised.value
    assert (error.query, error.deadline_ms, error.best_ms) == ("q", 15, 20)
    assert error.path == ("S @ s", "a @ on", "T @ t")


def test_a_query_of_pins_needs_no_node():
    assert chosen(query({"ST": 1}, ends), {}, over=line({}, sites)) == ""


@pytest.mark.parametrize("placer", Placer)
def test_operators_take_only_nodes_that_they_may(placer: Placer):
    operators = tuple(
        replace(each, allowed=("n0", "n4")) if each.name == "b" else each
        for each in chain.operators
    )
    told = QueryGraph(name="q", operators=operators, links=chain.links)
    points_ms = {"a": 14.0, "b": 16.0}
    assert chosen(told, points_ms, placer=placer).split()[1] in ("n0", "n4")
    assert chosen(told, points_ms, placer=placer, keep={"b": "n2"}).endswith(" n2")


@pytest.mark.parametrize("placer", Placer)
def test_a_deadline_is_no_reason_to_take_another_node(placer: Placer):
    """By way of n4 the path is 80 ms longer than the direct one, of which there are 40."""
    operators = tuple(
        replace(each, allowed=("n4",)) if each.name == "a" else each for each in chain.operators
    )
    back = QueryGraph(
        name="q",
        operators=operators,
        links=query({"Sa": 1000, "ab": 100, "bT": 10}, {"S": "s", "T": "s"}).links,
    )
    pinned = replace(
        back,
        operators=tuple(
            replace(each, pinned="s") if each.name in "ST" else each for each in operators
        ),
    )
    points_ms = {"a": 0.0, "b": 0.0}
    assert chosen(pinned, points_ms, placer=placer, deadline_ms=100).startswith("n4 ")
    with pytest.raises(DeadlineUnattainable):
        chosen(pinned, points_ms, placer=placer, deadline_ms=60)


def test_nodes_that_run_no_operators_may_not_be_taken():
    operators = tuple(
        replace(each, allowed=("s", "gone")) if each.name == "a" else each
        for each in chain.operators
    )
    told = QueryGraph(name="q", operators=operators, links=chain.links)
    for placer in Placer:
        with pytest.raises(NoNode, match="s, gone"):
            chosen(told, {"a": 14, "b": 16}, placer=placer)
