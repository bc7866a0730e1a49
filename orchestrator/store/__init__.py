"""The store: where the processes of a cluster agree.

`protocol` says what a store is. `zookeeper` is the real one, and the only user of kazoo;
`orchestrator.simulation.world.memory_store` is the one of the simulated world. One test suite runs
against both. Import from the modules: only who opens a session should load kazoo.
"""
