"""The demand test of EDF for work that recurs: periodic and sporadic tasks on one node.

(6) is about one burst (`placement.deadline.demand`). Tasks that come again, each with a period and
a deadline of its own, are all in time under EDF if in every interval the work that has to be done
within it fits:

    h(t) + B ≤ t    for all t > 0,        h(t) = Σ_i max(0, ⌊(t − D_i)/P_i⌋ + 1)·C_i

==========  =============  ==================================================================
symbol      name here      meaning
==========  =============  ==================================================================
C_i         cost_ms        processing time of an instance, with what dispatching it takes, ms
P_i         period_ms      least time between two instances, ms
D_i         deadline_ms    from the release of an instance until it must be done, ms
O_i         offset_ms      releases are at O_i + k·P_i of a clock that several tasks share, ms
B           blocking_ms    the longest batch: none is interrupted by what is more urgent, ms
h(t)        demand_ms      work that is released and due within some interval of length t, ms
==========  =============  ==================================================================

h assumes that all tasks are released together, which is the worst case for sporadic tasks, and for
periodic ones with one offset. QPA (*quick processor-demand analysis*) checks h at few of the
deadlines: from the longest interval that matters downwards, it jumps from t to h(t) + B, since
there is no overrun in between.

Tasks with offsets on one clock are never released together, unless their offsets say so. If h finds
an overrun, intervals that begin at releases of such tasks are looked at one by one; all other tasks
are released at their beginning.

RTSTREAM, to which *pushdown aggregates* ascribes admission control, does not say how it admits.

References
----------
Baruah, Rosier, Howell, *Algorithms and complexity concerning the preemptive scheduling of periodic,
real-time tasks on one processor*, Real-Time Systems 2, 1990. Zhang and Burns, *Schedulability
analysis for real-time systems with EDF scheduling*, IEEE Transactions on Computers 58, 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

ROUNDING_MS = 1e-6
"""Sums of durations differ by less, whatever their order."""

FULL = 1 - 1e-9
"""Utilisation from which on a node has no time to spare, whatever the deadlines."""

MOST_LOOKED_AT = 200_000
"""Most deadlines of intervals that are looked at one by one."""

MOST_STEPS = 10_000
"""Most steps of an iteration; more are needed only next to a utilisation of 1."""

MOST_PARTS = 10_000
"""Into how many parts of a millisecond a period is rounded at most."""

TRIED_OFFSETS = 16
"""Into how many parts a period is divided for proposals of offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """Work that comes again and again.

    Attributes
    ----------
    name
        Of the work.
    cost_ms, period_ms, deadline_ms
        C, P, D; > 0.
    offset_ms, clock
        O, and of which clock it is; without a clock, releases may be at any time.
    importance
        The less important is relieved first.
    """

    name: str
    cost_ms: float
    period_ms: float
    deadline_ms: float
    offset_ms: float = 0.0
    clock: str | None = None
    importance: int = 0

    def due_ms(self, within_ms: float) -> float:
        """What has to be done of it within an interval that begins with a release, ms."""
        if within_ms < self.deadline_ms - ROUNDING_MS:
            return 0.0
        instances = math.floor((within_ms - self.deadline_ms + ROUNDING_MS) / self.period_ms) + 1
        return instances * self.cost_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """An interval in which more has to be done than fits.

    Attributes
    ----------
    at_ms
        t: its length, ms; by then the work must be done if all is released at 0.
    demand_ms
        h(t) + B, ms.
    relieve
        The task to relieve: of the least important ones, that with most work in the interval.
    """

    at_ms: float
    demand_ms: float
    relieve: str

    @property
    def excess_ms(self) -> float:
        """By how much the demand exceeds the interval, ms."""
        return self.demand_ms - self.at_ms


def demand_ms(tasks: Sequence[Recurring], within_ms: float) -> float:
    """h(t), if all tasks are released together."""
    return sum(task.due_ms(within_ms) for task in tasks)


