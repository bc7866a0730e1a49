"""Which task a node runs next.

A node is a single processor; a task runs a batch at a time and is not interrupted. What has come
for a task is an *instance* of it, (p, T) in deadline placement, §5.4: the tuples that wait, since
when, and until when they must be done. Its absolute deadline is

    D(p,T) = r(p,T) + d_T                                                             (12)

===========  ==============  ===========================================================
symbol       name here       meaning
===========  ==============  ===========================================================
r(p,T)       released_us     when the instance came to be, µs on the cluster's clock
d_T          (the caller's)  sub-deadline of the task (`tasks.Task.sub_deadline_ms`)
D(p,T)       deadline_us     when it must be done
===========  ==============  ===========================================================

*Earliest deadline first* runs the instance with the earliest D, and goes on with the task that ran
last as long as no other's is earlier. First come first served and round robin are there to be
compared with it.

The copies of fragments that stand by are work too: what they have not processed when their primary
dies is added to the recovery time (Q·p). Their instances have deadlines of their own, but results
that somebody waits for come first. So, under earliest deadline first, standby work goes before
waiting primaries only if it is due before any of them, and if all of them are still done in time
after it. Work that is not interrupted holds up what comes while it runs, whoever's it is; nothing
is known of that here. On a node on which primaries are late all the time, standby work waits.

Under the other two policies it makes no difference whose work it is.
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
    """What a task has to do.

    Attributes
    ----------
    task
        Its name.
    released_us
        r: when the oldest of its tuples came, µs.
    deadline_us
        D: when it must be done, µs.
    standby
        Whether nobody waits for what comes of it.
    cost_us
        How long all that the task has waiting is expected to take, µs, ≥ 0.
    """

    task: str
    released_us: int
    deadline_us: int
    standby: bool
    cost_us: float


class RunQueue:
    """Instances that wait, at most one of each task.

    Parameters
    ----------
    policy
        Which of them runs next.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: dict[str, Instance] = {}
        self._last = ""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks that wait, in the order in which they came."""
        return tuple(self._waiting)

    def put(self, instance: Instance) -> None:
        """Let an instance wait.

        If its task waits already, the two are one: it has the earlier release and the earlier
        deadline, and keeps its place; cost and kind are what was said last.
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
        """Take out what runs now; None if nothing waits."""
        if not self._waiting:
            return None
        match self._policy:
            case Policy.EDF:
                chosen = self._earliest_deadline(now_us)
            case Policy.FIFO:
                # What has begun is finished before its equals, which are in order of arrival.
                chosen = min(self._waiting.values(), key=self._age)
            case Policy.ROUND_ROBIN:
                after = [task for task in self._waiting if task > self._last]
                chosen = self._waiting[min(after or self._waiting)]
        self._last = chosen.task
        del self._waiting[chosen.task]
        return chosen

    def discard(self, task: str) -> None:
        """Forget what a task has waiting, if anything."""
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
        """Least for what came first."""
        return instance.released_us, instance.task != self._last

    def _urgency(self, instance: Instance) -> tuple[int, bool, int]:
        """Least for what runs first; equals are in order of arrival."""
        return instance.deadline_us, instance.task != self._last, instance.released_us


def _slack_us(instances: Iterable[Instance], now_us: int) -> float:
    """By how much all may be put off and still be in time; negative if one is late anyway."""
    slack_us, done_us = math.inf, float(now_us)
    for instance in sorted(instances, key=lambda one: one.deadline_us):
        done_us += instance.cost_us
        slack_us = min(slack_us, instance.deadline_us - done_us)
    return slack_us
