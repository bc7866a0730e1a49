"""Sites and nodes that manifests name must exist: among those of a Cluster manifest, or live."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import QueryManifest, StreamManifest
from topology.suggestions import nearest


def check_sites(
    streams: Iterable[StreamManifest],
    queries: Iterable[QueryManifest],
    sites: Collection[str],
    problem: str,
) -> None:
    """Check the sites where streams enter and outputs are delivered.

    Parameters
    ----------
    problem
        Phrase for a site that is not among the given ones.

    Raises
    ------
    InvalidInput
        With the first one.
    """
    named = [(s.file, f"Stream {s.record.name}: site", s.record.site) for s in streams]
    for query in queries:
        for stream, site in query.record.outputs.items():
            named.append((query.file, f"Query {query.record.name}: outputs.{stream}", site))
    for file, field, site in named:
        if site not in sites:
            raise InvalidInput(file, field, site, problem, nearest(site, sites))


def check_primaries(queries: Iterable[QueryManifest], nodes: Collection[str], problem: str) -> None:
    """Check the nodes that primaries may run on; see `check_sites`."""
    for query in queries:
        for fragment, named in query.record.primaries.items():
            for node in named:
                if node not in nodes:
                    field = f"Query {query.record.name}: primaries.{fragment}"
                    raise InvalidInput(query.file, field, node, problem, nearest(node, nodes))
