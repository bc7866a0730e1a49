"""Whether a fragment that runs may run on other nodes, and by when it must be done there.

A move is refused if a promise would be broken by it: a deadline, a recovery bound, the demand test
of sub-deadlines, the limit of a node or machine, or the nodes that a manifest allows. A promise
that is broken already does not stand in the way of a move that makes it no worse.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import msgspec

from orchestrator.control.planning.feeding import fed_timing
from orchestrator.control.planning.periods import PeriodsUnattainable
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.replicas import standby_lag_ms
from orchestrator.control.planning.sub_deadlines import (
    DeadlineTask,
    SubDeadlines,
    deadline_task,
    kept_by_cheapest,
    other_primaries,
)
from orchestrator.control.planning.task import QueryTask, RunningFragment
from orchestrator.control.planning.utilisation import overload
from placement.errors import PlacementError
from placement.paths import way
from placement.rebalancing.moves import Reason
from placement.records import Plan, Recovery, Secondary

WORSE_MS = 1.0
"""By how much a figure that is over its limit may grow: latencies are measured all the time."""

WORSE_CORES = 0.05
"""The same of load, which varies by as much when it is measured. On a machine at its limit, a move
within it adds only what must stay free for a takeover, if replicas come together that were apart:
about this much a fragment."""

TIGHTER = 0.01
"""Share by which another fragment's sub-deadline must shrink to be written: see `WORSE_MS`."""


@dataclass(eq=False)
class MoveRefused(PlacementError):
    """A replica may not be where it is wanted.

    Attributes
    ----------
    reason
        The binding constraint, with its figures.
    kind
        The same in a word.
    """

    message = "{0.fragment}: {0.reason}"
    fragment: str
    reason: str
    kind: Reason

    @property
    def by_latency(self) -> bool:
        """Whether latencies speak against it."""
        return self.kind in (Reason.DEADLINE, Reason.RECOVERY_BOUND)

    @property
    def by_load(self) -> bool:
        """Whether it is about how busy a node or machine is."""
        return self.kind is Reason.CAPACITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """A fragment on its new nodes.

    Attributes
    ----------
    before, after
        Figures of its query and of those that read its stream.
    """

    before: tuple[Plan, ...]
    after: tuple[Plan, ...]


def relocate(planning: Planning, key: str, primary: str, secondary: str) -> Relocation:
    """Have a fragment run on these nodes, and note that in the planning problem.

    Parameters
    ----------
    key
        `<query>.<fragment>`, which runs.

    Raises
    ------
    PlacementError, InvalidQuery
        It may not; the planning problem is as before.
    """
    record = planning.fragments[key]
    name, running = record.fragment, dict(planning.running)
    absent = [work.name for work in planning.work.of(record.query) if work.name not in running]
    if absent:
        raise MoveRefused(key, f"{absent[0]} runs nowhere at present", Reason.UNPROTECTED)
    _check_nodes(planning, key, running[name], primary, secondary)
    queries = [record.query, *_reading(planning, name, record.query)]
    before, places = tuple(map(planning.evaluate, queries)), planning.places()
    old = _sub_deadlines(planning.task(record.query))
    late = planning.late_releases(record.query)
    try:
        moved = replace(running[name], primary=primary, secondary=secondary)
        planning.running[name] = moved
        after = tuple(map(planning.evaluate, queries))
        _check_figures(key, before, after)
        if planning.view.settings.admission:
            over = overload(
                places, planning.places(), record.query, planning.work, tolerated_cores=WORSE_CORES
            )
            if over is not None:
                reason = f"it would overload {over.place.subject}: {over}"
                raise MoveRefused(key, reason, Reason.CAPACITY)
        _retime(planning, name, after[0], was_kept=old is not None)
        _check_releases(planning, key, late)
    except Exception:
        planning.running = running
        raise
    return Relocation(before=before, after=after)


