"""Which batch a host evaluates next."""

from __future__ import annotations

import pytest
from msgspec import structs

from ha.messages import Control
from ha.roles import RoleEvent
from orchestrator.host.core.dispatcher import BEHIND_US, RESTLESS
from orchestrator.records import FragmentAssignment
from streams.scheduling.cadence import TIMESTAMPS_PER_DISPATCH
from streams.scheduling.run_queue import Policy
from tests.driven_host import data, primary
from tests.quiet_host import MS, QuietHost, fragment
from tests.streams_of_numbers import chunk


def followers() -> tuple[FragmentAssignment, ...]:
    """`b` reads `a` and nothing else; both lead to one output."""
    return (
        fragment("a", sub_deadline_ms=10.0, readers_ms={"b": 100.0}),
        fragment("b", "a", sub_deadline_ms=20.0),
    )


def test_without_input_nothing_is_due() -> None:
    host = QuietHost(*followers())
    assert host.dispatcher.next_us is None
    assert host.step() is None


def test_primaries_that_follow_each_other_are_one_task_under_edf() -> None:
    # `other` is more urgent than `b` alone, and less than what entered a and b together before it.
    other = fragment("other", "t", sub_deadline_ms=15.0)
    host = QuietHost(*followers(), other)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.step() is not None
    host.now_us = 16 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    # b is due at 0 + 10 + 20, other at 16 + 15: were b a task of its own, it would be due at 36.
    assert host.steps() == ["b", "other"]


def test_operators_stay_apart_without_deadlines() -> None:
    host = QuietHost(*followers(), policy=Policy.FIFO, batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a", "b"]
    host.now_us = 5 * MS
    host.arrive("s", chunk(1, [(2, 1)]))
    # As one task, a and b would rest together until 10 ms; b rests for itself.
    assert host.dispatcher.next_us == 10 * MS
    host.now_us = 10 * MS
    assert host.steps() == ["a", "b"]


def test_fifo_runs_the_oldest_tuples_of_the_system_first() -> None:
    host = QuietHost(
        fragment("early", "s", sub_deadline_ms=1.0), fragment("late", "t"), policy=Policy.FIFO
    )
    # Ingestion times are the timestamps: the first arrival here is the younger tuple.
    host.arrive("s", chunk(0, [(9, 1)]))
    host.now_us = 5 * MS
    host.arrive("t", chunk(0, [(2, 1)]))
    assert host.steps() == ["late", "early"]


def test_earlier_deadline_runs_first_in_any_order_of_arrival() -> None:
    host = QuietHost(
        fragment("loose", "s", sub_deadline_ms=50.0), fragment("tight", "t", sub_deadline_ms=5.0)
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    host.now_us = 20 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    assert host.steps() == ["tight", "loose"]
    host.arrive("s", chunk(1, [(2, 1)]))
    host.now_us = 66 * MS
    host.arrive("t", chunk(1, [(2, 1)]))
    # 20 + 50 is before 66 + 5.
    assert host.steps() == ["loose", "tight"]


def test_an_urgent_task_comes_between_two_batches_of_another() -> None:
    host = QuietHost(
        fragment("loose", "s", sub_deadline_ms=500.0, cost_us=1000.0),
        fragment("tight", "t", sub_deadline_ms=50.0),
    )
    host.arrive("s", chunk(0, [(t, 2) for t in range(1, 41)]))
    first = host.step(took_us=10 * MS)
    assert first is not None
    # A sixth of the tightest sub-deadline is 8.3 ms: at 1 ms a tuple, eight tuples.
    assert (first.fragment, first.tuples) == ("loose", 8)
    host.arrive("t", chunk(0, [(1, 1)]))
    second = host.step()
    assert second is not None
    assert second.fragment == "tight"


def test_batch_ends_at_the_deadline_of_its_tuples() -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=30.0, cost_us=1000.0))
    host.arrive("s", chunk(0, [(t, 1) for t in range(1, 51)]))
    sizes: list[int] = []
    while host.now_us <= 31 * MS:
        batch = host.dispatcher.pop(host.now_us)
        assert batch is not None
        sizes.append(batch.tuples)
        host.replica_manager.replicas["a"].replica.evaluate(batch.timestamp_groups, batch.tuples)
        host.dispatcher.done("a", host.now_us)
        host.now_us += batch.tuples * MS
    # Six of a sixth of the sub-deadline; what is due now is let out one by one; then it is late.
    assert sizes == [5, 5, 5, 5, 5, 5, 1, 10]


