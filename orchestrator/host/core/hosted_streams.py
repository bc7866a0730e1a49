"""Streams that enter and streams that leave at this host.

A stream that leaves is received exactly once, and its latency is measured. A watermark completes a
timestamp: all results up to it have arrived, even if there are none ("no alert as of now"). Latency
is measured for every completed timestamp, from the ingestion time of the newest tuple that could
have affected it. The deadline-miss ratio is the share of output tuples that arrived later than the
deadline. Late completed timestamps, with or without tuples, are counted separately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from foundation.timestamps import timestamp_text
from ha.beginning import Beginning
from ha.cursor import Receipt, StreamCursor, past
from ha.handover import Handover
from ha.lag import StandbyLag
from ha.messages import ANY_BYTES, Data, Subscribe
from ha.output_log import OutputLog
from ha.roles import ReplicaRole, RoleEvent, succeed
from ha.throttle import Throttle
from orchestrator.edges.events import (
    Deliver,
    Durable,
    SourceEmitted,
    SourceLocated,
    SourceReread,
    Wanted,
)
from orchestrator.host.core.durations import Durations
from orchestrator.host.core.recent_latencies import RecentLatencies
from orchestrator.records import (
    InputStatus,
    Late,
    SinkAssignment,
    SinkStatus,
    Skipped,
    SourceAssignment,
    SourceStatus,
)
from streams.scheduling.entry_queue import EntryQueue
from streams.scheduling.miss_ratio import MissRatio
from streams.scheduling.shedder import Shedder, value_of
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, rows_bytes, stream_schema

ENTRIES = 32
"""The number of tuples that come at once is averaged over so many entries: few enough to be over
within seconds, many enough to be even."""

EPISODE_US = 60_000_000
QUIET_US = 1_000_000
"""Dropping overdue tuples is one incident until none was dropped for the latter time, and is told
after the former in any case."""

MOST_LOCATED = 64
"""Event times whose positions a source remembers. Hosts ask again until they get a position."""


class HostedSource:
    """A `Producer` of tuples from outside.

    Two sites may bring in the same stream. Like the replicas of a fragment, they have roles and
    epochs (`ha.roles`): both number the same tuples alike and keep them, and the primary sends
    them. As soon as the primary's site is lost, the standby sends the tuples that consumers lack.
    It can take over once its source is open. It lags until it has come as far as the primary. A
    site whose source has failed is neither primary nor standby until the source is opened again.

    A source that resumes is numbered alike by every process that reads it. Its log begins at the
    position that the source had reached when this process opened it. A host may lack earlier
    tuples, because the site was killed or the log was full. The source then reads them again, piece
    by piece, and they are sent to that host.

    If overdue tuples of the stream are to be dropped, tuples wait unnumbered until consumers take
    them (`streams.scheduling.entry_queue`), and the source is read all the time.

    Parameters
    ----------
    assignment
        The stream, its columns, its load shedding and its generation.

    Attributes
    ----------
    accepts_subscribers
        Whether it is known where the log begins.
    sought
        Event time → hosts that are to be subscribed once it is known where the stream stood then.
    previous_watermark_ms
        Highest watermark that a consumer has reported of an earlier generation.
    skipped
        The range that the stream left out when it began anew.
    throttle
        Whether the source waits for consumers.
    slipped_us
        By how much the source's time axis has slipped because of that.
    input
        Figures of what a live source has taken in and refused.
    room_bytes
        What tuples that wait unnumbered may take.
    role, epoch
        Role of this site, and fencing number.
    handover
        Its knowledge of its successor while it goes on as primary; None: it has none.
    primary_ms
        Output watermark that the other site, as primary, has told last.
    failed
        Whether the source has failed, and was not opened since.
    waits_for
        What the open source waits for before it can read on; None: nothing.
    told_role, told_epoch
        Role and epoch that the store may know. They differ from the present ones while a takeover
        may be in vain, because the host hears nobody.
    """

    def __init__(self, assignment: SourceAssignment) -> None:
        self.assignment = assignment
        self.stream = assignment.stream
        self.generation = assignment.generation
        # A source depends on no other stream.
        self.departs_ms: int | None = None
        self.role, self.epoch = ReplicaRole.WARMING, max(assignment.epoch, assignment.generation)
        self.told_role, self.told_epoch = self.role, self.epoch
        self.handover: Handover | None = None
        self.primary_ms = NO_WATERMARK
        self.failed = False
        self.waits_for: str | None = None
        self._has_followed = False
        self._lag = StandbyLag()
        self.accepts_subscribers = assignment.source is None
        if self.accepts_subscribers:
            self._take_role()
        schema = stream_schema(assignment.columns)
        self.log = OutputLog(schema, rereadable=assignment.resumes)
        self._shedder: Shedder | None = None
        self._shed = self._overflowed = self._overdue = 0
        self._waiting = EntryQueue()
        self._episode: tuple[int, int, int] | None = None
        """When tuples were first dropped as overdue, when last, and how many; until it is told."""
        self.room_bytes = ANY_BYTES
        self._together = self._tuple_bytes = self._entries = 0.0
        self._withheld: SourceEmitted | None = None
        self._withheld_tuples = self._withheld_from_ms = 0
        self.throttle, self._overflowing = Throttle(), Throttle()
        self.slipped_us = 0
        self.input: InputStatus | None = None
        self.sought: dict[int, dict[str, Subscribe]] = {}
        self.previous_watermark_ms = NO_WATERMARK
        self._demanded_ms: int | None = None
        self._begins_after_ms: int | None = None
        self.skipped: Skipped | None = None
        if (shed := assignment.shed) is not None:
            value = None if shed.value is None else value_of(shed.value, schema)
            self._shedder = Shedder(shed.tuples, round(shed.per_ms * 1000), value)

    @property
    def complete_ms(self) -> int:
        """Up to where the output is complete."""
        return self.log.end.watermark_ms

    @property
    def output_watermark_ms(self) -> int | None:
        """Timestamp up to which the output is complete; None before the first."""
        return None if self.complete_ms == NO_WATERMARK else self.complete_ms

    @property
    def feeds_subscribers(self) -> bool:
        """Whether it sends its output. A standby keeps it until the other site is lost."""
        return self.role is ReplicaRole.PRIMARY

    @property
    def peer_replica(self) -> str | None:
        """The other site that brings the stream in."""
        return self.assignment.peer_site

    @property
    def lags(self) -> bool:
        """Whether it is a standby, and the primary has sent more than it has read."""
        if self.role is not ReplicaRole.STANDBY:
            return False
        return not self._has_followed or self._lag.since_us is not None

    @property
    def stalled(self) -> bool:
        """Whether it can read nothing at present, so that the other site should take over."""
        return self.failed or self.waits_for is not None

    def differs_from(self, node: str) -> bool:
        """False: a source depends on no other stream, so its output has one history."""
        return False

    def hear_peer(self, watermark_ms: int | None, now_us: int) -> None:
        """Note a message of the other site: its role, and as primary how far it has come."""
        if watermark_ms is not None:
            self.primary_ms = watermark_ms
            self._lag.observe(watermark_ms, self.complete_ms, now_us, 0)
        if watermark_ms is None or self.complete_ms >= watermark_ms:
            self._has_followed = True

    @property
    def superseded_in(self) -> int | None:
        """The newest epoch in which another site is primary, while this one still acts."""
        a = self.assignment
        planned = a.epoch if a.role == "secondary" else 0
        epoch = max(planned, 0 if self.handover is None else self.handover.epoch)
        return epoch if self.role is ReplicaRole.PRIMARY and epoch > self.epoch else None

    def use(self, assignment: SourceAssignment) -> None:
        """Adopt a changed assignment, and the role in it if it is of a newer epoch."""
        self.assignment = assignment
        if assignment.role == "primary":
            if self.apply(RoleEvent.PROMOTED, assignment.epoch):
                self.handover = None
        elif self.role is not ReplicaRole.PRIMARY:
            # A primary goes on until it hears its successor (`ha.handover`).
            self.apply(RoleEvent.SUPERSEDED, assignment.epoch)
        elif assignment.epoch == self.epoch:
            # Both have begun this epoch, and the store names the other one.
            self.apply(RoleEvent.OVERRULED, assignment.epoch)
            self.handover = None
        if assignment.epoch >= self.epoch:
            self.announce()

    def apply(self, event: RoleEvent, epoch: int = 0) -> bool:
        """Change role and epoch (`ha.roles.succeed`); returns whether the role changed."""
        before = self.role, self.epoch
        self.role, self.epoch = succeed(*before, event, epoch)
        if self.role is ReplicaRole.PRIMARY and before[0] is ReplicaRole.STANDBY:
            self.log.rewind()
        if event is not RoleEvent.PEER_REPLICA_LOST and (self.role, self.epoch) != before:
            self.announce()
        return self.role is not before[0]

    def announce(self) -> None:
        """Let the store know role and epoch."""
        self.told_role, self.told_epoch = self.role, self.epoch

    def _take_role(self) -> None:
        a = self.assignment
        # The other site may have taken over before this one had opened the source.
        is_primary = a.role == "primary" and self.epoch <= max(a.epoch, a.generation)
        self.apply(RoleEvent.FOUNDED if is_primary else RoleEvent.STATE_INSTALLED, a.epoch)
        self._has_followed = False
        self._lag.reset()

    def fail(self) -> None:
        """Leave the stream to the other site, if there is one, until the source is open again."""
        self.failed, self.waits_for = True, None
        if self.peer_replica is not None and self.accepts_subscribers:
            self.apply(RoleEvent.STATE_UNUSABLE)
            self.handover = None

    def open(self, position: Position, now_us: int) -> None:
        """Begin the log at the source's position, unless it has begun already.

        A stream that begins anew has no tuples up to there. A watermark says so, because the source
        may be at its end.
        """
        self.failed = False
        if self.accepts_subscribers:
            if self.role is ReplicaRole.WARMING:
                self._take_role()
            return
        self.accepts_subscribers = True
        self._take_role()
        if self.assignment.resumes:
            capacity_bytes = self.log.capacity_bytes
            self.log = OutputLog(
                self.log.schema, base=position, capacity_bytes=capacity_bytes, rereadable=True
            )
        elif position.watermark_ms != NO_WATERMARK:
            self._begins_after_ms = position.watermark_ms
            passed: IntArray = np.array([position.watermark_ms])
            nothing = pa.RecordBatch.from_pylist([], schema=self.log.schema)
            self.log.append(nothing, passed, np.array([now_us]))

    def asked(self, request: Subscribe) -> None:
        """Note how far a consumer had come in a former generation, if the stream began anew.

        Of the consumers that demand the stream, the one that had least counts, because it lacks
        most. Other consumers, such as standbys, may have had less by design. They count only as
        long as nobody demands the stream.
        """
        generation, had_ms = request.generation, request.complete_ms
        if (begins := request.begins) is not None and begins.delivered_ms != NO_WATERMARK:
            # The reader has lost its state: what that had received further on is of no use.
            generation, had_ms = 0, begins.delivered_ms
        if self.assignment.resumes or generation is None or had_ms is None:
            return
        if generation >= self.generation:
            return
        self.previous_watermark_ms = max(self.previous_watermark_ms, had_ms)
        if request.demands:
            known_ms = self._demanded_ms
            self._demanded_ms = had_ms if known_ms is None else min(known_ms, had_ms)

    def unexplained(self) -> Skipped | None:
        """The range that the stream left out when it began anew, if nobody has looked at it yet."""
        had_ms = self.previous_watermark_ms if self._demanded_ms is None else self._demanded_ms
        until_ms = self._begins_after_ms
        if had_ms == NO_WATERMARK or until_ms is None or until_ms <= had_ms:
            return None
        known = self.skipped
        if known is not None and (known.after_ms, known.until_ms) == (had_ms, until_ms):
            return None
        return Skipped(after_ms=had_ms, until_ms=until_ms)

    def seek(self, node: str, request: Subscribe, begins: Beginning) -> None:
        """Look up the position of a host that needs the stream from before the log."""
        self.sought.setdefault(begins.after_ms, {})[node] = request

    def located(self, event: SourceLocated) -> dict[str, Subscribe]:
        """Note where the stream stood at an event time; returns the requests that waited for it."""
        located = self.log.located
        located[event.after_ms] = event.position
        for oldest in list(located)[:-MOST_LOCATED]:
            del located[oldest]
        return self.sought.pop(event.after_ms, {})

    def wanted(self) -> Iterator[Wanted]:
        """Parts of the stream that must be read again."""
        for node, after in self.log.wanted():
            if not (self.feeds_subscribers or self.log.subscribers[node].feed):
                continue
            yield Wanted(self.stream, node, after, self.log.base)

    def reread(self, event: SourceReread) -> Data | None:
        """The part of a piece that was read again to send to the host; None if none."""
        emitted = event.emitted
        chunk = Chunk(
            first_seq=event.after.next_seq,
            rows=emitted.rows,
            watermarks_ms=emitted.watermarks_ms,
            ingestion_times_us=emitted.ingestion_times_us,
        )
        piece = self.log.reread(event.node, event.after, chunk)
        if piece is None:
            return None
        return Data(
            stream=self.stream,
            epoch=self.epoch,
            generation=self.generation,
            chunk=piece,
            columns=self.log.subscribers[event.node].columns,
            whole_bytes=piece.size_bytes,
        )

    def update_held_up(self, now_us: int) -> bool:
        """Notice whether consumers hold the source up; returns whether it must not be read.

        A source that can wait is not read meanwhile. Any other goes on until the output log is full
        of demanded tuples (`enter`), or until they are overdue (`take_in`).
        """
        # A standby sends nothing: it goes on until its log is full of what consumers demand.
        by_credit = self.feeds_subscribers
        held_up = self.assignment.waits and self.log.is_held_up(now_us, by_credit=by_credit)
        self.throttle.update(now_us, held_up=held_up)
        self._overflowing.update(now_us, held_up=self._withheld is not None)
        return held_up

    def enter(self, emitted: SourceEmitted, now_us: int) -> None:
        """Number the tuples that the load shedder admits, and keep them in the output log.

        Shed tuples are never numbered, so consumers see no gap. If the source cannot wait and the
        log is full of demanded tuples, new ones are dropped. They count as shed if the stream has a
        load shedder, else as lost. Their watermarks enter when there is room again.
        """
        rows = emitted.rows
        if rows.num_rows:
            self._entries = min(self._entries + 1, ENTRIES)
            self._together += (rows.num_rows - self._together) / self._entries
            tuple_bytes = rows_bytes(rows) / rows.num_rows
            self._tuple_bytes += (tuple_bytes - self._tuple_bytes) / self._entries
        if self._begins_after_ms is None:
            first_ms = rows.column(0)[0].as_py() if rows.num_rows else emitted.watermarks_ms[0]
            self._begins_after_ms = min(int(first_ms), int(emitted.watermarks_ms[0])) - 1
        if self._shedder is not None:
            admitted = self._shedder.admit(rows, now_us)
            rows = admitted.kept
            self._shed += admitted.dropped
        if self.assignment.overdue_after_ms is not None:
            self._waiting.put(rows, emitted.watermarks_ms, emitted.ingestion_times_us)
            return
        if not self.assignment.waits and self.log.is_held_up(now_us, by_credit=False):
            self._withhold(emitted, rows.num_rows)
            return
        self.log.append(rows, emitted.watermarks_ms, emitted.ingestion_times_us)

    def take_in(self, now_us: int, at_us: int) -> bool:
        """Number the waiting tuples that consumers take, once those that are overdue are dropped.

        Returns whether there is something to send.

        Parameters
        ----------
        at_us
            Now, on the cluster's clock.
        """
        if not self._waiting:
            return False
        after_ms, before = self.assignment.overdue_after_ms, self.log.end
        if after_ms is None:
            # They wait for consumers in the log, as the tuples will that come later.
            while self._waiting:
                self._append(self._waiting.take())
            return True
        dropped = self._waiting.drop_before(at_us - round(1000 * after_ms))
        dropped += self._waiting.drop_beyond(self.room_bytes)
        if dropped:
            self._overdue += dropped
            first_us, _, so_far = self._episode or (now_us, now_us, 0)
            self._episode = first_us, now_us, so_far + dropped
        while self._waiting:
            room_bytes = self.log.room_bytes(now_us, by_credit=self.feeds_subscribers)
            if room_bytes < 0:
                break
            self._append(self._waiting.take(room_bytes))
        return self.log.end != before

    def _append(self, chunk: Chunk) -> None:
        self.log.append(chunk.rows, chunk.watermarks_ms, chunk.ingestion_times_us)

    def tell_overdue(self, now_us: int) -> str | None:
        """How many overdue tuples were dropped, once that is over or has lasted long; only once."""
        if self._episode is None:
            return None
        first_us, last_us, dropped = self._episode
        if now_us - last_us < QUIET_US and now_us - first_us < EPISODE_US:
            return None
        self._episode = None
        return (
            f"{dropped} tuples within {(last_us - first_us) / 1e6:.1f} s: they had waited for "
            f"consumers until no deadline could be kept with them; {self._overdue} since the site "
            "has had the stream"
        )

    @property
    def waiting_bytes(self) -> int:
        """Memory of the tuples that wait unnumbered."""
        return self._waiting.size_bytes

    def _withhold(self, emitted: SourceEmitted, tuples: int) -> None:
        if self._withheld is None:
            self._withheld_tuples, self._withheld_from_ms = 0, self.log.end.watermark_ms
        self._withheld = emitted
        self._withheld_tuples += tuples
        if self._shedder is not None:
            self._shed += tuples
        else:
            self._overflowed += tuples

    def release(self, now_us: int) -> str | None:
        """Let a waiting watermark enter if there is room; returns the loss before it, if any."""
        withheld = self._withheld
        if withheld is None or self.log.is_held_up(now_us, by_credit=False):
            return None
        self._withheld = None
        self.log.append(
            withheld.rows.slice(0, 0), withheld.watermarks_ms[-1:], withheld.ingestion_times_us[-1:]
        )
        if self._shedder is not None:
            return None
        after, until = map(timestamp_text, (self._withheld_from_ms, self.log.end.watermark_ms))
        return (
            f"{self._withheld_tuples} tuples with timestamps after {after} up to {until} came "
            "while the buffer was full of what consumers had yet to process"
        )

    @property
    def status(self) -> SourceStatus:
        """Figures of the source for the host's record."""
        known = self._entries == ENTRIES
        return SourceStatus(
            next_seq=self.log.end.next_seq,
            shed=self._shed,
            overdue=self._overdue,
            waiting=self._waiting.tuples,
            skipped=self.skipped,
            throttled=self.throttle.lately,
            slipped_ms=self.slipped_us / 1000,
            overflowed=self._overflowed,
            overflowing=self._shedder is None and self._overflowing.lately,
            input=self.input,
            role=self.told_role,
            epoch=self.told_epoch,
            lags=self.lags,
            together=round(self._together, 2) if known else None,
            tuple_bytes=round(self._tuple_bytes, 1) if known else None,
        )