def _check_nodes(
    planning: Planning, key: str, now: RunningFragment, primary: str, secondary: str
) -> None:
    view, domains = planning.view, planning.domains
    if primary == secondary:
        problem = f"both replicas would be on {primary}"
        raise MoveRefused(key, problem, Reason.FAILURE_DOMAIN)
    for node in {primary, secondary} - {now.primary, now.secondary}:
        if node not in view.executors:
            known = ", ".join(sorted(view.executors))
            problem = f"{node} is not a live node; live nodes: {known}"
            raise MoveRefused(key, problem, Reason.NOT_THERE)
        if (closed := view.closed_because(node)) is not None:
            raise MoveRefused(key, f"{node} {closed}", Reason.CORDONED)
        if view.suspected(node):
            raise MoveRefused(key, f"{node} is silent at present", Reason.SILENT)
        if (lack := planning.lacking(planning.fragments[key].query).get(node)) is not None:
            raise MoveRefused(key, f"{node} {lack}", Reason.FUNCTIONS)
    allowed = planning.work.fragments[planning.fragments[key].fragment].allowed
    if primary != now.primary and allowed and primary not in allowed:
        problem = f"its manifest allows its primary on {', '.join(allowed)} only"
        raise MoveRefused(key, problem, Reason.PRIMARIES)
    before = domains.looseness(now.primary, now.secondary or "")
    if domains.looseness(primary, secondary) > before:
        shared = ", ".join(domains.shared(primary, secondary))
        where = f"{primary} and {secondary} share {shared}"
        raise MoveRefused(key, where, Reason.FAILURE_DOMAIN)


def _reading(planning: Planning, name: str, query: str) -> list[str]:
    """Other queries that read the fragment's stream and run."""
    fragments = planning.flow.fragments.values()
    readers = {f.query for f in fragments if name in f.inputs and f.query != query}
    return sorted(each for each in readers if planning.runs(each))


def _check_figures(key: str, before: Collection[Plan], after: Collection[Plan]) -> None:
    for was, now in zip(before, after, strict=True):
        (old,), (new,) = was.queries, now.queries
        if new.latency_ms > new.deadline_ms and new.latency_ms > old.latency_ms + WORSE_MS:
            reason = f"query {new.query} would take {new.latency_ms:.1f} ms of its deadline, "
            reason += f"{new.deadline_ms:g} ms ({way(new.path)})"
            raise MoveRefused(key, reason, Reason.DEADLINE)
        known_ms = {each.operator: each.recovery_ms for each in was.placements}
        for placed in now.placements:
            ms, bound_ms = placed.recovery_ms, new.bound_ms
            if ms > bound_ms and ms > known_ms[placed.operator] + WORSE_MS:
                reason = f"recovery of {placed.operator} on {placed.secondary} would take "
                reason += f"{ms:.1f} ms, the bound of query {new.query} is {bound_ms:g} ms"
                raise MoveRefused(key, reason, Reason.RECOVERY_BOUND)


def _check_releases(planning: Planning, key: str, before: PeriodsUnattainable | None) -> None:
    """Refuse a move that makes releases of periodic statements late, or later than they are."""
    late = planning.late_releases(planning.fragments[key].query)
    if late is not None and late.is_worse_than(before):
        raise MoveRefused(key, f"releases would be late: {late}", Reason.SUB_DEADLINES)


def _sub_deadlines(task: QueryTask) -> tuple[DeadlineTask, SubDeadlines] | None:
    """Sub-deadlines of the fragments where they run; None if no such keep all deadlines."""
    deadlines = deadline_task(task, {})
    try:
        due = kept_by_cheapest(deadlines.problem, deadlines.places)
        return deadlines, due or other_primaries(deadlines.problem)
    except PlacementError:
        return None


def _retime(planning: Planning, name: str, plan: Plan, *, was_kept: bool) -> None:
    """Set the sub-deadlines that keep all deadlines: the moved fragment's, and tighter others.

    A query whose deadlines could not be kept before keeps the sub-deadlines that it has.
    """
    query = plan.queries[0].query
    task = planning.task(query)
    found = _sub_deadlines(task)
    if found is None and was_kept:
        raise MoveRefused(
            planning.flow.fragments[name].key,
            f"{planning.running[name].primary} could not do all its work by its sub-deadlines",
            Reason.SUB_DEADLINES,
        )
    due = {} if found is None else found[0].of_fragments(found[1]).sub_deadlines_ms
    for other, ms in due.items():
        running = planning.running[other]
        if other == name or ms < (1 - TIGHTER) * running.timing.sub_deadline_ms:
            timing = msgspec.structs.replace(running.timing, sub_deadline_ms=ms)
            planning.running[other] = replace(running, timing=timing)
    running = planning.running[name]
    (placed,) = (each for each in plan.placements if each.operator == name)
    standby = Secondary(
        node=placed.secondary,
        recovery=Recovery(
            detection_ms=placed.detection_ms,
            transfer_ms=placed.transfer_ms,
            reprocess_ms=placed.reprocess_ms,
        ),
    )
    lag_ms = standby_lag_ms(task, standby, running.timing.sub_deadline_ms)
    timing = msgspec.structs.replace(running.timing, standby_lag_ms=lag_ms)
    timing = fed_timing(task, name, planning.standbys(task), timing)
    planning.running[name] = replace(running, timing=timing)
