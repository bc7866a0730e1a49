"""Plans as documents: who runs each fragment, who stands by, and what that promises."""

from __future__ import annotations

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.admission import admit
from orchestrator.control.view import ClusterView, read_view
from orchestrator.manifest import Manifests
from placement.records import PlacedOperator, Plan


class FragmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One fragment; `runs` says whether it is at these places now."""

    query: str
    fragment: str
    primary: str
    secondary: str
    detection_ms: float
    transfer_ms: float
    reprocess_ms: float
    recovery_ms: float
    bound_ms: float
    runs: bool


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One query: `latency_ms` of its slowest output, along `path`."""

    query: str
    latency_ms: float
    deadline_ms: float
    recovery_ms: float
    bound_ms: float
    network_usage_bytes: float
    standby_usage_bytes: float
    path: tuple[str, ...]


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan of all queries; `map` names the file of the coordinate map if one was drawn."""

    fragments: tuple[FragmentPlan, ...]
    queries: tuple[QueryPlan, ...]
    map: str | None = None


NOTHING = Manifests(cluster=None, streams=(), queries=())


def plan(cluster: Cluster, manifests: Manifests = NOTHING) -> PlanDocument:
    """What runs, and what would run beside it if the manifests were applied.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    Refused
        No plan can give what a manifest asks for.
    """
    view = read_view(cluster.store)
    return plan_document(view, admit(view, manifests.streams, manifests.queries))


def plan_document(view: ClusterView, plan: Plan) -> PlanDocument:
    """A plan beside what runs."""
    places = {
        (found.record.query, found.record.fragment): (
            found.record.primary.node,
            found.record.secondary.node if found.record.secondary else None,
        )
        for found in view.fragments.values()
    }
    bounds_ms = {query.query: query.bound_ms for query in plan.queries}

    def fragment(placed: PlacedOperator) -> FragmentPlan:
        runs_at = places.get((placed.query, placed.operator))
        return FragmentPlan(
            query=placed.query,
            fragment=placed.operator,
            primary=placed.primary,
            secondary=placed.secondary,
            detection_ms=placed.detection_ms,
            transfer_ms=placed.transfer_ms,
            reprocess_ms=placed.reprocess_ms,
            recovery_ms=placed.recovery_ms,
            bound_ms=bounds_ms[placed.query],
            runs=runs_at == (placed.primary, placed.secondary),
        )

    return PlanDocument(
        fragments=tuple(map(fragment, plan.placements)),
        queries=tuple(
            QueryPlan(
                query=query.query,
                latency_ms=query.latency_ms,
                deadline_ms=query.deadline_ms,
                recovery_ms=query.recovery_ms,
                bound_ms=query.bound_ms,
                network_usage_bytes=query.network_usage,
                standby_usage_bytes=query.standby_usage,
                path=query.path,
            )
            for query in plan.queries
        ),
    )
