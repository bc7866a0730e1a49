"""An open live source: an ingestion with a thread, between readers and the host's loop.

*Back-pressure.* Batches that wait and parts of the stream that the host has not asked for take at
most `buffer_bytes`. Beyond that, `push` waits, or refuses if its caller says so. The host asks for
nothing while consumers hold the stream up. Then nothing becomes part of the stream, and nobody
counts as silent. Where too much waits for a later timestamp, only a batch enters that has one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources.driver import JournalFiles, OpenSource
from orchestrator.edges.sources.formats.rejections import RejectedInput
from orchestrator.edges.sources.live.ingestion import (
    PIECE_BYTES,
    BatchOutcome,
    Full,
    Ingestion,
    OtherRows,
    Push,
)
from orchestrator.edges.sources.live.journal import Journal
from orchestrator.records import InputStatus, WaitingInput
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, joined

BATCHES_AT_ONCE = 256
"""Batches of one commit."""

CLOSES_S = 5.0
"""How long the end of a source waits for a disk."""


class LiveInput(OpenSource):
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

    Attributes
    ----------
    hears
        Whether its readers have read everything that there is, as far as they know: if nothing
        comes then, the source is silent.
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
        rejections: RejectedInput,
    ) -> None:
        self.stream = stream
        self.address: str | None = None
        self.rejections = rejections
        self.hears = True
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
        self._waits_for: str | None = None
        self._opens_ms = ingestion.opens_ms
        self._waiting = ingestion.waiting
        self._refused = False
        self._is_behind = False
        self._thread = threading.Thread(target=self._run, name=f"input {stream}", daemon=True)

    @property
    def schema(self) -> pa.Schema:
        """The stream's."""
        return self._ingestion.schema

    @property
    def clients(self) -> list[str]:
        """Clients that have sent batches, as far as they are remembered; before `start`."""
        return self._ingestion.clients.names

    def has(self, client: str, number: int) -> bool:
        """Whether a batch has been taken in already."""
        return self._ingestion.clients.has(client, number)

    def differs(self, client: str, number: int, digest: int) -> bool:
        """Whether a batch has been taken in with other rows."""
        return self._ingestion.clients.differs(client, number, digest)

    def last(self, client: str) -> int | None:
        """The number of a client's last batch, or of a place; None if there is none."""
        return self._ingestion.clients.last(client)

    def fail(self, error: Exception) -> None:
        """Have the host close the source, say why, and open it again later."""
        with self._changed:
            if not self._ended:
                self._error = error
            self._changed.notify_all()
        self._wake()

    @property
    def waits_for(self) -> str | None:
        """What its readers wait for before they can read on; None: nothing."""
        if self._opens_ms is not None:
            return "as much waits for a later timestamp as may; only a batch that has one enters"
        return self._waits_for

    def wait_for(self, what: str | None) -> None:
        """Say what the readers wait for, or that they read again."""
        if what != self._waits_for:
            self._waits_for = what
            self._wake()

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
        digest: int | None = None,
        places: Sequence[tuple[str, int]] = (),
        waits: bool = True,
        confirms: bool = True,
        in_order: bool = False,
    ) -> BatchOutcome:
        """Bring a batch in; returns when it is in the journal.

        Parameters
        ----------
        client, number, digest, places
            See `Push`.
        waits
            Whether to wait for room.
        confirms
            Whether to wait for the outcome. Otherwise nothing is known of it.
        in_order
            Whether it enters however much waits for a later timestamp: its reader reads that only
            after it.

        Raises
        ------
        Full
            There is no room, and `waits` is false.
        OtherRows
            The batch came before with other rows.
        DriverError
            The source has failed, or ends.
        """
        size_bytes = rows.nbytes + 1024
        push = Push(rows, self._clock_us(), client, number, size_bytes, places, confirms=confirms)
        push.digest = digest
        enters = in_order or not rows.num_rows
        with self._changed:
            if waits:
                self._changed.wait_for(
                    lambda: (self._has_room and (enters or self._admits(push))) or self._ended
                )
            self._check()
            if not self._has_room:
                raise Full
            if not (enters or self._admits(push)):
                waiting_mb = self._ingestion.waiting_bytes / 2**20
                raise Full(f"{waiting_mb:.0f} MiB of tuples wait for a later timestamp than it has")
            self._pushed.append(push)
            self._pushed_bytes += size_bytes
            self._changed.notify_all()
        if not confirms:
            return BatchOutcome()
        self._wait_for(push)
        if isinstance(push.error, OtherRows):
            raise push.error
        if push.outcome is None:
            raise DriverError(f"{self.stream}: {push.error}")
        return push.outcome

    @property
    def has_room(self) -> bool:
        """Whether a batch would be taken now."""
        with self._changed:
            return self._has_room

    @property
    def _takes(self) -> bool:
        """Whether the host has taken so much that something may become part of the stream."""
        return self._ready_bytes < self._buffer_bytes

    @property
    def _has_room(self) -> bool:
        return self._pushed_bytes + self._ready_bytes < self._buffer_bytes

    def _admits(self, push: Push) -> bool:
        """Whether a batch ends the wait of much, where as much waits as may, or adds nothing."""
        if self._opens_ms is None or (push.client and self.has(push.client, push.number)):
            return True
        newest_ms = self._ingestion.time.newest_ms(push.rows, push.arrived_us)
        admits = newest_ms >= self._opens_ms or newest_ms <= self._ingestion.watermark_ms
        # Who is refused is not silent, and comes again.
        self._refused |= not admits
        return admits

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
            self.rejections.status,
            address=self.address,
            buffered_bytes=buffered_bytes,
            waiting=self.waiting,
        )

    @property
    def waiting(self) -> WaitingInput | None:
        """The tuples that were accepted and have not entered yet; None: none waits."""
        return self._waiting

    @property
    def waiting_tuples(self) -> int:
        """How many these are."""
        return 0 if self._waiting is None else self._waiting.tuples

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
                    lambda: self._pushed or self._closing or (self._is_behind and self._takes),
                    timeout=self._advance_s,
                )
                if self._closing and not self._pushed:
                    return
            self.commit()

    def commit(self) -> None:
        """Take in what waits; the thread does that, or a simulation."""
        with self._changed:
            count = min(len(self._pushed), BATCHES_AT_ONCE)
            pushes = [self._pushed.popleft() for _ in range(count)]
            takes, everything = self._takes, not self._pushed
            refused, self._refused = self._refused, False
        came_bytes = sum(push.size_bytes for push in pushes)
        most_bytes = self._buffer_bytes + came_bytes if takes else 0
        hears = takes and everything and self.hears and self._waits_for is None and not refused
        try:
            chunks = self._ingestion.take(pushes, self._clock_us(), most_bytes, hears=hears)
        except Exception as error:  # noqa: BLE001  The host opens the source again.
            with self._changed:
                self._error = error
                pushes += self._pushed
                self._pushed.clear()
                self._changed.notify_all()
            self._fail(pushes)
            self._wake()
            return
        for push in pushes:
            if push.outcome is not None:
                self.rejections.count(push.outcome.late, push.outcome.ahead, push.outcome.repeated)
        opens_ms, waiting = self._ingestion.opens_ms, self._ingestion.waiting
        with self._changed:
            self._pushed_bytes -= came_bytes
            for chunk in chunks:
                self._add(chunk)
            was_open, self._opens_ms = self._opens_ms is None, opens_ms
            self._is_behind, self._waiting = self._ingestion.is_behind, waiting
            self._changed.notify_all()
        if pushes:
            self._ingestion.respond(self._clock_us())
        self._respond(pushes)
        if chunks or was_open != (self._opens_ms is None):
            self._wake()

    def _wait_for(self, push: Push) -> None:
        """Wait until the outcome of a batch is known."""
        push.done.wait()

    def _respond(self, pushes: Sequence[Push]) -> None:
        """Tell readers the outcome of batches that have entered."""
        for push in pushes:
            if push.outcome is not None:
                push.outcome = replace(push.outcome, waiting=self.waiting_tuples)
            push.done.set()

    def _fail(self, pushes: Sequence[Push]) -> None:
        """Tell readers that the source has failed, and what became of their batches is unknown."""
        for push in pushes:
            push.error, push.outcome = self._error, None
            push.done.set()

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
    """A live input whose stream can be read again from its journal."""

    resumes = True

    @property
    def retained(self) -> Position:
        """The cut from which on the journal has the stream."""
        assert self._journal is not None
        return self._journal.retained

    def copy(self) -> JournalFiles:
        """The journal."""
        assert self._journal is not None
        begin, end, files = self._journal.files()
        return JournalFiles(begin=begin, end=end, files=files)

    def need(self, after_ms: int, most_bytes: int) -> None:
        """As `OpenSource.need`."""
        assert self._journal is not None
        self._journal.need(after_ms, most_bytes)

    @property
    def status(self) -> InputStatus:
        """What did not enter, what waits, and what is kept."""
        assert self._journal is not None
        retained_ms = self._journal.retained.watermark_ms
        return msgspec.structs.replace(
            super().status,
            journal_bytes=self._journal.size_bytes,
            retained_ms=None if retained_ms == NO_WATERMARK else retained_ms,
        )

    def due_position(self, start_at_us: int, now_us: int) -> Position:
        """All that is in the journal has entered; consumers that lack some read it again."""
        return self._end if now_us >= start_at_us else Position()

    def seek(self, watermark_ms: int) -> None:
        """Have `emit` continue after this watermark."""
        with self._changed:
            if watermark_ms == self._end.watermark_ms:
                self._emitted = self._end
                return
        cut = Position()
        if watermark_ms != NO_WATERMARK:
            cut = self.position_at(watermark_ms)
        with self._changed:
            self._emitted = cut

    def position_at(self, watermark_ms: int) -> Position:
        """The cut after a watermark, by the journal."""
        assert self._journal is not None
        return self._journal.position_at(watermark_ms)

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
