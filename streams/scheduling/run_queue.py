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

*Earliest deadline first* (EDF) runs the instance with the earliest D. Among equal deadlines the
most important comes first; among equals it continues with the task that ran last. First come first
served, and *earliest release time first* (ERTF) of Kawashima and Saruwatari (pushdown aggregates,
§7.1.2), exist for comparison. Only released work is in the queue. (As printed, ERTF also has
threads that are not released yet, and picks them again and again.)

Secondaries cause work too: the tuples that a secondary has not processed when its primary dies
lengthen the recovery time (Q·p). Their instances have deadlines of their own, but consumers wait
for primaries only. Under EDF, standby work therefore runs before pending primary work on two
conditions: it is due before all of it, and all of it can still be done in time afterwards. The
queue cannot foresee the tuples that arrive while a batch runs. On a node whose primaries are
always late, standby work waits.

EDF is at its worst when not everything can be in time: it runs what is most overdue first, until
everything is late. Overdue work is therefore *deferred*: among primaries, those whose deadline has
passed wait for those that can be in time, unless these stay in time even so. Of overdue ones the
most important comes first; of equally important ones the least backlog, so that those that can
catch up soon do. Nothing is dropped, and while nothing is overdue the order is that of EDF. So that
nobody starves, what has been overdue for longest gets `FLOOR` of the time in any case. (Adaptive
batching, §3.3, drops overdue tuples. Two replicas would drop different ones; deferring changes only
the order among tasks.)

First come first served and ERTF treat primaries and secondaries alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from heapq import heapify, heappop, heappush


