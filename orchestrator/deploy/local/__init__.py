"""A whole cluster on one machine: ZooKeeper, Spark, sites and a coordinator under one process."""
