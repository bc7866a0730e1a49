"""Whether a host's queues keep to its budget, but for what nobody can divide.

A chunk holds whole timestamps. A single one may be larger than the part of the budget that its
queue has, or than the whole: a join may give any number of rows for one timestamp. Producers then
evaluate nothing further until it is processed, so each queue has one such chunk at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from ha.replica import Replica
from ha.roles import ReplicaRole
from orchestrator.host.replica_manager import ReplicaManager
from orchestrator.records import MemoryStatus
from streams.chunk import Chunk


def over_budget(manager: ReplicaManager) -> MemoryStatus | None:
    """What the queues take, if that is more than the budget and one large chunk in each."""
    memory = manager.memory()
    if memory.used <= memory.budget:
        return None
    indivisible = sum(
        _largest(producer.log.chunks(), producer.log.capacity_bytes)
        for producer in manager.producers()
    )
    indivisible += sum(
        _largest(sink.held_chunks(), manager.window_bytes) for sink in manager.sinks.values()
    )
    for stream, subscription in manager.subscriptions.items():
        readers = [
            manager.replicas[r].replica for r in subscription.readers if r in manager.replicas
        ]
        waiting = [chunk for replica in readers for chunk in _waiting(replica, stream)]
        indivisible += _largest(waiting, manager.input_bytes)
    return memory if memory.used - indivisible > memory.budget else None


def _waiting(replica: Replica, stream: str) -> Iterable[Chunk]:
    if replica.role is ReplicaRole.WARMING:
        return replica.inputs[stream].waiting
    return replica.engine.waiting_chunks(stream)


def _largest(chunks: Iterable[Chunk], most_bytes: int) -> int:
    """Size of the largest chunk if it does not fit; else 0."""
    largest = max((chunk.size_bytes for chunk in chunks), default=0)
    return largest if largest > most_bytes else 0
