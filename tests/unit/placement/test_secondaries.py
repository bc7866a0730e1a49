"""Secondaries: the search of reliable placement, §4.5, and the cheapest that keeps the bound."""

from __future__ import annotations

import pytest

from placement.errors import BoundUnattainable, NoNode
from placement.evaluation.load import Load
from placement.evaluation.single import Places
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.secondaries import SecondarySearch, StandbyTask, place_secondaries
from tests.unit.placement.on_a_line import line, load_of, query

DETECTION_MS = 7.0

view = line({"n0": 0, "n1": 10, "n2": 20, "n3": 30, "n4": 40}, {"s": 2, "r": 38})
pins = {"S": "s", "R": "r"}
join = query({"Sa": 1000, "Ra": 3000}, pins)


def placed(
    graph: QueryGraph,
    primaries: Places,
    *,
    over: NetworkView = view,
    load: Load | None = None,
    bound_ms: float = 1000,
    search: SecondarySearch = SecondarySearch.CHEAPEST,
    keep: dict[str, str | None] | None = None,
) -> dict[str, str]:
    task = StandbyTask(
        graph=graph,
        view=over,
        primaries={**pins, **primaries},
        detection_ms=DETECTION_MS,
        bound_ms=bound_ms,
        search=search,
    )
    if load is None:
        load = load_of(over).with_replicas(primaries.values())
    found = place_secondaries(task, load, keep or {})
    return {name: standby.node for name, standby in found.items()}


outwards = SecondarySearch.OUTWARDS


class TestOutwards:
    def test_begins_at_the_upstream_that_sends_most(self):
        """§4.5.2: r at 38 ms sends more than s; the primary's node is passed over."""
        assert placed(join, {"a": "n2"}, search=outwards) == {"a": "n4"}
        assert placed(join, {"a": "n4"}, search=outwards) == {"a": "n3"}

    def test_passes_over_what_is_beyond_the_bound_of_either_upstream(self):
        # From s and r: n4 38 and 2 ms, n3 28 and 8, n2 18 and 18.
        assert placed(join, {"a": "n0"}, bound_ms=7 + 37, search=outwards) == {"a": "n3"}
        assert placed(join, {"a": "n0"}, bound_ms=7 + 18, search=outwards) == {"a": "n2"}

    def test_of_two_equally_near_nodes_takes_the_idle_one(self):
        graph = query({"Sa": 1000}, {"S": "s"})
        over = line({"left": -5, "right": 5, "home": 0}, {"s": 0, "r": 0})
        load = load_of(over, operator_load=0.1).with_replicas(("left", "home"))
        assert placed(graph, {"a": "home"}, over=over, load=load, search=outwards)["a"] == "right"
        load = load.with_replicas(("right", "right"))
        assert placed(graph, {"a": "home"}, over=over, load=load, search=outwards)["a"] == "left"

    def test_respects_no_failure_domain_and_no_capacity(self):
        domains = {"n0": "a", "n1": "a", "n2": "b"}
        over = line({"n0": 0, "n1": 10, "n2": 20}, {"s": 0, "r": 0}, domains=domains)
        assert placed(query({"Sa": 1}, pins), {"a": "n0"}, over=over, search=outwards)["a"] == "n1"


class TestCheapest:
    def test_is_where_traffic_of_all_upstreams_is_least(self):
        """Nearer to r by two thirds: n4 costs 38 + 3·2, n3 28 + 3·8, both less than the others."""
        assert placed(join, {"a": "n2"}) == {"a": "n4"}
        assert placed(join, {"a": "n4"}) == {"a": "n3"}

    def test_keeps_the_bound(self):
        assert placed(join, {"a": "n0"}, bound_ms=7 + 37) == {"a": "n3"}
        assert placed(join, {"a": "n0"}, bound_ms=7 + 18) == {"a": "n2"}

    def test_pays_for_load(self):
        # A replica costs 4000 bytes/s · 1.5 ms = 6 bytes, n4 44 and n3 52 by traffic.
        load = load_of(view, operator_load=0.15).with_replicas(("n2", "n4"))
        assert placed(join, {"a": "n2"}, load=load) == {"a": "n4"}
        load = load.with_replicas(("n4",))
        assert placed(join, {"a": "n2"}, load=load) == {"a": "n3"}

    def test_secondaries_of_a_query_see_each_other(self):
        graph = query({"Sa": 1000, "Sb": 1000}, {"S": "s"})
        over = line({"n0": 0, "n1": 1, "n2": 1.5}, {"s": 0, "r": 0})
        both = {"a": "n0", "b": "n0"}
        assert placed(graph, both, over=over, load=load_of(over)) == {"a": "n1", "b": "n1"}
        busy = load_of(over, operator_load=0.1)
        assert placed(graph, both, over=over, load=busy) == {"a": "n1", "b": "n2"}

    def test_is_in_another_failure_domain(self):
        domains = {"n3": "a", "n4": "a"}
        over = line({"n3": 30, "n4": 40, "n9": 90}, {"s": 2, "r": 38}, domains=domains)
        assert placed(join, {"a": "n4"}, over=over) == {"a": "n9"}
        assert placed(join, {"a": "n9"}, over=over) == {"a": "n4"}

    def test_needs_room(self):
        graph = query({"Sa": 1000}, {"S": "s"}, cost_us=10_000)
        over = line({"n0": 0, "n1": 10, "n2": 20}, {"s": 0, "r": 0}, capacity_cores={"n1": 0.05})
        assert placed(graph, {"a": "n0"}, over=over) == {"a": "n2"}

    def test_waits_for_a_neighbour_that_dies_with_the_primary(self):
        """b's input comes from a's secondary, once that has caught up."""
        graph = query({"Sa": 1000, "ab": 1000}, {"S": "s"})
        over = line({"n0": 0, "n1": 10, "n2": -10}, {"s": 0, "r": 0})
        together = {"a": "n0", "b": "n0"}
        keep: dict[str, str | None] = {"a": "n1"}
        # 10 ms until a has caught up on n1, and 20 from there to n2, which is nearer otherwise.
        load = load_of(over, operator_load=0.1).with_replicas(["n1"] * 3)
        assert placed(graph, together, over=over, load=load, keep=keep)["b"] == "n2"
        nearer = placed(graph, together, over=over, load=load, keep=keep, bound_ms=7 + 29)
        assert nearer["b"] == "n1"


