"""The process `web`: the HTTP API of a cluster.

It keeps one view of the store for all its clients, carries out operations of the table
(`orchestrator.operations.table`) by the functions of `orchestrator.api`, and keeps no state of its
own: any number of them may run, and each may end at any time.
"""
