"""The cluster's clock: which machine is the reference, and what is known of the others."""

from __future__ import annotations

import pytest

from orchestrator.control.observe.clocks import (
    ROOM,
    SLACK_US,
    CoordinatorClock,
    revised_clocks,
    uncertainty_us,
)
from orchestrator.records import ClockOffset, ClocksRecord, NodeKind, NodeRecord
from orchestrator.store.protocol import Versioned

HOUR_US = 3_600_000_000
NOBODY = ClocksRecord()


def offset(ahead_us: int, uncertainty_us: int) -> ClockOffset:
    return ClockOffset(ahead_us=ahead_us, uncertainty_us=uncertainty_us)


def node(
    name: str,
    machine: str,
    clocks: dict[str, ClockOffset] | None = None,
    *,
    clock_ahead_us: int = 0,
    reported_us: int = 0,
    kind: NodeKind = NodeKind.EXECUTOR,
) -> NodeRecord:
    return NodeRecord(
        node=name,
        incarnation="1",
        kind=kind,
        region="",
        endpoint="",
        public_key="",
        pid=1,
        machine=machine,
        clocks=clocks or {},
        clock_ahead_us=clock_ahead_us,
        reported_us=reported_us,
    )


def test_first_host_of_a_cluster_gives_the_clock_and_nothing_is_uncertain_on_its_machine() -> None:
    nodes = [node("b", "here", clock_ahead_us=9), node("a", "here", clock_ahead_us=7)]
    found = revised_clocks(NOBODY, nodes)
    assert found == ClocksRecord(machines={"here": offset(7, 0)})
    # Whatever the wall clock is when a process starts later, it is not read.
    later = [*nodes, node("0", "here", clock_ahead_us=HOUR_US)]
    assert revised_clocks(found, later) == found


def test_observer_gives_no_clock() -> None:
    watch = node("0", "elsewhere", kind=NodeKind.OBSERVER, clock_ahead_us=HOUR_US)
    assert revised_clocks(NOBODY, [watch]) == NOBODY
    found = revised_clocks(NOBODY, [watch, node("a", "here", clock_ahead_us=7)])
    assert found.machines.keys() == {"here"}


def test_machine_whose_clock_nobody_has_measured_is_unknown() -> None:
    found = revised_clocks(NOBODY, [node("a", "here"), node("b", "there")])
    assert uncertainty_us(found, "here", "there") is None
    assert uncertainty_us(found, "there", "there") == 0


def test_offsets_add_up_along_the_least_uncertain_way() -> None:
    nodes = [
        node("a", "one", {"three": offset(5000, 900)}, clock_ahead_us=HOUR_US),
        node("b", "two", {"one": offset(-100, 30)}),
        node("c", "three", {"two": offset(-4000, 50)}),
    ]
    found = revised_clocks(NOBODY, nodes).machines
    assert found["one"] == offset(HOUR_US, 0)
    # The clock of two shows 100 µs more than that of one, and is as much less behind the cluster's.
    assert found["two"] == offset(HOUR_US - 100, ROOM * 30 + SLACK_US)
    assert found["three"] == offset(HOUR_US - 4100, ROOM * 80 + SLACK_US)


def test_uncertainties_of_two_machines_add_up() -> None:
    clocks = ClocksRecord(machines={"a": offset(0, 0), "b": offset(9, 3), "c": offset(8, 5)})
    assert uncertainty_us(clocks, "b", "c") == 8
    assert uncertainty_us(clocks, "a", "c") == 5


@pytest.mark.parametrize(
    ("measured", "stays"),
    [
        (offset(-100, 1000), True),
        (offset(-600, 1000), True),
        (offset(-5000, 1000), False),
        (offset(-100, 9000), False),
        (offset(-100, 10), True),
    ],
)
def test_offset_stays_while_it_agrees_with_what_is_measured(
    measured: ClockOffset, *, stays: bool
) -> None:
    first = [node("a", "one"), node("b", "two", {"one": offset(-100, 1000)})]
    known = revised_clocks(NOBODY, first)
    assert known == revised_clocks(known, first)
    now = revised_clocks(known, [first[0], node("b", "two", {"one": measured})])
    assert (now == known) is stays


