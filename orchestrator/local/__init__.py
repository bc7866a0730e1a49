"""A whole cluster on one machine: ZooKeeper, Spark, sites and a coordinator, under one process."""

from orchestrator.local.cluster import LocalCluster
from orchestrator.local.readiness import Progress

__all__ = ["LocalCluster", "Progress"]
