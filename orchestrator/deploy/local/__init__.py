"""A whole cluster on one machine: ZooKeeper, Spark, sites and a coordinator, under one process."""

from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.deploy.local.readiness import Progress

__all__ = ["LocalCluster", "Progress"]
