"""The order in which a node runs what waits."""

from __future__ import annotations

from collections import Counter

import pytest

from streams.scheduling.run_queue import FLOOR, Instance, Policy, RunQueue


def instance(
    task: str,
    *,
    released: int = 0,
    deadline: int = 100,
    standby: bool = False,
    cost: float = 1,
    importance: int = 0,
) -> Instance:
    return Instance(
        task=task,
        released_us=released,
        deadline_us=deadline,
        standby=standby,
        cost_us=cost,
        importance=importance,
    )


def queue_of(policy: Policy, *instances: Instance) -> RunQueue:
    queue = RunQueue(policy)
    for one in instances:
        queue.put(one)
    return queue


def order(queue: RunQueue, now_us: int = 0) -> list[str]:
    """Tasks as they run if each takes what it costs."""
    tasks: list[str] = []
    while (running := queue.pop(now_us)) is not None:
        tasks.append(running.task)
        now_us += round(running.cost_us)
    return tasks


@pytest.mark.parametrize("policy", Policy)
def test_empty_queue_gives_nothing(policy: Policy) -> None:
    queue = RunQueue(policy)
    assert queue.pop(0) is None
    assert len(queue) == 0
    assert queue.tasks == ()


def test_edf_runs_the_earliest_deadline_first() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("a", deadline=30),
        instance("b", deadline=10, released=5),
        instance("c", deadline=20),
    )
    assert queue.tasks == ("a", "b", "c")
    assert order(queue) == ["b", "c", "a"]


def test_fifo_runs_the_earliest_release_first_and_of_equals_the_first_to_come() -> None:
    queue = queue_of(
        Policy.FIFO,
        instance("d", released=3, deadline=1),
        instance("b", released=2),
        instance("a", released=2),
        instance("c", released=1, deadline=90),
    )
    assert order(queue) == ["c", "b", "a", "d"]


def test_ertf_runs_the_earliest_release_first_whatever_is_due() -> None:
    queue = queue_of(
        Policy.ERTF,
        instance("loose", released=1, deadline=90),
        instance("tight", released=2, deadline=3, importance=9),
    )
    assert order(queue) == ["loose", "tight"]


def test_importance_decides_between_equal_deadlines_and_among_overdue_work_alone() -> None:
    some = (instance("a", deadline=20), instance("b", deadline=20, importance=1))
    assert order(queue_of(Policy.EDF, *some)) == ["b", "a"]
    # Whatever can be in time comes first, however unimportant.
    due = instance("c", deadline=19)
    assert order(queue_of(Policy.EDF, *some, due)) == ["c", "b", "a"]
    late = (
        instance("least", deadline=1, cost=2),
        instance("important", deadline=2, cost=9, importance=2),
        instance("due", deadline=30, cost=30),
    )
    assert order(queue_of(Policy.EDF, *late), 5) == ["due", "important", "least"]


def test_a_more_important_task_takes_over_from_an_equally_urgent_one() -> None:
    queue = queue_of(Policy.EDF, instance("a", deadline=20))
    assert queue.pop(0) is not None
    queue.put(instance("a", deadline=20))
    queue.put(instance("b", deadline=20, importance=1))
    assert order(queue) == ["b", "a"]


def test_second_instance_of_a_waiting_task_joins_the_first() -> None:
    queue = queue_of(
        Policy.FIFO,
        instance("a", released=5, deadline=50, cost=1),
        instance("b", released=5),
        instance("a", released=9, deadline=40, standby=True, cost=3),
    )
    assert len(queue) == 2
    assert queue.tasks == ("a", "b")
    assert queue.pop(10) == instance("a", released=5, deadline=40, standby=True, cost=3)


def test_task_that_ran_last_goes_on_while_no_other_is_due_before_it() -> None:
    queue = queue_of(Policy.EDF, instance("a", deadline=10), instance("b", deadline=20))
    assert order(queue) == ["a", "b"]
    queue.put(instance("a", deadline=20, released=0))
    queue.put(instance("b", deadline=20, released=7))
    assert order(queue) == ["b", "a"]
    queue.put(instance("a", deadline=20))
    queue.put(instance("b", deadline=19))
    assert order(queue) == ["b", "a"]


def test_of_equally_urgent_tasks_the_one_that_has_waited_longer_runs() -> None:
    queue = queue_of(Policy.EDF, instance("a", released=2), instance("b", released=1))
    assert order(queue) == ["b", "a"]


def test_discarded_task_does_not_run() -> None:
    queue = queue_of(Policy.EDF, instance("a"), instance("b"))
    queue.discard("a")
    queue.discard("unknown")
    assert order(queue) == ["b"]


