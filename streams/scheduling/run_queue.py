"""Chooses the task that a node runs next.

A node is a single processor. A task runs one batch at a time and is not interrupted. The pending
tuples of a task form an *instance* of it, (p, T) in Yamaguchi et al. (deadline placement, §5.4).
Its absolute deadline is

    D(p,T) = r(p,T) + d_T                                                             (12)

===========  ==============  ===========================================================
symbol       name here       meaning
===========  ==============  ===========================================================
r(p,T)       released_us     when the first of its tuples arrived, µs on the cluster's clock
d_T          (the caller's)  sub-deadline of the task (`tasks.Task.sub_deadline_ms`)
D(p,T)       deadline_us     by when it must be done
===========  ==============  ===========================================================

*Earliest deadline first* (EDF) runs the instance with the earliest D. Among equal deadlines it
continues with the task that ran last. First come first served and round robin exist for
comparison.

Secondaries cause work too: the tuples that a secondary has not processed when its primary dies
lengthen the recovery time (Q·p). Their instances have deadlines of their own, but consumers wait
for primaries only. Under EDF, standby work therefore runs before pending primary work on two
conditions: it is due before all of it, and all of it can still be done in time afterwards. The
queue cannot foresee the tuples that arrive while a batch runs. On a node whose primaries are
always late, standby work waits.

The other two policies treat primaries and secondaries alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class Policy(Enum):
    """In which order instances run."""

    EDF = "edf"
    """Earliest deadline first."""
    FIFO = "fifo"
    """First released, first run."""
    ROUND_ROBIN = "round-robin"
    """By the tasks' names, over and over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The pending work of a task.

    Attributes
    ----------
    task
        Its name.
    released_us
        r: when the oldest of its tuples arrived, µs.
    deadline_us
        D: when it must be done, µs.
    standby
        Whether this is a secondary's work, for whose results no consumer waits.
    cost_us
        Expected duration of all pending work of the task, µs, ≥ 0.
    """

    task: str
    released_us: int
    deadline_us: int
    standby: bool
    cost_us: float


class RunQueue:
    """The pending instances, at most one for each task.

    Parameters
    ----------
    policy
        The order in which they run.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: dict[str, Instance] = {}
        self._last = ""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with a pending instance, in order of arrival."""
        return tuple(self._waiting)

    def put(self, instance: Instance) -> None:
        """Add an instance.

        If its task has a pending instance, the two merge: the result has the earlier release, the
        earlier deadline and the old place in the queue, and the new cost and kind.
        """
        waiting = self._waiting.get(instance.task)
        if waiting is not None:
            instance = replace(
                instance,
                released_us=min(instance.released_us, waiting.released_us),
                deadline_us=min(instance.deadline_us, waiting.deadline_us),
            )
        self._waiting[instance.task] = instance

    def pop(self, now_us: int) -> Instance | None:
        """Remove and return the instance to run now; None if the queue is empty."""
        if not self._waiting:
            return None
        match self._policy:
            case Policy.EDF:
                chosen = self._earliest_deadline(now_us)
            case Policy.FIFO:
                # Of equals, the task that ran last is finished first.
                chosen = min(self._waiting.values(), key=self._age)
            case Policy.ROUND_ROBIN:
                after = [task for task in self._waiting if task > self._last]
                chosen = self._waiting[min(after or self._waiting)]
        self._last = chosen.task
        del self._waiting[chosen.task]
        return chosen

    def discard(self, task: str) -> None:
        """Remove the pending instance of a task, if there is one."""
        self._waiting.pop(task, None)

    def _earliest_deadline(self, now_us: int) -> Instance:
        primaries = [one for one in self._waiting.values() if not one.standby]
        standbys = [one for one in self._waiting.values() if one.standby]
        if not primaries:
            return min(standbys, key=self._urgency)
        first = min(primaries, key=self._urgency)
        due_before = [one for one in standbys if one.deadline_us < first.deadline_us]
        if due_before:
            slack_us = _slack_us(primaries, now_us)
            fitting = [one for one in due_before if one.cost_us <= slack_us]
            if fitting:
                return min(fitting, key=self._urgency)
        return first

    def _age(self, instance: Instance) -> tuple[int, bool]:
        """Sort key: the instance that was released first is least."""
        return instance.released_us, instance.task != self._last

    def _urgency(self, instance: Instance) -> tuple[int, bool, int]:
        """Sort key: the instance to run first is least; equals are in order of arrival."""
        return instance.deadline_us, instance.task != self._last, instance.released_us


def _slack_us(instances: Iterable[Instance], now_us: int) -> float:
    """The longest delay after which all are still in time; negative if one is late anyway."""
    slack_us, done_us = math.inf, float(now_us)
    for instance in sorted(instances, key=lambda one: one.deadline_us):
        done_us += instance.cost_us
        slack_us = min(slack_us, instance.deadline_us - done_us)
    return slack_us
