"""Each delivery goes to the sink of its stream, and a sink that fails stops no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.edges.events import Deliver, Durable, SinkFailed, SinkFlushed, SinkOpened
from orchestrator.edges.sinks import opener, read_back
from orchestrator.edges.sinks.sink_drivers import FLUSH_EVERY_US, SinkDrivers
from orchestrator.records import DriverSpec, SinkAssignment
from streams.vectors.chunk import Chunk, Position
from tests import drivers
from tests.streams_of_numbers import chunk

drivers.register()

TEXT = DriverSpec(driver="text_file", options={"separator": " "})


def assignment(stream: str, sink: DriverSpec | None = None, life: int = 1) -> SinkAssignment:
    columns = {"number": "int"}
    return SinkAssignment(stream=stream, columns=columns, deadline_ms=5.0, sink=sink, life=life)


def delivery(stream: str, part: Chunk) -> Deliver:
    return Deliver(stream=stream, epoch=1, chunk=part, lost=0, arrived_us=0)


def durable(next_seq: int, watermark_ms: int) -> Durable:
    position = Position(next_seq=next_seq, watermark_ms=watermark_ms)
    return Durable(generation=1, position=position)


def test_streams_go_to_the_sinks_that_they_name(tmp_path: Path) -> None:
    made, assigned = SinkDrivers(opener(tmp_path)), [assignment("a"), assignment("b", TEXT)]
    opened = made.attend(assigned, 0)
    assert opened == [SinkOpened(stream=each, durable=None) for each in ("a", "b")]
    made.keep(delivery("a", chunk(0, [(10, 2)])), 1_000)
    made.keep(delivery("b", chunk(5, [(20, 1)])), 2_000)
    assert made.next_due_us == 1_000 + FLUSH_EVERY_US
    assert made.attend(assigned, FLUSH_EVERY_US) == []
    assert made.attend(assigned, 1_000 + FLUSH_EVERY_US) == [
        SinkFlushed(stream="a", durable=durable(2, 10)),
        SinkFlushed(stream="b", durable=durable(6, 20)),
    ]
    assert made.next_due_us is None
    assert read_back(tmp_path, "a").rows["number"].to_pylist() == [0, 1]
    assert (tmp_path / "b.txt").read_text() == "20 5\n"
    made.close()


def test_nothing_is_due_once_every_sink_is_gone(tmp_path: Path) -> None:
    made = SinkDrivers(opener(tmp_path))
    made.attend([assignment("a")], 0)
    made.keep(delivery("a", chunk(0, [(10, 2)])), 0)
    made.attend([], 1)
    assert not made.attended
    assert made.next_due_us is None


def test_a_sink_that_is_opened_again_says_what_it_had_kept(tmp_path: Path) -> None:
    first = SinkDrivers(opener(tmp_path))
    first.attend([assignment("a")], 0)
    first.keep(delivery("a", chunk(0, [(10, 2)])), 0)
    first.close()
    again = SinkDrivers(opener(tmp_path))
    assert again.attend([assignment("a")], 0) == [SinkOpened(stream="a", durable=durable(2, 10))]


def test_a_sink_that_was_unassigned_for_a_moment_is_flushed_and_opened_again(
    tmp_path: Path,
) -> None:
    made, assigned = SinkDrivers(opener(tmp_path)), [assignment("a")]
    made.attend(assigned, 0, {"a"})
    made.keep(delivery("a", chunk(0, [(10, 2)])), 0)
    again = made.attend(assigned, 1, {"a"})
    assert again == [SinkOpened(stream="a", durable=durable(2, 10))]
    assert made.attend(assigned, 2) == []


def test_a_stream_of_another_query_is_opened_anew(tmp_path: Path) -> None:
    made = SinkDrivers(opener(tmp_path))
    for separator, life in ((",", 1), (";", 2)):
        text = DriverSpec(driver="text_file", options={"separator": separator})
        assigned = assignment("a", text, life)
        assert made.attend([assigned], 0) == [SinkOpened(stream="a", durable=None)]
        made.keep(delivery("a", chunk(0, [(10, 1)])), 0)
    made.close()
    assert (tmp_path / "a.txt").read_text() == "10,0\n10;0\n"


@pytest.mark.parametrize("method", ["open", "keep", "flush"])
def test_a_sink_that_raises_is_opened_again_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    full = True

    class Failing(drivers.OpenTextFile):
        def keep(self, delivery: Deliver) -> None:
            if full and method == "keep":
                raise OSError(28, "No space left on device")
            super().keep(delivery)

        def flush(self) -> None:
            if full and method == "flush":
                raise OSError(28, "No space left on device")
            super().flush()

        def close(self) -> None:
            super().close()
            if full:
                raise OSError(28, "No space left on device")

    def open_failing(
        options: drivers.TextFile, assigned: SinkAssignment, folder: Path
    ) -> drivers.OpenTextFile:
        if full and method == "open":
            raise OSError(28, "No space left on device")
        return Failing(folder / "b.txt", options.separator)

    monkeypatch.setattr(drivers.TextFile, "open", open_failing)
    made, assigned = SinkDrivers(opener(tmp_path)), [assignment("a"), assignment("b", TEXT)]
    made.attend(assigned, 0)
    for stream in ("a", "b"):
        made.keep(delivery(stream, chunk(0, [(10, 1)])), 0)
    events = made.attend(assigned, FLUSH_EVERY_US)
    assert SinkFlushed(stream="a", durable=durable(1, 10)) in events
    assert (SinkFailed(stream="b") in events) == (method != "open")
    assert not [e for e in events if isinstance(e, SinkFlushed) and e.stream == "b"]
    problem = "b: the sink failed: OSError: [Errno 28] No space left on device"
    assert made.problems == {"b": problem}
    # A delivery for a sink that is closed is dropped; it comes again.
    made.keep(delivery("b", chunk(1, [(20, 1)])), FLUSH_EVERY_US)
    full = False
    retry_us = made.next_due_us
    assert retry_us is not None
    assert made.attend(assigned, retry_us - 1) == []
    assert made.attend(assigned, retry_us) == [SinkOpened(stream="b", durable=None)]
    assert made.problems == {}
    made.keep(delivery("b", chunk(0, [(10, 1), (20, 1)])), retry_us)
    made.close()
    assert (tmp_path / "b.txt").read_text() == "10 0\n20 1\n"


def test_retries_become_rarer_and_a_flush_that_holds_makes_them_frequent_again() -> None:
    gone = True

    class Going:
        """A sink whose disk goes and comes back."""

        durable: Durable | None = None
        kept: Durable | None = None

        def keep(self, delivery: Deliver) -> None:
            if gone:
                raise OSError("gone")
            self.kept = delivery.end

        def flush(self) -> None:
            self.durable = self.kept

        def close(self) -> None:
            pass

    def open_sink(_: SinkAssignment) -> Going:
        if gone:
            raise OSError("gone")
        return Going()

    made, now_us, waits = SinkDrivers(open_sink), 0, list[int]()
    for _ in range(10):
        made.attend([assignment("a")], now_us)
        due_us = made.next_due_us
        assert due_us is not None
        waits.append(due_us - now_us)
        now_us = due_us
    assert waits[:3] == [500_000, 1_000_000, 2_000_000]
    assert waits[-1] == 30_000_000
    gone = False
    made.attend([assignment("a")], now_us)
    for number in range(2):
        made.keep(delivery("a", chunk(number, [(number, 1)])), now_us)
        now_us += FLUSH_EVERY_US
        made.attend([assignment("a")], now_us)
    gone = True
    made.keep(delivery("a", chunk(2, [(2, 1)])), now_us)
    assert made.next_due_us == now_us + 500_000
