"""A whole cluster on one machine: ZooKeeper, Spark, sites and coordinators under one process."""
