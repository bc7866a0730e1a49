"""Reads all manifests of some files and folders, and checks that they go together.

The sites and nodes that manifests name must exist: among those of a Cluster manifest, or live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from foundation.suggestions import nearest
from orchestrator.documents.document import documents_in
from orchestrator.edges import sources
from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import (
    ClusterManifest,
    Manifest,
    QueryManifest,
    StreamManifest,
    place_of,
    read_manifest,
)
from orchestrator.operations.texts import ManifestSource, read_sources


class Manifests(msgspec.Struct, frozen=True, kw_only=True):
    """All that was read, by kind, in the order it was read."""

    cluster: ClusterManifest | None
    streams: tuple[StreamManifest, ...]
    queries: tuple[QueryManifest, ...]


def load(paths: Sequence[Path]) -> Manifests:
    """Read files, and of folders every `*.yaml` and `*.yml` in the order of their names.

    Raises
    ------
    InvalidInput
        With the first mistake.
    """
    return load_texts(read_sources(paths))


def load_texts(sources: Sequence[ManifestSource], folder: Path = Path()) -> Manifests:
    """Read texts, as `load` reads files.

    Parameters
    ----------
    folder
        What the names of their files are relative to.
    """
    manifests = [manifest for source in sources for manifest in _manifests(source, folder)]
    manifests += [side for each in manifests for side in _beside(each)]
    clusters = [each for each in manifests if isinstance(each, ClusterManifest)]
    streams = [each for each in manifests if isinstance(each, StreamManifest)]
    queries = [each for each in manifests if isinstance(each, QueryManifest)]
    if len(clusters) > 1:
        raise InvalidInput(
            clusters[1].file,
            "kind",
            "Cluster",
            f"is the second one; the first is in {clusters[0].file}",
            "Keep one cluster.",
        )
    _refuse_duplicates(("Stream", each.file, each.record.name) for each in streams)
    _refuse_duplicates(("Query", each.file, each.record.name) for each in queries)
    for cluster in clusters:
        places = [*cluster.nodes, *cluster.sites]
        _refuse_duplicates((f"Cluster {cluster.name}", place.file, place.name) for place in places)
    return Manifests(
        cluster=clusters[0] if clusters else None, streams=tuple(streams), queries=tuple(queries)
    )


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
    named: list[tuple[StreamManifest | QueryManifest, str, str, str]] = [
        (s, f"Stream {s.record.name}: ", "site" if s.record.standby is None else "sites", site)
        for s in streams
        for site in s.record.sites
    ]
    for query in queries:
        for stream, site in query.record.outputs.items():
            named.append((query, f"Query {query.record.name}: ", f"outputs.{stream}", site))
    for manifest, whose, field, site in named:
        if site not in sites:
            place = place_of(manifest, field)
            raise InvalidInput(place, whose + field, site, problem, nearest(site, sites))


def check_primaries(queries: Iterable[QueryManifest], nodes: Collection[str], problem: str) -> None:
    """Check the nodes that primaries may run on; see `check_sites`."""
    for query in queries:
        for fragment, named in query.record.primaries.items():
            for node in named:
                if node not in nodes:
                    field = f"primaries.{fragment}"
                    place, whose = place_of(query, field), f"Query {query.record.name}: "
                    raise InvalidInput(place, whose + field, node, problem, nearest(node, nodes))


def _beside(manifest: Manifest) -> Iterable[StreamManifest]:
    """The streams of late and of rejected input that a stream asks for."""
    if not isinstance(manifest, StreamManifest) or manifest.record.source is None:
        return
    # Few streams have a live source, and those of others need no reader of its input.
    if not {"late", "rejected"} & manifest.record.source.options.keys():
        return
    from orchestrator.edges.sources.live.live_source import LiveSource
    from orchestrator.edges.sources.side_streams import side_streams

    source = sources.restore(manifest.record.source)
    if not isinstance(source, LiveSource):
        return
    try:
        found = side_streams(manifest.record, source)
    except ValueError as error:
        raise InvalidInput(
            manifest.file, f"Stream {manifest.record.name}: from", None, str(error), ""
        ) from None
    for record, driver in found:
        record = msgspec.structs.replace(record, source=sources.spec_of("side", driver))
        yield msgspec.structs.replace(manifest, record=record)


def _manifests(source: ManifestSource, folder: Path) -> list[Manifest]:
    """Those of a file or a folder; at least one."""
    found = [
        read_manifest(document)
        for each in source.files
        for document in documents_in(each.file, each.text, folder)
    ]
    if not found:
        raise InvalidInput(
            source.path,
            "",
            None,
            "holds no manifest",
            "Write one that begins with `kind: Cluster`, `kind: Stream` or `kind: Query`.",
        )
    return found


def _refuse_duplicates(named: Iterable[tuple[str, str, str]]) -> None:
    """Refuse the second of two equal names; each comes with its kind and its file."""
    first: dict[str, str] = {}
    for kind, file, name in named:
        if name in first:
            raise InvalidInput(
                file, f"{kind}: name", name, f"is taken by {first[name]}", "Choose another name."
            )
        first[name] = file