def test_what_runs_stays_if_it_is_legal():
    assert placed(join, {"a": "n4"}, keep={"a": "n0"}) == {"a": "n0"}
    # 38 ms from r.
    assert placed(join, {"a": "n4"}, keep={"a": "n0"}, bound_ms=7 + 30) == {"a": "n3"}
    assert placed(join, {"a": "n4"}, keep={"a": "n4"}) == {"a": "n3"}
    assert placed(join, {"a": "n4"}, keep={"a": None}) == {"a": "n3"}


@pytest.mark.parametrize("search", SecondarySearch)
def test_a_bound_out_of_reach_names_the_nearest_miss(search: SecondarySearch):
    with pytest.raises(BoundUnattainable) as raised:
        placed(join, {"a": "n2"}, bound_ms=7 + 20, search=search)
    error = raised.value
    assert (error.query, error.operator, error.bound_ms) == ("q", "a", 27)
    # From s and r: n3 28 and 8 ms, n1 8 and 28; names decide.
    assert (error.best_node, error.best_ms) == ("n1", 35)
    assert (error.detection_ms, error.transfer_ms, error.reprocess_ms) == (7, 28, 0)
    assert error.inputs == ("R @ r", "S @ s")


@pytest.mark.parametrize("search", SecondarySearch)
def test_a_single_node_has_no_second(search: SecondarySearch):
    over = line({"n0": 0}, {"s": 0, "r": 0})
    with pytest.raises(NoNode, match="n0 runs it and no second node could stand by"):
        placed(join, {"a": "n0"}, over=over, search=search)


def test_no_room_outside_the_failure_domain_says_so():
    graph = query({"Sa": 1000}, {"S": "s"}, cost_us=10_000)
    over = line(
        {"n0": 0, "n1": 0, "n2": 0},
        {"s": 0, "r": 0},
        domains={"n0": "a", "n1": "a", "n2": "b"},
        capacity_cores={"n2": 0.05},
    )
    with pytest.raises(NoNode, match=r"no node of another failure domain has the 0\.1 cores"):
        placed(graph, {"a": "n0"}, over=over)


def test_held_back_tuples_are_reprocessed_within_the_bound():
    """Batches of 5 hold back 4 tuples of either input: 8 · 0.5 ms after the transfer."""
    graph = query({"Sa": 1000, "Ra": 3000}, pins, cost_us=500)

    def task(bound_ms: float) -> StandbyTask:
        return StandbyTask(
            graph=graph,
            view=view,
            primaries={**pins, "a": "n0"},
            detection_ms=DETECTION_MS,
            bound_ms=bound_ms,
            batch_size=5,
        )

    (found,) = place_secondaries(task(7 + 18 + 4), load_of(view), {}).values()
    assert found.node == "n2"
    assert found.recovery.reprocess_ms == pytest.approx(4)
    assert found.recovery.total_ms == pytest.approx(7 + 18 + 4)
    with pytest.raises(BoundUnattainable, match=r"transfer 18\.0 \+ reprocessing 4\.0"):
        place_secondaries(task(7 + 18 + 3.9), load_of(view), {})
    # One that runs is judged by the same time.
    with pytest.raises(BoundUnattainable):
        place_secondaries(task(7 + 18 + 3.9), load_of(view), {"a": "n2"})