LATENCY_WINDOW = 20_000
"""Completed timestamps over which percentiles are computed: a minute or two of a fast stream."""

FRESH_SHARE = 1 / 20
"""Percentiles are computed anew once this share of the latencies is new. A site may have a hundred
sinks, and reports every second."""

LEAST_LATENCY_US = 1000
"""Latencies are counted from 1 ms to 16 s."""

MISS_WINDOW_US = 10_000_000
"""Time over which the recent deadline-miss ratio is computed."""


class HostedSink:
    """The sink of one stream at this host.

    Its figures count each timestamp once. A sink that is opened again gets again the deliveries
    that its driver had not kept.
    """

    def __init__(self, assignment: SinkAssignment) -> None:
        self.assignment = assignment
        self.schema = stream_schema(assignment.columns)
        self.cursor = StreamCursor()
        self.is_open = self.was_open = False
        self.kept_ms: int | None = None
        self.address: str | None = None
        self.readers_dropped = 0
        self._latencies = RecentLatencies(LATENCY_WINDOW)
        self._all_latencies = Durations(LEAST_LATENCY_US)
        self._percentiles_ms: tuple[float, ...] = ()
        self._ranked = 0
        """How many latencies were measured when percentiles were computed."""
        self._rows = 0
        self._completed_timestamps = 0
        self._made_again = 0
        self._misses = 0
        self._lost = 0
        self._lost_before = 0
        self._lost_now = 0
        self._removed = 0
        """Tuples that the driver had kept and has no more, until they are counted as lost."""
        self._repeated = 0
        self._counted_ms = NO_WATERMARK
        self._late_dropped = 0
        self._dropped: dict[int, int] = {}
        """Watermark up to which late tuples were dropped, and the driver has not kept that → how
        many."""
        self._late_rows = MissRatio(assignment.deadline_ms * 1000, MISS_WINDOW_US)
        self._held: deque[tuple[Chunk, int]] = deque()
        self.held_bytes = 0
        """Memory of the deliveries that the driver has not kept for good."""

    def open(self, durable: Durable | None) -> None:
        """Receive everything after the tuples that the driver has kept for good."""
        self.is_open = self.was_open = True
        self._repeated += self.cursor.repeated_tuples
        # A loss that no delivery has counted will be noticed again.
        had, generation = self.cursor.kept, self.cursor.generation
        self._removed = 0
        if durable is not None and had is not None and durable.generation == generation:
            self._removed = max(had.next_seq - durable.position.next_seq, 0)
        self._lost_before = self._lost_now = 0
        self.cursor = StreamCursor()
        self._held.clear()
        self.held_bytes = 0
        if durable is not None:
            self.cursor.start(durable.position, durable.generation)
            self.cursor.kept = durable.position
            self.kept_ms = durable.position.watermark_ms

    def close(self) -> None:
        """Receive nothing until the driver works again."""
        self.is_open = False
        self._held.clear()
        self.held_bytes = 0

    def held_chunks(self) -> list[Chunk]:
        """The deliveries that the driver has not kept for good, oldest first."""
        return [chunk for chunk, _ in self._held]

    def flushed(self, durable: Durable) -> None:
        """Note what the driver has kept for good.

        Numbers of an earlier generation than the cursor's mean nothing to producers.
        """
        self.kept_ms = durable.position.watermark_ms
        if durable.generation == self.cursor.generation:
            self.cursor.kept = durable.position
        for watermark_ms in [each for each in self._dropped if each <= self.kept_ms]:
            del self._dropped[watermark_ms]
        # Timestamps rise also from one generation to the next.
        while self._held and self._held[0][0].watermark_ms <= durable.position.watermark_ms:
            self.held_bytes -= self._held.popleft()[0].size_bytes

    @property
    def processed(self) -> Position | None:
        """Position before which producers need keep nothing for it.

        While its cursor crosses a discontinuity, this is the position beyond up to which it has
        filtered, once everything from before the discontinuity has been kept for good.
        """
        if self.cursor.crossing and not self._held:
            return self.cursor.position
        return self.cursor.kept

    def use(self, assignment: SinkAssignment) -> None:
        """Adopt a changed assignment, such as one with another deadline.

        Tuples that have arrived keep the judgement by the deadline that held then.
        """
        self.assignment = assignment
        self._late_rows.deadline_us = assignment.deadline_ms * 1000

    def lose(self, tuples: int) -> None:
        """Count tuples that no producer keeps, just before the next delivery."""
        position = self.cursor.position
        removed = min(tuples, self._removed)
        self._removed -= removed
        counted = position is not None and position.watermark_ms < self._counted_ms
        self._lost_now += removed if counted else tuples
        self._lost_before += tuples

    def receive(self, data: Data, now_us: int) -> tuple[Receipt, list[Deliver]]:
        """Receive the part of `data` that is new, without what is late if that is to be dropped."""
        before = self.cursor.position
        received = self.cursor.receive(data)
        chunk = received.chunk
        if chunk is None:
            return received.receipt, []
        if self.cursor.kept is None:
            self.cursor.kept = before
        late = self._dropped_late(chunk, now_us)
        if (fresh := past(chunk, self._counted_ms)) is not None:
            self._counted_ms = chunk.watermark_ms
            self._measure(fresh, now_us)
        self._lost += self._lost_now
        self._lost_now = 0
        lost, self._lost_before = self._lost_before, 0
        found: list[Deliver] = []
        for part, dropped in _parted(chunk, late):
            self._held.append((part, now_us))
            self.held_bytes += part.size_bytes
            found.append(
                Deliver(
                    stream=data.stream,
                    epoch=data.epoch,
                    generation=data.generation,
                    chunk=part,
                    lost=lost,
                    late=dropped,
                    arrived_us=now_us,
                )
            )
            lost = 0
        return received.receipt, found

    def _dropped_late(self, chunk: Chunk, now_us: int) -> IntArray | None:
        """How many tuples are dropped of each watermark of a chunk; None: of none.

        What was delivered before, and has come again, is delivered again.
        """
        if self.assignment.late is not Late.DROP:
            return None
        ends = chunk.timestamps.searchsorted(chunk.watermarks_ms, side="right")
        counts: IntArray = np.diff(ends, prepend=0)
        is_late = now_us - chunk.ingestion_times_us > self.assignment.deadline_ms * 1000
        is_late &= chunk.watermarks_ms > self._counted_ms
        dropped: IntArray = np.where(is_late, counts, 0)
        self._late_dropped += int(dropped.sum())
        for place in np.flatnonzero(dropped).tolist():
            self._dropped[int(chunk.watermarks_ms[place])] = int(dropped[place])
        if self._dropped:
            again = [w in self._dropped for w in chunk.watermarks_ms.tolist()]
            dropped = np.where(again, counts, dropped)
        return dropped if dropped.any() else None

    def _measure(self, chunk: Chunk, now_us: int) -> None:
        """Count the arrived tuples, and measure how late they are."""
        self._rows += chunk.rows.num_rows
        self._completed_timestamps += len(chunk.watermarks_ms)
        is_new = chunk.ingestion_times_us >= self.assignment.measured_from_us
        self._made_again += int(np.count_nonzero(~is_new))
        latencies_us = now_us - chunk.ingestion_times_us
        answered_by = np.searchsorted(chunk.watermarks_ms, chunk.timestamps)
        self._late_rows.observe(latencies_us[answered_by[is_new[answered_by]]], now_us)
        latencies_us = latencies_us[is_new]
        self._latencies.add(latencies_us)
        self._all_latencies.add_all(latencies_us)
        self._misses += int(np.count_nonzero(latencies_us > self.assignment.deadline_ms * 1000))

    def status(self, now_us: int) -> SinkStatus:
        """Figures of the sink for the host's record."""
        position = self.cursor.position
        fresh = self._completed_timestamps - self._made_again - self._ranked
        if fresh and fresh >= FRESH_SHARE * self._latencies.count:
            self._ranked += fresh
            self._percentiles_ms = self._latencies.percentiles_ms(50, 99)
        p50, p99 = self._percentiles_ms or (None, None)
        return SinkStatus(
            next_seq=position.next_seq if position else 0,
            watermark_ms=position.watermark_ms if position and self._completed_timestamps else None,
            rows=self._rows,
            latency_ms_p50=p50,
            latency_ms_p99=p99,
            latency_histogram=self._all_latencies.histogram,
            deadline_misses=self._misses,
            completed_timestamps=self._completed_timestamps,
            made_again=self._made_again,
            late_rows=self._late_rows.misses,
            late_dropped=self._late_dropped,
            miss_pct=self._late_rows.ratio_pct or 0.0,
            recent_miss_pct=self._late_rows.recent_pct(now_us),
            lost=self._lost + self._lost_now,
            repeated=self._repeated + self.cursor.repeated_tuples,
            address=self.address,
            readers_dropped=self.readers_dropped,
            unkept_ms=max(now_us - self._held[0][1], 0) / 1000 if self._held else 0.0,
            kept_ms=self.kept_ms,
        )


def _parted(chunk: Chunk, late: IntArray | None) -> Iterator[tuple[Chunk, tuple[int, ...]]]:
    """A chunk in parts with all their tuples, and parts without any of theirs, because these are
    late; with how many those are, by watermark.

    Parameters
    ----------
    late
        How many tuples of each watermark are dropped: all, or none.
    """
    if late is None:
        yield chunk, ()
        return
    ends = chunk.timestamps.searchsorted(chunk.watermarks_ms, side="right")
    cuts = [*(np.flatnonzero(np.diff(late > 0)) + 1).tolist(), len(late)]
    begin = row = 0
    for cut in cuts:
        end_row = int(ends[cut - 1])
        is_dropped = bool(late[begin])
        first_row = end_row if is_dropped else row
        part = Chunk(
            first_seq=chunk.first_seq + first_row,
            rows=chunk.rows.slice(first_row, end_row - first_row),
            watermarks_ms=chunk.watermarks_ms[begin:cut],
            ingestion_times_us=chunk.ingestion_times_us[begin:cut],
        )
        yield part, tuple(late[begin:cut].tolist()) if is_dropped else ()
        begin, row = cut, end_row
