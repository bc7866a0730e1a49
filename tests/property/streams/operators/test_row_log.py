"""The log of a window's rows, in segments so small that every call crosses their borders."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.operators.row_log import FIRST_CAPACITY, RowLog
from streams.vectors.state import PIECE_BYTES, SnapshotError, State
from streams.vectors.vector import Frame, from_tuples

KINDS = ("int", "string")
Row = tuple[int, int, tuple[int, str | None]]
"""Identity, timestamp, values."""

Step = tuple[int, str, Random]

steps = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from(["oldest", "until", "any", "most", "nothing"]),
        st.randoms(use_true_random=False),
    ),
    max_size=30,
)


def frame(rows: list[Row]) -> Frame:
    return from_tuples([values for _, _, values in rows], KINDS)


def made(rows: list[Row], segment_rows: int) -> RowLog:
    log = RowLog(KINDS, segment_rows)
    if rows:
        log.append(
            np.array([i for i, _, _ in rows]), np.array([t for _, t, _ in rows]), frame(rows)
        )
    return log


def pieces(log: RowLog) -> list[State]:
    return list(log.save()())


def reloaded(log: RowLog, segment_rows: int) -> RowLog:
    again = RowLog(KINDS, segment_rows)
    for piece in pieces(log):
        again.load(piece)
    return again


def check(log: RowLog, rows: list[Row]) -> None:
    """The log holds exactly these rows."""
    assert len(log) == len(rows)
    assert log.oldest_ms() == (rows[0][1] if rows else None)
    ids = np.array([identity for identity, _, _ in rows], dtype=np.int64)
    found = log.positions(ids)
    assert found.tolist() == log.oldest(len(rows)).tolist()
    assert log.ids(found).tolist() == ids.tolist()
    assert log.take(found).tuples() == [values for _, _, values in rows]
    some = found[::3]
    assert log.take(some).tuples() == [values for _, _, values in rows[::3]]
    for _, timestamp, _ in rows[::7]:
        count = sum(other <= timestamp for _, other, _ in rows)
        assert log.until(timestamp).tolist() == found[:count].tolist()


@pytest.mark.parametrize("segment_rows", [2, 16, 65536])
@given(steps=steps)
@settings(deadline=None)
def test_rows_stay_until_they_are_discarded(segment_rows: int, steps: list[Step]) -> None:
    log, rows, next_id = RowLog(KINDS, segment_rows), list[Row](), 0
    for timestamp, (added, what, random) in enumerate(steps):
        leaving: list[Row] = []
        if what == "oldest":
            leaving = rows[: len(rows) // 2]
        elif what == "until" and rows:
            leaving = [row for row in rows if row[1] <= rows[len(rows) // 2][1]]
        elif what in ("any", "most"):
            share = 0.3 if what == "any" else 0.95
            leaving = [row for row in rows if random.random() < share]
        log.discard(log.positions(np.array([row[0] for row in leaving], dtype=np.int64)))
        rows = [row for row in rows if row not in leaving]
        entering: list[Row] = [
            (next_id + 2 * at, timestamp, (at, None if at % 5 == 3 else f"text {at}"))
            for at in range(added)
        ]
        next_id += 2 * added
        ids = np.array([row[0] for row in entering], dtype=np.int64)
        log.append(ids, np.full(added, timestamp), frame(entering))
        rows += entering
        assert log.ids(log.newest(added)).tolist() == ids.tolist()
        check(log, rows)
    assert pieces(log) == pieces(made(rows, 65536))
    check(reloaded(log, segment_rows), rows)


def test_what_was_saved_does_not_change_while_the_log_does() -> None:
    rows: list[Row] = [(at, at, (at, str(at))) for at in range(100)]
    log = made(rows, 16)
    saved = log.save()
    log.discard(log.oldest(70))
    more: list[Row] = [(at, at, (at, str(at))) for at in range(100, 200)]
    log.append(np.arange(100, 200), np.arange(100, 200), frame(more))
    assert list(saved()) == pieces(made(rows, 16))
    check(log, rows[70:] + more)


def test_segments_that_lose_their_rows_are_joined() -> None:
    log = RowLog(KINDS, 16)
    for at in range(0, 4000, 8):
        rows: list[Row] = [(at + each, at, (each, None)) for each in range(8)]
        log.append(np.arange(at, at + 8), np.full(8, at), frame(rows))
        # One row of each eight stays.
        log.discard(log.newest(8)[1:])
    assert len(log) == 500
    assert log.segments <= 4 * 500 / 16 + 2


def test_a_few_rows_take_little_room() -> None:
    log = RowLog(KINDS)
    for at in range(10 * FIRST_CAPACITY):
        log.append(np.array([at]), np.array([at]), frame([(at, at, (at, None))]))
        log.discard(log.oldest(max(len(log) - 3, 0)))
    assert (len(log), log.segments, log.capacity) == (3, 1, FIRST_CAPACITY)


def test_long_texts_make_small_pieces() -> None:
    rows: list[Row] = [(at, at, (at, "x" * (PIECE_BYTES // 4))) for at in range(20)]
    log = made(rows, 4)
    assert len(pieces(log)) == 7
    assert pieces(log) == pieces(made(rows, 65536))
    check(reloaded(log, 4), rows)


def test_rows_out_of_order_are_refused() -> None:
    rows: list[Row] = [(at, at, (at, None)) for at in range(10)]
    first, second = pieces(made(rows[:5], 4)), pieces(made(rows[5:], 4))
    log = RowLog(KINDS, 4)
    log.load(second[0])
    with pytest.raises(SnapshotError):
        log.load(first[0])
