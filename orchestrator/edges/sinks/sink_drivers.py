"""The open sinks of one host.

A sink that cannot be opened, or raises, has failed. The failure is a problem of its stream alone:
the sink is closed, nothing is delivered to it or acknowledged, and it is opened again later. All
other streams go on. Once it is open again, its deliveries continue after what it had kept. If its
files were removed under it, they continue with the first number: what producers keep no more counts
as lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

import msgspec

from orchestrator.edges.events import Deliver, Durable, SinkFailed, SinkFlushed, SinkOpened
from orchestrator.edges.open_folders import FilesGone
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sinks.write_behind import WriteBehind
from orchestrator.edges.supervision import Attended, Supervisor
from orchestrator.records import DriverSpec, SinkAssignment
from streams.vectors.chunk import Position

FLUSH_EVERY_US = 200_000
FLUSHES_S = 50
RAREST_FLUSH_US = 2_000_000
"""How often readers see more of the outputs, and producers may drop what they have kept for them.
Latencies are measured at arrival, whenever a sink is flushed. Many sinks are flushed more rarely: a
flush has the disk write (fsync), and costs hardly less for one tuple than for many."""

SinkEvent = SinkOpened | SinkFlushed | SinkFailed


@dataclass(slots=True)
class _AttendedSink(Attended):
    """The sink of one stream; None while it cannot be used.

    Attributes
    ----------
    since_us
        When its opening began.
    is_open
        Whether that has ended, and was told.
    gone
        Up to where it had kept the stream when its files were found to be gone.
    """

    spec: DriverSpec | None
    life: int
    sink: OpenSink | None = None
    since_us: int = 0
    is_open: bool = False
    told: Durable | None = None
    gone: Durable | None = None


class SinkDrivers(Supervisor[_AttendedSink]):
    """All sinks of one host: each delivery goes to the sink of its stream.

    Parameters
    ----------
    open_sink
        Opens the sink of an assigned stream.
    aside
        Whether each sink has a thread of its own for all that may wait for a disk or a broker.

    Attributes
    ----------
    check_claim
        Called before a sink is opened; raises an error if another process has replaced this one.
    """

    def __init__(
        self, open_sink: Callable[[SinkAssignment], OpenSink], *, aside: bool = False
    ) -> None:
        super().__init__("sink")
        self._open_sink, self._aside = open_sink, aside
        self._writers: dict[str, WriteBehind] = {}
        """Stream → the last sink that has a thread, while it has not ended."""
        self.check_claim: Callable[[], None] = lambda: None
        self._unflushed: set[str] = set()
        self._failed: list[str] = []
        self._flush_at_us: int | None = None

    @property
    def addresses(self) -> dict[str, str | None]:
        """Stream → where clients get its results; None: nowhere."""
        return {s: getattr(each.sink, "address", None) for s, each in self._attended.items()}

    def take_dropped(self) -> dict[str, int]:
        """Stream → how many slow readers have lost their connection since the last call."""
        takes = {s: getattr(each.sink, "take_dropped", None) for s, each in self._attended.items()}
        return {s: count for s, take in takes.items() if take is not None and (count := take())}

    def keep(self, delivery: Deliver, now_us: int) -> None:
        """Hand a delivery to its sink; it is dropped, to come again, if the sink has failed."""
        stream = delivery.stream
        each = self._attended.get(stream)
        if each is None or each.sink is None or not each.is_open:
            return
        try:
            each.sink.keep(delivery)
        except Exception as error:  # noqa: BLE001  A driver may fail in any way.
            self._fail(each, stream, error, now_us)
            return
        self._unflushed.add(stream)
        if self._flush_at_us is None:
            every_us = max(FLUSH_EVERY_US, len(self._attended) * 1_000_000 // FLUSHES_S)
            self._flush_at_us = now_us + min(every_us, RAREST_FLUSH_US)

    def attend(
        self, assigned: Iterable[SinkAssignment], now_us: int, anew: Container[str] = ()
    ) -> list[SinkEvent]:
        """Open sinks of newly assigned streams, and flush all when it is time.

        Parameters
        ----------
        anew
            Streams whose sinks were assigned anew since the last call, maybe unchanged.
        """
        by_stream = {a.stream: a for a in assigned}
        for stream, each in list(self._attended.items()):
            a = by_stream.get(stream)
            same = a is not None and (a.sink, a.life) == (each.spec, each.life)
            if not same or (each.is_open and stream in anew):
                self._close(stream, each)
                del self._attended[stream]
        if not self._unflushed:
            self._flush_at_us = None
        events = self._failures()
        for stream, a in by_stream.items():
            each = self._attended.setdefault(stream, _AttendedSink(a.sink, a.life))
            if each.sink is None and now_us >= each.failures.retry_us:
                self._open(each, a, now_us)
        if self._flush_at_us is not None and now_us >= self._flush_at_us:
            self._flush(now_us)
        return events + self._progress(now_us) + self._failures()

    @property
    def next_due_us(self) -> int | None:
        """When `attend` will have something to do; None if nothing is in sight."""
        due_us = self._flush_at_us
        for each in self._attended.values():
            if each.sink is None and (due_us is None or each.failures.retry_us < due_us):
                due_us = each.failures.retry_us
        return due_us

    def close(self) -> None:
        """Flush and close all sinks, and wait until all is written that they were asked to."""
        for stream, each in self._attended.items():
            self._close(stream, each)
        self._attended.clear()
        for writer in self._writers.values():
            writer.wait_until_written()

    def _failures(self) -> list[SinkEvent]:
        """The failures since the last call."""
        failed, self._failed = self._failed, []
        return [SinkFailed(stream=stream) for stream in failed]

    def _open(self, each: _AttendedSink, a: SinkAssignment, now_us: int) -> None:
        """Open a sink, or have it opened; `_progress` notices that it is open."""

        def opened() -> OpenSink:
            self.check_claim()
            return self._open_sink(a)

        try:
            each.sink = self._writer(a.stream, opened) if self._aside else opened()
        except Exception as error:  # noqa: BLE001
            self._note_failure(each, a.stream, error, now_us)
            return
        each.since_us = now_us

    def _writer(self, stream: str, open_sink: Callable[[], OpenSink]) -> WriteBehind:
        """Have a sink opened once the stream's former one uses nothing any more."""
        self._writers = {s: each for s, each in self._writers.items() if not each.has_ended}
        writer = WriteBehind(open_sink, after=self._writers.get(stream))
        self._writers[stream] = writer
        return writer

    def _flush(self, now_us: int) -> None:
        self._flush_at_us = None
        unflushed, self._unflushed = sorted(self._unflushed), set()
        for stream in unflushed:
            each = self._attended.get(stream)
            if each is None or each.sink is None:
                continue
            try:
                each.sink.flush()
            except Exception as error:  # noqa: BLE001
                self._fail(each, stream, error, now_us)

    def _progress(self, now_us: int) -> list[SinkEvent]:
        """Sinks that were opened, and what sinks have kept for good, since the last call."""
        events: list[SinkEvent] = []
        for stream, each in self._attended.items():
            if each.sink is None:
                continue
            try:
                if isinstance(each.sink, WriteBehind) and not each.sink.is_open:
                    self._note_opening(each, each.since_us, now_us)
                    continue
                durable = each.sink.durable
            except Exception as error:  # noqa: BLE001
                self._fail(each, stream, error, now_us)
                continue
            if not each.is_open:
                if durable is None and each.gone is not None:
                    durable = msgspec.structs.replace(each.gone, position=Position())
                each.gone = None
                each.told, each.is_open = durable, True
                each.failures.mended()
                each.waits_for = None
                events.append(SinkOpened(stream=stream, durable=durable))
            elif durable is not None and durable != each.told:
                each.told = durable
                each.failures.overcome()
                events.append(SinkFlushed(stream=stream, durable=durable))
        return events

    def _fail(self, each: _AttendedSink, stream: str, error: Exception, now_us: int) -> None:
        """Close a sink and say why."""
        sink, each.sink = each.sink, None
        self._unflushed.discard(stream)
        if isinstance(error, FilesGone):
            each.gone = each.told
        if each.is_open:
            self._failed.append(stream)
        each.is_open = False
        self._note_failure(each, stream, error, now_us)
        if sink is not None:
            with contextlib.suppress(Exception):
                sink.close()

    def _close(self, stream: str, each: _AttendedSink) -> None:
        """Flush and close a sink that is no longer needed, whatever state it is in."""
        if each.sink is None:
            return
        with contextlib.suppress(Exception):
            if stream in self._unflushed:
                each.sink.flush()
        self._unflushed.discard(stream)
        with contextlib.suppress(Exception):
            each.sink.close()


class HandingSink:
    """A sink that hands deliveries on in memory and keeps nothing: an observer's, for instance."""

    def __init__(self, hand: Callable[[Deliver], None]) -> None:
        self.durable: Durable | None = None
        self._end: Durable | None = None
        self._hand = hand

    def keep(self, delivery: Deliver) -> None:
        """Hand a delivery on."""
        self._hand(delivery)
        self._end = delivery.end

    def flush(self) -> None:
        """Nothing is held back."""
        self.durable = self._end

    def close(self) -> None:
        """Nothing is held open."""
