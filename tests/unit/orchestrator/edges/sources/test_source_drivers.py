"""A source that fails takes no other with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.edges import sources
from orchestrator.edges.events import (
    SourceEmitted,
    SourceFailed,
    SourceOpened,
    SourceReread,
    Wanted,
)
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.replay import OpenReplay, Replay
from orchestrator.edges.sources.source_drivers import SourceDrivers, SourceEvent
from orchestrator.edges.supervision import RETRY_US
from orchestrator.records import Skipped, SourceAssignment, SourceSpec
from streams.vectors.chunk import Position, stream_schema
from tests import drivers
from topology.cluster_clock import ClusterClock

drivers.register()

NUMBERS = SourceSpec(driver="numbers", options={"every_ms": 1.0})


def assignment(stream: str, source: SourceSpec = NUMBERS) -> SourceAssignment:
    return SourceAssignment(stream=stream, columns={"number": "int"}, source=source, start_at_us=0)


@pytest.fixture(params=["open", "emit", "next_due_us"])
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The method of a driver that raises for the stream `bad`."""

    class Failing(drivers.OpenNumbers):
        def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
            if request.param == "emit":
                raise ConnectionError("the line is dead")
            return super().emit(start_at_us, now_us)

        def next_due_us(self, start_at_us: int) -> int | None:
            if request.param == "next_due_us":
                raise ConnectionError("the line is dead")
            return super().next_due_us(start_at_us)

    def opened(
        options: drivers.Numbers, assigned: SourceAssignment, context: SourceContext
    ) -> drivers.OpenNumbers:
        if assigned.stream != "bad":
            return drivers.OpenNumbers(options, assigned)
        if request.param == "open":
            raise ConnectionError("the line is dead")
        return Failing(options, assigned)

    monkeypatch.setattr(drivers.Numbers, "open", opened)
    return request.param


def emitted(events: Sequence[SourceEvent]) -> list[SourceEmitted]:
    return [event for event in events if isinstance(event, SourceEmitted)]


def test_source_that_raises_stops_and_the_others_go_on(failing: str) -> None:
    opened, assigned = SourceDrivers(), [assignment("bad"), assignment("good")]
    for now_us in (2_000, 4_000):
        opened.next_due_us(assigned)
        assert [each.stream for each in emitted(opened.feed(assigned, now_us))] == ["good"]
    assert opened.next_due_us(assigned[1:]) == 5_000
    assert opened.problems == {"bad": "bad: the source failed: ConnectionError: the line is dead"}
    opened.feed(assigned[1:], 6_000)
    assert opened.problems == {}


def test_source_that_raises_is_opened_again_ever_more_rarely(failing: str) -> None:
    opened, assigned, waits = SourceDrivers(), [assignment("bad")], list[int]()
    now_us = 2_000
    for _ in range(10):
        opened.feed(assigned, now_us)
        due_us = opened.next_due_us(assigned)
        assert due_us is not None
        waits.append(due_us - now_us)
        now_us = due_us
    assert waits[:3] == [500_000, 1_000_000, 2_000_000]
    assert waits[-1] == 30_000_000


def test_range_that_a_source_cannot_count_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Counting(drivers.OpenNumbers):
        def tuples_between(self, after_ms: int, until_ms: int) -> int:
            if until_ms > 20:
                raise ConnectionError("the line is dead")
            return until_ms - after_ms

    def opened(
        options: drivers.Numbers, assigned: SourceAssignment, context: SourceContext
    ) -> drivers.OpenNumbers:
        return Counting(options, assigned)

    monkeypatch.setattr(drivers.Numbers, "open", opened)
    made = SourceDrivers()
    made.feed([assignment("s")], 2_000)
    ranges = [Skipped(after_ms=10, until_ms=until_ms) for until_ms in (15, 30)]
    counted = [made.count({"s": each})[0].skipped for each in ranges]
    assert counted == [msgspec.structs.replace(ranges[0], tuples=5), ranges[1]]


class Line:
    """What all the sources of a test do from now on."""

    dead = False
    watermarks_ms: tuple[int, ...] = ()


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    state = Line()

    class Given(drivers.OpenNumbers):
        def next_due_us(self, start_at_us: int) -> int | None:
            if state.dead:
                raise ConnectionError("the line is dead")
            return super().next_due_us(start_at_us)

        def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
            if state.dead:
                raise ConnectionError("the line is dead")
            if not state.watermarks_ms:
                return None
            watermarks_ms = np.array(state.watermarks_ms, dtype=np.int64)
            rows = pa.RecordBatch.from_pydict(
                {"_ts": watermarks_ms, "number": watermarks_ms},
                schema=stream_schema({"number": "int"}),
            )
            return SourceEmitted(
                stream="s",
                rows=rows,
                watermarks_ms=watermarks_ms,
                ingestion_times_us=watermarks_ms,
            )

    def opened(
        options: drivers.Numbers, assigned: SourceAssignment, context: SourceContext
    ) -> drivers.OpenNumbers:
        return Given(options, assigned)

    monkeypatch.setattr(drivers.Numbers, "open", opened)
    return state


