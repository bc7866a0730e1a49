"""A sink that waits for its disk holds up nobody, and what it kept is told once it is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec
import pytest

from orchestrator.edges.events import Deliver, Durable, SinkFailed, SinkFlushed, SinkOpened
from orchestrator.edges.sinks.sink_drivers import FLUSH_EVERY_US, SinkDrivers, SinkEvent
from orchestrator.edges.sinks.write_behind import WriteBehind
from orchestrator.edges.supervision import LONG_OPENING_US, RETRY_US
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import Position
from tests.streams_of_numbers import chunk

ASSIGNED = [SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=5.0, life=1)]
LONG_S = 20.0


class SlowSink:
    """A sink whose disk a test lets go on, or fail."""

    def __init__(self) -> None:
        self.durable: Durable | None = None
        self.flushed: list[int] = []
        self.closed = False
        self.begun = threading.Event()
        self.disk = threading.Semaphore(0)
        self.full = False
        self._kept: list[Deliver] = []

    def keep(self, delivery: Deliver) -> None:
        self._kept.append(delivery)

    def flush(self) -> None:
        self.begun.set()
        assert self.disk.acquire(timeout=LONG_S)
        if self.full:
            raise OSError(28, "No space left on device")
        self.flushed.append(len(self._kept))
        self.durable = self._kept[-1].end
        self._kept.clear()

    def close(self) -> None:
        self.closed = True


def delivery(number: int) -> Deliver:
    part = chunk(number, [(number, 1)])
    return Deliver(stream="s", epoch=1, chunk=part, lost=0, arrived_us=0)


def durable(number: int) -> Durable:
    position = Position(next_seq=number + 1, watermark_ms=number)
    return Durable(generation=1, position=position)


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(round(LONG_S / 0.001)):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never came true")


def told(
    made: SinkDrivers, now_us: int = 0, assigned: Sequence[SinkAssignment] = ASSIGNED
) -> list[SinkEvent]:
    """What is told next of sinks that are attended."""
    events: list[SinkEvent] = []
    until(lambda: bool(events.extend(made.attend(assigned, now_us)) or events))
    return events


def written_behind(sink: SlowSink) -> WriteBehind:
    behind = WriteBehind(lambda: sink)
    behind.wait_until_open()
    return behind


def test_a_sink_that_takes_long_to_open_holds_up_nobody_and_is_a_problem() -> None:
    may_open = threading.Event()

    def open_sink(_: SinkAssignment) -> SlowSink:
        assert may_open.wait(LONG_S)
        return sink

    sink = SlowSink()
    made = SinkDrivers(open_sink, aside=True)
    assert made.attend(ASSIGNED, 0) == []
    # A host asks again what the core does not know to be open.
    assert made.attend(ASSIGNED, 1, anew=["s"]) == []
    made.keep(delivery(0), 1)
    assert made.problems == {}
    assert made.attend(ASSIGNED, LONG_OPENING_US) == []
    assert made.problems == {"s": "s: its sink takes more than 5 s to open"}
    may_open.set()
    assert told(made) == [SinkOpened(stream="s", durable=None)]
    assert made.problems == {}
    sink.disk.release()
    made.close()
    assert sink.flushed == []


def test_a_sink_that_cannot_be_opened_aside_is_opened_again_later() -> None:
    sinks = [SlowSink()]

    def open_sink(_: SinkAssignment) -> SlowSink:
        if sinks:
            sinks.clear()
            raise OSError("gone")
        return SlowSink()

    made = SinkDrivers(open_sink, aside=True)
    until(lambda: made.attend(ASSIGNED, 0) == [] and bool(made.problems))
    assert made.problems == {"s": "s: the sink failed: OSError: gone"}
    assert made.next_due_us == RETRY_US
    assert told(made, RETRY_US) == [SinkOpened(stream="s", durable=None)]
    made.close()


def test_a_sink_that_takes_long_to_close_holds_up_nobody_but_its_successor() -> None:
    first, second = SlowSink(), SlowSink()
    waiting = [first, second]
    made = SinkDrivers(lambda _: waiting.pop(0), aside=True)
    told(made)
    made.keep(delivery(0), 0)
    made.attend(ASSIGNED, FLUSH_EVERY_US)
    assert first.begun.wait(LONG_S)
    # Its query is deleted, and another of the same name is applied.
    assert made.attend([], FLUSH_EVERY_US) == []
    renewed = [msgspec.structs.replace(ASSIGNED[0], life=life) for life in (2, 3)]
    assert made.attend(renewed[:1], FLUSH_EVERY_US) == []
    # It is replaced once more: the one in between need not be opened any more.
    assert made.attend(renewed[1:], FLUSH_EVERY_US) == []
    assert waiting == [second]
    first.disk.release()
    assert told(made, FLUSH_EVERY_US, renewed[1:]) == [SinkOpened(stream="s", durable=None)]
    assert (first.flushed, first.closed) == ([1], True)
    made.close()
    assert second.closed


def test_closing_the_drivers_waits_until_all_is_kept() -> None:
    slow = SlowSink()
    made = SinkDrivers(lambda _: slow, aside=True)
    told(made)
    made.keep(delivery(0), 0)
    threading.Timer(0.05, slow.disk.release).start()
    made.close()
    assert (slow.flushed, slow.closed) == ([1], True)


def test_a_flush_that_waits_for_its_disk_holds_up_nobody() -> None:
    slow = SlowSink()
    made = SinkDrivers(lambda _: slow, aside=True)
    assert told(made) == [SinkOpened(stream="s", durable=None)]
    made.keep(delivery(0), 0)
    assert made.attend(ASSIGNED, FLUSH_EVERY_US) == []
    assert slow.begun.wait(LONG_S)
    # More comes while the disk is slow; the next flush takes all of it.
    for number in (1, 2):
        made.keep(delivery(number), FLUSH_EVERY_US)
        assert made.attend(ASSIGNED, (number + 1) * FLUSH_EVERY_US + number) == []
    slow.disk.release()
    until(lambda: slow.durable == durable(0))
    assert told(made, 9 * FLUSH_EVERY_US) == [SinkFlushed(stream="s", durable=durable(0))]
    slow.disk.release()
    assert told(made, 9 * FLUSH_EVERY_US) == [SinkFlushed(stream="s", durable=durable(2))]
    assert slow.flushed == [1, 2]
    made.close()
    assert slow.closed


def test_a_disk_that_is_full_fails_the_sink_though_nothing_more_is_delivered() -> None:
    slow = SlowSink()
    made = SinkDrivers(lambda _: slow, aside=True)
    told(made)
    made.keep(delivery(0), 0)
    made.attend(ASSIGNED, FLUSH_EVERY_US)
    slow.full = True
    slow.disk.release()
    assert told(made, 2 * FLUSH_EVERY_US) == [SinkFailed(stream="s")]
    assert made.problems == {"s": "s: the sink failed: OSError: [Errno 28] No space left on device"}
    until(lambda: slow.closed)


def test_closing_finishes_what_was_asked_for_and_drops_the_rest() -> None:
    slow = SlowSink()
    behind = written_behind(slow)
    behind.keep(delivery(0))
    behind.flush()
    assert slow.begun.wait(LONG_S)
    behind.keep(delivery(1))
    slow.disk.release()
    behind.close()
    behind.wait(LONG_S)
    assert slow.flushed == [1]
    assert slow.closed


def test_a_failed_sink_says_so_to_whoever_asks() -> None:
    slow = SlowSink()
    slow.full = True
    slow.disk.release()
    behind = written_behind(slow)
    behind.keep(delivery(0))
    behind.flush()
    behind.close()
    behind.wait(LONG_S)
    with pytest.raises(OSError, match="No space left"):
        behind.flush()
    with pytest.raises(OSError, match="No space left"):
        _ = behind.durable


def test_what_a_sink_has_flushed_that_cannot_say_what_it_kept_counts_as_kept() -> None:
    class Forgetful(SlowSink):
        def flush(self) -> None:
            super().flush()
            self.durable = None

    slow = Forgetful()
    made = written_behind(slow)
    made.keep(delivery(0))
    made.flush()
    assert slow.begun.wait(LONG_S)
    assert made.durable is None
    slow.disk.release()
    until(lambda: made.durable == durable(0))
    made.close()
