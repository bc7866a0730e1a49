"""Manifests: YAML documents in which people describe clusters, streams and queries."""

from orchestrator.manifest.cluster import cluster_record
from orchestrator.manifest.kinds import (
    ClusterManifest,
    Manifest,
    PlaceManifest,
    QueryManifest,
    StreamManifest,
    ZooKeeperManifest,
)
from orchestrator.manifest.load import Manifests, load

__all__ = [
    "ClusterManifest",
    "Manifest",
    "Manifests",
    "PlaceManifest",
    "QueryManifest",
    "StreamManifest",
    "ZooKeeperManifest",
    "cluster_record",
    "load",
]
