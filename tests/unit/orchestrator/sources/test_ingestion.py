"""Each tuple is numbered once, whenever its process is killed; a live input hands it over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.drivers import DriverError
from orchestrator.host.events import SourceEmitted
from orchestrator.sources.ingestion import Full, Ingestion, Push, Taken
from orchestrator.sources.journal import Journal
from orchestrator.sources.live_input import JournaledInput
from orchestrator.sources.orderer import EventTime
from orchestrator.sources.rejections import Rejections
from streams.chunk import NO_WATERMARK, Chunk, Position, stream_schema

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

    def send(self, *timestamps: int, client: str = "", number: int = 0) -> tuple[Taken, list[int]]:
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
    assert process.send(10, 12, client="c", number=1) == (Taken(accepted=2), [])
    process.kill()
    assert process.send(10, 12, client="c", number=1) == (Taken(repeated=True), [])
    assert process.send(11, 20, client="c", number=2) == (Taken(accepted=2), [10, 11, 12])
    process.kill()
    assert process.send(13, 19, 26, client="c", number=3) == (Taken(accepted=2, late=1), [19, 20])
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
    assert taken == Taken(accepted=1, late=2)


def test_what_could_not_be_sent_while_the_site_was_away_is_not_late(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.send(100, client="c", number=1)
    process.now_us += 60_000_000
    process.kill()
    assert process.send(100, client="c", number=1)[0] == Taken(repeated=True)
    assert process.send(101, client="c", number=2)[0] == Taken(accepted=1)
    process.now_us += 1_100_000
    (idle,) = process.ingestion.take([], process.now_us)
    assert idle.watermark_ms == 101 - 5 + 100
    assert numbers([idle]) == [100, 101]


def test_batches_of_one_commit_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    process = Process(tmp_path)
    pushes = [Push(rows(1), 0, "c", n) for n in (1, 1, 2)]
    process.ingestion.take(pushes, 0)
    assert [push.outcome for push in pushes] == [
        Taken(accepted=1),
        Taken(repeated=True),
        Taken(accepted=1),
    ]


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
                rejections=Rejections("s", None, lambda: 0),
            )
        )
        made[-1].seek(NO_WATERMARK)
        made[-1].start()
        return made[-1]

    yield open_it
    for each in made:
        each.close()


def emitted(source: JournaledInput) -> list[int]:
    found: list[int] = []
    while (part := source.emit(0, 10)) is not None:
        assert isinstance(part, SourceEmitted)
        found += part.rows.column(1).to_pylist()
    return found


def test_a_batch_is_answered_when_it_is_in_the_journal(
    opened: Callable[..., JournaledInput], folder: Path
) -> None:
    source = opened()
    assert source.push(rows(1, 10), client="c", number=1) == Taken(accepted=2)
    assert source.push(rows(1, 10), client="c", number=1) == Taken(repeated=True)
    assert emitted(source) == [1]
    assert source.status.repeated == 1
    source.close()
    with pytest.raises(DriverError, match="ends"):
        source.push(rows(20))
    again = Journal(folder, SCHEMA, retain_bytes=2**20)
    assert again.end == Position(next_seq=1, watermark_ms=4)
    assert again.waiting.column(0).to_pylist() == [10]
    again.close()


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
