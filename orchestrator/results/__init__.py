"""What operations on a cluster return: records that a client can read without the cluster's code.

They import msgspec and records of the store, and neither numpy, pyarrow nor ZooKeeper's client.
"""
