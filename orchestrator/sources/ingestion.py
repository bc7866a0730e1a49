"""The way of a live source's tuples from its readers to the host: order, number, keep, hand over.

Readers (connections, requests, files) parse on threads of their own and `push` batches. One thread
a stream, `LiveInput`, takes all that have come, brings their tuples into order, numbers what is
complete, and has the journal keep it. Then it tells the readers, and wakes the host's loop, which
asks for what has entered. While one commit is being written, the next batches gather.

*Once.* A batch may carry the name of its client and a number. A batch whose number the client has
used before is not taken in again; the journal remembers that too. So a client that got no answer
sends the batch again.

*Back-pressure.* Batches that wait and parts of the stream that the host has not asked for take at
most `buffer_bytes`. Beyond that, `push` waits, or refuses if its caller says so. The host asks for
nothing while consumers hold the stream up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from orchestrator.drivers import DriverError
from orchestrator.host.events import SourceEmitted
from orchestrator.records import InputStatus
from orchestrator.sources.journal import Clients, Commit, Journal
from orchestrator.sources.orderer import EventTime, Orderer, Refusals, Released
from orchestrator.sources.rejections import Rejections
from streams.chunk import NO_WATERMARK, Chunk, Position, joined
from topology.arrays import IntArray

PIECE_BYTES = 4 * 2**20
"""Greatest size of what is emitted or kept at once, unless one timestamp has more."""

BATCHES_AT_ONCE = 256
"""Batches of one commit."""

CLOSES_S = 5.0
"""How long the end of a source waits for a disk."""


class Full(Exception):
    """There is no room for a batch now; the client should try again."""


@dataclass(slots=True)
class Push:
    """A batch on its way in.

    Attributes
    ----------
    rows
        With the stream's schema.
    arrived_us
        When it came, cluster clock.
    client, number
        Who has sent it, and its number among the client's batches; no client: it cannot be told
        from another one that is equal.
    """

    rows: pa.RecordBatch
    arrived_us: int
    client: str = ""
    number: int = 0
    size_bytes: int = 0
    outcome: Taken | None = None
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a batch. It is in the journal, if there is one.

    Attributes
    ----------
    accepted
        Tuples that have entered or will, in order.
    late, ahead
        Tuples that did not enter, by reason.
    repeated
        Whether the batch had come before, so that nothing entered.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    repeated: bool = False

    def __add__(self, other: Taken) -> Taken:
        return Taken(
            accepted=self.accepted + other.accepted,
            late=self.late + other.late,
            ahead=self.ahead + other.ahead,
            repeated=self.repeated or other.repeated,
        )


class Ingestion:
    """Order, numbers and journal of one live stream: plain code, called by one thread at a time.

    Parameters
    ----------
    schema
        The stream's.
    time
        How event time advances.
    journal
        Where what enters is kept; None: nowhere.
    now_us
        The cluster's clock.

    Attributes
    ----------
    schema
        As given.
    clients
        The last batches of clients.
    end
        The cut after everything that was numbered.
    """

    def __init__(
        self, schema: pa.Schema, time: EventTime, journal: Journal | None, now_us: int = 0
    ) -> None:
        self.schema = schema
        self._journal = journal
        self._orderer = Orderer(schema, time)
        self.clients = Clients() if journal is None else journal.clients
        self._entered_us = 0
        self.end = Position()
        if journal is not None:
            self.end = journal.end
            self._orderer.resume(journal.watermark_ms, journal.newest_ms, journal.waiting, now_us)

    def take(self, pushes: list[Push], now_us: int) -> list[Chunk]:
        """Take batches in; returns the parts of the stream that are complete now.

        Raises
        ------
        OSError
            The journal cannot be written. The ingestion must be made anew.
        """
        waiting: list[pa.RecordBatch] = []
        clients: list[tuple[str, int]] = []
        here: set[tuple[str, int]] = set()
        for push in pushes:
            if push.client:
                key = (push.client, push.number)
                if self.clients.has(*key) or key in here:
                    push.outcome = Taken(repeated=True)
                    continue
                here.add(key)
                clients.append(key)
            rows, refused = self._orderer.accept(push.rows, push.arrived_us)
            push.outcome = _taken(rows.num_rows, refused)
            if rows.num_rows:
                waiting.append(rows)
        arrived_us = min((push.arrived_us for push in pushes), default=now_us)
        released = self._orderer.release(now_us)
        chunks = [] if released is None else self._numbered(released, arrived_us)
        if self._journal is None:
            for client, number in clients:
                self.clients.note(client, number)
        elif waiting or clients or self._must_keep(chunks):
            self._keep(self._journal, chunks, waiting, clients)
        if chunks:
            self.end = chunks[-1].end
        return chunks

    def _must_keep(self, chunks: list[Chunk]) -> bool:
        """Whether another process would have to know.

        A watermark without tuples need not be kept if time goes by arrival: all that arrives later
        has later timestamps.
        """
        if self._orderer.time.by_arrival:
            return any(chunk.rows.num_rows for chunk in chunks)
        return bool(chunks)

    def _keep(
        self,
        journal: Journal,
        chunks: list[Chunk],
        waiting: list[pa.RecordBatch],
        clients: list[tuple[str, int]],
    ) -> None:
        orderer = self._orderer
        unnumbered = [_later(rows, orderer.watermark_ms) for rows in waiting]
        unnumbered = [rows for rows in unnumbered if rows.num_rows]
        commit = Commit(
            chunks=chunks,
            waiting=pa.concat_batches(unnumbered) if unnumbered else None,
            watermark_ms=orderer.watermark_ms,
            newest_ms=orderer.newest_ms,
            clients=clients,
        )
        journal.append(commit)
        if journal.is_full:
            journal.roll(orderer.waiting)

    def _numbered(self, released: Released, arrived_us: int) -> list[Chunk]:
        """What was released in pieces of bounded size, each with the next numbers.

        It has entered when what completed it came.
        """
        self._entered_us = max(self._entered_us, arrived_us)
        rows, watermarks_ms = released.rows, released.watermarks_ms
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        ends = np.searchsorted(timestamps, watermarks_ms, side="right")
        most = _most_rows(rows)
        chunks: list[Chunk] = []
        begin = first = 0
        while first < len(watermarks_ms):
            last = int(np.searchsorted(ends, begin + most, side="right"))
            last = max(last, first + 1)
            end = int(ends[last - 1])
            chunks.append(
                Chunk(
                    first_seq=self.end.next_seq + begin,
                    rows=rows.slice(begin, end - begin),
                    watermarks_ms=watermarks_ms[first:last],
                    ingestion_times_us=np.full(last - first, self._entered_us, dtype=np.int64),
                )
            )
            begin, first = end, last
        return chunks


def _later(rows: pa.RecordBatch, watermark_ms: int) -> pa.RecordBatch:
    later = rows.column(0).to_numpy(zero_copy_only=False) > watermark_ms
    return rows if later.all() else rows.filter(pa.array(later))


def _most_rows(rows: pa.RecordBatch) -> int:
    return max(int(PIECE_BYTES / max(rows.nbytes / max(rows.num_rows, 1), 1)), 1)


def _taken(accepted: int, refused: Refusals) -> Taken:
    return Taken(accepted=accepted, late=refused.late, ahead=refused.ahead)


class LiveInput:
    """An open live source: an ingestion with a thread, between readers and the host's loop.

    Parameters
    ----------
    stream
        Its name.
    ingestion
        Order and numbers; only the thread uses it.
    journal
        The ingestion's; None: it has none.
    clock_us
        The cluster's clock.
    wake
        Makes the host's loop ask.
    buffer_bytes
        What may wait.
    advance_us
        How often the clock advances the watermark of an idle stream.
    rejections
        Counts what did not enter.
    """

    def __init__(
        self,
        stream: str,
        ingestion: Ingestion,
        journal: Journal | None,
        *,
        clock_us: Callable[[], int],
        wake: Callable[[], None],
        buffer_bytes: int,
        advance_us: int,
        rejections: Rejections,
    ) -> None:
        self.stream = stream
        self.address: str | None = None
        self.rejections = rejections
        self._ingestion = ingestion
        self._journal = journal
        self._clock_us = clock_us
        self._wake = wake
        self._buffer_bytes = buffer_bytes
        self._advance_s = advance_us / 1e6
        self._changed = threading.Condition()
        self._pushed: deque[Push] = deque()
        self._ready: deque[Chunk] = deque()
        self._pushed_bytes = self._ready_bytes = 0
        self._ready_from_ms = NO_WATERMARK
        self._end = ingestion.end
        self._emitted = Position()
        self._closing = False
        self._error: Exception | None = None
        self._on_close: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name=f"input {stream}", daemon=True)

    @property
    def clients(self) -> list[str]:
        """Clients that have sent batches, as far as they are remembered; before `start`."""
        return [client for client, _ in self._ingestion.clients.all()]

    def has(self, client: str, number: int) -> bool:
        """Whether a batch has been taken in already."""
        return self._ingestion.clients.has(client, number)

    def start(self) -> None:
        """Begin to take batches in."""
        self._thread.start()

    def on_close(self, end: Callable[[], None]) -> None:
        """Have the source's readers end with it."""
        self._on_close.append(end)

    def push(
        self,
        rows: pa.RecordBatch,
        *,
        client: str = "",
        number: int = 0,
        waits: bool = True,
        confirms: bool = True,
    ) -> Taken:
        """Bring a batch in; returns when it is in the journal.

        Parameters
        ----------
        waits
            Whether to wait for room.
        confirms
            Whether to wait for the outcome. Otherwise nothing is known of it.

        Raises
        ------
        Full
            There is no room, and `waits` is false.
        DriverError
            The source has failed, or ends.
        """
        size_bytes = rows.nbytes + 1024
        push = Push(rows, self._clock_us(), client, number, size_bytes)
        with self._changed:
            if waits:
                self._changed.wait_for(lambda: self._has_room or self._ended)
            self._check()
            if not self._has_room:
                raise Full
            self._pushed.append(push)
            self._pushed_bytes += size_bytes
            self._changed.notify_all()
        if not confirms:
            return Taken()
        push.done.wait()
        if push.outcome is None:
            raise DriverError(f"{self.stream}: {push.error}")
        return push.outcome

    @property
    def has_room(self) -> bool:
        """Whether a batch would be taken now."""
        with self._changed:
            return self._has_room

    @property
    def _has_room(self) -> bool:
        return self._pushed_bytes + self._ready_bytes < self._buffer_bytes

    @property
    def _ended(self) -> bool:
        return self._closing or self._error is not None

    def _check(self) -> None:
        if self._error is not None:
            raise DriverError(f"{self.stream}: {self._error}")
        if self._closing:
            raise DriverError(f"{self.stream}: the source ends")

    @property
    def status(self) -> InputStatus:
        """What did not enter, and what waits."""
        with self._changed:
            buffered_bytes = self._pushed_bytes + self._ready_bytes
        return msgspec.structs.replace(
            self.rejections.status, address=self.address, buffered_bytes=buffered_bytes
        )

    def next_due_us(self, start_at_us: int) -> int | None:
        """At once if something waits; else the thread wakes the loop."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return start_at_us if self._ready or self._lags else None

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        """What has entered, a piece of bounded size."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if now_us < start_at_us:
                return None
            lags = self._lags
            until = self._begin
        chunk = self._kept(self._emitted, until) if lags else self._taken()
        if chunk is None:
            return None
        self._emitted = chunk.end
        return _emitted(self.stream, chunk)

    def _kept(self, after: Position, until: Position) -> Chunk | None:
        """The next part of the stream in the journal, if it ends at `until` or before."""
        return None if self._journal is None else self._journal.read(after, until)

    def close(self) -> None:
        """End the readers, finish what they have pushed, and close the journal."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for end in self._on_close:
            end()
        if self._thread.is_alive():
            self._thread.join(CLOSES_S)
        if self._journal is not None:
            self._journal.close()

    @property
    def _begin(self) -> Position:
        """Where what waits in memory begins."""
        if not self._ready:
            return self._end
        first = self._ready[0]
        return Position(next_seq=first.first_seq, watermark_ms=self._ready_from_ms)

    @property
    def _lags(self) -> bool:
        """Whether the host must be given something out of the journal first."""
        return self._emitted.next_seq < self._begin.next_seq

    def _taken(self) -> Chunk | None:
        """What waits, joined as far as a piece goes."""
        with self._changed:
            chunks: list[Chunk] = []
            size_bytes = 0
            while self._ready:
                if chunks and size_bytes + self._ready[0].size_bytes > PIECE_BYTES:
                    break
                chunk = self._ready.popleft()
                size_bytes += chunk.size_bytes
                chunks.append(chunk)
            if not chunks:
                return None
            self._ready_bytes -= size_bytes
            self._ready_from_ms = chunks[-1].watermark_ms
            self._changed.notify_all()
        return joined(chunks)

    def _run(self) -> None:
        while self._error is None:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._pushed or self._closing, timeout=self._advance_s
                )
                if self._closing and not self._pushed:
                    return
            self.commit()

    def commit(self) -> None:
        """Take in what waits; the thread does that, or a simulation."""
        with self._changed:
            count = min(len(self._pushed), BATCHES_AT_ONCE)
            pushes = [self._pushed.popleft() for _ in range(count)]
        try:
            chunks = self._ingestion.take(pushes, self._clock_us())
        except Exception as error:  # noqa: BLE001  The host opens the source again.
            with self._changed:
                self._error = error
                pushes += self._pushed
                self._pushed.clear()
                self._changed.notify_all()
            for push in pushes:
                push.error, push.outcome = error, None
                push.done.set()
            self._wake()
            return
        for push in pushes:
            if push.outcome is not None:
                self.rejections.count(push.outcome.late, push.outcome.ahead, push.outcome.repeated)
        with self._changed:
            self._pushed_bytes -= sum(push.size_bytes for push in pushes)
            for chunk in chunks:
                self._add(chunk)
            self._changed.notify_all()
        for push in pushes:
            push.done.set()
        if chunks:
            self._wake()

    def _add(self, chunk: Chunk) -> None:
        ready = self._ready
        if not ready:
            self._ready_from_ms = self._end.watermark_ms
        elif not ready[-1].rows.num_rows and not chunk.rows.num_rows:
            # Of two that only say that time has passed, the later is enough.
            self._ready_bytes -= ready.pop().size_bytes
        ready.append(chunk)
        self._ready_bytes += chunk.size_bytes
        self._end = chunk.end


class JournaledInput(LiveInput):
    """A live input whose stream can be read again from its journal: a `ResumableSource`."""

    @property
    def retained(self) -> Position:
        """The cut from which on the journal has the stream."""
        assert self._journal is not None
        return self._journal.retained

    def due_position(self, start_at_us: int, now_us: int) -> Position:
        """All that is in the journal has entered; consumers that lack some read it again."""
        return self._end if now_us >= start_at_us else Position()

    def seek(self, watermark_ms: int) -> None:
        """Have `emit` continue after this watermark."""
        with self._changed:
            if watermark_ms == self._end.watermark_ms:
                self._emitted = self._end
                return
        assert self._journal is not None
        cut = Position()
        if watermark_ms != NO_WATERMARK:
            cut = self._journal.position_at(watermark_ms)
        with self._changed:
            self._emitted = cut

    def read(self, start_at_us: int, after: Position, until: Position) -> SourceEmitted | None:
        """A part of the stream out of the journal."""
        chunk = self._kept(after, until)
        if chunk is None and after.watermark_ms < until.watermark_ms:
            # No tuple came in between.
            chunk = Chunk(
                first_seq=after.next_seq,
                rows=pa.RecordBatch.from_pylist([], schema=self._ingestion.schema),
                watermarks_ms=np.array([until.watermark_ms], dtype=np.int64),
                ingestion_times_us=np.array([start_at_us], dtype=np.int64),
            )
        return None if chunk is None else _emitted(self.stream, chunk)


def _emitted(stream: str, chunk: Chunk) -> SourceEmitted:
    return SourceEmitted(
        stream=stream,
        rows=chunk.rows,
        watermarks_ms=chunk.watermarks_ms,
        ingestion_times_us=chunk.ingestion_times_us,
    )
