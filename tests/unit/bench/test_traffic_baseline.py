"""The baseline: least traffic first, balance second, deadlines never."""

from __future__ import annotations

from bench.traffic_baseline import place_by_traffic, traffic_bytes_s
from placement.deadline.records import Admitted
from placement.deadline.solver import place_by_deadline
from tests.unit.placement.deadline.two_nodes import chain, operator, problem


def test_an_operator_that_shrinks_its_stream_stays_at_the_source() -> None:
    shrinking = problem(
        [operator("o", 5, "in")], {"o.out": 90}, rates_bytes_s={"in": 100.0, "o.out": 10.0}
    )
    found = place_by_traffic(shrinking)
    assert found.places == {"o": "a"}
    assert found.traffic_bytes_s == 10


def test_a_stream_travels_once_to_all_who_read_it_on_a_node() -> None:
    fan = problem(
        [operator("o", 1, "in", candidates=("a",))]
        + [operator(f"r{i}", 1, "o.out", candidates=("b",)) for i in range(3)],
        {f"r{i}.out": 90 for i in range(3)},
        rates_bytes_s={"o.out": 7.0},
    )
    assert place_by_traffic(fan).traffic_bytes_s == 7


def test_of_equal_traffic_the_balanced_one() -> None:
    """No rates are told, so all placements travel alike: 4 | 3 + 1."""
    even = problem(
        [operator("o", 4, "in"), operator("p", 3, "in"), operator("q", 1, "in")],
        {"o.out": 90, "p.out": 90, "q.out": 90},
    )
    found = place_by_traffic(even)
    assert found.busiest_ms == 4
    assert found.places["p"] == found.places["q"] != found.places["o"]


def test_what_runs_already_is_load() -> None:
    busy = problem(
        [operator("o", 4, "in")],
        {"o.out": 90},
        admitted={"a": (Admitted(name="old", cost_ms=1, deadline_ms=5),)},
    )
    assert place_by_traffic(busy).places == {"o": "b"}


def test_deadlines_do_not_matter_and_shares_are_fair_where_none_keeps_them() -> None:
    late = chain(4, 4, deadline_ms=5, tied={"o0": "a", "o1": "a"})
    found = place_by_traffic(late)
    assert found.sub_deadlines_ms == {"o0": 2.5, "o1": 2.5}


def test_sub_deadlines_are_borrowed() -> None:
    """§6.1: from the deadline placement, though its places differ."""
    shrinking = problem(
        [operator("o", 4, "in"), operator("p", 4, "in")],
        {"o.out": 5, "p.out": 5},
        rates_bytes_s={"in": 100.0, "o.out": 1.0, "p.out": 1.0},
    )
    lender = place_by_deadline(shrinking)
    found = place_by_traffic(shrinking, lender=lender)
    assert set(found.places.values()) == {"a"} != set(lender.places.values())
    assert found.sub_deadlines_ms == lender.sub_deadlines_ms


def test_traffic_from_a_source_and_to_a_sink_elsewhere_counts() -> None:
    rated = problem(
        [operator("o", 1, "in")], {"o.out": 90}, sink="a", rates_bytes_s={"in": 5.0, "o.out": 3.0}
    )
    assert traffic_bytes_s(rated, {"o": "a"}) == 0
    assert traffic_bytes_s(rated, {"o": "b"}) == 8