def overrun(tasks: Sequence[Recurring], blocking_ms: float) -> Overrun | None:
    """An interval in which a node cannot do what is due; None: all is in time.

    Parameters
    ----------
    tasks
        All that recurs on the node.
    blocking_ms
        B.

    Examples
    --------
    >>> a, b = (Recurring(name=n, cost_ms=4, period_ms=10, deadline_ms=5) for n in "ab")
    >>> overrun([a], 1)
    >>> found = overrun([a, b], 1)
    >>> found.at_ms, found.demand_ms
    (5.0, 9.0)
    """
    found = _together(tasks, blocking_ms)
    if found is None:
        return None
    for clock in sorted({task.clock for task in tasks if task.clock is not None}):
        if _apart(tasks, clock, blocking_ms):
            return None
    return found


def offsets(
    tasks: Sequence[Recurring], steps_ms: Mapping[str, float], blocking_ms: float
) -> dict[str, float]:
    """An offset with which one of some tasks lets all be in time; empty: none was found.

    Parameters
    ----------
    steps_ms
        The tasks whose offset may be chosen, and of what it has to be a multiple, ms; > 0.
    """
    for name, step_ms in steps_ms.items():
        (own,) = [task for task in tasks if task.name == name and task.clock is not None] or [None]
        if own is None:
            continue
        others = [task for task in tasks if task is not own]
        # Halves first, then quarters: far from the releases that are there.
        parts = sorted(range(1, TRIED_OFFSETS), key=lambda k: (-math.gcd(k, TRIED_OFFSETS), k))
        for part in parts:
            offset_ms = (own.offset_ms + part * own.period_ms / TRIED_OFFSETS) % own.period_ms
            moved = replace(own, offset_ms=math.floor(offset_ms / step_ms) * step_ms)
            if overrun([*others, moved], blocking_ms) is None:
                return {name: moved.offset_ms}
    return {}


def _together(tasks: Sequence[Recurring], blocking_ms: float) -> Overrun | None:
    """QPA: an overrun if all tasks are released together."""
    if not tasks:
        return None
    least_ms = min(task.deadline_ms for task in tasks)
    at_ms = _longest_ms(tasks, blocking_ms)
    if at_ms is None:
        # More comes than the node can do: some interval is long enough to show it. At exactly as
        # much as it can do, each batch that blocks others makes up for nothing any more.
        first_ms = at_ms = max(task.deadline_ms + task.period_ms for task in tasks)
        for _ in range(40):
            if (demand := demand_ms(tasks, at_ms) + blocking_ms) > at_ms + ROUNDING_MS:
                return _overrun(tasks, at_ms, demand)
            at_ms *= 2
        return _overrun(tasks, first_ms, first_ms + blocking_ms)
    at_ms = _last_due_ms(tasks, at_ms + 2 * ROUNDING_MS)
    while at_ms >= least_ms:
        demand = demand_ms(tasks, at_ms) + blocking_ms
        if demand > at_ms + ROUNDING_MS:
            return _overrun(tasks, at_ms, demand)
        at_ms = min(_last_due_ms(tasks, at_ms), max(demand, least_ms))
    return None


def _longest_ms(tasks: Sequence[Recurring], blocking_ms: float) -> float | None:
    """The longest interval that matters; None: more comes than the node can do.

    An interval in which the node is never idle, and one from which on h(t) + B ≤ t by the tasks'
    utilisation: no overrun is longer than the shorter of the two.
    """
    used = sum(task.cost_ms / task.period_ms for task in tasks)
    if used >= FULL:
        return None
    late_ms = sum(
        max(task.period_ms - task.deadline_ms, 0.0) * task.cost_ms / task.period_ms
        for task in tasks
    )
    by_use_ms = max(max(task.deadline_ms for task in tasks), (late_ms + blocking_ms) / (1 - used))
    busy_ms = blocking_ms + sum(task.cost_ms for task in tasks)
    for _ in range(MOST_STEPS):
        longer_ms = blocking_ms + sum(
            math.ceil((busy_ms - ROUNDING_MS) / task.period_ms) * task.cost_ms for task in tasks
        )
        if longer_ms <= busy_ms + ROUNDING_MS:
            return min(by_use_ms, max(longer_ms, max(task.deadline_ms for task in tasks)))
        busy_ms = longer_ms
        if busy_ms > by_use_ms:
            break
    return by_use_ms


