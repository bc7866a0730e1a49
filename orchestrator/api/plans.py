"""Plans as documents: who runs each fragment, who stands by, and what that promises."""

from __future__ import annotations

import math

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.api.loads import PlaceLoad, place_loads
from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.host.shell.trial import run_trial
from orchestrator.manifest import Manifests
from orchestrator.records import Rewrite
from placement.paths import way
from placement.records import PlacedOperator


class FragmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One fragment.

    Attributes
    ----------
    secondary, transfer_ms, recovery_ms
        None while no secondary runs: should the primary die then, the fragment's state is lost.
    runs
        Whether it is at these places now.
    domains
        Failure domains of primary and secondary; empty if all nodes lie in one.
    standby_bytes_s, standby_why
        What is sent because of the secondary, and why that; None while none runs.
    """

    query: str
    fragment: str
    primary: str
    secondary: str | None
    detection_ms: float
    transfer_ms: float | None
    reprocess_ms: float
    recovery_ms: float | None
    bound_ms: float
    runs: bool
    domains: tuple[str, ...] = ()
    standby_bytes_s: float | None = None
    standby_why: str | None = None


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One query.

    Attributes
    ----------
    latency_ms, path
        Of its slowest output.
    recovery_ms
        The longest of its fragments; None while one of them has no secondary.
    """

    query: str
    latency_ms: float
    deadline_ms: float
    recovery_ms: float | None
    bound_ms: float
    network_usage_bytes: float
    standby_usage_bytes: float
    path: tuple[str, ...]

    @property
    def way(self) -> str:
        """The path in one line; of an output only its site, which says it all."""
        return way(self.path)


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan of all queries.

    Attributes
    ----------
    waiting
        Query that is in the store but has no place → why.
    map
        File of the coordinate map, if one was drawn.
    loads
        How busy nodes and machines would be; nothing of those that do not tell their processors.
    rewrites
        Query → what was decided of its statements that may run in another way than written.
    """

    fragments: tuple[FragmentPlan, ...]
    queries: tuple[QueryPlan, ...]
    waiting: dict[str, str]
    map: str | None = None
    loads: tuple[PlaceLoad, ...] = ()
    rewrites: dict[str, tuple[Rewrite, ...]] = {}


NOTHING = Manifests(cluster=None, streams=(), queries=())


def plan(cluster: Cluster, manifests: Manifests = NOTHING) -> PlanDocument:
    """The queries that run, and those that would run beside them if the manifests were applied.

    Queries that run are evaluated where they are; only new ones are planned.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    Refused
        No plan can give what a manifest asks for.
    """
    view = read_view(cluster.store)
    admission = admit(view, manifests.streams, manifests.queries, run_trial)
    return plan_document(view, admission)


def plan_document(view: ClusterView, admission: Admission) -> PlanDocument:
    """A plan as a document, compared with the placements that run."""
    plan = admission.plan
    running = {found.record.fragment: found.record for found in view.fragments.values()}
    bounds_ms = {query.query: query.bound_ms for query in plan.queries}
    domains = {name: node.domain for name, node in view.executors.items()}
    several = len(set(domains.values())) > 1

    def fragment(placed: PlacedOperator) -> FragmentPlan:
        record = running.get(placed.operator)
        secondary = record.secondary.node if record and record.secondary else ""
        return FragmentPlan(
            query=placed.query,
            fragment=placed.operator,
            primary=placed.primary,
            secondary=placed.secondary or None,
            detection_ms=placed.detection_ms,
            transfer_ms=_finite(placed.transfer_ms),
            reprocess_ms=placed.reprocess_ms,
            recovery_ms=_finite(placed.recovery_ms),
            bound_ms=bounds_ms[placed.query],
            runs=record is not None
            and (record.primary.node, secondary) == (placed.primary, placed.secondary),
            domains=tuple(
                domains.get(node, "") for node in (placed.primary, placed.secondary) if several
            ),
            standby_bytes_s=None if placed.standby is None else placed.standby.bytes_s,
            standby_why=None if placed.standby is None else placed.standby.why,
        )

    return PlanDocument(
        fragments=tuple(map(fragment, plan.placements)),
        queries=tuple(
            QueryPlan(
                query=query.query,
                latency_ms=query.latency_ms,
                deadline_ms=query.deadline_ms,
                recovery_ms=_finite(query.recovery_ms),
                bound_ms=query.bound_ms,
                network_usage_bytes=query.network_usage,
                standby_usage_bytes=query.standby_usage,
                path=query.path,
            )
            for query in plan.queries
        ),
        waiting=dict(admission.waiting),
        loads=place_loads(admission.places),
        rewrites={
            name: query.rewrites for name, query in admission.running.items() if query.rewrites
        },
    )


def _finite(ms: float) -> float | None:
    return ms if math.isfinite(ms) else None