@pytest.mark.parametrize(
    ("fixed_us", "expected"),
    [
        # 5 ms a batch, at 1 ms a tuple.
        (0.0, 5),
        (500.0, 4),
        # Tuples may cost eight times as much as the batch itself, up to 5 ms.
        (2000.0, 5),
        (9000.0, 5),
    ],
)
def test_batches_are_as_large_as_measured_costs_allow(fixed_us: float, expected: int) -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=30.0, cost_us=10.0))
    host.arrive("s", chunk(0, [(t, 1) for t in range(1, 1001)]))
    first = host.dispatcher.pop(host.now_us)
    assert first is not None
    # As estimated.
    assert first.tuples == 500
    host.dispatcher.done("a", host.now_us)
    for i in range(400):
        host.dispatcher.charge("a", 1 + i % 20, fixed_us + 1000.0 * (1 + i % 20))
    then = host.dispatcher.pop(host.now_us)
    assert then is not None
    assert then.tuples in (expected - 1, expected)


def test_a_task_rests_between_two_beginnings_and_not_after_a_pause() -> None:
    host = QuietHost(fragment("a"), batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.dispatcher.next_us == 0
    assert host.steps() == ["a"]
    host.now_us = 3 * MS
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.dispatcher.next_us == 10 * MS
    assert host.step() is None
    host.now_us = 10 * MS
    host.arrive("s", chunk(2, [(3, 1)]))
    assert host.steps() == ["a"]
    host.now_us = 50 * MS
    host.arrive("s", chunk(3, [(4, 1)]))
    assert host.steps() == ["a"]


def rested_ms(host: QuietHost) -> float:
    """How long the only task rests after an evaluation."""
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    began_us = host.now_us
    host.arrive("s", chunk(1, [(2, 1)]))
    until_us = host.dispatcher.next_us
    assert until_us is not None
    return (until_us - began_us) / MS


@pytest.mark.parametrize(("took_ms", "missed"), [(9, 0), (11, 1)])
def test_an_arrival_that_leaves_after_its_sub_deadline_is_a_miss(took_ms: int, missed: int) -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=10.0))
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps(took_us=took_ms * MS) == ["a"]
    told = host.dispatcher.batching_of("a", host.now_us)
    assert told is not None
    assert (told.policy, told.sdmr_pct) == ("measured", 100.0 * missed)
    assert (host.dispatcher.sdmr.host.completed, host.dispatcher.sdmr.host.misses) == (1, missed)


def test_the_miss_ratio_of_a_task_counts_its_whole_chain_and_no_standbys() -> None:
    spare = fragment("spare", "t", role="secondary", standby_lag_ms=1.0)
    host = QuietHost(*followers(), spare)
    for stream in "st":
        host.arrive(stream, chunk(0, [(1, 1)]))
    assert sorted(host.steps(took_us=16 * MS)) == ["a", "b", "spare"]
    assert host.dispatcher.batching_of("spare", host.now_us) is None
    assert (host.dispatcher.sdmr.host.completed, host.dispatcher.sdmr.host.misses) == (1, 1)


def test_a_query_chooses_its_policy_and_the_others_have_the_cluster_s() -> None:
    own = structs.replace(fragment("a", sub_deadline_ms=500.0), batching="bts-3")
    host = QuietHost(own, fragment("b", "t"), batch_ms=10)
    for stream in "st":
        host.arrive(stream, chunk(0, [(1, 1)]))
    assert sorted(host.steps()) == ["a", "b"]
    told = [host.dispatcher.batching_of(name, 0) for name in "ab"]
    assert [(each and each.policy, each and each.k) for each in told] == [
        ("bts-3", 3),
        ("measured", 1),
    ]


def test_tuple_at_a_time_evaluates_one_timestamp_group_a_dispatch_and_never_rests() -> None:
    host = QuietHost(structs.replace(fragment("a"), batching="taat"), batch_ms=10)
    for number in range(2):
        host.arrive("s", chunk(3 * number, [(3 * number + n, 1) for n in range(1, 4)]))
        assert host.steps() == ["a"] * 3


