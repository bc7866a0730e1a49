"""The operations on a running cluster: names, parameters and results, in one table.

The HTTP API serves what stands in the table, clients call it, and its documentation is made of it.
Nothing here can carry one out (`orchestrator.api.carrying` can), so a client imports no code of the
cluster: neither numpy, pyarrow nor ZooKeeper's client.
"""
