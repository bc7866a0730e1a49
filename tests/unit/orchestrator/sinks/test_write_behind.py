"""A flush that waits for its disk holds up nobody, and what it kept is told once it is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from orchestrator.host.events import Deliver, Durable, SinkFailed, SinkFlushed, SinkOpened
from orchestrator.records import SinkAssignment
from orchestrator.sinks.sink_drivers import FLUSH_EVERY_US, SinkDrivers
from orchestrator.sinks.write_behind import WriteBehind
from streams.chunk import Position
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


def test_a_flush_that_waits_for_its_disk_holds_up_nobody() -> None:
    slow = SlowSink()
    made = SinkDrivers(lambda _: WriteBehind(slow))
    assert made.attend(ASSIGNED, 0) == [SinkOpened(stream="s", durable=None)]
    made.keep(delivery(0), 0)
    assert made.attend(ASSIGNED, FLUSH_EVERY_US) == []
    assert slow.begun.wait(LONG_S)
    # More comes while the disk is slow; the next flush takes all of it.
    for number in (1, 2):
        made.keep(delivery(number), FLUSH_EVERY_US)
        assert made.attend(ASSIGNED, (number + 1) * FLUSH_EVERY_US + number) == []
    slow.disk.release()
    until(lambda: slow.durable == durable(0))
    events: list[object] = []
    until(lambda: bool(events.extend(made.attend(ASSIGNED, 9 * FLUSH_EVERY_US)) or events))
    assert events == [SinkFlushed(stream="s", durable=durable(0))]
    slow.disk.release()
    until(lambda: bool(events.extend(made.attend(ASSIGNED, 9 * FLUSH_EVERY_US)) or events[1:]))
    assert events[1:] == [SinkFlushed(stream="s", durable=durable(2))]
    assert slow.flushed == [1, 2]
    made.close()
    assert slow.closed


def test_a_disk_that_is_full_fails_the_sink_though_nothing_more_is_delivered() -> None:
    slow = SlowSink()
    made = SinkDrivers(lambda _: WriteBehind(slow))
    made.attend(ASSIGNED, 0)
    made.keep(delivery(0), 0)
    made.attend(ASSIGNED, FLUSH_EVERY_US)
    slow.full = True
    slow.disk.release()
    events: list[object] = []
    until(lambda: bool(events.extend(made.attend(ASSIGNED, 2 * FLUSH_EVERY_US)) or events))
    assert events == [SinkFailed(stream="s")]
    assert made.problems == {"s": "s: the sink failed: OSError: [Errno 28] No space left on device"}
    assert slow.closed


def test_closing_finishes_what_was_asked_for_and_drops_the_rest() -> None:
    slow = SlowSink()
    behind = WriteBehind(slow)
    behind.keep(delivery(0))
    behind.flush()
    assert slow.begun.wait(LONG_S)
    behind.keep(delivery(1))
    slow.disk.release()
    behind.close()
    assert slow.flushed == [1]
    assert slow.closed


def test_a_failed_sink_says_so_to_whoever_asks() -> None:
    slow = SlowSink()
    slow.full = True
    slow.disk.release()
    behind = WriteBehind(slow)
    behind.keep(delivery(0))
    behind.flush()
    behind.close()
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
    made = WriteBehind(slow)
    made.keep(delivery(0))
    made.flush()
    assert slow.begun.wait(LONG_S)
    assert made.durable is None
    slow.disk.release()
    until(lambda: made.durable == durable(0))
    made.close()
