"""A replica of a fragment: engine, inputs, output log and role.

Both replicas receive the same streams and evaluate them alike. The primary sends its output, the
standby only keeps it (active standby; reliable placement, §3.1). A standby that is sent part of its
input follows the primary's checkpoints (`ha.checkpoint`). A new secondary first subscribes to all
producers, so that they keep the tuples it will need, and only then asks its peer replica for the
state. The snapshot's cut therefore lies within the output that the producers keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ha.checkpoint import CheckpointReceiver, CheckpointSender, Cut
from ha.cursor import Receipt, Received, StreamCursor
from ha.departure import Departure, earlier
from ha.digest import OutputDigests
from ha.messages import ANY_BYTES, Ack, Columns, Data, Snapshot, Subscribe, Subscribed
from ha.output_log import OutputLog
from ha.roles import ReplicaRole, RoleEvent, succeed
from ha.throttle import Throttle
from streams.evaluate.engine import Evaluated, FragmentEngine
from streams.evaluate.rejected_count import RejectedCount
from streams.plan.compiler import Program
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, nothing_until

FIRST_GROUP_BYTES = 16 * 1024.0
"""What the output of a timestamp is taken to need before the first one."""

GROUP_KEPT = 0.9
"""How quickly a replica forgets by how much a timestamp's output was larger than it is now."""


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
    waiting_bytes
        Their memory.
    dropped_ms
        Watermark up to which waiting chunks were dropped. The state must contain these chunks.
    moved_at_ms
        First watermark after the input moved (see `Received.moved`). Sequence numbers before it
        are unknown to the producer.
    departs_ms
        Departure of the waiting chunks (`ha.messages.Data`).
    """

    schema: pa.Schema
    cursor: StreamCursor = field(default_factory=StreamCursor)
    waiting: list[Chunk] = field(default_factory=list[Chunk])
    waiting_bytes: int = 0
    dropped_ms: int = NO_WATERMARK
    moved_at_ms: int | None = None
    departs_ms: int | None = None

    def hold(self, chunk: Chunk) -> None:
        """Keep a chunk until the state is here."""
        self.waiting.append(chunk)
        self.waiting_bytes += chunk.size_bytes

    def keep_newest(self, most_bytes: int) -> int:
        """Keep only the newest chunks, and at least one; returns how many are dropped."""
        dropped = 0
        while self.waiting_bytes > most_bytes and len(self.waiting) > 1:
            oldest = self.waiting.pop(0)
            self.waiting_bytes -= oldest.size_bytes
            self.dropped_ms = oldest.end.watermark_ms
            dropped += 1
        return dropped

    def release(self) -> None:
        """Keep no chunk any more."""
        self.waiting.clear()
        self.waiting_bytes = 0
        self.dropped_ms = NO_WATERMARK
        self.departs_ms = None


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

    Attributes
    ----------
    throttle
        Whether it may evaluate nothing until its consumers have processed some of its output.
    sender, receiver
        The checkpoints that it sends as primary, and gets as standby.
    primary_ms
        Output watermark that another replica, acting as primary, has told last.
    departure
        The departure of its output, and what consumers claim to have.
    is_founder
        Whether it has begun its generation, and been primary ever since. No other replica has then
        made output of this generation.
    hold_ms
        Event time beyond which it evaluates nothing, while a change of its statement is agreed.
    stopped
        Inputs in which this standby has stopped before a discontinuity. Its primary's state takes
        it across. If it takes over, it crosses by itself.
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
        self.digests = OutputDigests()
        self.throttle = Throttle()
        self.sender, self.receiver = CheckpointSender(), CheckpointReceiver()
        self.primary_ms = NO_WATERMARK
        self.departure = Departure()
        self.is_founder = False
        self.stopped: set[str] = set()
        self.hold_ms: int | None = None
        self._room_bytes = ANY_BYTES
        self._group_bytes = FIRST_GROUP_BYTES

    def hold(self, until_ms: int | None) -> None:
        """Evaluate nothing beyond an event time, until told otherwise; None: go on."""
        self.hold_ms = self.engine.hold_ms = until_ms

    def revise(self, program: Program) -> set[str] | None:
        """Go on with a statement that was changed in place.

        Returns the inputs that must be read again from where they are, because columns are needed
        that were not asked for; None if it has evaluated beyond the cut: then it is of no use.
        """
        if not self.engine.revise(program):
            return None
        before = {stream: self.columns_of(stream) for stream in self.inputs}
        self.program = program
        wider = {s for s, had in before.items() if not set(self.columns_of(s)) <= set(had)}
        for stream in wider:
            entry = self.inputs[stream]
            if self.role is ReplicaRole.WARMING:
                entry.cursor.reset()
                entry.release()
            else:
                position = self.engine.position_of(stream)
                self.engine.drop_waiting(stream)
                entry.cursor.resume(position, entry.cursor.generation)
        return wider

    def begin_with(self, program: Program) -> None:
        """Give the state up, and wait for one of another replica, for a statement that changed."""
        self.discard_state(RoleEvent.STATE_UNUSABLE)
        self.program = program
        self.engine = FragmentEngine(program)

    def columns_of(self, stream: str) -> Columns:
        """The columns of an input that its program uses."""
        return tuple(place for place in self.program.needed_places(stream) if place)

    @property
    def accepts_subscribers(self) -> bool:
        """Whether its output log is complete, so that consumers may rely on it."""
        return self.role is not ReplicaRole.WARMING

    @property
    def complete_ms(self) -> int:
        """Up to where its output is complete, or, for a standby, that of its primary.

        The standby itself may not have come as far: it may have been sent only part of its input.
        """
        own_ms = self.log.end.watermark_ms
        return max(own_ms, self.primary_ms) if self.role is ReplicaRole.STANDBY else own_ms

    @property
    def known_ms(self) -> int:
        """Up to where some consumer or replica is known to have the fragment's output.

        As primary, it must be able to produce all output up to there.
        """
        heard_ms = [each.heard_ms for each in self.log.subscribers.values()]
        return max(self.primary_ms, *heard_ms, NO_WATERMARK)

    @property
    def readers_ms(self) -> int | None:
        """Up to where the reader that is furthest has the output; None: one has yet to say it."""
        if self.log.awaits_readers:
            return None
        had = [each.furthest for each in self.log.subscribers.values() if each.furthest is not None]
        return max(self.known_ms, *(each.watermark_ms for each in had), NO_WATERMARK)

    @property
    def is_behind(self) -> bool:
        """Whether a consumer or replica is known to have output that it has yet to produce."""
        return self.log.end.watermark_ms < self.known_ms

    @property
    def leads(self) -> bool:
        """Whether this standby has fed consumers output that its primary has yet to produce."""
        fed_ms = (each.heard_ms for each in self.log.subscribers.values() if each.feed)
        return (
            self.role is ReplicaRole.STANDBY and max(fed_ms, default=NO_WATERMARK) > self.primary_ms
        )

    @property
    def needs_state(self) -> bool:
        """Whether it cannot go on without its peer replica's state."""
        if self.role is ReplicaRole.STANDBY:
            # A standby that leads is further than its primary's state.
            return bool(self.stopped) and not self.leads
        return self.role is ReplicaRole.WARMING

    @property
    def is_passed(self) -> bool:
        """Whether the fragment's output goes on beyond where it has stopped.

        Then it cannot continue that output.
        """
        return self.role is ReplicaRole.STANDBY and self.is_passed_at(self.known_ms)

    def is_passed_at(self, output_ms: int) -> bool:
        """Whether output up to `output_ms` comes from beyond where it has stopped."""
        return any(self.inputs[stream].cursor.complete_ms < output_ms for stream in self.stopped)

    def continues(self, node: str, position: Position, *, processed: bool = True) -> bool:
        """As `Departure.continues`; True unless it is primary."""
        if self.role is not ReplicaRole.PRIMARY:
            return True
        return self.departure.continues(self.log, node, position, processed=processed)

    def claim(self, node: str, claim: Ack | Subscribe) -> Position | None:
        """As `Departure.claim`; None unless it is primary."""
        if self.role is not ReplicaRole.PRIMARY:
            return None
        return self.departure.claim(self.log, node, claim)

    @property
    def departs_ms(self) -> int | None:
        """As in `Departure`."""
        return self.departure.departs_ms

    def differs_from(self, node: str) -> bool:
        """As `Departure.differs_from`."""
        return self.departure.differs_from(self.log, node)

    def cross(self, stream: str) -> None:
        """Note that an input is about to cross a discontinuity."""
        self.departure.cross(self.inputs[stream].cursor.complete_ms)
        self.stopped.discard(stream)

    def learn_departure(self, departs_ms: int | None) -> None:
        """Note a departure of an input, or of a predecessor's output."""
        self.departure.learn(departs_ms)

    @property
    def feeds_subscribers(self) -> bool:
        """Whether it sends its output. A secondary keeps it until its peer replica is lost."""
        return self.role is ReplicaRole.PRIMARY

    def apply(self, event: RoleEvent, epoch: int = 0) -> bool:
        """Change role and epoch as the table in `ha.roles` says; returns whether the role changed.

        Parameters
        ----------
        epoch
            Of an event that brings one (`succeed`).
        """
        before = self.role
        self.role, self.epoch = succeed(before, self.epoch, event, epoch)
        if self.role is ReplicaRole.PRIMARY and before is not ReplicaRole.PRIMARY:
            self.log.rewind()
            self.sender = CheckpointSender()
            self.departure.promoted()
        if event is RoleEvent.FOUNDED:
            self.is_founder = True
        if self.role is not ReplicaRole.PRIMARY:
            self.is_founder = False
            self.departure.superseded()
        if self.role is ReplicaRole.WARMING:
            self.stopped.clear()
        return self.role is not before

    def receive(self, data: Data) -> Received:
        """Receive data of an input stream.

        Raises
        ------
        ChunkError
            The chunk breaks a promise of its stream.
        """
        received = self.inputs[data.stream].cursor.receive(data)
        if received.receipt is Receipt.ACCEPTED:
            entry = self.inputs[data.stream]
            if self.role is ReplicaRole.WARMING:
                entry.departs_ms = earlier(entry.departs_ms, data.departs_ms)
            else:
                self.learn_departure(data.departs_ms)
        self._take_in(data.stream, received)
        return received

    def learn_position(self, answer: Subscribed, at_us: int) -> bool:
        """Take the watermark in a producer's answer as received; returns whether it is news.

        If the replica waits for the tuple at the answer's position, it has received everything up
        to that watermark. No chunk may ever say so, because the stream may be at its end. A warming
        replica learns it from the state that it gets.

        Parameters
        ----------
        at_us
            Present time on the cluster's clock. It stands for the ingestion time, which the answer
            does not contain.
        """
        entry, until = self.inputs[answer.stream], answer.position
        if self.role is ReplicaRole.WARMING or until.watermark_ms == NO_WATERMARK:
            return False
        empty = nothing_until(until, entry.schema, at_us)
        received = entry.cursor.stand_at(empty, answer.generation)
        if received.chunk is None:
            return False
        self._take_in(answer.stream, received)
        return True

    def _take_in(self, stream: str, received: Received) -> None:
        """Offer received input to the engine, or keep it until the state is here."""
        entry = self.inputs[stream]
        if received.chunk is not None:
            self.stopped.discard(stream)
            if self.role is ReplicaRole.WARMING:
                entry.hold(received.chunk)
            else:
                if received.moved:
                    entry.moved_at_ms = int(received.chunk.watermarks_ms[0])
                    cut = Position(next_seq=received.chunk.first_seq)
                    self.engine.skip_to(stream, cut)
                self.engine.offer(stream, received.chunk)
        elif entry.cursor.has_filtered_all:
            entry.moved_at_ms = entry.cursor.floor_ms
            self.engine.skip_to(stream, entry.cursor.arrive())

    def drop_waiting(self, stream: str, departs_ms: int) -> bool:
        """Give up input that was received and not evaluated; returns whether that is enough.

        It is not if input from beyond the departure was evaluated. Then the state has to go.
        """
        position = self.processed_of(stream)
        if position is None or position.watermark_ms > departs_ms:
            return False
        entry = self.inputs[stream]
        self.engine.drop_waiting(stream)
        entry.cursor.resume(position, entry.cursor.generation)
        return True

    def waiting_bytes_of(self, stream: str) -> int:
        """Memory of received chunks of one input that are not evaluated."""
        if self.role is ReplicaRole.WARMING:
            return self.inputs[stream].waiting_bytes
        return self.engine.waiting_bytes_of(stream)

    def update_held_up(self, now_us: int) -> bool:
        """Notice whether consumers hold it up; returns whether they have just ceased to.

        A standby sends nothing, so it goes on until its output log is full of demanded output.
        """
        was_held_up = self.throttle.held_up
        by_credit = self.role is ReplicaRole.PRIMARY
        self._room_bytes = self.log.room_bytes(now_us, by_credit=by_credit)
        held_up = self._room_bytes < 0
        self.throttle.update(now_us, held_up=held_up)
        return was_held_up and not held_up

    def evaluate(self, limit: int, tuples: int | None = None) -> Evaluated | None:
        """Evaluate complete timestamp groups (`FragmentEngine.advance`), and keep the output.

        Evaluates at least one, and no more than the output log should have room for, by the output
        of the last ones. What is returned has no watermark if a loop was left in between.
        """
        fitting = int(max(self._room_bytes, 0) / self._group_bytes)
        evaluated = self.engine.advance(max(min(limit, fitting), 1), tuples, whole=False)
        if evaluated is not None and len(evaluated.watermarks_ms):
            chunk = self.log.append(
                evaluated.rows, evaluated.watermarks_ms, evaluated.ingestion_times_us
            )
            self.digests.add(chunk)
            self._room_bytes -= chunk.size_bytes
            group_bytes = chunk.size_bytes / len(chunk.watermarks_ms)
            self._group_bytes = max(group_bytes, self._group_bytes * GROUP_KEPT)
        return evaluated

    @property
    def counts_from_ms(self) -> int | None:
        """From where STIME and ETIME of its periodic statement count; None: nobody can say yet."""
        return None if (limited := self.engine.limited) is None else limited.counts_from_ms

    @property
    def ended_ms(self) -> int | None:
        """The ETIME that its periodic statement has passed; None: there is none."""
        return None if (limited := self.engine.limited) is None else limited.ended_ms

    @property
    def rejected_count(self) -> RejectedCount | None:
        """What it has left out, as `FragmentEngine.rejected_count` says."""
        return self.engine.rejected_count

    @property
    def has_work(self) -> bool:
        """Whether `evaluate` would evaluate anything, and may."""
        return (
            self.role is not ReplicaRole.WARMING and not self.throttle.held_up and self.engine.ready
        )

    @property
    def output_watermark_ms(self) -> int | None:
        """Timestamp up to which its output is complete; None before the first."""
        watermark_ms = self.log.end.watermark_ms
        return None if watermark_ms == NO_WATERMARK else watermark_ms

    def processed(self) -> dict[str, Position]:
        """Position in each input before which everything is contained in state and output.

        An input that crosses a discontinuity needs no tuples that it has filtered beyond it. After
        that it has no position until its first tuples from beyond are processed: earlier positions
        mean nothing to the producer.
        """
        found = {stream: self.processed_of(stream) for stream in self.inputs}
        return {stream: position for stream, position in found.items() if position is not None}

    def processed_of(self, stream: str) -> Position | None:
        """The position of one input in `processed`, if it has one."""
        entry = self.inputs[stream]
        if self.role is ReplicaRole.WARMING:
            return None
        if entry.cursor.crossing:
            return entry.cursor.position
        position = self.engine.position_of(stream)
        is_passed = entry.moved_at_ms is None or position.watermark_ms >= entry.moved_at_ms
        return position if is_passed else None

    def cut(self) -> Cut | None:
        """Its state, and its position in each input and in the output.

        None if nobody could continue from there: the replica is warming up, an input is crossing a
        discontinuity, no producer has said yet where an input begins, or a loop was left within a
        timestamp group.
        """
        if not self.engine.between_timestamps:
            return None
        positions = self.processed()
        cursors = [entry.cursor for entry in self.inputs.values()]
        if any(each.crossing or each.position is None for each in cursors):
            return None
        if positions.keys() != self.inputs.keys():
            return None
        for entry in self.inputs.values():
            # The peer continues from there.
            entry.cursor.provisional = False
        return Cut(
            inputs={
                stream: (entry.cursor.generation, positions[stream])
                for stream, entry in self.inputs.items()
            },
            output=self.log.end,
            state=self.engine.snapshot(),
            departs_ms=self.departs_ms,
        )

    def snapshot(self) -> Snapshot | None:
        """The state, for a new peer replica; None if it could not continue from now (`cut`)."""
        cut = self.cut()
        if cut is None:
            return None
        return Snapshot(
            fragment=self.stream,
            epoch=self.epoch,
            generation=self.generation,
            state=cut.state,
            inputs=cut.inputs,
            log_base=self.log.base,
            log=self.log.chunks(),
            consumers=tuple(
                (
                    node,
                    subscriber.acknowledged,
                    subscriber.patient,
                    subscriber.demanded is not None,
                )
                for node, subscriber in self.log.subscribers.items()
            ),
            departs_ms=cut.departs_ms,
        )

    def install(self, snapshot: Snapshot) -> bool:
        """Adopt a peer replica's state, unless it is too old; returns whether it was adopted.

        It is too old if the fragment has started over since, or if there is a gap between it and
        the waiting input. The output log is adopted too, so that this replica can send whatever a
        consumer lacks.

        Raises
        ------
        SnapshotError, ChunkError, InvariantViolation
            The snapshot contradicts itself or this fragment. The replica is unchanged.
        """
        if snapshot.generation < self.generation:
            return False
        waiting = {stream: self.waiting(stream) for stream in self.inputs}
        joined = self._following(snapshot.inputs, waiting)
        if joined is None:
            return False
        engine = FragmentEngine(self.program)
        engine.restore(snapshot.state)
        log = OutputLog(
            engine.schema, base=snapshot.log_base, capacity_bytes=self.log.capacity_bytes
        )
        for node, acknowledged, patient, demands in snapshot.consumers:
            known = self.log.subscribers.get(node)
            log.subscribe(
                node,
                acknowledged,
                feed=known is not None and known.feed,
                patient=patient,
                demands=demands,
                columns=None if known is None else known.columns,
            )
            if known is not None and snapshot.generation == self.generation:
                subscriber = log.subscribers[node]
                subscriber.received_ms, subscriber.furthest = known.received_ms, known.furthest
        for chunk in snapshot.log:
            log.extend(chunk)
        if snapshot.generation > self.generation:
            # Departures of former generations say nothing of this one.
            self.departure = Departure()
        for each in (snapshot.departs_ms, *(entry.departs_ms for entry in self.inputs.values())):
            self.learn_departure(each)
        self._continue(engine, snapshot.inputs, joined)
        self.log = log
        self.digests = OutputDigests(log.end.watermark_ms)
        self.generation = snapshot.generation
        self.primary_ms = NO_WATERMARK
        self.apply(RoleEvent.STATE_INSTALLED, snapshot.epoch)
        return True

    def follow(self, generation: int, cut: Cut) -> bool:
        """Go on from a cut of the primary, if it lies ahead; returns whether it did.

        Every consumer has acknowledged the output up to there.

        Raises
        ------
        SnapshotError
            The state contradicts itself or this fragment. The replica is unchanged.
        """
        if self.role is not ReplicaRole.STANDBY or generation != self.generation:
            return False
        if cut.output.watermark_ms <= self.log.end.watermark_ms:
            return False
        waiting = {stream: self.waiting(stream) for stream in self.inputs}
        joined = self._following(cut.inputs, waiting)
        if joined is None:
            return False
        engine = FragmentEngine(self.program)
        engine.restore(cut.state)
        self._continue(engine, cut.inputs, joined)
        self.log.skip_to(cut.output)
        self.learn_departure(cut.departs_ms)
        self.digests = OutputDigests(cut.output.watermark_ms)
        return True

    def waiting(self, stream: str) -> Sequence[Chunk]:
        """Received chunks of an input that are not evaluated."""
        if self.role is ReplicaRole.WARMING:
            return self.inputs[stream].waiting
        return self.engine.waiting_chunks(stream)

    def _following(
        self, inputs: dict[str, tuple[int, Position]], waiting: Mapping[str, Sequence[Chunk]]
    ) -> dict[str, list[Chunk]] | None:
        """Received chunks of each input beyond a cut; None if there is a gap in between."""
        joined: dict[str, list[Chunk]] = {}
        for stream, entry in self.inputs.items():
            generation, cut = inputs[stream]
            if stream in self.stopped:
                if not _is_beyond(entry.cursor, cut, generation):
                    return None
                joined[stream] = []
                continue
            if entry.cursor.generation not in (0, generation):
                return None
            if entry.dropped_ms > cut.watermark_ms:
                return None
            if any(chunk.contradicts(cut) for chunk in waiting[stream]):
                # The waiting chunks are of another history than the cut.
                if self.role is not ReplicaRole.WARMING:
                    return None
                joined[stream] = []
                continue
            chunks = [rest for chunk in waiting[stream] if (rest := chunk.after(cut)) is not None]
            if chunks and chunks[0].first_seq != cut.next_seq:
                return None
            joined[stream] = chunks
        return joined

    def _continue(
        self,
        engine: FragmentEngine,
        inputs: dict[str, tuple[int, Position]],
        joined: dict[str, list[Chunk]],
    ) -> None:
        """Go on with an engine that stands at a cut, and with the chunks received beyond it."""
        engine.hold_ms = self.hold_ms
        for stream, chunks in joined.items():
            for chunk in chunks:
                engine.offer(stream, chunk)
        self.engine = engine
        for stream, entry in self.inputs.items():
            generation, cut = inputs[stream]
            if stream in self.stopped:
                # Timestamps that were complete here may have tuples at the primary, from beyond.
                entry.cursor.reset()
            entry.release()
            entry.moved_at_ms = None
            entry.cursor.resume(joined[stream][-1].end if joined[stream] else cut, generation)
        self.stopped.clear()

    def discard_state(self, event: RoleEvent = RoleEvent.STATE_BROKEN) -> bool:
        """Discard the state, unless there is no other; returns whether it is gone.

        The replica then waits for the state of its peer replica.
        """
        self.apply(event)
        if self.role is not ReplicaRole.WARMING:
            return False
        for entry in self.inputs.values():
            entry.cursor.reset()
            entry.release()
        self.throttle = Throttle()
        self.receiver.reset()
        return True

    def check_invariants(self) -> None:
        """Raise unless the replica is consistent; tests call this after every step."""
        self.log.check_invariants()


def _is_beyond(cursor: StreamCursor, cut: Position, generation: int) -> bool:
    """Whether a cut lies beyond the discontinuity before which a cursor has stopped."""
    position = cursor.position
    return position is None or (generation, cut.next_seq) > (cursor.generation, position.next_seq)
