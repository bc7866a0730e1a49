"""Watermarks, limits, cuts and snapshots of a fragment."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from streams.evaluate.engine import FragmentEngine
from streams.vectors.chunk import Chunk, ChunkError, Position
from streams.vectors.state import FORMAT_VERSION, MAGIC, PIECE_ROWS, SavedState, SnapshotError
from tests.unit.streams.running import chunk, program, sensor

counting = "ISTREAM(SELECT count(*) AS n FROM s [RANGE 10 MILLISECONDS])"
both = "RSTREAM(SELECT k FROM s [NOW] UNION ALL SELECT k FROM t [NOW])"


def row(timestamp: int, key: str = "a") -> tuple[int, str, int, float, bool]:
    return (timestamp, key, 1, 0.5, True)


def test_nothing_is_evaluated_before_every_input_has_come_so_far() -> None:
    engine = FragmentEngine(program(both))
    assert not engine.ready
    assert engine.advance(10) is None
    engine.offer("s", chunk(sensor, [row(1), row(5)], [1, 5]))
    assert not engine.ready
    assert engine.advance(10) is None
    engine.offer("t", chunk(sensor, [row(3, "b")], [3]))
    # Timestamps 1 and 3, a tuple each; the input watermark has not reached 5.
    assert engine.ready
    evaluated = engine.advance(10)
    assert evaluated is not None
    assert evaluated.rows.to_pydict() == {"_ts": [1, 3], "k": ["a", "b"]}
    assert evaluated.tuples_in == 2
    assert not engine.ready
    assert engine.positions() == {
        "s": Position(next_seq=1, watermark_ms=3),
        "t": Position(next_seq=1, watermark_ms=3),
    }


def test_output_watermarks_are_those_of_all_inputs_with_the_newest_ingestion_times() -> None:
    engine = FragmentEngine(program(both))
    engine.offer("s", chunk(sensor, [], [10, 20, 30]))
    engine.offer("t", chunk(sensor, [], [15, 20]))
    evaluated = engine.advance(10)
    assert evaluated is not None
    assert evaluated.watermarks_ms.tolist() == [10, 15, 20]
    # 10 had to wait for t's watermark at 15, 15 for s's at 20.
    assert evaluated.ingestion_times_us.tolist() == [15_000, 20_000, 20_000]


def test_an_input_that_skips_past_a_watermark_neither_delays_nor_dates_it() -> None:
    engine = FragmentEngine(program(both))
    engine.skip_to("t", Position(next_seq=70, watermark_ms=25))
    engine.offer("s", chunk(sensor, [row(10)], [10, 20, 30]))
    evaluated = engine.advance(10)
    assert evaluated is not None
    assert evaluated.watermarks_ms.tolist() == [10, 20]
    assert evaluated.ingestion_times_us.tolist() == [10_000, 20_000]
    assert engine.positions()["t"] == Position(next_seq=70, watermark_ms=25)
    engine.offer("t", chunk(sensor, [row(28)], [40], first_seq=70))
    evaluated = engine.advance(10)
    assert evaluated is not None
    assert evaluated.ingestion_times_us.tolist() == [40_000]


def test_a_firing_point_between_watermarks_belongs_to_the_next_watermark() -> None:
    engine = FragmentEngine(program(counting))
    engine.offer("s", chunk(sensor, [row(1)], [1, 9, 100]))
    first, second, third = engine.advance(1), engine.advance(1), engine.advance(1)
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.rows.to_pydict() == {"_ts": [1], "n": [1]}
    assert second.rows.num_rows == 0
    assert third.rows.to_pydict() == {"_ts": [11], "n": [0]}
    assert third.watermarks_ms.tolist() == [100]


def test_limit_counts_watermarks() -> None:
    engine = FragmentEngine(program(counting))
    engine.offer("s", chunk(sensor, [row(t) for t in range(5)], list(range(5))))
    assert engine.ready
    evaluated = engine.advance(2)
    assert evaluated is not None
    assert evaluated.watermarks_ms.tolist() == [0, 1]
    assert evaluated.tuples_in == 2
    assert engine.ready
    with pytest.raises(ValueError, match="cannot advance by 0"):
        engine.advance(0)


def test_rows_may_lie_between_the_watermarks_that_close_them() -> None:
    engine = FragmentEngine(program(counting))
    engine.offer("s", chunk(sensor, [row(1), row(2)], [5]))
    evaluated = engine.advance(1)
    assert evaluated is not None
    assert evaluated.rows.to_pydict() == {"_ts": [1, 2], "n": [1, 2]}


@pytest.mark.parametrize(
    ("next_chunk", "message"),
    [
        (chunk(sensor, [row(9)], [9], first_seq=3), "tuple 3 arrived, tuple 1 is next"),
        (chunk(sensor, [row(5)], [9], first_seq=1), "brings 5 ms, after the watermark 5 ms"),
        (chunk(sensor, [], [4, 9], first_seq=1), "brings 4 ms, after the watermark 5 ms"),
        (chunk({"k": "string"}, [(9, "a")], [9], first_seq=1), "rows have schema"),
    ],
)
def test_chunks_that_do_not_continue_the_stream_are_refused(
    next_chunk: Chunk, message: str
) -> None:
    engine = FragmentEngine(program(counting))
    engine.offer("s", chunk(sensor, [row(5)], [5]))
    with pytest.raises(ChunkError, match=message):
        engine.offer("s", next_chunk)


def test_a_snapshot_leaves_out_what_was_not_evaluated() -> None:
    one, other = FragmentEngine(program(counting)), FragmentEngine(program(counting))
    chunks = chunk(sensor, [row(1), row(5), row(12)], [1, 5, 12])
    one.offer("s", chunks)
    one.advance(2)
    other.restore(one.snapshot())
    assert not other.ready
    assert other.positions() == {"s": Position(next_seq=2, watermark_ms=5)}
    rest = chunks.after(other.positions()["s"])
    assert rest is not None
    other.offer("s", rest)
    mine, theirs = one.advance(5), other.advance(5)
    assert mine is not None
    assert theirs is not None
    assert theirs.rows.equals(mine.rows)
    assert np.array_equal(theirs.watermarks_ms, mine.watermarks_ms)
    assert theirs.rows.to_pydict() == {"_ts": [11, 12], "n": [1, 2]}


def sealed(body: bytes) -> bytes:
    return struct.pack(">4sHI", MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body


def damaged() -> list[tuple[list[bytes], str]]:
    engine = FragmentEngine(program(counting))
    engine.offer("s", chunk(sensor, [row(1)], [1]))
    engine.advance(1)
    good = list(engine.snapshot().pieces())
    first, *others = good
    elsewhere = list(FragmentEngine(program(both)).snapshot().pieces())
    return [
        ([], "not a snapshot"),
        ([b"PK" + first, *others], "not a snapshot"),
        ([first[:4] + b"\xff\xff" + first[6:], *others], "format 65535"),
        ([first[:-1], *others], "damaged"),
        ([first, others[0][:-1] + b"\x00", *others[1:]], "damaged"),
        (elsewhere, "another statement"),
        ([sealed(b"\x81\xa1x\x01")], "cannot be read"),
        ([sealed(first[10:].replace(b"window-0", b"window-9")), *others], "other inputs"),
        (good[:-1], "ends after"),
        ([*good[:1], *good[2:]], "other pieces"),
        ([*good, good[-1]], "other pieces"),
        ([first, sealed(others[0][10:].replace(b"window-0", b"window-9"))], "cannot be understood"),
    ]


@pytest.mark.parametrize(("pieces", "message"), damaged())
def test_a_damaged_snapshot_is_refused_and_changes_nothing(
    pieces: list[bytes], message: str
) -> None:
    engine = FragmentEngine(program(counting))
    before = list(engine.snapshot().pieces())
    with pytest.raises(SnapshotError, match=message):
        engine.restore(SavedState.of(pieces))
    assert list(engine.snapshot().pieces()) == before


@pytest.mark.parametrize(
    "query",
    [
        counting,
        "ISTREAM(SELECT k, min(i) AS l, sum(x) AS t FROM s [ROWS 3] GROUP BY k)",
        "RSTREAM(SELECT k, i FROM s [ROWS 3])",
        "ISTREAM(SELECT s.i AS i FROM s [PARTITION BY k ROWS 1], t [ROWS 2] WHERE s.i < t.i)",
        "ISTREAM(SELECT k, i FROM s [PARTITION BY k ROWS 2])",
        "ISTREAM(SELECT k, max(i) AS m, sum(i) AS t FROM s [RANGE 9 MILLISECONDS] GROUP BY k)",
        "RSTREAM(SELECT k, max(i) AS m FROM s [RANGE 9 MILLISECONDS SLIDE 1 SECOND] GROUP BY k)",
        "ISTREAM(SELECT i FROM s [ROWS 30] EXCEPT ALL SELECT i FROM s [ROWS 9])",
    ],
)
def test_a_snapshot_keeps_the_state_of_its_moment_while_the_engine_goes_on(query: str) -> None:
    engine = FragmentEngine(program(query))
    for stream in engine.positions():
        # Enough of them for groups in arrays.
        times = sorted([*range(1, 100)] * (30 if stream == "s" else 1))
        rows = [(time, f"k{place % 7}", place, 0.5, None) for place, time in enumerate(times)]
        engine.offer(stream, chunk(sensor, rows, list(range(1, 100))))
    for _ in range(5):
        engine.advance(10)
    before, saved = list(engine.snapshot().pieces()), engine.snapshot()
    while engine.advance(10) is not None:
        assert list(saved.pieces()) == before
    assert list(engine.snapshot().pieces()) != before


def test_pieces_are_small_however_large_the_state_is() -> None:
    engine = FragmentEngine(program("RSTREAM(SELECT k, i FROM s [PARTITION BY i ROWS 1])"))
    rows = [(1, "a", number, 0.5, True) for number in range(3 * PIECE_ROWS + 1)]
    engine.offer("s", chunk(sensor, rows, [1]))
    engine.advance(1)
    saved = engine.snapshot()
    other = FragmentEngine(program("RSTREAM(SELECT k, i FROM s [PARTITION BY i ROWS 1])"))
    # Window and relation in four pieces each, and the relation's next identity.
    assert len(list(other.restoring(saved))) == 9
    assert other.snapshot() == saved


def test_equal_states_have_equal_snapshots_whatever_nulls_have_passed() -> None:
    joining = program("ISTREAM(SELECT s.x / s.i AS y FROM s [ROWS 1], t [ROWS 1] WHERE s.k = t.k)")
    one, other = FragmentEngine(joining), FragmentEngine(joining)
    for stream in ("s", "t"):
        one.offer(stream, chunk(sensor, [(1, None, None, None, None), row(2)], [1, 2]))
    one.advance(10)
    saved = one.snapshot()
    other.restore(saved)
    assert other.snapshot() == saved


def test_tuples_are_limited_at_watermarks() -> None:
    engine = FragmentEngine(program(counting))
    rows = [row(t) for t in (1, 1, 2, 3, 3, 3)]
    engine.offer("s", chunk(sensor, rows, [1, 2, 3]))
    assert engine.waiting == 6
    evaluated = engine.advance(10, tuples=5)
    assert evaluated is not None
    assert (evaluated.watermarks_ms.tolist(), evaluated.tuples_in) == ([1, 2], 3)
    assert engine.waiting == 3
    # One watermark at least, however many tuples that is.
    evaluated = engine.advance(10, tuples=1)
    assert evaluated is not None
    assert (evaluated.watermarks_ms.tolist(), evaluated.tuples_in) == ([3], 3)
    assert engine.waiting == 0


def test_tuples_of_all_inputs_count() -> None:
    engine = FragmentEngine(program(both))
    engine.offer("s", chunk(sensor, [row(1), row(3)], [1, 3]))
    engine.offer("t", chunk(sensor, [row(2), row(3), row(4)], [2, 4]))
    for tuples, watermarks_ms in ((2, [1, 2]), (1, [3])):
        evaluated = engine.advance(10, tuples)
        assert evaluated is not None
        assert evaluated.watermarks_ms.tolist() == watermarks_ms
    # What is not closed waits.
    assert (engine.ready, engine.waiting) == (False, 1)


def test_watermarks_without_tuples_are_limited_by_their_own_limit() -> None:
    engine = FragmentEngine(program(counting))
    engine.offer("s", chunk(sensor, [], [1, 2, 3, 4]))
    evaluated = engine.advance(3, tuples=1)
    assert evaluated is not None
    assert evaluated.watermarks_ms.tolist() == [1, 2, 3]


def test_oldest_ingestion_time_and_what_is_closed() -> None:
    engine = FragmentEngine(program(both))
    assert engine.oldest_ingestion_time_us is None
    engine.offer("s", chunk(sensor, [row(5), row(8)], [5, 8]))
    engine.offer("t", chunk(sensor, [row(3)], [3, 6]))
    assert (engine.input_watermark_ms, engine.oldest_ingestion_time_us) == (6, 3000)
    while engine.advance(1) is not None:
        pass
    assert engine.oldest_ingestion_time_us == 8000
    assert engine.waiting == 1


def test_a_restored_engine_goes_on_with_its_own_numbers_where_those_of_the_input_have_fallen() -> (
    None
):
    statement = "RSTREAM(SELECT s.k FROM s [RANGE 15 MILLISECONDS], t [ROWS 2] WHERE s.k = t.k)"
    former, restored = FragmentEngine(program(statement)), FragmentEngine(program(statement))
    rows = [row(at, "abc"[at % 3]) for at in range(1, 9)]
    former.offer("s", chunk(sensor, rows, [8]))
    former.offer("t", chunk(sensor, rows, [10]))
    assert former.advance(100) is not None
    former.skip_to("s", Position(next_seq=0, watermark_ms=9))
    former.offer("s", chunk(sensor, [row(10, "b")], [10]))
    assert former.advance(100) is not None
    restored.restore(former.snapshot())
    results: list[dict[str, list[object]]] = []
    for engine in (former, restored):
        engine.offer("s", chunk(sensor, [row(12, "c"), row(14)], [12, 14, 40], first_seq=1))
        engine.offer("t", chunk(sensor, [], [40], first_seq=8))
        evaluated = engine.advance(100)
        assert evaluated is not None
        results.append(evaluated.rows.to_pydict())
    assert results[0] == results[1]