def test_standby_runs_by_edf_when_no_primary_waits() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("s", deadline=30, standby=True),
        instance("t", deadline=20, standby=True),
    )
    assert order(queue) == ["t", "s"]


def test_standby_goes_first_if_it_is_due_first_and_primaries_have_the_slack() -> None:
    primaries = (instance("a", deadline=10, cost=4), instance("b", deadline=12, cost=5))
    fits = queue_of(Policy.EDF, *primaries, instance("s", deadline=9, standby=True, cost=3))
    assert order(fits) == ["s", "a", "b"]
    hinders = queue_of(Policy.EDF, *primaries, instance("s", deadline=9, standby=True, cost=3.5))
    assert order(hinders) == ["a", "b", "s"]


def test_standby_that_is_not_due_first_waits_however_much_slack_there_is() -> None:
    queue = queue_of(
        Policy.EDF, instance("a", deadline=100), instance("s", deadline=100, standby=True)
    )
    assert order(queue) == ["a", "s"]


def test_standby_waits_for_a_primary_that_is_late_anyway() -> None:
    queue = queue_of(
        Policy.EDF, instance("a", deadline=10), instance("s", deadline=5, standby=True, cost=0.5)
    )
    assert order(queue, now_us=20) == ["a", "s"]


def test_primary_that_comes_takes_slack_from_standbys() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("p", cost=10),
        instance("s", deadline=50, standby=True, cost=20),
    )
    running = queue.pop(0)
    assert running is not None
    assert running.task == "s"
    queue.put(instance("q", cost=85))
    queue.put(running)
    assert order(queue) == ["p", "q", "s"]


def test_primary_that_is_done_gives_slack_to_standbys() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("p", cost=10),
        instance("q", cost=70),
        instance("s", deadline=50, standby=True, cost=25),
    )
    running = queue.pop(0)
    assert running is not None
    assert running.task == "p"
    assert order(queue) == ["s", "q"]


def test_small_standby_goes_first_where_a_more_urgent_one_does_not_fit() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("a", deadline=10, cost=5),
        instance("big", deadline=6, standby=True, cost=9),
        instance("small", deadline=8, standby=True, cost=2),
    )
    assert order(queue) == ["small", "a", "big"]


def test_overdue_work_waits_for_what_can_be_in_time_and_then_the_least_comes_first() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("most", deadline=1, cost=50),
        instance("some", deadline=5, cost=8),
        instance("little", deadline=8, cost=7),
        instance("x", deadline=20, cost=4),
        instance("y", deadline=26, cost=10),
    )
    assert order(queue, now_us=10) == ["x", "y", "little", "some", "most"]


def test_overdue_work_goes_first_where_all_others_are_in_time_even_so() -> None:
    queue = queue_of(
        Policy.EDF,
        instance("late", deadline=5, cost=8),
        instance("x", deadline=30, cost=4),
        instance("y", deadline=35, cost=10),
    )
    assert order(queue, now_us=10) == ["late", "x", "y"]


def test_overdue_work_gets_its_share_while_others_come_without_end() -> None:
    queue, ran_us = RunQueue(Policy.EDF), {"late": 0, "new": 0}
    queue.put(instance("late", released=-1000, deadline=-500, cost=10**9))
    now_us = 0
    while now_us < 10_000_000:
        queue.put(instance("new", released=now_us, deadline=now_us + 10_000, cost=9_000))
        chosen = queue.pop(now_us)
        assert chosen is not None
        took_us = 10_000 if chosen.task == "late" else 9_000
        ran_us[chosen.task] += took_us
        now_us += took_us
        if chosen.task == "late":
            queue.put(chosen)
    assert ran_us["late"] / now_us == pytest.approx(FLOOR, rel=0.1)


def test_no_overdue_work_starves_beside_less_of_it_or_more_important_one() -> None:
    queue, now_us, ran = RunQueue(Policy.EDF), 1_000_000, Counter[str]()
    runs_us = {"small": 1_000, "large": 10_000}
    begun_us = dict.fromkeys(runs_us, 0)
    for _ in range(10_000):
        for task, cost_us in runs_us.items():
            queue.put(
                Instance(
                    task=task,
                    released_us=begun_us[task],
                    deadline_us=begun_us[task],
                    standby=False,
                    cost_us=cost_us,
                    importance=int(task == "small"),
                )
            )
        chosen = queue.pop(now_us)
        assert chosen is not None
        ran[chosen.task] += runs_us[chosen.task]
        begun_us[chosen.task] = now_us
        now_us += runs_us[chosen.task]
    assert ran["large"] / ran.total() == pytest.approx(FLOOR, rel=0.2)