@pytest.mark.parametrize(
    ("tasks", "batch_ms", "rests_ms"),
    [(3, 10, 10), (4, 10, 20), (15, 10, 80), (30, 10, 160), (600, 10, 480), (60, 0, 0)],
)
def test_tasks_of_a_host_with_many_rest_longer_up_to_a_little_more_than_half_of_their_sub_deadlines(
    tasks: int, batch_ms: float, rests_ms: int
) -> None:
    replicas = primaries(tasks, sub_deadline_ms=1000.0)
    host = QuietHost(*replicas, batch_ms=batch_ms)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert len(host.steps()) == tasks
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.dispatcher.next_us == rests_ms * MS
    host.now_us = rests_ms * MS
    assert len(host.steps()) == tasks


def rest_of_many(*replicas: FragmentAssignment, tuples: int, took_us: int = 0) -> float:
    """How long many tasks with one length of rest do rest, two seconds after the first input, if
    one timestamp with so many tuples comes right after they were evaluated, ms."""
    host = QuietHost(*replicas, batch_ms=10)
    for number, now_ms in enumerate((0, 12_480)):
        host.now_us = max(now_ms * MS, host.now_us)
        host.arrive("s", chunk(number, [(number + 1, 1)]))
        assert len(host.steps(took_us)) == len(replicas)
    began_us = host.now_us
    host.arrive("s", chunk(2, [(3, tuples)]))
    until_us = host.dispatcher.next_us
    assert until_us is not None
    return (until_us - began_us) / MS


def primaries(count: int, sub_deadline_ms: float) -> list[FragmentAssignment]:
    """Their recovery bounds leave much time."""
    return [
        fragment(f"a{n}", sub_deadline_ms=sub_deadline_ms, standby_lag_ms=sub_deadline_ms)
        for n in range(count)
    ]


def standbys(count: int) -> list[FragmentAssignment]:
    return [fragment(f"a{n}", role="secondary", standby_lag_ms=100.0) for n in range(count)]


def test_many_standbys_rest_for_four_lags_if_they_take_little() -> None:
    assert rest_of_many(*standbys(60), tuples=1) == 320


def test_many_primaries_to_which_only_watermarks_come_rest_longer() -> None:
    replicas = primaries(60, sub_deadline_ms=500.0)
    assert rest_of_many(*replicas, tuples=1) == 240
    assert rest_of_many(*replicas, tuples=0) == 320


def test_a_few_tasks_to_which_only_watermarks_come_rest_no_longer() -> None:
    assert rest_of_many(fragment("a", sub_deadline_ms=500.0), tuples=0) == 10


