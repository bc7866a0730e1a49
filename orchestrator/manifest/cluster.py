"""The settings that a cluster's processes share, from its manifest and its table of latencies."""

from __future__ import annotations

import msgspec

from foundation.suggestions import nearest
from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import ClusterManifest, place_of
from orchestrator.records import ClusterRecord
from topology.latency import LatencyMatrix, LatencyMatrixError, UnknownLatency, read_csv

FETCHED = ("build", "data")
"""Folders in which `make data` puts what it fetches for the examples."""

LEAST_NODES = 2
"""That run a query: one for the primary of a fragment, and another one for its secondary."""


def remarks(manifest: ClusterManifest) -> tuple[str, ...]:
    """What the owner of a cluster may not have meant, though it is no mistake."""
    if len(manifest.nodes) >= LEAST_NODES:
        return ()
    return (f"Cluster {manifest.name} has one node: it can run no query, which needs two.",)


def cluster_record(manifest: ClusterManifest) -> ClusterRecord:
    """The record of a cluster, with its places and the one-way delays among their regions.

    Raises
    ------
    InvalidInput
        The table cannot be read, lacks a region, or has a blank between two regions in use.
    """
    return msgspec.structs.replace(
        manifest.record,
        delays_ms=_delays_ms(manifest),
        nodes=tuple(place.name for place in manifest.nodes),
        sites=tuple(place.name for place in manifest.sites),
    )


def _delays_ms(manifest: ClusterManifest) -> dict[str, dict[str, float]]:
    if manifest.latencies is None:
        return {}
    matrix = _matrix(manifest)
    regions: dict[str, str] = {}
    for place in (*manifest.nodes, *manifest.sites):
        regions.setdefault(place.region, place.file)
        if place.region not in matrix.names:
            raise InvalidInput(
                place.file,
                f"Cluster {manifest.name}: region",
                place.region,
                f"is not in {manifest.latencies}",
                nearest(place.region, matrix.names),
            )
    delays_ms: dict[str, dict[str, float]] = {source: {} for source in regions}
    for source, file in regions.items():
        for target in regions:
            try:
                delays_ms[source][target] = matrix.one_way_ms(source, target)
            except UnknownLatency:
                raise InvalidInput(
                    file,
                    f"Cluster {manifest.name}: region",
                    source,
                    f"has no measured latency to {target} in {manifest.latencies}",
                    "Choose another region, or fill the blank.",
                ) from None
    return delays_ms


def _matrix(manifest: ClusterManifest) -> LatencyMatrix:
    path = str(manifest.latencies)
    field = f"Cluster {manifest.name}: latencies"
    assert manifest.latencies is not None
    where = place_of(manifest, "latencies")
    try:
        text = manifest.latencies.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        is_fetched = manifest.latencies.parts[-3:-1] == FETCHED
        remedy = "Fetch it: make data." if is_fetched else "Check the path and the file."
        raise InvalidInput(where, field, path, f"cannot be read ({problem})", remedy) from None
    try:
        return read_csv(text, path)
    except LatencyMatrixError as error:
        raise InvalidInput(where, field, path, str(error), "Mend the table.") from None
