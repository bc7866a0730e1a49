"""Plans as documents: who runs each fragment, who stands by, and what that promises."""

from __future__ import annotations

from orchestrator.api.connection import Cluster
from orchestrator.api.proposals import NOTHING, ProposalClient
from orchestrator.manifest import Manifests
from orchestrator.progress import Progress, silent
from orchestrator.records import BeginFrom, PlanDocument


def plan(
    cluster: Cluster,
    manifests: Manifests = NOTHING,
    on_progress: Progress = silent,
    begin: BeginFrom = BeginFrom.NOW,
    savepoint: str = "",
) -> PlanDocument:
    """The queries that run, and those that would run beside them if the manifests were applied.

    The leader evaluates queries that run where they are; only new and changed ones are planned.

    Parameters
    ----------
    begin
        From where on statements of changed queries would read whose state cannot be kept.
    savepoint
        With whose states new queries would begin; empty: from nothing.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    Refused
        No plan can give what a manifest asks for.
    Unreachable
        Nobody leads.
    """
    with ProposalClient(cluster.store, on_progress) as client:
        return client.plan(manifests, begin, savepoint)
