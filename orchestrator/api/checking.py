"""Checking manifests without a cluster: all that can be known before one looks at what runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from orchestrator.control.dataflow import Dataflow, InvalidQuery, dataflow
from orchestrator.errors import InvalidInput
from orchestrator.manifest import Manifests, QueryManifest, cluster_record
from topology.suggestions import nearest


def check(manifests: Manifests) -> Dataflow:
    """Compile the queries among the streams, and look whether the sites and nodes that they name
    exist.

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
        _check_sites(manifests, [site.name for site in manifests.cluster.sites])
        nodes = [node.name for node in manifests.cluster.nodes]
        check_primaries(manifests.queries, nodes, "is not a node")
    return flow


def located(problem: InvalidQuery, queries: Iterable[QueryManifest]) -> InvalidInput:
    """A query's problem, at the place in the file that has it."""
    where = "the store"
    for query in queries:
        if query.record.name == problem.query:
            where = query.file
            if problem.line is not None:
                path = query.file.rpartition(":")[0]
                where = f"{path}:{query.statements_line + problem.line - 1}"
    field = f"Query {problem.query}: {problem.field}"
    return InvalidInput(where, field, problem.value, problem.problem, problem.remedy)


def check_primaries(queries: Iterable[QueryManifest], nodes: Collection[str], problem: str) -> None:
    """Whether the nodes exist that primaries may run on.

    Raises
    ------
    InvalidInput
        With the first that does not.
    """
    for query in queries:
        for fragment, named in query.record.primaries.items():
            for node in named:
                if node not in nodes:
                    field = f"Query {query.record.name}: primaries.{fragment}"
                    raise InvalidInput(query.file, field, node, problem, nearest(node, nodes))


def _check_sites(manifests: Manifests, sites: list[str]) -> None:
    named = [(s.file, f"Stream {s.record.name}: site", s.record.site) for s in manifests.streams]
    for query in manifests.queries:
        for stream, site in query.record.outputs.items():
            named.append((query.file, f"Query {query.record.name}: outputs.{stream}", site))
    for file, field, site in named:
        if site not in sites:
            raise InvalidInput(file, field, site, "is not a site", nearest(site, sites))
