"""Whether a host's queues keep to its budget, but for what nobody can divide or may drop.

A chunk holds whole timestamps. A single one may be larger than the part of the budget that its
queue has, or than the whole: a join may give any number of rows for one timestamp. Producers then
evaluate nothing further until it is processed, so each queue has one such chunk at most.

The part of an output log shrinks when its host is given more streams, and a new secondary takes
over the log that its primary filled. What is demanded of either is kept, though nothing may be
appended to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ha.output_log import OutputLog
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.records import MemoryStatus
from streams.vectors.chunk import Chunk, Position


class QueueBudget:
    """The budget of one host's queues, looked at again and again."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[OutputLog, int, Position, int]] = {}
        """Of each log: itself, its part, its end, and by how much it may exceed its part."""

    def over(self, manager: ReplicaManager) -> MemoryStatus | None:
        """What the queues take, if that is more than they may."""
        logs = {producer.stream: producer.log for producer in manager.producers()}
        demanded = sum(self._demanded_beyond(stream, log) for stream, log in logs.items())
        self._seen = {stream: self._seen[stream] for stream in logs}
        memory = manager.memory()
        if memory.used <= memory.budget:
            return None
        indivisible = _indivisible(manager)
        return memory if memory.used - indivisible - demanded > memory.budget else None

    def _demanded_beyond(self, stream: str, log: OutputLog) -> int:
        """Bytes beyond the log's part that were demanded when it was given that part."""
        beyond = max(0, -log.room_bytes(0, by_credit=False))
        before = self._seen.get(stream)
        if before is not None and before[0] is log and before[1] == log.capacity_bytes:
            appended = before[2] != log.end
            beyond = min(beyond, before[3]) if appended else beyond
        self._seen[stream] = log, log.capacity_bytes, log.end, beyond
        return beyond


def _indivisible(manager: ReplicaManager) -> int:
    """Bytes of single chunks that are larger than the part of their queue."""
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
        waiting = [chunk for replica in readers for chunk in replica.waiting(stream)]
        indivisible += _largest(waiting, manager.input_bytes)
    return indivisible


def _largest(chunks: Iterable[Chunk], most_bytes: int) -> int:
    """Size of the largest chunk if it does not fit; else 0."""
    largest = max((chunk.size_bytes for chunk in chunks), default=0)
    return largest if largest > most_bytes else 0
