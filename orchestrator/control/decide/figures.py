"""The leader's figures, for people and other programs to read: loads, costs, promises to queries.

A decision has the planning problem that all of them follow from, so nobody else sets it up to
describe the cluster. Evaluating a query takes several milliseconds. The figures of a few queries
are therefore computed at a time: first those whose fragments have changed since, then those that
were computed longest ago.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.failure_domains import HostDomains
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.costs import suggested_cost_us, suggestion
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.utilisation import PredictedPlace
from orchestrator.control.planning.workload import FragmentWork
from orchestrator.records import (
    FiguresRecord,
    FragmentCost,
    FragmentPlan,
    FragmentRecord,
    LoadsRecord,
    PlaceLoad,
    QueryPlan,
)
from placement.errors import PlacementError
from placement.records import Plan

SUBJECT = "figures"
"""What a decision says it could not compute."""

MOST_QUERIES = 4
"""Queries whose figures are computed at a time, at 3 to 6 ms each. So figures take 2 % of a
processor at most, and each of a hundred queries has its turn within a minute."""

MOST_PLACES = 1000
MOST_FRAGMENTS = 400
"""In one record: ZooKeeper takes no more than 1 MiB, and names may have 128 characters. A client
that sends more loses its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigured:
    """A query's figures.

    Attributes
    ----------
    records
        Of its fragments, which they were computed for; None of one that has no place.
    """

    records: tuple[FragmentRecord | None, ...]
    figures: FiguresRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """All figures.

    Attributes
    ----------
    queries
        By query, those that were computed before among them.
    """

    loads: LoadsRecord
    queries: Mapping[str, QueryFigured]


def cluster_figures(
    planning: Planning, now_us: int, known: Mapping[str, QueryFigured]
) -> ClusterFigures:
    """The loads, and the figures of those queries whose turn it is.

    Parameters
    ----------
    known
        By query, those that were computed last.
    """
    work: defaultdict[str, list[FragmentWork]] = defaultdict(list)
    for each in planning.work.fragments.values():
        work[each.fragment.query].append(each)
    records = {
        query: tuple(planning.fragments.get(each.fragment.key) for each in own)
        for query, own in work.items()
    }

    def turn(query: str) -> tuple[bool, int, str]:
        found = known.get(query)
        if found is None:
            return False, -1, query
        return found.records == records[query], found.figures.at_us, query

    queries = {query: known[query] for query in records if query in known}
    for query in sorted(records, key=turn)[:MOST_QUERIES]:
        figures = _figures(planning, query, work[query], now_us)
        queries[query] = QueryFigured(records=records[query], figures=figures)
    return ClusterFigures(loads=_loads(planning, now_us), queries=queries)


def _loads(planning: Planning, now_us: int) -> LoadsRecord:
    # Machines come last, and tell more than their hosts.
    places = place_loads(planning.places())
    kept = places[-MOST_PLACES:]
    return LoadsRecord(at_us=now_us, places=kept, omitted=len(places) - len(kept))


def _figures(
    planning: Planning, query: str, work: Sequence[FragmentWork], now_us: int
) -> FiguresRecord:
    plan = Plan(placements=(), queries=())
    if planning.runs(query):
        with suppress(PlacementError, InvalidQuery):
            plan = planning.evaluate(query)
    return FiguresRecord(
        query=query,
        at_us=now_us,
        costs=tuple(_cost(planning.view, each) for each in work[:MOST_FRAGMENTS]),
        plan=next(iter(query_plans(plan)), None),
        fragments=fragment_plans(planning.domains, plan, planning.fragments.values())[
            :MOST_FRAGMENTS
        ],
        omitted=max(len(work) - MOST_FRAGMENTS, 0),
    )


def place_loads(places: Iterable[PredictedPlace]) -> tuple[PlaceLoad, ...]:
    """How busy places are."""
    return tuple(
        PlaceLoad(
            name=place.name,
            is_machine=place.is_machine,
            hosts=place.hosts,
            processors=place.capacity_cores,
            limit_cores=place.limit_cores,
            predicted_cores=place.predicted_cores,
            measured_cores=place.measured_cores,
            services=dict(place.services),
            services_cores=place.services_cores,
            takeover_cores=place.takeover_cores,
            speed=place.speed,
        )
        for place in places
    )


def fragment_plans(
    domains: HostDomains, plan: Plan, running: Iterable[FragmentRecord]
) -> tuple[FragmentPlan, ...]:
    """The fragments of a plan, compared with those that run."""
    pairs = {
        each.fragment: (each.primary.node, each.secondary.node if each.secondary else "")
        for each in running
    }
    bounds_ms = {query.query: query.bound_ms for query in plan.queries}
    return tuple(
        FragmentPlan(
            query=placed.query,
            fragment=placed.operator,
            primary=placed.primary,
            secondary=placed.secondary or None,
            detection_ms=placed.detection_ms,
            transfer_ms=finite(placed.transfer_ms),
            reprocess_ms=placed.reprocess_ms,
            recovery_ms=finite(placed.recovery_ms),
            bound_ms=bounds_ms[placed.query],
            runs=pairs.get(placed.operator) == (placed.primary, placed.secondary),
            domains=tuple(domains.told(node) for node in (placed.primary, placed.secondary)),
            shared=domains.shared(placed.primary, placed.secondary),
            standby_bytes_s=None if placed.standby is None else placed.standby.bytes_s,
            standby_why=None if placed.standby is None else placed.standby.why,
        )
        for placed in plan.placements
    )


def query_plans(plan: Plan) -> tuple[QueryPlan, ...]:
    """What a plan promises its queries."""
    return tuple(
        QueryPlan(
            query=query.query,
            latency_ms=query.latency_ms,
            deadline_ms=query.deadline_ms,
            recovery_ms=finite(query.recovery_ms),
            bound_ms=query.bound_ms,
            network_usage_bytes=query.network_usage,
            standby_usage_bytes=query.standby_usage,
            path=query.path,
        )
        for query in plan.queries
    )


def _cost(view: ClusterView, work: FragmentWork) -> FragmentCost:
    found = view.fragments.get(work.fragment.key)
    status = None if found is None else view.status(found.record.primary, work.name)
    load = None if status is None else status.load
    return FragmentCost(
        query=work.fragment.query,
        fragment=work.name,
        basis=work.cost.basis.value,
        fixed_us=work.cost.fixed_us,
        per_tuple_us=work.cost.per_tuple_us,
        evaluations_s=work.evaluations_s,
        cores=work.cores,
        measured_evaluations_s=None if load is None else load.evaluations_s,
        measured_timestamps_s=None if load is None else load.timestamps_s,
        measured_tuples_s=None if load is None else load.tuples_s,
        measured_cores=None if load is None else load.cores,
        measured_cost_us=suggested_cost_us(view, work.fragment),
        suggestion=suggestion(view, work),
    )


def finite(ms: float) -> float | None:
    """None for infinity, which JSON cannot say."""
    return ms if math.isfinite(ms) else None