def test_source_that_cannot_say_when_it_is_due_is_asked_at_once(line: Line) -> None:
    made, assigned = SourceDrivers(), [assignment("s")]
    made.feed(assigned, 2_000)
    line.dead = True
    assert made.next_due_us(assigned) == 0
    assert SourceFailed(stream="s") in made.feed(assigned, 4_000)
    assert made.next_due_us(assigned) == 4_000 + RETRY_US


def test_timestamps_that_were_complete_before_a_failure_are_dropped_after_it(line: Line) -> None:
    made, assigned = SourceDrivers(), [assignment("s")]
    line.watermarks_ms = (10, 20)
    assert len(emitted(made.feed(assigned, 0))) == 1
    line.dead = True
    made.feed(assigned, 1_000)
    assert "the line is dead" in made.problems["s"]
    line.dead, line.watermarks_ms = False, (10, 20, 30)
    assert made.feed(assigned, 2_000) == []
    (again,) = emitted(made.feed(assigned, 501_000))
    assert again.watermarks_ms.tolist() == [30]
    assert again.rows.column(1).to_pylist() == [30]
    assert made.problems == {}


def test_a_problem_ends_when_the_source_is_quiet_again(line: Line) -> None:
    made, assigned = SourceDrivers(), [assignment("s")]
    line.dead = True
    made.feed(assigned, 0)
    assert made.problems
    line.dead = False
    made.feed(assigned, 500_000)
    assert made.problems == {}


def test_watermarks_that_fall_are_a_failure_of_the_source(line: Line) -> None:
    made, assigned = SourceDrivers(), [assignment("s")]
    line.watermarks_ms = (10, 20)
    made.feed(assigned, 0)
    line.watermarks_ms = (15, 30)
    assert made.feed(assigned, 1_000) == [SourceFailed(stream="s")]
    assert made.problems == {"s": "s: what it emits begins at 15 ms, and 20 ms was complete before"}


def test_a_resumable_source_emits_after_a_failure_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recording.parquet"
    parquet.write_table(
        pa.Table.from_pydict({"timestamp": [1000, 1100, 1200], "number": [1, 2, 3]}), path
    )
    replay = Replay(path=str(path), begin_ms=1000, end_ms=1200, interval_ms=100)
    assigned = [assignment("s", sources.spec_of("replay", replay))]
    made = SourceDrivers()
    opened = made.feed([msgspec.structs.replace(assigned[0], start_at_us=None)], 0)
    assert opened == [SourceOpened(stream="s", position=Position())]
    first = emitted(made.feed(assigned, 0))
    emit, broken = OpenReplay.emit, True

    def failing_emit(self: OpenReplay, start_at_us: int, now_us: int) -> SourceEmitted | None:
        if broken:
            raise OSError("the disk is gone")
        return emit(self, start_at_us, now_us)

    monkeypatch.setattr(OpenReplay, "emit", failing_emit)
    assert made.feed(assigned, 100_000) == [SourceFailed(stream="s")]
    broken = False
    again = emitted(made.feed(assigned, 600_000))
    numbers = [n for each in (*first, *again) for n in each.rows.column(1).to_pylist()]
    assert numbers == [1, 2, 3]


def test_a_site_that_starts_again_resumes_where_the_stream_is_now(tmp_path: Path) -> None:
    path = tmp_path / "recording.parquet"
    parquet.write_table(
        pa.Table.from_pydict({"timestamp": [1000, 1100, 1200], "number": [1, 2, 3]}), path
    )
    replay = Replay(path=str(path), begin_ms=1000, end_ms=1200, interval_ms=100)
    made, assigned = SourceDrivers(), [assignment("s", sources.spec_of("replay", replay))]
    now = Position(next_seq=2, watermark_ms=1100)
    assert made.feed(assigned, 150_000) == [SourceOpened(stream="s", position=now)]
    (piece,) = made.reread(assigned, [Wanted("s", "reader", Position(), now)], 150_000)
    assert isinstance(piece, SourceReread)
    assert (piece.node, piece.after) == ("reader", Position())
    assert piece.emitted.rows.column(1).to_pylist() == [1, 2]
    (rest,) = emitted(made.feed(assigned, 200_000))
    assert rest.rows.column(1).to_pylist() == [3]


