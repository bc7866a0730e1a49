"""Each tuple is numbered once, whenever its process is killed; a live input hands it over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources.formats.rejections import RejectedInput
from orchestrator.edges.sources.live import journal
from orchestrator.edges.sources.live.ingestion import BatchOutcome, Full, Ingestion, OtherRows, Push
from orchestrator.edges.sources.live.journal import Journal
from orchestrator.edges.sources.live.live_input import JournaledInput, LiveInput
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, stream_schema

SCHEMA = stream_schema({"number": "int"})
BY_COLUMN = EventTime(by_arrival=False, slack_ms=5, idle_after_ms=1000, max_ahead_ms=None)
WAIT_S = 20.0


def rows(*timestamps: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_ts": timestamps, "number": timestamps}, schema=SCHEMA)


class Process:
    """An ingestion with its journal; `kill` begins anew with what the journal has."""

    def __init__(self, folder: Path, time: EventTime = BY_COLUMN) -> None:
        self.folder, self.time = folder, time
        self.now_us = 0
        self.begin()

    def begin(self) -> None:
        self.journal = Journal(self.folder, SCHEMA, retain_bytes=2**20, sync=False)
        self.ingestion = Ingestion(SCHEMA, self.time, self.journal, self.now_us)

    def kill(self) -> None:
        self.journal.close()
        self.begin()

    def send(
        self, *timestamps: int, client: str = "", number: int = 0
    ) -> tuple[BatchOutcome, list[int]]:
        self.now_us += 1000
        push = Push(rows(*timestamps), self.now_us, client, number)
        chunks = self.ingestion.take([push], self.now_us)
        assert push.outcome is not None
        return push.outcome, numbers(chunks)

    def everything(self) -> list[int]:
        cut, found = Position(), list[Chunk]()
        while (part := self.journal.read(cut, self.journal.end)) is not None:
            found.append(part)
            cut = part.end
        return numbers(found)


def numbers(chunks: list[Chunk]) -> list[int]:
    return [n for chunk in chunks for n in chunk.rows.column(1).to_pylist()]


def test_what_was_acknowledged_enters_once_although_the_process_is_killed(tmp_path: Path) -> None:
    process = Process(tmp_path)
    assert process.send(10, 12, client="c", number=1) == (BatchOutcome(accepted=2), [])
    process.kill()
    assert process.send(10, 12, client="c", number=1) == (BatchOutcome(repeated=True), [])
    assert process.send(11, 20, client="c", number=2) == (BatchOutcome(accepted=2), [10, 11, 12])
    process.kill()
    assert process.send(13, 19, 26, client="c", number=3) == (
        BatchOutcome(accepted=2, late=1),
        [19, 20],
    )
    process.kill()
    assert process.everything() == [10, 11, 12, 19, 20]
    assert process.ingestion.end.next_seq == 5


def test_an_idle_source_that_is_killed_lets_nothing_in_behind_the_clock(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.send(100)
    process.now_us += 1_500_000
    (idle,) = process.ingestion.take([], process.now_us)
    assert idle.watermark_ms == 100 - 5 + 500
    process.now_us += 100_000
    (empty,) = process.ingestion.take([], process.now_us)
    assert (empty.watermark_ms, empty.rows.num_rows) == (695, 0)
    process.kill()
    taken, _ = process.send(500, 695, 696)
    assert taken == BatchOutcome(accepted=1, late=2)


def test_what_could_not_be_sent_while_the_site_was_away_is_not_late(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.send(100, client="c", number=1)
    process.now_us += 60_000_000
    process.kill()
    assert process.send(100, client="c", number=1)[0] == BatchOutcome(repeated=True)
    assert process.send(101, client="c", number=2)[0] == BatchOutcome(accepted=1)
    process.now_us += 1_100_000
    (idle,) = process.ingestion.take([], process.now_us)
    assert idle.watermark_ms == 101 - 5 + 100
    assert numbers([idle]) == [100, 101]


def test_batches_of_one_commit_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    process = Process(tmp_path)
    pushes = [Push(rows(1), 0, "c", n) for n in (1, 1, 2)]
    process.ingestion.take(pushes, 0)
    assert [push.outcome for push in pushes] == [
        BatchOutcome(accepted=1),
        BatchOutcome(repeated=True),
        BatchOutcome(accepted=1),
    ]


def test_other_rows_under_a_number_of_the_same_commit_are_refused(tmp_path: Path) -> None:
    process = Process(tmp_path)
    pushes = [Push(rows(*stamps), 0, "c", 1, digest=len(stamps)) for stamps in ((1,), (2, 3), (1,))]
    process.ingestion.take(pushes, 0)
    assert [push.outcome for push in pushes] == [
        BatchOutcome(accepted=1),
        None,
        BatchOutcome(repeated=True),
    ]
    assert isinstance(pushes[1].error, OtherRows)


def test_a_long_stretch_is_cut_into_pieces_between_timestamps() -> None:
    ingestion = Ingestion(
        SCHEMA, EventTime(by_arrival=False, idle_after_ms=None, max_ahead_ms=None), None
    )
    stamps = [n // 10 for n in range(1_000_000)]
    chunks = ingestion.take([Push(rows(*stamps, 200_000), 0)], 0)
    assert len(chunks) > 1
    assert numbers(chunks) == stamps
    seq = 0
    for chunk in chunks:
        chunk.check(SCHEMA)
        assert chunk.first_seq == seq
        seq = chunk.next_seq


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., JournaledInput]]:
    made: list[JournaledInput] = []

    def open_it(time: EventTime = BY_COLUMN, *, buffer_bytes: int = 2**20) -> JournaledInput:
        kept = Journal(folder, SCHEMA, retain_bytes=2**20, sync=False)
        made.append(
            JournaledInput(
                "s",
                Ingestion(SCHEMA, time, kept),
                kept,
                clock_us=lambda: 1_000_000,
                wake=lambda: None,
                buffer_bytes=buffer_bytes,
                advance_us=10_000,
                rejections=RejectedInput("s", None, lambda: 0),
            )
        )
        made[-1].seek(NO_WATERMARK)
        made[-1].start()
        return made[-1]

    yield open_it
    for each in made:
        each.close()


def emitted(source: LiveInput) -> list[int]:
    found: list[int] = []
    while (part := source.emit(0, 10)) is not None:
        assert isinstance(part, SourceEmitted)
        found += part.rows.column(1).to_pylist()
    return found


def test_a_batch_is_answered_when_it_is_in_the_journal(
    opened: Callable[..., JournaledInput], folder: Path
) -> None:
    source = opened()
    assert source.push(rows(1, 10), client="c", number=1) == BatchOutcome(accepted=2, waiting=1)
    assert source.push(rows(1, 10), client="c", number=1) == BatchOutcome(repeated=True, waiting=1)
    assert emitted(source) == [1]
    assert source.status.repeated == 1
    source.close()
    with pytest.raises(DriverError, match="ends"):
        source.push(rows(20))
    again = Journal(folder, SCHEMA, retain_bytes=2**20)
    assert again.end == Position(next_seq=1, watermark_ms=4)
    assert [batch.column(0).to_pylist() for batch in again.take_waiting()] == [[10]]
    again.close()


def test_a_journal_that_has_dropped_something_says_where_it_begins(
    opened: Callable[..., JournaledInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 2**14)
    source = opened()
    assert source.status.retained_ms is None
    for begin_ms in range(0, 100_000, 1000):
        source.push(rows(*range(begin_ms, begin_ms + 1000)))
        emitted(source)
    assert source.status.retained_ms == source.retained.watermark_ms > 0


def test_before_the_stream_starts_what_another_process_took_in_comes_first(
    opened: Callable[..., JournaledInput],
) -> None:
    source = opened()
    source.push(rows(1, 2, 20))
    source.close()
    again = opened()
    assert again.due_position(100, 50) == Position()
    again.push(rows(40))
    assert again.next_due_us(100) == 100
    assert again.emit(100, 50) is None
    assert emitted(again) == [1, 2, 20]


def test_after_its_start_a_new_process_goes_on_at_the_end_and_reads_the_rest_again(
    opened: Callable[..., JournaledInput],
) -> None:
    source = opened()
    source.push(rows(1, 2, 20))
    source.close()
    again = opened()
    position = again.due_position(0, 50)
    assert position == Position(next_seq=2, watermark_ms=14)
    again.seek(position.watermark_ms)
    again.push(rows(40))
    assert emitted(again) == [20]
    part = again.read(0, Position(), position)
    assert part is not None
    assert part.rows.column(1).to_pylist() == [1, 2]
    assert part.watermarks_ms.tolist()[-1] == 14


def test_a_full_buffer_refuses_or_waits_until_the_host_takes_some(
    opened: Callable[..., JournaledInput],
) -> None:
    source = opened(EventTime(), buffer_bytes=4000)
    while True:
        try:
            source.push(rows(*range(100)), waits=False)
        except Full:
            break
    done = threading.Event()

    def push() -> None:
        source.push(rows(1))
        done.set()

    waiting = threading.Thread(target=push, daemon=True)
    waiting.start()
    assert not done.is_set()
    while not done.wait(0.001):
        emitted(source)
    waiting.join(WAIT_S)


def test_a_journal_that_cannot_be_written_fails_the_source_and_its_clients(
    opened: Callable[..., JournaledInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened()

    def full(_: object, __: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(DriverError, match="No space left"):
        source.push(rows(1))
    with pytest.raises(OSError, match="No space left"):
        source.emit(0, 10)


class Clocked:
    """A live input without a thread, at a time that tests say."""

    def __init__(self, ingestion: Ingestion) -> None:
        self.now_us = 1_000_000
        self.woken = 0
        self.input = LiveInput(
            "s",
            ingestion,
            None,
            clock_us=lambda: self.now_us,
            wake=self._wake,
            buffer_bytes=4000,
            advance_us=10_000,
            rejections=RejectedInput("s", None, lambda: 0),
        )

    def _wake(self) -> None:
        self.woken += 1

    def send(self, *timestamps: int) -> None:
        self.input.push(rows(*timestamps), waits=False, confirms=False)
        self.input.commit()

    def wait(self, ms: int) -> None:
        self.now_us += 1000 * ms
        self.input.commit()


def test_what_could_not_be_sent_while_consumers_held_the_stream_up_is_not_late() -> None:
    source = Clocked(Ingestion(SCHEMA, replace(BY_COLUMN, idle_after_ms=500), None))
    stamp = 0
    while source.input.has_room:
        stamp += 10
        source.send(stamp)
    for _ in range(100):
        # Consumers take nothing, and clients wait: nobody is silent.
        source.wait(100)
    emitted(source.input)
    source.wait(499)
    source.send(stamp + 1, stamp + 10)
    assert source.input.status.late == 0
    source.wait(600)
    assert emitted(source.input)[-2:] == [stamp + 1, stamp + 10]


def test_nothing_more_becomes_part_of_the_stream_than_the_host_takes() -> None:
    """A later timestamp completes all that waits: it would lie in memory as a whole."""
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000)
    event_time = replace(BY_COLUMN, slack_ms=1000, idle_after_ms=None)
    source = Clocked(Ingestion(SCHEMA, event_time, None, waiting=waiting))
    stamps = list(range(1000))
    for stamp in stamps:
        source.send(*[stamp] * 10)
    source.send(5000)
    source.wait(1)
    assert source.input.status.buffered_bytes < 20_000
    found: list[int] = []
    while source.input.next_due_us(0) is not None:
        found += emitted(source.input)
        source.wait(1)
        assert source.input.status.buffered_bytes < 20_000
    assert found == [stamp for stamp in stamps for _ in range(10)]


def test_where_too_much_waits_only_what_ends_the_wait_of_some_enters() -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000, most_bytes=100_000)
    event_time = replace(BY_COLUMN, idle_after_ms=None, max_ahead_ms=60_000)
    source = Clocked(Ingestion(SCHEMA, event_time, None, waiting=waiting))
    sent = 0
    while source.input.waits_for is None:
        source.send(*[100] * 50)
        sent += 50
    assert source.input.waiting is not None
    assert 100_000 <= source.input.waiting.bytes < 110_000
    # The stream has begun, and is full.
    assert source.woken == 2
    assert "later timestamp" in source.input.waits_for
    # A tuple too far ahead ends nothing.
    for stamps in ([100], [105], [50, 105], [100, 2**60]):
        with pytest.raises(Full, match="MiB of tuples wait for a later timestamp"):
            source.send(*stamps)
    # What says where a reader stands has no tuples.
    source.send()
    source.send(106)
    found: list[int] = []
    while source.input.waits_for or source.input.next_due_us(0) is not None:
        found += emitted(source.input)
        source.wait(1)
    assert found == [100] * sent
    source.send(100_000 - 1, 105)
    assert source.input.status.late == 0


def test_a_reader_that_waits_with_such_a_batch_goes_on_when_another_ends_it() -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000, most_bytes=10_000)
    event_time = replace(BY_COLUMN, idle_after_ms=None)
    source = Clocked(Ingestion(SCHEMA, event_time, None, waiting=waiting))
    source.input.start()
    entered = threading.Event()

    def push() -> None:
        while source.input.waits_for is None:
            source.input.push(rows(*[100] * 50))
        source.input.push(rows(101, 101))
        entered.set()

    reader = threading.Thread(target=push, daemon=True)
    reader.start()
    while source.input.waits_for is None:
        time.sleep(0.001)
    assert not entered.wait(0.05)
    source.input.push(rows(110))
    while not entered.wait(0.001):
        emitted(source.input)
    source.input.close()


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 60), max_size=6), st.integers(1, 20)), max_size=12),
    st.sampled_from([0, 100, 2**20]),
    st.sampled_from([1, 50, 200]),
    st.booleans(),
)
def test_little_memory_and_small_commits_make_no_other_stream(
    sent: list[tuple[list[int], int]], memory_bytes: int, most_bytes: int, one_by_one: bool
) -> None:
    event_time = replace(BY_COLUMN, idle_after_ms=10, one_by_one=one_by_one)
    plain = Ingestion(SCHEMA, event_time, None)
    waiting = WaitingTuples(SCHEMA, memory_bytes=memory_bytes)
    tight = Ingestion(SCHEMA, event_time, None, waiting=waiting)
    now_us = 0
    for stamps, ms in [*sent, ([], 10), ([], 1000)]:
        now_us += 1000 * ms
        pushes = [Push(rows(*stamps), now_us), Push(rows(*stamps), now_us)]
        expected = plain.take(pushes[:1], now_us)
        found = tight.take(pushes[1:], now_us, most_bytes)
        while tight.is_behind:
            found += tight.take([], now_us, most_bytes)
        assert numbers(found) == numbers(expected)
        assert pushes[0].outcome == pushes[1].outcome
        assert tight.end == plain.end
    assert tight.waiting_bytes == 0
