"""A live source with a journal, and the client that pushes into it: a recording in batches.

The site's part is the product's own: order, numbers, journal. The client gives its batches numbers.
When the site was killed, the client does not know which of its last batches have entered, so it
sends them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.edges import sources
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources.driver import (
    JournalFiles,
    OpenSource,
    SourceContext,
    SourceDriver,
)
from orchestrator.edges.sources.formats.rejections import RejectedInput
from orchestrator.edges.sources.live.ingestion import Ingestion
from orchestrator.edges.sources.live.journal import Journal
from orchestrator.edges.sources.live.live_input import JournaledInput
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.replay import OpenReplay, Recording, Replay
from orchestrator.folders import path_part
from orchestrator.records import Guarantee, SourceAssignment
from streams.vectors.chunk import NO_WATERMARK, Position, stream_schema

ADVANCE_US = 50_000
"""How often the clock advances the stream when the client is silent."""

CLIENT = "client"

NEVER_MS = 2**62

UNCERTAIN = 5
"""Batches that the client sends again."""


class Pushed(SourceDriver, frozen=True, kw_only=True):
    """Options as those of a replay.

    Attributes
    ----------
    journals
        Folder of the journals.
    slack_ms
        How long tuples wait for others, in event time.
    ends
        Whether time stops at the end of the recording, as if the client closed the stream.
        Otherwise the clock advances it for ever.
    """

    path: str
    begin_ms: int
    end_ms: int
    interval_ms: int
    journals: str
    slack_ms: int = 0
    ends: bool = False

    @property
    def guarantee(self) -> Guarantee:
        """The client sends when it likes, and a journal keeps it."""
        return Guarantee.JOURNALED

    @property
    def together_ms(self) -> float:
        """An interval."""
        return self.interval_ms

    def _journal(self, assignment: SourceAssignment) -> Path:
        return Path(self.journals) / path_part(assignment.stream) / str(assignment.generation)

    def kept(
        self, assignment: SourceAssignment, folder: Path, site: str
    ) -> tuple[Position | None, Position | None, Path] | None:
        """What the journal has."""
        own = self._journal(assignment)
        if not own.exists():
            return None, None, own
        journal = Journal(own, stream_schema(assignment.columns), read_only=True)
        return journal.retained, journal.end, own

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenPushed:
        """Open the journal."""
        replay = Replay(
            path=self.path,
            begin_ms=self.begin_ms,
            end_ms=self.end_ms,
            interval_ms=self.interval_ms,
        )
        recording = Recording.load(replay, assignment.columns, assignment.fields)
        folder = self._journal(assignment)
        if assignment.start_at_us is not None and not folder.exists():
            raise DriverError(f"the journal {folder} is gone")
        schema = stream_schema(assignment.columns)
        journal = Journal(folder, schema, retain_bytes=2**26, sync=False)
        time = EventTime(
            by_arrival=False,
            slack_ms=self.slack_ms,
            idle_after_ms=self.interval_ms,
            max_ahead_ms=None,
        )
        opened = JournaledInput(
            assignment.stream,
            Ingestion(schema, time, journal, context.clock_us()),
            journal,
            clock_us=context.clock_us,
            wake=context.wake,
            buffer_bytes=context.buffer_bytes,
            advance_us=ADVANCE_US,
            rejections=RejectedInput(assignment.stream, None, context.clock_us),
        )
        client = OpenReplay(assignment.stream, replay, recording)
        if (last := journal.clients.last(CLIENT)) is not None:
            client.seek(self.begin_ms + (last - UNCERTAIN) * self.interval_ms)
        return OpenPushed(opened, client, self)


class OpenPushed(OpenSource):
    """The open source together with its client."""

    resumes = True

    def __init__(self, opened: JournaledInput, client: OpenReplay, options: Pushed) -> None:
        self._input = opened
        self._client = client
        self._options = options
        self._commit_us = 0
        self._unsent: deque[tuple[int, pa.RecordBatch]] = deque()
        self._last_ms = options.end_ms if options.ends else NEVER_MS
        self._reached_ms = NO_WATERMARK

    @property
    def retained(self) -> Position:
        """The cut from which on the journal has the stream."""
        return self._input.retained

    def copy(self) -> JournalFiles:
        """The journal."""
        return self._input.copy()

    def due_position(self, start_at_us: int, now_us: int) -> Position:
        """All that is in the journal has entered."""
        position = self._input.due_position(start_at_us, now_us)
        most_ms = min(position.watermark_ms, self._last_ms)
        self._reached_ms = max(self._reached_ms, most_ms)
        return Position(next_seq=position.next_seq, watermark_ms=most_ms)

    def position_at(self, watermark_ms: int) -> Position:
        """The cut after a watermark, by the journal."""
        return self._input.position_at(watermark_ms)

    def seek(self, watermark_ms: int) -> None:
        """Have `emit` continue after this watermark."""
        self._reached_ms = watermark_ms
        self._input.seek(watermark_ms)

    def read(self, start_at_us: int, after: Position, until: Position) -> SourceEmitted | None:
        """A part of the stream out of the journal."""
        return self._input.read(start_at_us, after, until)

    def close(self) -> None:
        """Close the journal."""
        self._input.close()

    def next_due_us(self, start_at_us: int) -> int | None:
        """When the client sends, or the clock advances the stream."""
        if self._reached_ms >= self._last_ms:
            return None
        if self._unsent and self._input.has_room:
            return start_at_us
        own_us = self._input.next_due_us(start_at_us)
        sends_us = self._client.next_due_us(start_at_us)
        due_us = [self._commit_us + ADVANCE_US, own_us, sends_us]
        return max(min(us for us in due_us if us is not None), start_at_us)

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        """What has entered by now."""
        if now_us < start_at_us or self._reached_ms >= self._last_ms:
            return None
        while (sent := self._client.emit(start_at_us, now_us)) is not None:
            self._unsent.extend(self._batches(sent.rows))
        # A client waits while there is no room; nobody else runs meanwhile.
        while self._unsent and self._input.has_room:
            number, rows = self._unsent.popleft()
            self._input.push(rows, client=CLIENT, number=number, confirms=False)
            self._input.commit()
        self._input.commit()
        self._commit_us = now_us
        emitted = self._input.emit(start_at_us, now_us)
        return None if emitted is None else self._within(emitted)

    def _within(self, emitted: SourceEmitted) -> SourceEmitted:
        """What was emitted, up to where time stops; no row lies behind that."""
        watermarks_ms, first = np.unique(
            np.minimum(emitted.watermarks_ms, self._last_ms), return_index=True
        )
        self._reached_ms = int(watermarks_ms[-1])
        return msgspec.structs.replace(
            emitted,
            watermarks_ms=watermarks_ms,
            ingestion_times_us=emitted.ingestion_times_us[first],
        )

    def _batches(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """What comes in an interval is a batch; numbers are those of the intervals."""
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        after_ms = timestamps - self._options.begin_ms
        numbers = (after_ms + self._options.interval_ms - 1) // self._options.interval_ms
        for number in np.unique(numbers).tolist():
            yield int(number), rows.filter(pa.array(numbers == number))


sources.register("pushed", Pushed)