class Policy(Enum):
    """In which order instances run."""

    EDF = "edf"
    """Earliest deadline first; overdue work is deferred."""
    UNDEFERRED = "edf-undeferred"
    """Earliest deadline first, whatever is overdue."""
    FIFO = "fifo"
    """First come into the system, first run."""
    ERTF = "ertf"
    """Earliest release time first: as FIFO, by the arrival at the task."""


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
    importance
        Greater is more important.
    """

    task: str
    released_us: int
    deadline_us: int
    standby: bool
    cost_us: float
    importance: int = 0


FLOOR = 0.05
"""Share of the time that the longest overdue work gets while other work goes before it."""

LEAST_PAID_US = 10_000
"""How much of that time is saved up before it is given: as long as the longest batch of a host."""

MOST_REPLACED = 64
"""Instances that were replaced or removed, and that a heap may hold all the same."""


@dataclass(slots=True)
class _Urgent:
    """Waiting instances of one kind, the most urgent first.

    A heap in which instances that were replaced or removed stay until they come first: an instance
    counts only as long as the queue holds it.
    """

    waiting: Mapping[str, Instance]
    _added: int = 0
    _heap: list[tuple[int, int, int, int, int, Instance]] = field(
        default_factory=list[tuple[int, int, int, int, int, Instance]]
    )

    def add(self, instance: Instance, order: int) -> None:
        """Add an instance of a task that came as the `order`-th."""
        if len(self._heap) > MOST_REPLACED + 2 * len(self.waiting):
            self._heap = [each for each in self._heap if self._waits(each[-1])]
            heapify(self._heap)
        self._added += 1
        key = (instance.deadline_us, -instance.importance)
        key = (*key, instance.released_us, order, self._added)
        heappush(self._heap, (*key, instance))

    @property
    def first(self) -> Instance | None:
        """The one with the earliest deadline; of equals the most important, the first released, the
        first come."""
        heap = self._heap
        while heap:
            if self._waits(heap[0][-1]):
                return heap[0][-1]
            heappop(heap)
        return None

    def _waits(self, instance: Instance) -> bool:
        return self.waiting.get(instance.task) is instance


class RunQueue:
    """The pending instances, at most one for each task.

    Choosing one costs little however many wait: a host may have a hundred tasks, which often become
    ready at the same moment.

    Parameters
    ----------
    policy
        The order in which they run.
    defers
        Whether overdue work is deferred; False is for comparison.
    """

    def __init__(self, policy: Policy, *, defers: bool = True) -> None:
        self._policy, self._defers = policy, defers
        self._waiting: dict[str, Instance] = {}
        self._last = ""
        self._orders: dict[str, int] = {}
        self._came = 0
        self._primaries = _Urgent(self._waiting)
        self._standbys = _Urgent(self._waiting)
        self._popped_us = 0
        self._holds_back = self._pays = False
        """Whether what runs now holds the longest overdue work back, or is that, and owed time."""
        self._owed_us = 0.0
        self._latest_us: float | None = None
        """Until when all primaries may wait and still be in time; None: not known any more."""

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
        if waiting is None:
            self._came += 1
            self._orders[instance.task] = self._came
        else:
            instance = replace(
                instance,
                released_us=min(instance.released_us, waiting.released_us),
                deadline_us=min(instance.deadline_us, waiting.deadline_us),
            )
            if instance == waiting:
                return
        self._waiting[instance.task] = instance
        if self._policy is Policy.EDF:
            urgent = self._standbys if instance.standby else self._primaries
            urgent.add(instance, self._orders[instance.task])
            if not instance.standby or (waiting is not None and not waiting.standby):
                self._latest_us = None

    def pop(self, now_us: int) -> Instance | None:
        """Remove and return the instance to run now; None if the queue is empty."""
        if not self._waiting:
            return None
        self._account(now_us)
        if self._policy is Policy.EDF:
            chosen = self._earliest_deadline(now_us)
        else:
            # Of equals, the task that ran last is finished first.
            chosen = min(self._waiting.values(), key=self._age)
        self._last = chosen.task
        self.discard(chosen.task)
        return chosen

    def discard(self, task: str) -> None:
        """Remove the pending instance of a task, if there is one."""
        removed = self._waiting.pop(task, None)
        if removed is not None and not removed.standby:
            self._latest_us = None

    def _earliest_deadline(self, now_us: int) -> Instance:
        first, standby = self._primaries.first, self._standbys.first
        if first is None:
            assert standby is not None, "what waits is a primary or a standby"
            return self._continued(standby)
        if self._defers and first.deadline_us < now_us:
            return self._deferring(now_us)
        if standby is not None and standby.deadline_us < first.deadline_us:
            slack_us = self._slack_us(now_us)
            standby = self._continued(standby)
            if standby.cost_us <= slack_us:
                return standby
            fitting = [
                each
                for each in self._waiting.values()
                if each.standby
                and each.deadline_us < first.deadline_us
                and each.cost_us <= slack_us
            ]
            if fitting:
                return min(fitting, key=self._urgency)
        return self._continued(first)

    def _deferring(self, now_us: int) -> Instance:
        """Of primaries, some of which are overdue: the one to run. Standbys wait meanwhile."""
        primaries = [each for each in self._waiting.values() if not each.standby]
        in_time = [each for each in primaries if each.deadline_us >= now_us]
        overdue = [each for each in primaries if each.deadline_us < now_us]
        longest = min(overdue, key=self._urgency)
        if self._owed_us >= LEAST_PAID_US:
            self._pays = True
            return longest
        least = min(overdue, key=lambda one: (-one.importance, one.cost_us, *self._urgency(one)))
        chosen = least
        if least.cost_us > _latest_us(in_time) - now_us:
            chosen = min(in_time, key=self._urgency)
        self._holds_back = chosen is not longest
        return chosen

    def _account(self, now_us: int) -> None:
        """Note how long what was chosen last has run, and what overdue work is owed by now."""
        ran_us, self._popped_us = now_us - self._popped_us, now_us
        if self._holds_back:
            self._owed_us += FLOOR * ran_us
        elif self._pays:
            self._owed_us -= ran_us
        self._holds_back = self._pays = False

    def _continued(self, first: Instance) -> Instance:
        """The instance of the task that ran last, if it is as urgent as the first of its kind."""
        last = self._waiting.get(self._last)
        if last is None or last.standby is not first.standby:
            return first
        as_urgent = (last.deadline_us, last.importance) == (first.deadline_us, first.importance)
        return last if as_urgent else first

    def _slack_us(self, now_us: int) -> float:
        """The longest delay after which all primaries are still in time; negative if one is late
        anyway."""
        if self._latest_us is None:
            self._latest_us = _latest_us(one for one in self._waiting.values() if not one.standby)
        return self._latest_us - now_us

    def _age(self, instance: Instance) -> tuple[int, bool]:
        """Sort key: the instance that was released first is least."""
        return instance.released_us, instance.task != self._last

    def _urgency(self, instance: Instance) -> tuple[int, int, bool, int]:
        """Sort key: the instance to run first is least; equals are in order of arrival."""
        key = instance.deadline_us, -instance.importance
        return (*key, instance.task != self._last, instance.released_us)


def _latest_us(instances: Iterable[Instance]) -> float:
    """When the first of some instances must begin at the latest, so that all are in time."""
    latest_us, takes_us = math.inf, 0.0
    for instance in sorted(instances, key=lambda one: one.deadline_us):
        takes_us += instance.cost_us
        latest_us = min(latest_us, instance.deadline_us - takes_us)
    return latest_us
