"""Manifests: what people write in YAML to say what they want."""

from orchestrator.manifest.cluster import cluster_record
from orchestrator.manifest.kinds import (
    ClusterManifest,
    Manifest,
    PlaceManifest,
    QueryManifest,
    StreamManifest,
)
from orchestrator.manifest.load import Manifests, load

__all__ = [
    "ClusterManifest",
    "Manifest",
    "Manifests",
    "PlaceManifest",
    "QueryManifest",
    "StreamManifest",
    "cluster_record",
    "load",
]
