"""Manifests: YAML documents in which people describe clusters, streams and queries."""

# Others take the names that are imported here.
# pyright: reportUnusedImport=false

from orchestrator.manifest.cluster import cluster_record
from orchestrator.manifest.kinds import (
    ClusterManifest,
    PlaceManifest,
    QueryManifest,
    StreamManifest,
    ZooKeeperManifest,
)
from orchestrator.manifest.load import Manifests, load, load_texts
