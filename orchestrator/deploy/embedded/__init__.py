"""What a single machine needs to be a whole cluster: a Java runtime, a ZooKeeper, and a leash."""