def test_a_tuple_ends_the_longer_rest_of_an_idle_task() -> None:
    replicas = primaries(60, sub_deadline_ms=500.0)
    host = QuietHost(*replicas, batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert len(host.steps()) == 60
    host.arrive("s", chunk(1, [(2, 0)]))
    assert host.dispatcher.next_us == 320 * MS
    host.now_us = 20 * MS
    host.arrive("s", chunk(1, [(3, 1)]))
    assert host.dispatcher.next_us == 240 * MS
    host.now_us = 240 * MS
    assert len(host.steps()) == 60
    host.arrive("s", chunk(2, [(4, 0)]))
    assert host.dispatcher.next_us == 480 * MS
    host.now_us = 490 * MS
    host.arrive("s", chunk(2, [(5, 1)]))
    assert len(host.steps()) == 60


def test_a_task_that_has_just_taken_over_rests_only_after_what_it_lacked() -> None:
    standby = fragment("a", role="secondary", sub_deadline_ms=500.0, standby_lag_ms=90.0)
    host = QuietHost(standby, batch_ms=10)
    host.dispatcher.figures.dispatch_us = 10_000.0
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.steps() == []
    host.change_role("a", RoleEvent.PEER_REPLICA_LOST)
    # What it has, and what comes in a moment.
    for seq in range(2, 2 + RESTLESS):
        assert host.steps() == ["a"]
        host.now_us += MS
        host.arrive("s", chunk(seq, [(seq + 1, 1)]))
    assert host.steps() == ["a"]
    host.arrive("s", chunk(2 + RESTLESS, [(3 + RESTLESS, 1)]))
    assert host.steps() == []
    assert host.dispatcher.next_us == 160 * MS


def test_a_rest_can_be_ended() -> None:
    host = QuietHost(fragment("a"), batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    host.now_us = 3 * MS
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.step() is None
    host.dispatcher.end_rest("a", host.now_us)
    assert host.steps() == ["a"]


def test_a_rest_that_was_ended_does_not_end_the_next_one() -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=500.0), batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    host.arrive("s", chunk(1, [(2, 1)]))
    host.now_us = 3 * MS
    host.dispatcher.end_rest("a", host.now_us)
    host.dispatcher.figures.dispatch_us = 2_500.0
    assert host.steps() == ["a"]
    host.arrive("s", chunk(2, [(3, 1)]))
    host.now_us = 10 * MS
    assert host.steps() == []
    assert host.dispatcher.next_us == 40 * MS


def test_each_operator_of_a_chain_counts_as_one_of_many() -> None:
    host = QuietHost(
        *(fragment(f"a{n}", sub_deadline_ms=500.0) for n in range(2)),
        fragment("b", sub_deadline_ms=500.0, readers_ms={"c": 1000.0}),
        fragment("c", "b", sub_deadline_ms=500.0),
        batch_ms=10,
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps()
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.dispatcher.next_us == 20 * MS


def test_rests_end_at_multiples_of_their_length_whenever_they_begin() -> None:
    host = QuietHost(fragment("a"), fragment("b", "t"), batch_ms=10)
    host.now_us = 42 * MS
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    host.now_us = 47 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    assert host.steps() == ["b"]
    for stream in "st":
        host.arrive(stream, chunk(1, [(2, 1)]))
    assert host.dispatcher.next_us == 50 * MS
    host.now_us = 50 * MS
    assert sorted(host.steps()) == ["a", "b"]


def test_a_backlog_does_not_rest() -> None:
    host = QuietHost(fragment("a"), batch_ms=10)
    host.arrive("s", chunk(0, [(t, 1) for t in range(1, 2 * TIMESTAMPS_PER_DISPATCH + 2)]))
    assert host.steps() == ["a", "a", "a"]


def test_a_task_finishes_its_input_before_it_starts_more() -> None:
    host = QuietHost(*followers())
    host.arrive("s", chunk(0, [(t, 1) for t in range(1, TIMESTAMPS_PER_DISPATCH + 2)]))
    assert host.steps() == ["a", "b", "a", "b"]


def test_later_operators_do_not_wait_while_the_first_rests() -> None:
    host = QuietHost(*followers(), batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.step() is not None
    assert host.dispatcher.next_us == 0
    assert host.steps() == ["b"]


def test_input_that_arrives_while_later_operators_work_waits_for_the_rest_to_end() -> None:
    host = QuietHost(*followers(), batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.step(took_us=MS) is not None
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.steps() == ["b"]
    assert host.dispatcher.next_us == 10 * MS


def test_a_backlog_goes_through_a_whole_task_without_rest() -> None:
    host = QuietHost(*followers(), batch_ms=10)
    host.arrive("s", chunk(0, [(t, 1) for t in range(1, TIMESTAMPS_PER_DISPATCH + 2)]))
    assert host.steps() == ["a", "b", "a", "b"]


def test_deadline_of_later_operators_counts_from_entering_the_task() -> None:
    host = QuietHost(*followers(), fragment("other", "t", sub_deadline_ms=25.0))
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.step() is not None
    host.now_us = 4 * MS
    host.arrive("s", chunk(1, [(2, 1)]))
    host.arrive("t", chunk(0, [(1, 1)]))
    # The first timestamp group is due at 30, `other` at 29; the second group only at 34.
    assert host.steps()[:2] == ["other", "b"]


def test_deadline_rises_once_the_oldest_has_left() -> None:
    host = QuietHost(*followers(), fragment("other", "t", sub_deadline_ms=30.0))
    host.arrive("s", chunk(0, [(1, 1)]))
    host.now_us = 1 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    host.now_us = 2 * MS
    host.arrive("s", chunk(1, [(2, 1)]))
    # Due at 30 with the first timestamp group, hence before 31; both groups go together.
    assert host.steps() == ["a", "b", "other"]
    host.arrive("t", chunk(1, [(2, 1)]))
    host.now_us = 3 * MS
    host.arrive("s", chunk(2, [(3, 1)]))
    # The third timestamp group is due at 33, `other` at 32.
    assert host.steps() == ["other", "a", "b"]


@pytest.mark.parametrize(("tuples", "order"), [(10, ["spare", "main"]), (11, ["main", "spare"])])
def test_standby_work_goes_first_only_into_slack(tuples: int, order: list[str]) -> None:
    host = QuietHost(
        fragment("main", "s", sub_deadline_ms=20.0, cost_us=1000.0),
        fragment("spare", "t", role="secondary", standby_lag_ms=5.0, cost_us=1000.0),
    )
    host.arrive("t", chunk(0, [(1, tuples)]))
    host.arrive("s", chunk(0, [(1, 10)]))
    # The primary takes 10 ms and is due after 20; a tuple of the secondary takes 1 ms.
    assert host.steps() == order


def test_standby_work_that_is_due_later_waits() -> None:
    host = QuietHost(
        fragment("main", "s", sub_deadline_ms=20.0),
        fragment("spare", "t", role="secondary", standby_lag_ms=50.0),
    )
    host.arrive("t", chunk(0, [(1, 1)]))
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["main", "spare"]


def test_tasks_are_formed_anew_when_a_replica_takes_over_or_steps_down() -> None:
    host = QuietHost(
        fragment("a", sub_deadline_ms=10.0, readers_ms={"b": 100.0}),
        fragment("b", "a", role="secondary", sub_deadline_ms=20.0, standby_lag_ms=90.0),
        fragment("other", "t", sub_deadline_ms=25.0),
    )

    def order() -> list[str]:
        seq = host.replica_manager.replicas["a"].replica.log.end.next_seq
        host.now_us += 1000 * MS
        host.arrive("s", chunk(seq, [(seq + 1, 1)]))
        host.arrive("t", chunk(seq, [(seq + 1, 1)]))
        return host.steps()

    # Due after 10, 25 and, a standby's, 90 ms.
    assert order() == ["a", "other", "b"]
    host.change_role("b", RoleEvent.PEER_REPLICA_LOST)
    # As one task after 30 ms.
    assert order() == ["other", "a", "b"]
    host.change_role("b", RoleEvent.SUPERSEDED)
    assert order() == ["a", "other", "b"]


def test_tasks_are_formed_anew_when_the_assignment_changes() -> None:
    host = QuietHost(*followers())
    host.arrive("s", chunk(0, [(1, 1)]))
    host.assign(followers()[0])
    assert host.steps() == ["a"]
    assert host.dispatcher.next_us is None
    host.assign()
    host.dispatcher.arrived("a", host.now_us)
    assert host.step() is None


def test_pending_input_is_not_lost_when_tasks_are_rebuilt() -> None:
    host = QuietHost(*followers(), batch_ms=10)
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.step() is not None
    # Output of `a` waits at `b`, and a timestamp group at `a`, which rests.
    host.arrive("s", chunk(1, [(2, 1)]))
    host.change_role("b", RoleEvent.SUPERSEDED)
    assert host.dispatcher.next_us is not None
    host.now_us = 10 * MS
    assert sorted(host.steps()) == ["a", "b"]


def test_a_new_generation_does_not_inherit_the_deadlines_of_the_old_one() -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=10.0), fragment("b", "t", sub_deadline_ms=5.0))
    host.arrive("s", chunk(0, [(1, 1), (500, 1)]))
    host.now_us = 1000 * MS
    host.assign(
        fragment("a", sub_deadline_ms=10.0, generation=2, epoch=2),
        fragment("b", "t", sub_deadline_ms=5.0),
    )
    assert host.dispatcher.next_us is None
    host.arrive("s", chunk(0, [(400, 1)]))
    host.arrive("t", chunk(0, [(400, 1)]))
    assert host.steps() == ["b", "a"]


def test_a_branch_is_taken_to_the_most_urgent_output() -> None:
    host = QuietHost(
        fragment("a", sub_deadline_ms=10.0, readers_ms={"fast": 50.0, "slow": 500.0}),
        fragment("fast", "a", sub_deadline_ms=10.0, readers_ms={"sink:fast": 50.0}),
        fragment("slow", "a", sub_deadline_ms=100.0, readers_ms={"sink:slow": 500.0}),
        fragment("other", "t", sub_deadline_ms=15.0),
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    host.arrive("t", chunk(0, [(1, 1)]))
    # As a task of its own `a` would be due after 10 ms; with `fast` it is after 20.
    assert host.steps() == ["other", "a", "fast", "slow"]


def test_a_replica_that_is_read_sooner_elsewhere_is_a_task_of_its_own() -> None:
    host = QuietHost(
        fragment("a", sub_deadline_ms=10.0, readers_ms={"b": 100.0, "elsewhere": 50.0}),
        fragment("b", "a", sub_deadline_ms=20.0),
        fragment("other", "t", sub_deadline_ms=15.0),
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    host.arrive("t", chunk(0, [(1, 1)]))
    assert host.steps() == ["a", "other", "b"]


def test_an_timestamp_enters_once_it_is_closed_on_all_inputs() -> None:
    host = QuietHost(fragment("both", "s t", sub_deadline_ms=10.0), fragment("other", "u"))
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.dispatcher.next_us is None
    host.now_us = 5 * MS
    host.arrive("u", chunk(0, [(1, 1)]))
    host.now_us = 6 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    # Due at 6 + 10, since nothing could be done before; `other` at 5 + 10.
    assert host.steps() == ["other", "both"]


def test_cost_is_said_once_it_is_known() -> None:
    host = QuietHost(fragment("a", cost_us=10.0))
    assert host.dispatcher.cost("a") is None
    host.arrive("s", chunk(0, [(1, 4)]))
    host.step(took_us=4000)
    cost = host.dispatcher.cost("a")
    assert cost is not None
    assert cost.samples == 1
    assert cost.per_tuple_us > 10.0
    host.assign()
    assert host.dispatcher.cost("a") is None


def test_a_host_whose_input_waits_too_long_takes_no_more_until_it_has_caught_up() -> None:
    """More would only wait behind it, and latencies would take long to recover."""
    host = primary()

    def room_bytes() -> int:
        host.commands.clear()
        host.wait(200)
        return [c.acks["s"].room_bytes for c in host.sent_to("site", Control) if c.acks][-1]

    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.hear("site", data(chunk(2, [(20, 2)])))
    assert room_bytes() > 0
    host.wait(BEHIND_US / 1000)
    assert room_bytes() == 0
    host.work()
    assert room_bytes() > 0


def test_a_standby_that_rests_is_not_behind() -> None:
    """Its producers would keep back what it needs when it takes over."""
    many = [fragment(f"f{n}", f"s{n}", role="secondary", standby_lag_ms=1200.0) for n in range(40)]
    host = QuietHost(*many, batch_ms=10.0)
    host.dispatcher.figures.slowness = 16.0
    host.arrive("s0", chunk(0, [(1, 1)]))
    assert host.steps() == ["f0"]
    host.arrive("s0", chunk(1, [(2, 1)]))
    rests_until_us = host.dispatcher.next_us
    assert rests_until_us is not None
    assert rests_until_us > max(BEHIND_US, 1200 * MS)
    assert not host.dispatcher.is_behind("f0", rests_until_us)
    # It could have rested for four times its lag.
    assert host.dispatcher.is_behind("f0", 4 * 1200 * MS + 1)


PERIOD = "RTSPEC PERIOD 100 MILLISECONDS"


def test_a_periodic_task_rests_until_a_watermark_passes_a_release() -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=50.0, real_time=PERIOD), batch_ms=10)
    host.now_us = 1 * MS
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    host.arrive("s", chunk(1, [(2, 1)]))
    # Input that only changes the window rests, and may be put off no longer than other input.
    assert host.steps() == []
    assert host.dispatcher.next_us == 10 * MS
    assert not host.dispatcher.rests("a")
    host.now_us = 3 * MS
    host.arrive("s", chunk(2, [(100, 1)]))
    assert host.steps() == ["a"]


def test_the_deadline_of_a_release_counts_from_the_watermark_that_passes_it() -> None:
    host = QuietHost(
        fragment("periodic", sub_deadline_ms=20.0, real_time=PERIOD),
        fragment("other", "t", sub_deadline_ms=20.0),
    )
    # What comes first may pass releases: where the stream begins is not known yet.
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["periodic"]
    host.arrive("s", chunk(1, [(2, 1)]))
    host.now_us = 8 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    host.now_us = 10 * MS
    host.arrive("s", chunk(2, [(101, 1)]))
    # Its input came at 0, but no result waited for it before 10 ms.
    assert host.steps() == ["other", "periodic"]


@pytest.mark.parametrize(
    "urgent",
    [
        # What it has rejected, it gives at once.
        [structs.replace(fragment("a", real_time=PERIOD), rejected=True, skips=True)],
        # Its sink waits for the first one's results, at any time.
        [
            fragment("a", readers_ms={"sink:a": 100.0, "b": 100.0}),
            fragment("b", "a", real_time=PERIOD),
        ],
    ],
)
def test_results_that_come_at_any_time_are_due_between_releases(
    urgent: list[FragmentAssignment],
) -> None:
    host = QuietHost(*urgent, fragment("other", "t", sub_deadline_ms=50.0))
    host.arrive("s", chunk(0, [(1, 1)]))
    host.steps()
    host.arrive("t", chunk(0, [(2, 1)]))
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.steps() == [*(each.fragment for each in urgent), "other"]


@pytest.mark.parametrize(("period_ms", "first"), [(None, "other"), (10.0, "periodic")])
def test_input_between_releases_is_due_a_period_of_the_clock_later(
    period_ms: float | None, first: str
) -> None:
    periodic = fragment("periodic", sub_deadline_ms=20.0, real_time=PERIOD)
    host = QuietHost(
        structs.replace(periodic, period_ms=period_ms),
        fragment("other", "t", sub_deadline_ms=50.0),
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    host.steps()
    host.arrive("t", chunk(0, [(2, 1)]))
    host.arrive("s", chunk(1, [(2, 1)]))
    assert host.steps()[0] == first


def test_a_backlog_between_releases_is_due_a_period_after_it_came() -> None:
    """Else work that is always in time holds it up, batch by batch, until its stream waits."""
    host = QuietHost(
        fragment("periodic", sub_deadline_ms=20.0, real_time="RTSPEC PERIOD 1 SECOND"),
        fragment("other", "t", sub_deadline_ms=500.0),
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    host.steps()
    host.arrive("s", chunk(1, [(2 + n, 1) for n in range(2 * TIMESTAMPS_PER_DISPATCH)]))
    host.now_us = 590 * MS
    assert host.step() is not None
    host.now_us = 600 * MS
    host.arrive("t", chunk(0, [(1, 1)]))
    # 1,020 is before 600 + 500.
    assert host.steps() == ["periodic", "other"]


def test_a_host_is_not_behind_with_input_that_is_due_a_period_later() -> None:
    host = QuietHost(
        fragment("periodic", sub_deadline_ms=20.0, real_time="RTSPEC PERIOD 3 SECONDS")
    )
    host.arrive("s", chunk(0, [(1, 1)]))
    host.steps()
    host.arrive("s", chunk(1, [(2, 1)]))
    assert not host.dispatcher.is_behind("periodic", 3000 * MS)
    assert host.dispatcher.is_behind("periodic", 3000 * MS + BEHIND_US + 1)


def test_only_releases_count_as_arrivals_that_can_be_late() -> None:
    host = QuietHost(fragment("a", sub_deadline_ms=5.0, real_time=PERIOD))
    host.arrive("s", chunk(0, [(1, 1)]))
    assert host.steps() == ["a"]
    decided = host.dispatcher.sdmr.host
    assert (decided.completed, decided.misses) == (1, 0)
    host.arrive("s", chunk(1, [(99, 1)]))
    host.now_us = 90 * MS
    assert host.steps() == ["a"]
    assert (decided.completed, decided.misses) == (1, 0)
    host.arrive("s", chunk(2, [(250, 1)]))
    assert host.steps(took_us=6 * MS) == ["a"]
    assert (decided.completed, decided.misses) == (2, 1)


def test_of_equally_urgent_periodic_tasks_the_more_important_runs_first() -> None:
    both = [
        fragment(name, sub_deadline_ms=20.0, real_time=f"{PERIOD} IMPORTANCE {importance}")
        for name, importance in (("a", 0), ("b", 5))
    ]
    host = QuietHost(*both)
    host.arrive("s", chunk(0, [(1, 1), (100, 1)]))
    assert host.steps() == ["b", "a"]


def test_ertf_ignores_deadlines() -> None:
    tight = fragment("tight", "t", sub_deadline_ms=5.0)
    for policy, ran in ((Policy.EDF, ["tight", "loose"]), (Policy.ERTF, ["loose", "tight"])):
        host = QuietHost(fragment("loose", "s", sub_deadline_ms=50.0), tight, policy=policy)
        host.arrive("s", chunk(0, [(9, 1)]))
        host.now_us = 1 * MS
        host.arrive("t", chunk(0, [(2, 1)]))
        assert host.steps() == ran
