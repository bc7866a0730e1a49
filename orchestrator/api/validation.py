"""Checking manifests without a cluster."""

from __future__ import annotations

import msgspec

from orchestrator.api.checking import check
from orchestrator.manifest import Manifests


class ValidateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The manifests that were checked and found right.

    Attributes
    ----------
    queries
        Query → fragment → streams it reads.
    unchecked
        Sites and nodes that could not be checked: no Cluster manifest was among the files.
    """

    cluster: str | None
    streams: tuple[str, ...]
    queries: dict[str, dict[str, tuple[str, ...]]]
    unchecked: tuple[str, ...]


def validate(manifests: Manifests) -> ValidateDocument:
    """Check fields, the queries' text, and the names of streams, sites and nodes.

    Sites and nodes are checked against the Cluster manifest among the manifests, if there is one.

    Raises
    ------
    InvalidInput
        The first thing that is wrong, with its file and line.
    """
    flow = check(manifests)
    unchecked: list[str] = []
    if manifests.cluster is None:
        sites = {each.record.site for each in manifests.streams}
        sites |= {site for each in manifests.queries for site in each.record.outputs.values()}
        nodes = {
            node
            for each in manifests.queries
            for named in each.record.primaries.values()
            for node in named
        }
        unchecked = [f"site {name}" for name in sorted(sites)]
        unchecked += [f"node {name}" for name in sorted(nodes)]
    return ValidateDocument(
        cluster=manifests.cluster.name if manifests.cluster else None,
        streams=tuple(each.record.name for each in manifests.streams),
        queries={
            each.record.name: {
                fragment.name: tuple(fragment.inputs) for fragment in flow.of(each.record.name)
            }
            for each in manifests.queries
        },
        unchecked=tuple(unchecked),
    )
