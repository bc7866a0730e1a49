"""Explanations: why a fragment is where it is, and why manifests are refused."""

from __future__ import annotations

from orchestrator.api.connection import Cluster
from orchestrator.api.proposals import ProposalClient
from orchestrator.manifest import Manifests
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    ExplainRefusalRequest,
    ExplainRequest,
    FragmentExplanation,
    RefusalExplanation,
)


def explain(cluster: Cluster, fragment: str, on_progress: Progress = silent) -> FragmentExplanation:
    """Why the replicas of a fragment are on their nodes.

    Raises
    ------
    InvalidInput
        There is no such fragment.
    Refused
        It lacks a replica at present.
    Unreachable
        Nobody leads.
    """
    with ProposalClient(cluster.store, on_progress) as client:
        found = client.ask(ExplainRequest(fragment=fragment)).explanation
    assert isinstance(found, FragmentExplanation)
    return found


def explain_refusal(
    cluster: Cluster, manifests: Manifests, on_progress: Progress = silent
) -> RefusalExplanation:
    """Why manifests would be refused, and what would have to change for them to be admitted.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    Unreachable
        Nobody leads.
    """
    wish = ExplainRefusalRequest(streams=manifests.streams, queries=manifests.queries)
    with ProposalClient(cluster.store, on_progress) as client:
        found = client.ask(wish).explanation
    assert isinstance(found, RefusalExplanation)
    return found