def test_much_better_measurement_is_used() -> None:
    coarse = [node("a", "one"), node("b", "two", {"one": offset(0, 100_000)})]
    known = revised_clocks(NOBODY, coarse)
    now = revised_clocks(known, [coarse[0], node("b", "two", {"one": offset(0, 200)})])
    assert now.machines["two"].uncertainty_us < known.machines["two"].uncertainty_us / 10


def test_clock_goes_on_when_the_reference_is_lost_or_booted_again() -> None:
    nodes = [
        node("a", "one", clock_ahead_us=HOUR_US),
        node("b", "two", {"one": offset(-100, 30)}),
        node("c", "three", {"one": offset(-200, 300)}),
    ]
    known = revised_clocks(NOBODY, nodes)
    after = revised_clocks(known, nodes[1:])
    assert after.machines["two"] == offset(known.machines["two"].ahead_us, 0)
    lost_us = known.machines["two"].uncertainty_us
    assert (
        after.machines["three"].uncertainty_us == known.machines["three"].uncertainty_us + lost_us
    )
    # It comes back, with another wall clock, and is measured against the others.
    again = node("a", "one again", {"two": offset(70, 30)}, clock_ahead_us=-HOUR_US)
    after = revised_clocks(after, [again, *nodes[1:]])
    assert after.machines["one again"].ahead_us == after.machines["two"].ahead_us + 70
    assert "one" not in after.machines


def test_clock_goes_back_behind_nothing_that_happened_when_all_machines_were_booted_again() -> None:
    before = ClocksRecord(machines={"here/0": offset(3 * HOUR_US, 0)})
    # By the wall clock it would be one o'clock, and something happened at two.
    booted = node("a", "here/1", clock_ahead_us=HOUR_US - 5, reported_us=HOUR_US)
    found = revised_clocks(before, [booted], least_us=2 * HOUR_US)
    assert found == ClocksRecord(machines={"here/1": offset(2 * HOUR_US - 5, 0)})
    assert revised_clocks(before, [booted], least_us=HOUR_US // 2) == ClocksRecord(
        machines={"here/1": offset(HOUR_US - 5, 0)}
    )
    # So does one that goes on from a savepoint of another cluster, whose clock was ahead.
    assert revised_clocks(NOBODY, [booted], least_us=2 * HOUR_US) == found


def test_machine_without_hosts_for_a_while_keeps_its_clock() -> None:
    nodes = [node("a", "one", clock_ahead_us=5), node("b", "two", {"one": offset(-100, 30)})]
    known = revised_clocks(NOBODY, nodes)
    assert revised_clocks(known, nodes[:1]) == known
    assert revised_clocks(known, []) == known


def test_coordinator_on_a_host_s_machine_reads_the_same_clock() -> None:
    clocks = ClocksRecord(machines={"here": offset(500, 0)})
    assert CoordinatorClock("here", HOUR_US).at(HOUR_US + 1000, clocks, {}) == 1500


def test_coordinator_elsewhere_goes_by_reports() -> None:
    clocks = ClocksRecord(machines={"here": offset(0, 0)})
    clock = CoordinatorClock("elsewhere", 0)

    def nodes(version: int, reported_us: int) -> dict[str, Versioned[NodeRecord]]:
        told = node("a", "here", reported_us=reported_us)
        lost = node("b", "unknown", reported_us=9 * HOUR_US)
        return {
            "a": Versioned(record=told, version=version),
            "b": Versioned(record=lost, version=0),
        }

    assert clock.at(1_000_000, clocks, nodes(1, HOUR_US)) == HOUR_US
    # Time goes on while the report stays the same.
    assert clock.at(1_700_000, clocks, nodes(1, HOUR_US)) == HOUR_US + 700_000
    assert clock.at(2_000_000, clocks, nodes(2, HOUR_US + 990_000)) == HOUR_US + 990_000
