"""What holds of the run queue whatever waits in it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.scheduling.run_queue import Instance, Policy, RunQueue

NOW_US = 1000


@st.composite
def instances(draw: st.DrawFn, *, most: int = 8) -> list[Instance]:
    """Of different tasks, released by `NOW_US`; deadlines from hopeless to loose."""
    tasks = draw(st.lists(st.sampled_from("abcdefgh"), max_size=most, unique=True))
    return [
        Instance(
            task=task,
            released_us=draw(st.integers(0, NOW_US)),
            deadline_us=NOW_US + draw(st.integers(-5, 60)),
            standby=draw(st.booleans()),
            cost_us=draw(st.integers(0, 20)),
        )
        for task in tasks
    ]


def run(policy: Policy, waiting: list[Instance]) -> list[tuple[Instance, int]]:
    """Instances in the order they run, with when each is done; costs are exact."""
    queue = RunQueue(policy)
    for instance in waiting:
        queue.put(instance)
    done: list[tuple[Instance, int]] = []
    now_us = NOW_US
    while (instance := queue.pop(now_us)) is not None:
        now_us += int(instance.cost_us)
        done.append((instance, now_us))
    return done


def in_time(order: list[Instance] | tuple[Instance, ...], now_us: int) -> bool:
    for instance in order:
        now_us += int(instance.cost_us)
        if now_us > instance.deadline_us:
            return False
    return True


@given(st.sampled_from(Policy), instances())
def test_each_instance_runs_once_and_none_while_another_waits_for_nothing(
    policy: Policy, waiting: list[Instance]
) -> None:
    done = run(policy, waiting)
    assert sorted(one.task for one, _ in done) == sorted(one.task for one in waiting)
    assert {one.task: one for one, _ in done} == {one.task: one for one in waiting}


@settings(max_examples=150, deadline=None)
@given(instances(most=5))
def test_edf_keeps_all_deadlines_whenever_any_order_does(waiting: list[Instance]) -> None:
    primaries = [replace(one, standby=False) for one in waiting]
    possible = any(in_time(order, NOW_US) for order in permutations(primaries))
    kept = all(at_us <= one.deadline_us for one, at_us in run(Policy.EDF, primaries))
    assert kept == possible


@settings(max_examples=300, deadline=None)
@given(instances())
def test_standby_work_makes_no_primary_late(waiting: list[Instance]) -> None:
    alone = run(Policy.EDF, [one for one in waiting if not one.standby])
    late_alone = {one.task for one, at_us in alone if at_us > one.deadline_us}
    late = {
        one.task
        for one, at_us in run(Policy.EDF, waiting)
        if at_us > one.deadline_us and not one.standby
    }
    assert late == late_alone


@settings(max_examples=300, deadline=None)
@given(instances())
def test_standby_work_goes_first_exactly_when_it_is_due_first_and_hinders_nobody(
    waiting: list[Instance],
) -> None:
    queue = RunQueue(Policy.EDF)
    for instance in waiting:
        queue.put(instance)
    chosen = queue.pop(NOW_US)
    primaries = sorted((one for one in waiting if not one.standby), key=lambda one: one.deadline_us)
    standbys = [one for one in waiting if one.standby]
    may_go_first = [
        one
        for one in standbys
        if not primaries
        or (
            one.deadline_us < primaries[0].deadline_us
            and in_time(primaries, NOW_US + int(one.cost_us))
        )
    ]
    if chosen is None:
        assert not waiting
    elif chosen.standby:
        assert chosen.deadline_us == min(one.deadline_us for one in may_go_first)
    else:
        assert not may_go_first
        if primaries[0].deadline_us >= NOW_US:
            assert chosen.deadline_us == primaries[0].deadline_us


@given(instances())
def test_fifo_runs_in_the_order_of_release(waiting: list[Instance]) -> None:
    released = [one.released_us for one, _ in run(Policy.FIFO, waiting)]
    assert released == sorted(released)


puts = st.builds(
    Instance,
    task=st.sampled_from("abcd"),
    released_us=st.integers(0, NOW_US),
    deadline_us=st.integers(NOW_US - 5, NOW_US + 10),
    standby=st.booleans(),
    cost_us=st.integers(0, 5),
)
calls = st.lists(puts | st.sampled_from("abcd") | st.none(), max_size=25)
"""An instance is put, a task is discarded, None: something is popped."""


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(Policy), calls)
def test_nothing_is_lost_repeated_or_kept_back(
    policy: Policy, calls: list[Instance | str | None]
) -> None:
    queue, model = RunQueue(policy), dict[str, Instance]()
    for call in calls:
        if isinstance(call, Instance):
            queue.put(call)
            before = model.get(call.task, call)
            model[call.task] = replace(
                call,
                released_us=min(before.released_us, call.released_us),
                deadline_us=min(before.deadline_us, call.deadline_us),
            )
        elif call is not None:
            queue.discard(call)
            model.pop(call, None)
        else:
            popped = queue.pop(NOW_US)
            assert (popped is None) == (not model)
            if popped is not None:
                assert popped == model.pop(popped.task)
        assert queue.tasks == tuple(model)
        assert len(queue) == len(model)


def chosen_by_looking_at_all(
    waiting: dict[str, Instance], orders: dict[str, int], last: str, now_us: int
) -> str:
    """The rule of EDF that defers overdue work, applied to every instance at each choice."""

    def urgency(one: Instance) -> tuple[int, bool, int, int]:
        return one.deadline_us, one.task != last, one.released_us, orders[one.task]

    primaries = sorted((o for o in waiting.values() if not o.standby), key=urgency)
    standbys = sorted((o for o in waiting.values() if o.standby), key=urgency)
    if not primaries:
        return standbys[0].task
    if overdue := [one for one in primaries if one.deadline_us < now_us]:
        least = min(overdue, key=lambda one: (one.cost_us, urgency(one)))
        rest = [one for one in primaries if one.deadline_us >= now_us]
        return (least if in_time(rest, now_us + int(least.cost_us)) else rest[0]).task
    for one in standbys:
        due_before = one.deadline_us < primaries[0].deadline_us
        if due_before and in_time(primaries, now_us + int(one.cost_us)):
            return one.task
    return primaries[0].task


@settings(max_examples=400, deadline=None)
@given(st.lists(puts | st.sampled_from("abcd") | st.integers(0, 3), max_size=120))
def test_edf_chooses_as_if_it_looked_at_every_instance(calls: list[Instance | str | int]) -> None:
    """An integer is time that passes before something is popped."""
    queue, now_us = RunQueue(Policy.EDF), NOW_US - 20
    waiting, orders, last = dict[str, Instance](), dict[str, int](), ""
    for count, call in enumerate(calls):
        if isinstance(call, Instance):
            queue.put(call)
            before = waiting.get(call.task)
            orders.setdefault(call.task, count)
            waiting[call.task] = call
            if before is not None:
                waiting[call.task] = replace(
                    call,
                    released_us=min(before.released_us, call.released_us),
                    deadline_us=min(before.deadline_us, call.deadline_us),
                )
        elif isinstance(call, str):
            queue.discard(call)
            waiting.pop(call, None)
            orders.pop(call, None)
        else:
            now_us += call
            popped = queue.pop(now_us)
            if popped is not None:
                assert popped.task == chosen_by_looking_at_all(waiting, orders, last, now_us)
                last = popped.task
                del waiting[last], orders[last]


@settings(max_examples=200, deadline=None)
@given(st.lists(puts, max_size=25))
def test_task_that_ran_last_goes_on_unless_another_is_due_before_it(puts: list[Instance]) -> None:
    queue, waiting, last = RunQueue(Policy.EDF), dict[str, Instance](), ""
    for put in puts:
        put = replace(put, standby=False, deadline_us=put.deadline_us + 5)
        queue.put(put)
        due_us = waiting[put.task].deadline_us if put.task in waiting else put.deadline_us
        waiting[put.task] = replace(put, deadline_us=min(put.deadline_us, due_us))
        if len(waiting) < 3:
            continue
        earliest_us = min(one.deadline_us for one in waiting.values())
        popped = queue.pop(NOW_US)
        assert popped is not None
        if last in waiting and waiting[last].deadline_us == earliest_us:
            assert popped.task == last
        assert popped.deadline_us == earliest_us
        del waiting[popped.task]
        last = popped.task


@settings(max_examples=300, deadline=None)
@given(instances())
def test_overdue_work_makes_nothing_late_that_can_be_in_time(waiting: list[Instance]) -> None:
    primaries = [replace(one, standby=False) for one in waiting]
    early = [one for one in primaries if one.deadline_us >= NOW_US]
    if in_time(sorted(early, key=lambda one: one.deadline_us), NOW_US):
        done = {one.task: at_us for one, at_us in run(Policy.EDF, primaries)}
        assert all(done[one.task] <= one.deadline_us for one in early)


@settings(max_examples=300, deadline=None)
@given(instances())
def test_while_nothing_is_overdue_the_order_is_that_of_edf(waiting: list[Instance]) -> None:
    primaries = [replace(one, standby=False) for one in waiting]
    queue, now_us = RunQueue(Policy.EDF), NOW_US
    for instance in primaries:
        queue.put(instance)
    left = {one.task: one for one in primaries}
    while left and min(one.deadline_us for one in left.values()) >= now_us:
        popped = queue.pop(now_us)
        assert popped is not None
        assert popped.deadline_us == min(one.deadline_us for one in left.values())
        del left[popped.task]
        now_us += int(popped.cost_us)
