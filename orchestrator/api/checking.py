"""Checks of manifests that need no running cluster."""

from __future__ import annotations

from orchestrator.control.dataflow import Dataflow, InvalidQuery, dataflow, located
from orchestrator.manifest import Manifests, cluster_record
from orchestrator.manifest.places import check_primaries, check_sites


def check(manifests: Manifests) -> Dataflow:
    """Compile the queries among the streams, and check the sites and nodes that they name against
    the Cluster manifest, if there is one.

    Raises
    ------
    InvalidInput
        The first thing that is wrong, with its file and line.
    """
    streams = {each.record.name: each.record for each in manifests.streams}
    queries = {each.record.name: each.record for each in manifests.queries}
    try:
        flow = dataflow(streams, queries)
    except InvalidQuery as problem:
        raise located(problem, manifests.queries) from None
    if manifests.cluster is not None:
        cluster_record(manifests.cluster)
        sites = [site.name for site in manifests.cluster.sites]
        check_sites(manifests.streams, manifests.queries, sites, "is not a site")
        nodes = [node.name for node in manifests.cluster.nodes]
        check_primaries(manifests.queries, nodes, "is not a node")
    return flow
