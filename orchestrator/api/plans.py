"""Plans as documents: who runs each fragment, who stands by, and what that promises."""

from __future__ import annotations

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.decide.figures import fragment_plans, place_loads, query_plans
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.host.shell.trial import run_trial
from orchestrator.manifest import Manifests
from orchestrator.records import FragmentPlan, PlaceLoad, QueryPlan, Rewrite


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
    running = [found.record for found in view.fragments.values()]
    return PlanDocument(
        fragments=fragment_plans(view, admission.plan, running),
        queries=query_plans(admission.plan),
        waiting=dict(admission.waiting),
        loads=place_loads(admission.places),
        rewrites={
            name: query.rewrites for name, query in admission.running.items() if query.rewrites
        },
    )
