"""The demand test of recurring work against the definition, and against EDF run by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placement.deadline.recurring import Recurring, demand_ms, offsets, overrun

HORIZON_MS = 500
"""Longer than any interval that matters to the tasks below."""


@st.composite
def task_sets(draw: st.DrawFn, *, clock: str | None = None) -> list[Recurring]:
    """Of few tasks, which a node can do on average."""
    tasks: list[Recurring] = []
    for number in range(draw(st.integers(1, 4))):
        period = draw(st.sampled_from([5, 8, 10, 20]))
        tasks.append(
            Recurring(
                name=f"t{number}",
                cost_ms=draw(st.integers(1, 6)),
                period_ms=period,
                deadline_ms=draw(st.integers(2, period if clock else 30)),
                offset_ms=draw(st.integers(0, period - 1)) if clock else 0,
                clock=clock,
                importance=draw(st.integers(0, 2)),
            )
        )
    assume(sum(task.cost_ms / task.period_ms for task in tasks) < 0.95)
    return tasks


def keeps_all(tasks: Sequence[Recurring]) -> bool:
    """Whether EDF with preemption is in time for all that is released within two hyperperiods."""
    until_ms = 3 * math.lcm(*(int(task.period_ms) for task in tasks))
    jobs = sorted(
        (release, release + task.deadline_ms, task.cost_ms)
        for task in tasks
        for release in range(int(task.offset_ms), until_ms, int(task.period_ms))
    )
    waiting: list[tuple[float, float]] = []
    now_ms, place = 0.0, 0
    while place < len(jobs) or waiting:
        if not waiting:
            now_ms = max(now_ms, jobs[place][0])
        while place < len(jobs) and jobs[place][0] <= now_ms:
            heappush(waiting, jobs[place][1:])
            place += 1
        due_ms, left_ms = heappop(waiting)
        next_ms = jobs[place][0] if place < len(jobs) else math.inf
        runs_ms = min(left_ms, next_ms - now_ms)
        now_ms += runs_ms
        if runs_ms < left_ms:
            heappush(waiting, (due_ms, left_ms - runs_ms))
        elif now_ms > due_ms:
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(task_sets(), st.sampled_from([0.0, 1.0, 2.5]))
def test_an_overrun_is_found_exactly_if_there_is_one(
    tasks: list[Recurring], blocking_ms: float
) -> None:
    found = overrun(tasks, blocking_ms)
    ends = {
        task.deadline_ms + k * task.period_ms
        for task in tasks
        for k in range(int(HORIZON_MS // task.period_ms))
    }
    late = [end for end in ends if demand_ms(tasks, end) + blocking_ms > end]
    assert (found is not None) == bool(late)
    if found is not None:
        assert found.at_ms in late
        assert found.demand_ms == demand_ms(tasks, found.at_ms) + blocking_ms
        named = next(task for task in tasks if task.name == found.relieve)
        due = [task for task in tasks if task.due_ms(found.at_ms)]
        assert named.importance == min(task.importance for task in due)


@settings(max_examples=300, deadline=None)
@given(task_sets(clock="c"))
def test_tasks_with_offsets_are_admitted_exactly_if_edf_keeps_them(
    tasks: list[Recurring],
) -> None:
    assert (overrun(tasks, 0.0) is None) == keeps_all(tasks)


def fits(tasks: Sequence[Recurring], blocking_ms: float) -> bool:
    """Whether each interval has room for what is due in it and the batch that blocks it, by the
    definition. Tasks without a clock are released when the interval begins."""
    on_clock = [task for task in tasks if task.clock is not None]
    others = [task for task in tasks if task.clock is None]
    again_ms = math.lcm(*(int(task.period_ms) for task in on_clock))
    jobs = [
        (release, release + task.deadline_ms, task.cost_ms)
        for task in on_clock
        for release in range(int(task.offset_ms), again_ms + HORIZON_MS, int(task.period_ms))
    ]
    for begin in range(again_ms):
        later = sorted((due, cost) for release, due, cost in jobs if release >= begin)
        ends = {due - begin for due, _ in later} | {
            task.deadline_ms + k * task.period_ms for task in others for k in range(HORIZON_MS // 5)
        }
        work_ms, place = blocking_ms, 0
        for end in sorted(ends):
            if end > HORIZON_MS:
                break
            while place < len(later) and later[place][0] - begin <= end:
                work_ms += later[place][1]
                place += 1
            if work_ms + demand_ms(others, end) > end:
                return False
    return True


@settings(max_examples=150, deadline=None)
@given(task_sets(clock="c"), st.integers(0, 4), st.integers(0, 2))
def test_a_batch_and_work_at_any_time_count_beside_tasks_with_offsets(
    tasks: list[Recurring], blocking_ms: int, at_any_time: int
) -> None:
    freed = [replace(task, clock=None, offset_ms=0.0) for task in tasks[:at_any_time]]
    mixed = [*freed, *tasks[at_any_time:]]
    assume(any(task.clock is not None for task in mixed))
    assert (overrun(mixed, blocking_ms) is None) == fits(mixed, blocking_ms)


@settings(max_examples=100, deadline=None)
@given(task_sets(clock="c"))
def test_offsets_that_are_proposed_are_kept(tasks: list[Recurring]) -> None:
    for name, offset_ms in offsets(tasks, {task.name: 1.0 for task in tasks}, 0.0).items():
        moved = [
            Recurring(
                name=task.name,
                cost_ms=task.cost_ms,
                period_ms=task.period_ms,
                deadline_ms=task.deadline_ms,
                offset_ms=offset_ms if task.name == name else task.offset_ms,
                clock=task.clock,
            )
            for task in tasks
        ]
        assert keeps_all(moved)
