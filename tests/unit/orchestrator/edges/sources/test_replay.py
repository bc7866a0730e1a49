"""A recording enters when it is due: never early, nothing left out when late."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import (
    SourceEmitted,
    SourceFailed,
    SourceLocated,
    SourceOpened,
    SourceReread,
    Wanted,
)
from orchestrator.edges.sources import replay as replay_module
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.replay import OpenReplay, Recording, Replay
from orchestrator.edges.sources.source_drivers import SourceDrivers
from orchestrator.records import SourceAssignment
from streams.vectors.chunk import Position

START_US = 5_000_000

NUMBERS = {"number": "int"}


def source(
    folder: Path,
    times: list[int],
    *,
    speed: float = 1.0,
    end_ms: int = 1400,
    interval_ms: int = 100,
    repeat: bool = False,
) -> Replay:
    path = folder / "recording.parquet"
    columns = {"timestamp": pa.array(times, pa.int64()), "number": pa.array(range(len(times)))}
    parquet.write_table(pa.Table.from_pydict(columns), path)
    return Replay(
        path=str(path),
        speed=speed,
        begin_ms=1000,
        end_ms=end_ms,
        interval_ms=interval_ms,
        repeat=repeat,
    )


def assigned(replay: Replay | None, start_at_us: int | None = START_US) -> SourceAssignment:
    source = spec_of("replay", replay) if replay is not None else None
    return SourceAssignment(stream="s", columns=NUMBERS, source=source, start_at_us=start_at_us)


def replay_of(replay: Replay) -> OpenReplay:
    return replay.open(assigned(replay), SourceContext())


def content(emitted: SourceEmitted | None) -> tuple[list[int], list[int], list[int]] | None:
    """Timestamps, watermarks and ingestion times."""
    if emitted is None:
        return None
    times = emitted.rows.column(0).to_pylist()
    return times, emitted.watermarks_ms.tolist(), emitted.ingestion_times_us.tolist()


def test_recording_begins_and_ends_within_its_file(tmp_path: Path) -> None:
    wanted = source(tmp_path, [900, 1000, 1050, 1100, 1101, 1400, 1401])
    recording = Recording.load(wanted, NUMBERS)
    assert recording.watermarks_ms.tolist() == [1000, 1050, 1100, 1101, 1200, 1300, 1400]
    assert recording.intervals.tolist() == [0, 1, 1, 2, 2, 3, 4]
    assert recording.row_ends.tolist() == [1, 2, 3, 4, 5, 5, 5, 6]


def test_the_last_interval_of_a_recording_may_be_shorter(tmp_path: Path) -> None:
    recording = Recording.load(source(tmp_path, [1000, 1201, 1230, 1231], end_ms=1230), NUMBERS)
    assert recording.watermarks_ms.tolist() == [1000, 1100, 1200, 1201, 1230]
    assert recording.intervals.tolist() == [0, 1, 2, 3, 3]
    assert recording.tuples == 3


def test_watermarks_come_when_due_with_tuples_or_without(tmp_path: Path) -> None:
    replay = replay_of(source(tmp_path, [900, 1000, 1050, 1100, 1101, 1400, 1401]))
    emitted: list[object] = []
    while (due_us := replay.next_due_us(START_US)) is not None:
        assert replay.emit(START_US, due_us - 1) is None
        emitted.append(content(replay.emit(START_US, due_us)))
    assert emitted == [
        ([1000], [1000], [START_US]),
        ([1050, 1100], [1050, 1100], [START_US + 100_000] * 2),
        ([1101], [1101, 1200], [START_US + 200_000] * 2),
        ([], [1300], [START_US + 300_000]),
        ([1400], [1400], [START_US + 400_000]),
    ]
    assert replay.emit(START_US, START_US + 10**9) is None


def test_late_replay_catches_up_and_keeps_the_ingestion_times(tmp_path: Path) -> None:
    replay = replay_of(source(tmp_path, [1000, 1250]))
    assert content(replay.emit(START_US, START_US + 350_000)) == (
        [1000, 1250],
        [1000, 1100, 1200, 1250, 1300],
        [START_US + ms * 1000 for ms in (0, 100, 200, 300, 300)],
    )
    assert replay.next_due_us(START_US) == START_US + 400_000


def test_repeated_recording_goes_on_in_time(tmp_path: Path) -> None:
    replay = replay_of(source(tmp_path, [1000, 1400], repeat=True))
    rounds = [content(replay.emit(START_US, START_US + 10**6)) for _ in range(3)]
    assert [r[0] for r in rounds if r] == [[1000, 1400], [1500, 1900], [2000]]
    watermarks_ms = [watermark_ms for r in rounds if r for watermark_ms in r[1]]
    assert watermarks_ms == list(range(1000, 2001, 100))
    ingestion_times = [time_us - START_US for r in rounds if r for time_us in r[2]]
    assert ingestion_times == [1000 * (watermark_ms - 1000) for watermark_ms in watermarks_ms]
    assert replay.emit(START_US, START_US + 10**6) is None


def test_interval_of_no_whole_number_of_microseconds_is_never_early(tmp_path: Path) -> None:
    wanted = source(tmp_path, [1000], speed=7.0, end_ms=1014, interval_ms=1, repeat=True)
    replay = replay_of(wanted)
    for number in range(60):
        due_us = replay.next_due_us(START_US)
        assert due_us is not None
        assert due_us - START_US >= number * 1000 / 7
        assert replay.emit(START_US, due_us - 1) is None
        emitted = replay.emit(START_US, due_us)
        assert emitted is not None
        assert emitted.watermarks_ms.tolist() == [1000 + number]


def test_tuples_of_a_range_are_counted_across_rounds(tmp_path: Path) -> None:
    recording = replay_of(source(tmp_path, [1010, 1020, 1020, 1390], repeat=True))
    # A round takes 500 ms.
    assert recording.tuples_between(1010, 1390) == 3
    assert recording.tuples_between(1020, 1520) == 4
    assert recording.tuples_between(1400, 1400) == 0


def test_empty_recording_still_tells_the_time(tmp_path: Path) -> None:
    replay = replay_of(source(tmp_path, []))
    assert content(replay.emit(START_US, START_US + 10**6)) == (
        [],
        [1000, 1100, 1200, 1300, 1400],
        [START_US + 100_000 * n for n in range(5)],
    )


def test_source_driver_waits_until_the_stream_starts(tmp_path: Path) -> None:
    source_drivers, replay = SourceDrivers(), source(tmp_path, [1000])
    opened = source_drivers.feed([assigned(replay, None)], START_US)
    assert opened == [SourceOpened(stream="s", position=Position())]
    assert source_drivers.next_due_us([assigned(replay, None)]) is None
    assert source_drivers.feed([assigned(replay)], START_US - 1) == []
    assert source_drivers.next_due_us([assigned(replay)]) == START_US
    (emitted,) = source_drivers.feed([assigned(replay)], START_US)
    assert isinstance(emitted, SourceEmitted)
    assert (emitted.stream, emitted.watermarks_ms.tolist()) == ("s", [1000])


def test_source_driver_forgets_a_stream_that_is_no_longer_assigned(tmp_path: Path) -> None:
    source_drivers, replay = SourceDrivers(), source(tmp_path, [1000])
    source_drivers.feed([assigned(replay, None)], START_US)
    assert len(source_drivers.feed([assigned(replay)], START_US)) == 1
    assert source_drivers.feed([], START_US) == []
    assert source_drivers.next_due_us([assigned(replay)]) is None
    source_drivers.feed([assigned(replay, None)], START_US)
    (again,) = source_drivers.feed([assigned(replay)], START_US)
    assert isinstance(again, SourceEmitted)
    assert again.watermarks_ms.tolist() == [1000]


def test_a_stream_without_a_recording_is_not_fed() -> None:
    source_drivers = SourceDrivers()
    assert source_drivers.feed([assigned(None)], START_US) == []
    assert source_drivers.next_due_us([assigned(None)]) is None


def test_a_sensors_delay_makes_its_tuples_late_and_no_older(tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(source(tmp_path, [1000, 1050], repeat=True), delay_ms=4.5)
    replay = replay_of(wanted)
    assert replay.next_due_us(START_US) == START_US + 4_500
    assert replay.emit(START_US, START_US + 4_499) is None
    assert content(replay.emit(START_US, START_US + 4_500)) == ([1000], [1000], [START_US + 4_500])
    due_us = replay.next_due_us(START_US)
    assert due_us == START_US + 104_500
    assert content(replay.emit(START_US, due_us)) == ([1050], [1050, 1100], [due_us, due_us])
    replay.emit(START_US, START_US + 404_500)
    # Once a round, not once more each round.
    assert replay.next_due_us(START_US) == START_US + 504_500


def test_source_driver_gathers_what_comes_due_within_a_batch(tmp_path: Path) -> None:
    source_drivers, replay = SourceDrivers(batch_us=250_000), source(tmp_path, [1000])
    source_drivers.feed([assigned(replay, None)], START_US)
    (first,) = source_drivers.feed([assigned(replay)], START_US)
    assert isinstance(first, SourceEmitted)
    assert first.watermarks_ms.tolist() == [1000]
    assert source_drivers.next_due_us([assigned(replay)]) == START_US + 250_000
    assert source_drivers.feed([assigned(replay)], START_US + 249_999) == []
    (second,) = source_drivers.feed([assigned(replay)], START_US + 250_000)
    assert isinstance(second, SourceEmitted)
    assert second.watermarks_ms.tolist() == [1100, 1200]
    assert second.ingestion_times_us.tolist() == [START_US + 100_000, START_US + 200_000]


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    replay = msgspec.structs.replace(source(tmp_path, []), path=str(tmp_path / "other.parquet"))
    with pytest.raises(DriverError, match=r"other\.parquet cannot be read: .*No such file"):
        replay.open(assigned(replay), SourceContext())


def test_a_source_that_cannot_be_opened_is_a_problem_while_it_is_assigned(tmp_path: Path) -> None:
    sound = source(tmp_path, [1000])
    gone = assigned(msgspec.structs.replace(sound, path=str(tmp_path / "other.parquet")))
    drivers = SourceDrivers()
    other = msgspec.structs.replace(assigned(sound), stream="t")
    failed, opened = drivers.feed([gone, other], START_US + 100_000)
    assert failed == SourceFailed(stream="s")
    assert (type(opened), opened.stream) == (SourceOpened, "t")
    assert list(drivers.problems) == ["s"]
    assert "other.parquet cannot be read" in drivers.problems["s"]
    drivers.feed([other], START_US + 100_000)
    assert drivers.problems == {}


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"count": "int"}, "column count is missing; there are timestamp, number"),
        ({"number": "bool", "size": "float"}, "column size is missing"),
    ],
)
def test_a_recording_without_the_streams_columns_is_refused(
    tmp_path: Path, columns: dict[str, str], problem: str
) -> None:
    with pytest.raises(DriverError, match=rf"recording\.parquet cannot be read: {problem}"):
        Recording.load(source(tmp_path, [1000]), columns)


def test_a_recording_with_other_types_is_refused(tmp_path: Path) -> None:
    names = pa.Table.from_pydict({"timestamp": [1000], "number": ["one"]})
    replay = source(tmp_path, [1000])
    parquet.write_table(names, replay.path)
    with pytest.raises(
        DriverError, match=r"recording\.parquet cannot be read: column number is of type string"
    ):
        Recording.load(replay, NUMBERS)


ROUND_MS = 500
TIMES = [1000, 1050, 1050, 1100, 1101, 1250, 1400]


def whole(replay: Replay, until_us: int) -> list[tuple[int, int, int]]:
    """All that one process emits until then, tuple by tuple: number, timestamp, ingestion time."""
    opened, found, number = replay_of(replay), list[tuple[int, int, int]](), 0
    while (emitted := opened.emit(START_US, until_us)) is not None:
        rows, number = numbered_rows(emitted, number)
        found += rows
    return found


def numbered_rows(emitted: SourceEmitted, first: int) -> tuple[list[tuple[int, int, int]], int]:
    watermarks_ms = emitted.watermarks_ms.tolist()
    rows = [
        (first + i, at, int(emitted.ingestion_times_us[bisect_left(watermarks_ms, at)]))
        for i, at in enumerate(emitted.rows.column(0).to_pylist())
    ]
    return rows, first + len(rows)


@pytest.mark.parametrize("speed", [1.0, 7.0])
@pytest.mark.parametrize("piece", [1, 2, 100])
def test_any_process_continues_anywhere_with_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speed: float, piece: int
) -> None:
    monkeypatch.setattr(replay_module, "PIECE_WATERMARKS", piece)
    replay = source(tmp_path, TIMES, repeat=True, speed=speed)
    end_us = START_US + round(3.3 * ROUND_MS * 1000 / speed)
    expected = whole(replay, end_us)
    assert len(expected) > 3 * len(TIMES)
    for at_us in range(START_US, end_us, round(37_000 / speed)):
        again = replay_of(replay)
        position = again.due_position(START_US, at_us)
        assert position.next_seq == sum(entered <= at_us for _, _, entered in expected)
        again.seek(position.watermark_ms)
        number, rest = position.next_seq, list[tuple[int, int, int]]()
        while (emitted := again.emit(START_US, end_us)) is not None:
            rows, number = numbered_rows(emitted, number)
            rest += rows
        assert rest == expected[position.next_seq :]


def test_what_came_before_is_read_again_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_module, "PIECE_WATERMARKS", 2)
    replay = source(tmp_path, TIMES, repeat=True)
    end_us = START_US + round(3.3 * ROUND_MS * 1000)
    expected = whole(replay, end_us)
    opened = replay_of(replay)
    until = opened.due_position(START_US, end_us)
    for begin_us in range(START_US - 1, end_us, 61_000):
        after, found = opened.due_position(START_US, begin_us), list[tuple[int, int, int]]()
        first = after.next_seq
        while (piece := opened.read(START_US, after, until)) is not None:
            assert len(piece.watermarks_ms) <= 2
            rows, number = numbered_rows(piece, after.next_seq)
            found += rows
            after = Position(next_seq=number, watermark_ms=int(piece.watermarks_ms[-1]))
        assert after == until
        assert found == expected[first:]


def test_a_cut_between_two_watermarks_is_found_by_its_timestamp(tmp_path: Path) -> None:
    opened = replay_of(source(tmp_path, TIMES, repeat=True))
    cut = Position(next_seq=len(TIMES) + 3, watermark_ms=1000 + ROUND_MS + 70)
    piece = opened.read(START_US, cut, Position(next_seq=100, watermark_ms=1700))
    assert content(piece) == (
        [1600, 1601],
        [1600, 1601, 1700],
        [START_US + ms * 1000 for ms in (600, 700, 700)],
    )


def test_a_recording_that_was_exchanged_is_noticed(tmp_path: Path) -> None:
    opened = replay_of(source(tmp_path, TIMES))
    with pytest.raises(DriverError, match="has changed: it has 3 tuples up to the timestamp 1050"):
        opened.read(
            START_US,
            Position(next_seq=2, watermark_ms=1050),
            Position(next_seq=9, watermark_ms=1400),
        )


@pytest.mark.parametrize(("at_ms", "cut"), [(900, (0, None)), (1000, (1, 1000)), (1250, (3, 1200))])
def test_where_a_stream_stood_is_looked_up_and_read_from_there(
    tmp_path: Path, at_ms: int, cut: tuple[int, int | None]
) -> None:
    replay = source(tmp_path, [1000, 1050, 1200, 1300])
    drivers = SourceDrivers()
    assert drivers.locate([("s", at_ms)], 0) == [], "it is not open yet"
    drivers.feed([assigned(replay)], START_US)
    next_seq, watermark_ms = cut
    position = Position(next_seq=next_seq)
    if watermark_ms is not None:
        position = Position(next_seq=next_seq, watermark_ms=watermark_ms)
    located = SourceLocated(stream="s", after_ms=at_ms, position=position)
    assert drivers.locate([("s", at_ms)], START_US) == [located]
    end = Position(next_seq=4, watermark_ms=1400)
    (piece,) = drivers.reread([assigned(replay)], [Wanted("s", "one", position, end)], START_US)
    assert isinstance(piece, SourceReread)
    assert piece.emitted.rows.num_rows == 4 - next_seq