def test_a_source_that_was_unassigned_for_a_moment_is_opened_again(line: Line) -> None:
    made, assigned = SourceDrivers(), [assignment("s")]
    line.watermarks_ms = (10, 20)
    first = made.feed(assigned, 0, {"s"})
    assert [type(event) for event in first] == [SourceOpened, SourceEmitted]
    line.watermarks_ms = ()
    again = made.feed(assigned, 1, {"s"})
    assert again == [SourceOpened(stream="s", position=Position())]
    assert made.feed(assigned, 2) == []


def test_a_position_that_the_recording_does_not_have_is_a_failure_of_the_source(
    tmp_path: Path,
) -> None:
    path = tmp_path / "recording.parquet"
    parquet.write_table(
        pa.Table.from_pydict({"timestamp": [1000, 1100, 1200], "number": [1, 2, 3]}), path
    )
    replay = Replay(path=str(path), begin_ms=1000, end_ms=1200, interval_ms=100)
    made, assigned = SourceDrivers(), [assignment("s", sources.spec_of("replay", replay))]
    made.feed(assigned, 150_000)
    wanted = Wanted(
        "s",
        "reader",
        Position(next_seq=9, watermark_ms=1000),
        Position(next_seq=2, watermark_ms=1100),
    )
    assert made.reread(assigned, [wanted], 150_000) == [SourceFailed(stream="s")]
    assert "has changed" in made.problems["s"]


def test_source_that_this_host_does_not_know_is_a_problem() -> None:
    opened = SourceDrivers()
    odd = SourceSpec(driver="telepathy")
    opened.feed([assignment("bad", odd)], 0)
    assert opened.problems == {
        "bad": "bad: vivace.sources: no driver is named telepathy in this process"
    }
    assert sources.restore(NUMBERS) == drivers.Numbers(every_ms=1.0)


def test_a_source_goes_by_the_cluster_s_clock_and_retries_by_the_host_s(tmp_path: Path) -> None:
    hour_us = 3_600_000_000
    clock = ClusterClock()
    clock.use(-hour_us)
    path = tmp_path / "recording.parquet"
    parquet.write_table(pa.Table.from_pydict({"timestamp": [1100], "number": [1]}), path)
    replay = Replay(path=str(path), begin_ms=1000, end_ms=1200, interval_ms=100)
    assigned = [assignment("s", sources.spec_of("replay", replay))]
    made = SourceDrivers(clock=clock)
    # The cluster's clock shows a µs less than 0, when the stream starts.
    assert emitted(made.feed(assigned, hour_us - 1)) == []
    assert made.next_due_us(assigned) == hour_us
    (first,) = emitted(made.feed(assigned, hour_us))
    assert first.ingestion_times_us.tolist() == [0]
    assert made.next_due_us(assigned) == hour_us + 100_000
    path.unlink()
    broken = [msgspec.structs.replace(assigned[0], generation=2)]
    made.feed(broken, hour_us)
    assert made.next_due_us(broken) == hour_us + RETRY_US


def test_a_source_that_fails_before_its_stream_starts_is_opened_again(line: Line) -> None:
    made = SourceDrivers()
    assigned = [msgspec.structs.replace(assignment("s"), start_at_us=None)]
    made.feed(assigned, 0)
    assert made.problems == {}
    line.dead = True
    made.feed(assigned, 1_000)
    assert "the line is dead" in made.problems["s"]
    line.dead = False
    (opened,) = made.feed(assigned, 502_000)
    assert isinstance(opened, SourceOpened)
    assert made.problems == {}


class Door:
    """Where openings wait on their threads until a test lets them through."""

    def __init__(self) -> None:
        self.passable, self.ended = threading.Event(), threading.Event()
        self.opened = list[drivers.OpenNumbers]()
        self.closed = list[drivers.OpenNumbers]()

    def wait_for_end(self) -> None:
        """Return when an opening has ended since the last call."""
        assert self.ended.wait(30)
        self.ended.clear()


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    made = Door()

    class Closing(drivers.OpenNumbers):
        def close(self) -> None:
            made.closed.append(self)

    def opened(
        options: drivers.Numbers, assigned: SourceAssignment, context: SourceContext
    ) -> drivers.OpenNumbers:
        if assigned.stream == "slow":
            assert made.passable.wait(30)
        made.opened.append(Closing(options, assigned))
        return made.opened[-1]

    monkeypatch.setattr(drivers.Numbers, "open", opened)
    yield made
    made.passable.set()


def opening_aside(door: Door) -> SourceDrivers:
    return SourceDrivers(context=SourceContext(opens_aside=True, wake=door.ended.set))


