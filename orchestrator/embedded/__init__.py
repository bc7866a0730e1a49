"""The parts that make a single machine a whole cluster: Java, ZooKeeper, and child processes."""
