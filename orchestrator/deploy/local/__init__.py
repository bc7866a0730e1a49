"""A whole cluster on one machine: ZooKeeper, Spark, sites and a coordinator, under one process."""

from orchestrator.deploy.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
