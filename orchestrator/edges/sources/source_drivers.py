"""The open sources of one host, asked in turn.

A source that cannot be opened, raises, or breaks the promises of a stream has failed. The failure
is a problem of its stream alone: the source is closed and opened again later, and all other streams
go on. Once it works again, the stream continues. A resumable source emits the tuples that it left
out. Of any other source, timestamps that were complete before are dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import (
    InputSkipped,
    SourceEmitted,
    SourceFailed,
    SourceLocated,
    SourceOpened,
    SourceReread,
    SourceWaits,
    Wanted,
)
from orchestrator.edges.sources import restore
from orchestrator.edges.sources.driver import (
    OpenSource,
    SourceContext,
)
from orchestrator.edges.sources.journal_saving import Copying
from orchestrator.edges.sources.opening import Opening
from orchestrator.edges.supervision import Attended, Supervisor
from orchestrator.records import InputStatus, Skipped, SourceAssignment
from streams.vectors.chunk import NO_WATERMARK, Chunk, ChunkError, Position, stream_schema
from topology.cluster_clock import ClusterClock

SourceEvent = SourceOpened | SourceEmitted | SourceFailed | SourceWaits


@dataclass(slots=True)
class _AttendedSource(Attended):
    """The source of one stream.

    Attributes
    ----------
    schema
        Of the stream's rows.
    source
        None while it cannot be used.
    opening
        The attempt to open it; None: there is none at present.
    paced
        Whether it has a time axis of its own.
    begun
        Whether it was opened before.
    repeats
        Whether it may emit timestamps again, because it was opened again and cannot resume.
    watermark_ms
        The last one emitted, or passed by before this process opened the source.
    emitted_us
        When it last emitted something.
    waits
        Whether it was not read although it may have had something, because consumers hold it up.
    slipped_us
        By how much its time axis has slipped because of that. Every tuple is due so much later.
    needed_ms
        What it was last told that checkpoints need.
    copying
        The copy of its journal for the last savepoint that wanted one.
    """

    generation: int
    schema: pa.Schema
    source: OpenSource | None = None
    opening: Opening | None = None
    paced: bool = True
    begun: bool = False
    repeats: bool = False
    watermark_ms: int = NO_WATERMARK
    emitted_us: int | None = None
    waits: bool = False
    slipped_us: int = 0
    needed_ms: int | None = None
    copying: Copying | None = None

    @property
    def resuming(self) -> OpenSource | None:
        """The source, if it can be read again."""
        return self.source if self.source is not None and self.source.resumes else None

    def close(self) -> None:
        """Close the source, whatever state it is in."""
        source, self.source = self.source, None
        if self.opening is not None:
            self.opening.abandon()
        self.opening = None
        self.waits_for = None
        if source is not None:
            with contextlib.suppress(Exception):
                source.close()


class SourceDrivers(Supervisor[_AttendedSource]):
    """All sources of one host, opened and asked in turn.

    Parameters
    ----------
    batch_us
        Least time between two emissions of a stream; tuples that come due in between go together.
    clock
        The cluster's, which sources go by. Rests and retries go by the host's.
    context
        Where sources are opened.
    """

    def __init__(
        self,
        batch_us: int = 0,
        clock: ClusterClock | None = None,
        context: SourceContext | None = None,
    ) -> None:
        super().__init__("source")
        self._batch_us = batch_us
        self._clock = clock or ClusterClock()
        self._context = context or SourceContext()
        self._openings: dict[str, Opening] = {}

    @property
    def slipped_us(self) -> dict[str, int]:
        """Stream → by how much its time axis has slipped, because its source had to wait."""
        return {stream: each.slipped_us for stream, each in self._attended.items()}

    @property
    def retained(self) -> dict[str, Position]:
        """Stream → the cut from which on its source can be read again."""
        return {
            stream: source.retained
            for stream, each in self._attended.items()
            if (source := each.resuming) is not None
        }

    @property
    def statuses(self) -> dict[str, InputStatus]:
        """Stream → what its source tells of itself, if it does."""
        return {
            stream: status
            for stream, each in self._attended.items()
            if (status := _status(each)) is not None
        }

    def close(self) -> None:
        """Close all sources."""
        for each in self._attended.values():
            each.close()
        self._attended.clear()

    def feed(
        self,
        assigned: Iterable[SourceAssignment],
        now_us: int,
        anew: Container[str] = (),
        throttled: Container[str] = (),
        sent_ms: Mapping[str, int] = MappingProxyType({}),
    ) -> list[SourceEvent]:
        """Everything that has come due. A source is opened when its stream is first assigned.

        Parameters
        ----------
        anew
            Streams that were assigned anew since the last call, maybe unchanged.
        throttled
            Streams whose sources must wait: their consumers take no more.
        sent_ms
            Stream → up to where another site is known to have sent it.
        """
        by_stream = {a.stream: a for a in assigned if a.source is not None}
        for stream, each in list(self._attended.items()):
            a = by_stream.get(stream)
            same = a is not None and a.generation == each.generation
            if not same or (each.source is not None and stream in anew):
                each.close()
                del self._attended[stream]
        events: list[SourceEvent] = []
        for stream, a in by_stream.items():
            each = self._attended.get(stream)
            if each is None:
                each = _AttendedSource(
                    a.generation,
                    stream_schema(a.columns),
                    slipped_us=round(a.slipped_ms * 1000),
                )
                self._attended[stream] = each
            try:
                # Events up to a failure count.
                reached_ms = sent_ms.get(stream, NO_WATERMARK)
                asked = self._ask(each, a, now_us, reached_ms, throttled=stream in throttled)
                events.extend(asked)
            except Exception as error:  # noqa: BLE001  A driver may fail in any way.
                events.append(self._fail(each, stream, error, now_us))
        return events

    def reread(
        self, assigned: Iterable[SourceAssignment], wanted: Iterable[Wanted], now_us: int
    ) -> list[SourceReread | SourceFailed]:
        """A piece of each part of a stream that is wanted again."""
        by_stream = {a.stream: a for a in assigned}
        events: list[SourceReread | SourceFailed] = []
        for part in wanted:
            each, a = self._attended.get(part.stream), by_stream.get(part.stream)
            source = None if each is None else each.resuming
            if each is None or source is None or a is None or a.start_at_us is None:
                continue
            try:
                start_at_us = a.start_at_us + each.slipped_us
                piece = source.read(start_at_us, part.after, part.until)
                if piece is None:
                    raise DriverError(f"nothing follows {part.after} before {part.until}")
                _check(piece, each.schema, part.after.watermark_ms)
            except Exception as error:  # noqa: BLE001
                events.append(self._fail(each, part.stream, error, now_us))
                continue
            events.append(SourceReread(node=part.node, after=part.after, emitted=piece))
        return events

    def locate(
        self, sought: Iterable[tuple[str, int]], now_us: int
    ) -> list[SourceLocated | SourceFailed]:
        """Where streams stood at event times, of those whose sources are open."""
        events: list[SourceLocated | SourceFailed] = []
        for stream, after_ms in sought:
            each = self._attended.get(stream)
            if each is None or (source := each.resuming) is None:
                continue
            try:
                retained = source.retained
                known = retained.watermark_ms < after_ms
                position = source.position_at(after_ms) if known else retained
            except Exception as error:  # noqa: BLE001
                events.append(self._fail(each, stream, error, now_us))
                continue
            located = SourceLocated(stream=stream, after_ms=after_ms, position=position)
            events.append(located)
        return events

    def confirm(
        self, acknowledged: Callable[[str], Position | None], had_ms: Callable[[str], int]
    ) -> None:
        """Tell sources that ask for it up to where everybody has acknowledged their streams, and
        up to where somebody had them before they began anew."""
        for stream, each in self._attended.items():
            if each.source is None or not each.source.waits_for_consumers:
                continue
            if (cut := acknowledged(stream)) is not None:
                each.source.confirm(cut.watermark_ms, had_ms(stream))

    def count(self, skipped: Mapping[str, Skipped]) -> list[InputSkipped]:
        """The tuples of each range that a stream has left out, as far as its source can tell."""
        return [
            InputSkipped(stream=stream, skipped=self._counted(stream, each))
            for stream, each in skipped.items()
        ]

    def _counted(self, stream: str, skipped: Skipped) -> Skipped:
        each = self._attended.get(stream)
        if each is None or each.source is None:
            return skipped
        try:
            tuples = each.source.tuples_between(skipped.after_ms, skipped.until_ms)
        except Exception:  # noqa: BLE001  The range is known all the same.
            return skipped
        return msgspec.structs.replace(skipped, tuples=tuples)

    def next_due_us(
        self, assigned: Iterable[SourceAssignment], throttled: Container[str] = ()
    ) -> int | None:
        """When `feed` will have something to do; None if nothing is in sight."""
        soonest: list[int] = []
        for a in assigned:
            each = self._attended.get(a.stream)
            if each is None:
                continue
            if each.source is None:
                opening = self._openings.get(a.stream)
                # The attempt to open a source says when it has ended.
                if opening is None or opening.ended:
                    soonest.append(each.failures.retry_us)
            elif a.start_at_us is not None and a.stream not in throttled:
                try:
                    due_us = each.source.next_due_us(a.start_at_us + each.slipped_us)
                except Exception:  # noqa: BLE001  `feed` asks again, and notes the failure.
                    due_us = 0
                if due_us is not None:
                    own_us = due_us - self._clock.ahead_us
                    soonest.append(max(own_us, self._rests_until_us(each)))
        return min(soonest, default=None)

    def _ask(
        self,
        each: _AttendedSource,
        a: SourceAssignment,
        now_us: int,
        reached_ms: int,
        *,
        throttled: bool,
    ) -> Iterator[SourceEvent]:
        if each.source is None:
            opened = self._open(each, a, now_us)
            if opened is None:
                return
            yield SourceOpened(stream=a.stream, position=opened)
        source = each.source
        assert source is not None
        if source.resumes and a.needed_ms is not None and a.needed_ms != each.needed_ms:
            each.needed_ms = a.needed_ms
            source.need(a.needed_ms, self._context.retain_bytes)
        if a.saves is not None and (each.copying is None or each.copying.wanted != a.saves):
            each.copying = Copying(a.stream, a.saves, source, self._context)
        if source.waits_for != each.waits_for:
            each.waits_for = source.waits_for
            yield SourceWaits(stream=a.stream, for_what=each.waits_for)
        if a.start_at_us is None:
            # Nothing is emitted yet, but a source that has failed says so.
            source.next_due_us(self._clock.at(now_us))
            each.failures.mended()
            return
        if now_us < self._rests_until_us(each):
            return
        if throttled:
            each.waits = True
            return
        at_us = self._clock.at(now_us)
        # It must be able to say when it is due, else the loop would not know when to ask again.
        due_us = source.next_due_us(a.start_at_us + each.slipped_us)
        if each.waits:
            each.waits = False
            if each.paced and due_us is not None:
                each.slipped_us += max(at_us - due_us, 0)
        if each.watermark_ms < reached_ms:
            _catch_up(each, a.start_at_us, at_us, reached_ms)
        emitted = source.emit(a.start_at_us + each.slipped_us, at_us)
        if emitted is not None and each.repeats:
            emitted, whole = _after(emitted, each.watermark_ms), emitted
            each.repeats = emitted is not whole
        if emitted is not None:
            _check(emitted, each.schema, each.watermark_ms)
            each.watermark_ms = int(emitted.watermarks_ms[-1])
            each.emitted_us = now_us
            each.failures.overcome()
            yield emitted
        else:
            each.failures.mended()

    def _open(self, each: _AttendedSource, a: SourceAssignment, now_us: int) -> Position | None:
        """Have a source opened; once it is, where the stream stands."""
        opening = self._openings.get(a.stream)
        if opening is None or (opening.ended and opening is not each.opening):
            if now_us < each.failures.retry_us:
                return None
            assert a.source is not None
            driver, context = restore(a.source), self._context
            each.paced = driver.guarantee.paced
            opening = each.opening = self._openings[a.stream] = Opening(
                lambda: driver.open(a, context), context, now_us
            )
        if not opening.ended:
            # It may be one that is wanted no more, and holds the port, or the journal.
            self._note_opening(each, opening.since_us, now_us)
            return None
        each.opening = None
        del self._openings[a.stream]
        return _begin(each, opening.opened(), a, self._clock.at(now_us))

    def _fail(
        self, each: _AttendedSource, stream: str, error: Exception, now_us: int
    ) -> SourceFailed:
        """Close a source and say why."""
        each.close()
        self._note_failure(each, stream, error, now_us)
        return SourceFailed(stream=stream)

    def _rests_until_us(self, each: _AttendedSource) -> int:
        return 0 if each.emitted_us is None else each.emitted_us + self._batch_us


def _status(each: _AttendedSource) -> InputStatus | None:
    status = None if each.source is None else each.source.status
    if each.copying is None or each.copying.copy is None:
        return status
    return msgspec.structs.replace(status or InputStatus(), saved=each.copying.copy)


def _begin(each: _AttendedSource, source: OpenSource, a: SourceAssignment, at_us: int) -> Position:
    """Use a source that has been opened; returns where the stream stands at a time of the cluster's
    clock.

    A source that resumes goes on where this process was. If this process has not opened it before,
    it begins with the tuples that come due from now on; earlier ones are read again for the
    consumers that lack them.
    """
    each.source, each.waits_for, each.needed_ms = source, None, None
    position = Position()
    if source.resumes:
        if not each.begun and a.start_at_us is not None:
            position = source.due_position(a.start_at_us + each.slipped_us, at_us)
            each.watermark_ms = position.watermark_ms
        source.seek(each.watermark_ms)
    else:
        each.repeats = each.begun
    each.begun = True
    return position


def _catch_up(each: _AttendedSource, start_at_us: int, at_us: int, reached_ms: int) -> None:
    """Keep this replay no further behind than the other site.

    The sending site is delayed by credit, the standby by its full log, so the two drift apart.
    After a takeover, consumers must not wait for tuples that are late at this site only.
    """
    source = each.resuming
    if source is None or not each.paced:
        return
    least_us, most_us = 0, each.slipped_us
    while least_us < most_us:
        middle_us = (least_us + most_us + 1) // 2
        if source.due_position(start_at_us + middle_us, at_us).watermark_ms >= reached_ms:
            least_us = middle_us
        else:
            most_us = middle_us - 1
    each.slipped_us = least_us


def _chunk(emitted: SourceEmitted) -> Chunk:
    return Chunk(
        first_seq=0,
        rows=emitted.rows,
        watermarks_ms=emitted.watermarks_ms,
        ingestion_times_us=emitted.ingestion_times_us,
    )


def _check(emitted: SourceEmitted, schema: pa.Schema, watermark_ms: int) -> None:
    """Raise unless the emitted tuples and watermarks continue the stream."""
    chunk = _chunk(emitted)
    try:
        chunk.check(schema)
    except ChunkError as error:
        raise DriverError(f"what it emits is no part of a stream: {error}") from None
    first_ms = int(chunk.timestamps[0]) if emitted.rows.num_rows else int(chunk.watermarks_ms[0])
    if min(first_ms, int(chunk.watermarks_ms[0])) <= watermark_ms:
        raise DriverError(
            f"what it emits begins at {first_ms} ms, and {watermark_ms} ms was complete before"
        )


def _after(emitted: SourceEmitted, watermark_ms: int) -> SourceEmitted | None:
    """The part of an emission after a watermark; None if nothing follows."""
    chunk = _chunk(emitted)
    if int(chunk.watermarks_ms[0]) > watermark_ms:
        return emitted
    known = int(np.searchsorted(chunk.timestamps, watermark_ms, side="right"))
    rest = chunk.after(Position(next_seq=known, watermark_ms=watermark_ms))
    if rest is None:
        return None
    return SourceEmitted(
        stream=emitted.stream,
        rows=rest.rows,
        watermarks_ms=rest.watermarks_ms,
        ingestion_times_us=rest.ingestion_times_us,
    )
