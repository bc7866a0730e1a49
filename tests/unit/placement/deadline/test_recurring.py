"""The demand test of periodic and sporadic tasks."""

from __future__ import annotations

import pytest

from placement.deadline.recurring import Recurring, demand_ms, offsets, overrun


def task(
    name: str,
    cost: float,
    period: float,
    deadline: float,
    *,
    clock: str | None = None,
    offset: float = 0.0,
    importance: int = 0,
) -> Recurring:
    return Recurring(
        name=name,
        cost_ms=cost,
        period_ms=period,
        deadline_ms=deadline,
        clock=clock,
        offset_ms=offset,
        importance=importance,
    )


def test_demand_counts_the_instances_that_are_released_and_due() -> None:
    tasks = [task("a", 2, 10, 5), task("b", 3, 20, 30)]
    assert [demand_ms(tasks, at) for at in (4.9, 5, 14, 15, 30, 50)] == [0, 2, 2, 4, 9, 16]


def test_blocking_counts_in_every_interval() -> None:
    tasks = [task("a", 4, 10, 5)]
    assert overrun(tasks, 1.0) is None
    found = overrun(tasks, 1.5)
    assert found is not None
    assert (found.at_ms, found.demand_ms, found.excess_ms) == (5, 5.5, 0.5)


def test_more_than_a_processor_is_an_overrun_however_late_the_deadlines() -> None:
    tasks = [task("a", 6, 10, 1000), task("b", 5, 10, 1000)]
    found = overrun(tasks, 0.0)
    assert found is not None
    assert found.demand_ms == demand_ms(tasks, found.at_ms) > found.at_ms


def test_nothing_is_in_time_always() -> None:
    assert overrun([], 10.0) is None


def test_the_least_important_is_relieved_and_of_equals_the_one_with_most_work() -> None:
    small, large = task("small", 3, 100, 9), task("large", 7, 100, 9)
    found = overrun([small, large], 0.0)
    assert found is not None
    assert found.relieve == "large"
    valued = task("large", 7, 100, 9, importance=1)
    found = overrun([small, valued], 0.0)
    assert found is not None
    assert found.relieve == "small"


@pytest.mark.parametrize(("clock", "proposed"), [("c", {"b": 50.0}), (None, {})])
def test_an_offset_is_proposed_where_a_clock_is_shared(
    clock: str | None, proposed: dict[str, float]
) -> None:
    tasks = [task("a", 6, 100, 10, clock="c"), task("b", 6, 100, 10, clock=clock)]
    assert overrun(tasks, 1.0) is not None
    assert offsets(tasks, {"b": 1.0}, 1.0) == proposed


def test_offsets_of_many_incommensurable_periods_are_taken_to_coincide() -> None:
    tasks = [
        task(f"t{number}", 0.1, 1000.123 + number, 0.25, clock="c", offset=number)
        for number in range(3)
    ]
    assert overrun(tasks, 0.0) is not None
