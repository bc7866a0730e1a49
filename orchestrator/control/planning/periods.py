"""Whether a node has time for all releases of periodic statements, and for all else that recurs.

The demand test of deadline placement is about one burst. Where a periodic statement runs, all that
recurs on its node is tested together (`placement.deadline.recurring`):

- A task that ends in a periodic statement has an instance for each release, which finds a burst of
  its input. Its period is on the cluster's clock: a replay that is played at 60 times its speed
  brings releases as often.
- Between releases its input changes windows. That recurs with each evaluation, and is due a period
  later, as hosts take it.
- Any other task has an instance for each burst, and evaluations between them.

Releases of statements that read the same streams follow one clock: their watermarks come together.
So offsets tell these apart, and no others. A batch is never interrupted, and standbys have some,
too: the longest batch blocks whatever is more urgent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.control.planning.task import RunningFragment
from orchestrator.control.planning.workload import FragmentWork, Workload, taken_by
from placement.deadline.recurring import ROUNDING_MS, Overrun, Recurring, offsets, overrun
from placement.errors import PlacementError
from streams.scheduling.cadence import batch_length_us

BETWEEN = " in between"
"""Ends the name of what a task does between its releases or bursts."""

LEAST_COST_MS = 1e-6
"""Of an instance whose cost is zero."""

NEVER_MS = 3_600_000.0
"""An hour: the interval of a task to which nothing is expected to come."""


@dataclass(eq=False)
class PeriodsUnattainable(PlacementError):
    """A node has no time for all that recurs there.

    Attributes
    ----------
    node
        Where.
    found
        The interval in which more is due than fits.
    blocking_ms
        The part of it that is the longest batch of others.
    offsets_ms
        Statement → OFFSET with which all would be in time, ms of event time; empty: none is known.
    """

    message = (
        "query {0.query}: on {0.node} {0.found.demand_ms:.3g} ms of work are due within "
        "{0.found.at_ms:.3g} ms"
    )
    query: str
    node: str
    found: Overrun
    blocking_ms: float
    offsets_ms: Mapping[str, float]

    def is_worse_than(self, before: PeriodsUnattainable | None) -> bool:
        """Whether more is in excess than before; None: nothing was."""
        return before is None or self.found.excess_ms > before.found.excess_ms + ROUNDING_MS


def check_periods(
    query: str,
    work: Workload,
    running: Mapping[str, RunningFragment],
    speeds: Mapping[str, float],
) -> PeriodsUnattainable | None:
    """Where a query that is to be placed makes releases late, its own or others'.

    Parameters
    ----------
    running
        All fragments that run, those of the query among them.
    speeds
        Stream from outside → event time that passes in a unit of time.
    """
    own = {each.name for each in work.of(query)}
    primaries: dict[str, list[str]] = {}
    for name in work.fragments:
        if (there := running.get(name)) is not None:
            primaries.setdefault(there.primary, []).append(name)
    for node in sorted({running[name].primary for name in own if name in running}):
        names = primaries[node]
        if all(work.fragments[name].fragment.releases is None for name in names):
            continue
        # All of them are on one node.
        chains = work.chains(names, lambda one, other: True)
        tasks = [
            each
            for chain in chains
            for each in _tasks([work.fragments[name] for name in chain], work, running, speeds)
        ]
        tightest_us = min(task.deadline_ms for task in tasks) * 1000
        blocking_ms = batch_length_us(tightest_us) / 1000
        found = overrun(tasks, blocking_ms)
        if found is None:
            continue
        # Owners write whole milliseconds of event time.
        movable = {
            task.name: 1 / _speed(work, task.name, speeds)
            for task in tasks
            if task.clock is not None and task.name in own
        }
        proposed = offsets(tasks, movable, blocking_ms)
        return PeriodsUnattainable(
            query=query,
            node=node,
            found=found,
            blocking_ms=blocking_ms,
            offsets_ms={
                name: round(ms * _speed(work, name, speeds)) for name, ms in proposed.items()
            },
        )
    return None


def _tasks(
    chain: Sequence[FragmentWork],
    work: Workload,
    running: Mapping[str, RunningFragment],
    speeds: Mapping[str, float],
) -> Iterable[Recurring]:
    """What recurs of fragments that are one task of a host."""
    last = chain[-1]
    deadline_ms = sum(running[each.name].timing.sub_deadline_ms for each in chain)
    plan, often_s = last.fragment.releases, chain[0].evaluations_s
    # An evaluation that finds nothing takes that much.
    fixed_ms = sum(each.cost.fixed_us + work.overhead_us for each in chain) / 1e3
    speed = _speed(work, last.name, speeds)
    period_ms = period_on_clock_ms(work, last.name, speeds) or _bursts_ms(chain[0], work)
    found = [_found(each, work, period_ms) for each in chain]
    yield Recurring(
        name=last.name,
        cost_ms=max(fixed_ms + sum(cost_ms for cost_ms, _ in found), LEAST_COST_MS),
        period_ms=period_ms,
        deadline_ms=deadline_ms,
        offset_ms=0.0 if plan is None else plan.offset_ms / speed,
        clock=None if plan is None else ", ".join(sorted(_entering(work, last.name))),
        importance=0 if plan is None else plan.importance,
    )
    if often_s:
        # Tuples that are found together do not come a second time.
        others_us_s = sum(
            each.cost.per_tuple_us * taken_by(each.fragment, work.rates).tuples_s * (1 - share)
            for each, (_, share) in zip(chain, found, strict=True)
        )
        yield Recurring(
            name=last.name + BETWEEN,
            cost_ms=max(fixed_ms + others_us_s / often_s / 1e3, LEAST_COST_MS),
            period_ms=1e3 / often_s,
            deadline_ms=deadline_ms if plan is None else deadline_ms + period_ms,
            importance=0 if plan is None else plan.importance,
        )


def period_on_clock_ms(work: Workload, name: str, speeds: Mapping[str, float]) -> float | None:
    """Time between two releases of a fragment on the cluster's clock; None: it is not periodic.

    Parameters
    ----------
    speeds
        As of `check_periods`.
    """
    plan = work.fragments[name].fragment.releases
    return None if plan is None else plan.period_ms / _speed(work, name, speeds)


def _bursts_ms(first: FragmentWork, work: Workload) -> float:
    """How often a burst comes, ms."""
    taken = taken_by(first.fragment, work.rates)
    often_ms = 1e3 / first.evaluations_s if first.evaluations_s else NEVER_MS
    return max(taken.burst / taken.tuples_s * 1e3, often_ms) if taken.tuples_s else often_ms


def _found(each: FragmentWork, work: Workload, period_ms: float) -> tuple[float, float]:
    """Time that the tuples take which an instance finds, ms, and the share that they are of all.

    They are a burst, but no more than come in a period.
    """
    taken = taken_by(each.fragment, work.rates)
    come = taken.tuples_s * period_ms / 1e3
    found = min(taken.burst, come)
    return each.cost.per_tuple_us * found / 1e3, found / come if come else 0.0


def _entering(work: Workload, name: str) -> set[str]:
    """The streams from outside that a fragment depends on."""
    found: set[str] = set()
    for stream in work.fragments[name].fragment.inputs:
        found |= _entering(work, stream) if stream in work.fragments else {stream}
    return found


def _speed(work: Workload, name: str, speeds: Mapping[str, float]) -> float:
    """Event time that passes for a fragment in a unit of time, at most."""
    return max((speeds.get(stream, 1.0) for stream in _entering(work, name)), default=1.0)
