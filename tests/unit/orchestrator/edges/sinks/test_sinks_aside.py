"""What may go wrong with a sink that is opened, written and closed on a thread of its own."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from orchestrator.edges.events import Deliver, Durable, SinkFailed, SinkOpened
from orchestrator.edges.open_folders import FolderClaim
from orchestrator.edges.sinks import opener
from orchestrator.edges.sinks.sink_drivers import FLUSH_EVERY_US, SinkDrivers, SinkEvent
from orchestrator.edges.supervision import RETRY_US
from orchestrator.records import DriverSpec, SinkAssignment
from tests.unit.orchestrator.edges.sinks.test_write_behind import (
    ASSIGNED,
    LONG_S,
    SlowSink,
    delivery,
    told,
    until,
)


def test_a_sink_that_fails_is_named_though_closing_it_hangs() -> None:
    """The disk is full, or gone: the flush raises, and `close` then hangs on the same disk."""

    class HangsAtClose(SlowSink):
        def __init__(self) -> None:
            super().__init__()
            self.may_close = threading.Event()
            self.closing = threading.Event()

        def close(self) -> None:
            self.closing.set()
            self.may_close.wait(LONG_S)
            super().close()

    sink = HangsAtClose()
    made = SinkDrivers(lambda _: sink, aside=True)
    told(made)
    made.keep(delivery(0), 0)
    sink.full = True
    sink.disk.release()
    made.attend(ASSIGNED, FLUSH_EVERY_US)
    assert sink.closing.wait(LONG_S)
    try:
        events = made.attend(ASSIGNED, 2 * FLUSH_EVERY_US)
        assert events == [SinkFailed(stream="s")]
        assert "No space left" in made.problems["s"]
    finally:
        sink.may_close.set()
        made.close()


def test_a_process_that_ends_opens_no_further_sinks() -> None:
    """SIGTERM while a predecessor hangs: the successor is opened by the ending process."""
    first = SlowSink()
    opens: list[int] = []

    def open_sink(a: SinkAssignment) -> SlowSink:
        opens.append(a.life)
        return first if a.life == 1 else SlowSink()

    made = SinkDrivers(open_sink, aside=True)
    told(made)
    made.keep(delivery(0), 0)
    made.attend(ASSIGNED, FLUSH_EVERY_US)
    assert first.begun.wait(LONG_S)
    made.attend([msgspec.structs.replace(ASSIGNED[0], life=2)], FLUSH_EVERY_US)
    threading.Timer(0.1, first.disk.release).start()
    made.close()
    assert opens == [1]


def test_a_process_ends_though_a_sink_cannot_be_opened() -> None:
    """Nothing was asked of a sink that is still being opened, so the process does not wait."""
    may_open = threading.Event()

    def open_sink(_: SinkAssignment) -> SlowSink:
        may_open.wait()
        return SlowSink()

    made = SinkDrivers(open_sink, aside=True)
    made.attend(ASSIGNED, 0)
    ends = threading.Thread(target=made.close, daemon=True)
    ends.start()
    ends.join(LONG_S)
    has_ended = not ends.is_alive()
    may_open.set()
    assert has_ended


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


def test_an_output_takes_over_the_port_of_one_that_goes(tmp_path: Path) -> None:
    """Query `a` is deleted, and `b` applied with the same port."""
    listen = {"listen": {"host": "127.0.0.1", "port": free_port()}}
    spec = DriverSpec(driver="http", options=listen)
    a, b = (
        SinkAssignment(stream=s, columns={"number": "int"}, deadline_ms=5.0, life=1, sink=spec)
        for s in ("a", "b")
    )
    made = SinkDrivers(opener(tmp_path), aside=True)
    told(made, 0, [a])
    try:
        events: list[SinkEvent] = []
        problems: dict[str, str] = {}

        def open_or_problem() -> bool:
            events.extend(made.attend([b], 0))
            problems.update(made.problems)
            return bool(events or problems)

        until(open_or_problem)
        assert problems == {}
        assert events == [SinkOpened(stream="b", durable=None)]
    finally:
        made.close()


def test_the_memory_of_a_sink_goes_with_it() -> None:
    """The drivers keep the last thread of each stream, but not its sink."""
    sinks: list[weakref.ref[SlowSink]] = []

    class Live(SlowSink):
        address = "here"

        def arrived(self, delivery: Deliver) -> None:
            """Shown."""

    def open_sink(_: SinkAssignment) -> SlowSink:
        sink = Live()
        sinks.append(weakref.ref(sink))
        return sink

    made = SinkDrivers(open_sink, aside=True)
    told(made)
    made.attend([], 0)
    until(lambda: bool(gc.collect() or True) and sinks[0]() is None)
    made.close()


def test_a_failed_sink_is_released_on_its_own_thread() -> None:
    """Else it were on the host's loop, with the garbage: the end of a Kafka producer waits for its
    threads."""
    sinks: list[weakref.ref[SlowSink]] = []

    def open_sink(_: SinkAssignment) -> SlowSink:
        sink = SlowSink()
        sink.full = True
        sink.disk.release()
        sinks.append(weakref.ref(sink))
        return sink

    made = SinkDrivers(open_sink, aside=True)
    told(made)
    gc.disable()
    try:
        made.keep(delivery(0), 0)
        made.attend(ASSIGNED, FLUSH_EVERY_US)
        until(lambda: made.attend(ASSIGNED, 2 * FLUSH_EVERY_US) == [SinkFailed(stream="s")])
        # Opened again, so that nobody needs the first one.
        until(lambda: bool(made.attend(ASSIGNED, 2 * FLUSH_EVERY_US + RETRY_US)))
        assert len(sinks) == 2
        assert sinks[0]() is None
    finally:
        gc.enable()
        made.close()


@pytest.mark.parametrize("where", ["open", "flush"])
def test_a_driver_that_fails_with_what_is_no_exception_is_named(where: str) -> None:
    """A panic of a library in Rust (PyO3) or `sys.exit` is a BaseException."""

    class Panic(BaseException):
        pass

    class Panics(SlowSink):
        def flush(self) -> None:
            raise Panic("index out of bounds")

    def open_sink(_: SinkAssignment) -> SlowSink:
        if where == "open":
            raise Panic("index out of bounds")
        return Panics()

    made = SinkDrivers(open_sink, aside=True)
    if where == "flush":
        told(made)
        made.keep(delivery(0), 0)
    made.attend(ASSIGNED, FLUSH_EVERY_US)
    until(lambda: bool(made.attend(ASSIGNED, 2 * FLUSH_EVERY_US)) or bool(made.problems))
    assert made.problems == {"s": "s: the sink failed: Panic: index out of bounds"}
    made.close()


def test_failures_become_rarer_though_a_flush_takes_longer_than_the_interval() -> None:
    """That another flush could be asked for does not mean that the first one has succeeded."""
    sinks: list[SlowSink] = []

    def open_sink(_: SinkAssignment) -> SlowSink:
        sink = SlowSink()
        sink.full = True
        sinks.append(sink)
        return sink

    made = SinkDrivers(open_sink, aside=True)
    now_us, number = 0, 0
    waits: list[int] = []
    for _ in range(4):
        assert isinstance(told(made, now_us)[-1], SinkOpened)
        for _ in range(2):
            made.keep(delivery(number), now_us)
            number += 1
            now_us += FLUSH_EVERY_US
            made.attend(ASSIGNED, now_us)
            assert sinks[-1].begun.wait(LONG_S)
        sinks[-1].disk.release()
        sinks[-1].disk.release()
        assert told(made, now_us) == [SinkFailed(stream="s")]
        assert made.next_due_us is not None
        waits.append(made.next_due_us - now_us)
        now_us = made.next_due_us
    made.close()
    assert waits == [RETRY_US, 2 * RETRY_US, 4 * RETRY_US, 8 * RETRY_US]


def test_sinks_that_open_together_claim_the_folder_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site started on a full disk; once there is room, each sink is opened on its thread."""
    for _ in range(20):
        with monkeypatch.context() as full:
            full.setattr(Path, "write_text", Mock(side_effect=OSError(28, "full")))
            claim = FolderClaim(tmp_path, "site", "1")
        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(claim.check) for _ in range(8)]:
                done.result()


def test_a_sink_that_asks_its_broker_what_is_durable_holds_up_nobody() -> None:
    """`isinstance(sink, LiveSink)` evaluates all its properties in Python 3.11."""
    may_open, asked = threading.Event(), threading.Event()

    class AsksBroker:
        address = "here"
        calls = 0

        @property
        def durable(self) -> Durable | None:
            AsksBroker.calls += 1
            if AsksBroker.calls > 1:
                asked.set()
                may_open.wait()
            return None

        def arrived(self, delivery: Deliver) -> None:
            """Shown."""

        def keep(self, delivery: Deliver) -> None:
            """Kept."""

        def flush(self) -> None:
            """Written."""

        def close(self) -> None:
            """Closed."""

    made = SinkDrivers(lambda _: AsksBroker(), aside=True)

    def attend_twice() -> None:
        made.attend(ASSIGNED, 0)
        asked.wait(LONG_S)
        made.attend(ASSIGNED, 1)

    loop = threading.Thread(target=attend_twice, daemon=True)
    loop.start()
    loop.join(2 * LONG_S)
    is_held_up = loop.is_alive()
    may_open.set()
    loop.join(LONG_S)
    made.close()
    assert not is_held_up