def test_a_source_that_takes_long_to_open_holds_up_no_other(door: Door) -> None:
    made = opening_aside(door)
    assigned = [assignment("slow"), assignment("good")]
    opened = made.feed(assigned, 0)
    door.wait_for_end()
    opened += made.feed(assigned, 2_000)
    assert SourceOpened(stream="good", position=Position()) in opened
    assert {each.stream for each in emitted(opened)} == {"good"}
    # Nothing is to be done for the other one until its opening has ended.
    assert made.next_due_us(assigned[:1]) is None
    assert made.problems == {}
    assert made.feed(assigned[:1], 5_000_000) == []
    assert made.problems == {"slow": "slow: its source takes more than 5 s to open"}
    door.passable.set()
    door.wait_for_end()
    assert SourceOpened(stream="slow", position=Position()) in made.feed(assigned[:1], 6_000_000)
    assert made.problems == {}


def test_a_source_whose_opening_fails_with_what_is_no_exception_is_named(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic of a library in Rust (PyO3) is a BaseException, and would end the thread unsaid."""

    class Panic(BaseException):
        pass

    def panic(*_: object) -> None:
        raise Panic("index out of bounds")

    monkeypatch.setattr(drivers.Numbers, "open", panic)
    made, assigned = opening_aside(door), [assignment("s")]
    made.feed(assigned, 0)
    door.wait_for_end()
    made.feed(assigned, 1_000)
    assert made.problems == {"s": "s: the source failed: Panic: index out of bounds"}


def test_a_source_is_closed_if_nobody_wants_it_any_more_once_it_is_open(door: Door) -> None:
    made, slow = opening_aside(door), assignment("slow")
    made.feed([slow], 0)
    made.feed([], 1_000)
    # The same stream's next life waits: the former one may hold its port, or its journal.
    anew = [msgspec.structs.replace(slow, generation=2)]
    made.feed(anew, 2_000)
    assert made.next_due_us(anew) is None
    assert made.feed(anew, 5_000_000) == []
    assert made.problems == {"slow": "slow: its source takes more than 5 s to open"}
    assert door.opened == []
    door.passable.set()
    door.wait_for_end()
    (former,) = door.opened
    assert door.closed == [former]
    opened = made.feed(anew, 3_000)
    door.wait_for_end()
    opened += made.feed(anew, 4_000)
    assert SourceOpened(stream="slow", position=Position()) in opened
    assert len(door.opened) == 2
    made.close()
    assert door.closed == door.opened


def test_a_source_that_cannot_be_opened_aside_is_a_problem(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> drivers.OpenNumbers:
        raise ConnectionError("the line is dead")

    monkeypatch.setattr(drivers.Numbers, "open", failing)
    made, assigned = opening_aside(door), [assignment("s")]
    failed = made.feed(assigned, 0)
    door.wait_for_end()
    failed += made.feed(assigned, 0)
    assert failed == [SourceFailed(stream="s")]
    assert made.problems == {"s": "s: the source failed: ConnectionError: the line is dead"}
    assert made.next_due_us(assigned) == RETRY_US


def test_a_time_axis_slips_no_further_than_what_another_site_has_sent(tmp_path: Path) -> None:
    path = tmp_path / "recording.parquet"
    stamps = [*range(1000, 2000, 100)]
    parquet.write_table(pa.Table.from_pydict({"timestamp": stamps, "number": stamps}), path)
    replay = Replay(path=str(path), begin_ms=1000, end_ms=1900, interval_ms=100)
    slipped = assignment("s", sources.spec_of("replay", replay))
    assigned = [msgspec.structs.replace(slipped, slipped_ms=500.0)]
    made = SourceDrivers()
    assert emitted(made.feed(assigned, 400_000)) == []
    (part,) = emitted(made.feed(assigned, 400_000, sent_ms={"s": 1200}))
    assert part.watermarks_ms.tolist() == [1000, 1100, 1200]
    assert made.slipped_us == {"s": 200_000}
    # Nothing enters before it is due.
    (part,) = emitted(made.feed(assigned, 400_000, sent_ms={"s": 1900}))
    assert part.watermarks_ms.tolist() == [1300, 1400]
    assert made.slipped_us == {"s": 0}


def test_a_source_that_waits_does_not_catch_up(tmp_path: Path) -> None:
    path = tmp_path / "recording.parquet"
    parquet.write_table(pa.Table.from_pydict({"timestamp": [1000], "number": [1]}), path)
    replay = Replay(path=str(path), begin_ms=1000, end_ms=1200, interval_ms=100)
    slipped = assignment("s", sources.spec_of("replay", replay))
    assigned = [msgspec.structs.replace(slipped, slipped_ms=500.0)]
    made = SourceDrivers()
    made.feed(assigned, 400_000)
    assert emitted(made.feed(assigned, 400_000, (), {"s"}, {"s": 1200})) == []
    assert made.slipped_us == {"s": 500_000}
