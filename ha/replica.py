"""A replica of a fragment: engine, inputs, output log and role.

Both replicas receive the same streams and evaluate them alike. The primary sends its output, the
standby only keeps it (active standby; reliable placement, §3.1). A new secondary first subscribes
to all producers, so that they keep the tuples it will need, and only then asks its peer replica
for the state. The snapshot's cut therefore lies within the output that the producers keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from ha.messages import Data, Snapshot
from ha.output_log import OutputLog
from ha.roles import ReplicaRole, RoleEvent, next_role
from ha.subscription import Received, StreamCursor
from streams.chunk import NO_WATERMARK, Chunk, Position
from streams.compiler import Program
from streams.engine import Evaluated, FragmentEngine


@dataclass(slots=True)
class InputStream:
    """One input stream of a replica.

    Attributes
    ----------
    schema
        Of the rows.
    cursor
        The replica's position in the stream.
    waiting
        Chunks that arrived before the state did.
    moved_at_ms
        First watermark after the input moved (see `Received.moved`). Sequence numbers before it
        are unknown to the producer.
    """

    schema: pa.Schema
    cursor: StreamCursor = field(default_factory=StreamCursor)
    waiting: list[Chunk] = field(default_factory=list[Chunk])
    moved_at_ms: int | None = None


class Replica:
    """One replica of a fragment.

    Parameters
    ----------
    program
        The compiled statement.
    schemas
        Of its inputs.
    epoch, generation
        As assigned.
    """

    def __init__(
        self,
        program: Program,
        schemas: dict[str, pa.Schema],
        *,
        epoch: int,
        generation: int,
    ) -> None:
        self.program = program
        self.stream = program.name
        self.role = ReplicaRole.WARMING
        self.epoch = epoch
        self.generation = generation
        self.inputs = {stream: InputStream(schema=schema) for stream, schema in schemas.items()}
        self.engine = FragmentEngine(program)
        self.log = OutputLog(self.engine.schema)

    @property
    def accepts_subscribers(self) -> bool:
        """Whether its output log is complete, so that consumers may rely on it."""
        return self.role is not ReplicaRole.WARMING

    @property
    def feeds_subscribers(self) -> bool:
        """Whether it sends its output, rather than keep it until its peer replica is lost."""
        return self.role is ReplicaRole.PRIMARY

    def apply(self, event: RoleEvent) -> None:
        """Change role as the table in `ha.roles` says; a takeover begins a new epoch."""
        before, self.role = self.role, next_role(self.role, event)
        if event is RoleEvent.PEER_REPLICA_LOST and before is ReplicaRole.STANDBY:
            self.epoch += 1
        if self.role is ReplicaRole.PRIMARY and before is not ReplicaRole.PRIMARY:
            self.log.rewind()

    def receive(self, data: Data) -> Received:
        """Receive data of an input stream."""
        entry = self.inputs[data.stream]
        received = entry.cursor.receive(data)
        if received.chunk is not None:
            if self.role is ReplicaRole.WARMING:
                entry.waiting.append(received.chunk)
            else:
                if received.moved:
                    entry.moved_at_ms = int(received.chunk.watermarks_ms[0])
                    cut = Position(next_seq=received.chunk.first_seq)
                    self.engine.skip_to(data.stream, cut)
                self.engine.offer(data.stream, received.chunk)
        return received

    def evaluate(self, limit: int, tuples: int | None = None) -> Evaluated | None:
        """Evaluate complete timestamp groups (`FragmentEngine.advance`), and keep the output."""
        evaluated = self.engine.advance(limit, tuples)
        if evaluated is not None:
            self.log.append(evaluated.rows, evaluated.watermarks_ms, evaluated.ingestion_times_us)
        return evaluated

    @property
    def has_work(self) -> bool:
        """Whether `evaluate` would evaluate anything."""
        return self.role is not ReplicaRole.WARMING and self.engine.ready

    @property
    def output_watermark_ms(self) -> int | None:
        """Timestamp up to which its output is complete; None before the first."""
        watermark_ms = self.log.end.watermark_ms
        return None if watermark_ms == NO_WATERMARK else watermark_ms

    def skip_to(self, data: Data) -> int:
        """Continue after a gap that no producer can fill; returns the number of lost tuples."""
        lost = self.inputs[data.stream].cursor.skip_to(data.chunk)
        self.receive(data)
        return lost

    def processed(self) -> dict[str, Position]:
        """Position in each input before which everything is contained in state and output."""
        if self.role is ReplicaRole.WARMING:
            return {}
        return {
            stream: position
            for stream, position in self.engine.positions().items()
            if (moved_at_ms := self.inputs[stream].moved_at_ms) is None
            or position.watermark_ms >= moved_at_ms
        }

    def snapshot(self) -> Snapshot:
        """The state, for a new peer replica."""
        positions = self.engine.positions()
        return Snapshot(
            fragment=self.stream,
            epoch=self.epoch,
            generation=self.generation,
            state=self.engine.snapshot(),
            inputs={
                stream: (entry.cursor.generation, positions[stream])
                for stream, entry in self.inputs.items()
            },
            log_base=self.log.base,
            log=self.log.chunks(),
            consumers=tuple(
                (*consumer, self.log.acknowledged(consumer)) for consumer in self.log.consumers
            ),
        )

    def install(self, snapshot: Snapshot) -> bool:
        """Adopt a peer replica's state; False if there is a gap between it and the waiting input.

        The output log is adopted too, so that this replica can send whatever a consumer lacks.
        """
        joined: dict[str, list[Chunk]] = {}
        for stream, entry in self.inputs.items():
            generation, cut = snapshot.inputs[stream]
            if entry.cursor.generation not in (0, generation):
                return False
            chunks = [rest for chunk in entry.waiting if (rest := chunk.after(cut)) is not None]
            if chunks and chunks[0].first_seq != cut.next_seq:
                return False
            joined[stream] = chunks
        self.engine = FragmentEngine(self.program)
        self.engine.restore(snapshot.state)
        self.log = OutputLog(self.engine.schema, base=snapshot.log_base)
        for chunk in snapshot.log:
            self.log.extend(chunk)
        for node, name, acknowledged in snapshot.consumers:
            self.log.subscribe((node, name), acknowledged)
        for stream, entry in self.inputs.items():
            generation, cut = snapshot.inputs[stream]
            entry.waiting.clear()
            entry.moved_at_ms = None
            entry.cursor.start(cut, generation)
            for chunk in joined[stream]:
                self.engine.offer(stream, chunk)
                entry.cursor.position = chunk.end
        self.epoch = max(self.epoch, snapshot.epoch)
        self.generation = snapshot.generation
        self.apply(RoleEvent.STATE_INSTALLED)
        return True

    def discard_state(self) -> None:
        """Discard state with a gap in its input, and wait for that of the peer replica."""
        self.apply(RoleEvent.STATE_BROKEN)
        for entry in self.inputs.values():
            entry.cursor.reset()
            entry.waiting.clear()

    def check_invariants(self) -> None:
        """Raise unless the replica is consistent; tests call this after every step."""
        self.log.check_invariants()