def _last_due_ms(tasks: Sequence[Recurring], before_ms: float) -> float:
    """The last deadline before the end of an interval; 0 if there is none."""
    found = 0.0
    for task in tasks:
        left_ms = before_ms - ROUNDING_MS - task.deadline_ms
        if left_ms > 0:
            instances = math.ceil(left_ms / task.period_ms - 1e-12) - 1
            found = max(found, task.deadline_ms + max(instances, 0) * task.period_ms)
    return found


def _overrun(tasks: Sequence[Recurring], at_ms: float, demand: float) -> Overrun:
    due = [task for task in tasks if task.due_ms(at_ms) > 0] or list(tasks)
    relieve = min(due, key=lambda task: (task.importance, -task.due_ms(at_ms), task.name))
    return Overrun(at_ms=at_ms, demand_ms=demand, relieve=relieve.name)


def _apart(tasks: Sequence[Recurring], clock: str, blocking_ms: float) -> bool:
    """Whether all is in time, if tasks of one clock are released as their offsets say.

    False as well if there are too many intervals to look at.
    """
    offset = [task for task in tasks if task.clock == clock]
    others = [task for task in tasks if task.clock != clock]
    longest_ms = _longest_ms(tasks, blocking_ms)
    if longest_ms is None or not _looked_at(offset, others, longest_ms):
        return False
    for begin_ms in _releases(offset):
        # Work of the clock that is released in the interval, by when it is due.
        due = sorted(
            (release_ms + task.deadline_ms - begin_ms, task.cost_ms)
            for task in offset
            for release_ms in _from(task, begin_ms, longest_ms)
        )
        ends = {end_ms for end_ms, _ in due}
        for task in others:
            end_ms = task.deadline_ms
            while end_ms <= longest_ms + ROUNDING_MS:
                ends.add(end_ms)
                end_ms += task.period_ms
        done_ms, place = 0.0, 0
        for end_ms in sorted(ends):
            if end_ms > longest_ms + ROUNDING_MS:
                break
            while place < len(due) and due[place][0] <= end_ms + ROUNDING_MS:
                done_ms += due[place][1]
                place += 1
            if done_ms + demand_ms(others, end_ms) + blocking_ms > end_ms + ROUNDING_MS:
                return False
    return True


def _hyperperiod_ms(tasks: Sequence[Recurring]) -> float:
    """After how long releases repeat. Periods are fractions: a replay at 60 times its speed has
    thirds of a millisecond."""
    least = Fraction(1, MOST_PARTS)
    periods = [max(Fraction(task.period_ms).limit_denominator(MOST_PARTS), least) for task in tasks]
    parts = math.lcm(*(period.denominator for period in periods))
    return math.lcm(*(int(period * parts) for period in periods)) / parts


def _looked_at(offset: Sequence[Recurring], others: Sequence[Recurring], longest_ms: float) -> bool:
    """Whether there are few enough deadlines to look at."""
    begins = sum(_hyperperiod_ms(offset) / task.period_ms for task in offset)
    ends = sum(longest_ms / task.period_ms + 1 for task in (*offset, *others))
    return begins * ends <= MOST_LOOKED_AT


def _releases(tasks: Sequence[Recurring]) -> list[float]:
    """All releases within a hyperperiod."""
    length_ms = _hyperperiod_ms(tasks)
    found = {
        round(task.offset_ms % task.period_ms + k * task.period_ms, 6)
        for task in tasks
        for k in range(round(length_ms / task.period_ms))
    }
    return sorted(found)


def _from(task: Recurring, begin_ms: float, longest_ms: float) -> Iterator[float]:
    """The releases of a task within an interval."""
    first = math.ceil((begin_ms - task.offset_ms) / task.period_ms - 1e-9)
    release_ms = task.offset_ms + first * task.period_ms
    while release_ms + task.deadline_ms <= begin_ms + longest_ms + ROUNDING_MS:
        yield release_ms
        release_ms += task.period_ms
