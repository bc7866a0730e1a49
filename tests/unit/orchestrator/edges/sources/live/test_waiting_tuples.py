"""Tuples wait in memory and in files, and leave in the order of timestamp and arrival."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.edges.sources.live.waiting_tuples import BATCH_BYTES, WaitingTuples
from streams.vectors.chunk import stream_schema

SCHEMA = stream_schema({"number": "int", "text": "string"})
ALL_BYTES = 2**40


def rows(*stamped: tuple[int, int]) -> pa.RecordBatch:
    stamps, numbers = zip(*stamped, strict=True)
    texts = [f"text {number}" for number in numbers]
    return pa.RecordBatch.from_pydict(
        {"_ts": stamps, "number": numbers, "text": texts}, schema=SCHEMA
    )


def content(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    assert batch.schema == SCHEMA
    assert batch.column(2).to_pylist() == [f"text {n}" for n in batch.column(1).to_pylist()]
    return list(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=8),
    st.lists(st.tuples(st.integers(-1, 10), st.sampled_from([0, 40, 100, ALL_BYTES]))),
    st.sampled_from([0, 100, ALL_BYTES]),
)
def test_everything_leaves_once_in_order_wherever_it_waits(
    batches: list[list[int]], takes: list[tuple[int, int]], memory_bytes: int
) -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=memory_bytes)
    expected: list[tuple[int, int]] = []
    found: list[tuple[int, int]] = []
    passed_ms = -1
    number = 0
    for place in range(max(len(batches), len(takes))):
        stamps = [s for s in (batches[place : place + 1] or [[]])[0] if s > passed_ms]
        if stamps:
            made = [(stamp, number + n) for n, stamp in enumerate(stamps)]
            number += len(made)
            waiting.add(rows(*made))
            expected += made
        waiting.settle()
        for until_ms, most_bytes in takes[place : place + 1]:
            before = len(found)
            taken, reached_ms = waiting.take(until_ms, most_bytes)
            found += content(taken)
            assert reached_ms <= until_ms
            assert all(passed_ms < stamp <= reached_ms for stamp, _ in found[before:])
            one_timestamp = len({stamp for stamp, _ in found[before:]}) <= 1
            assert taken.nbytes <= most_bytes or one_timestamp
            passed_ms = max(passed_ms, reached_ms)
    found += content(waiting.take(10, ALL_BYTES)[0])
    assert found == sorted(expected)
    assert waiting.size_bytes == 0


def test_beyond_its_memory_everything_lies_in_files_without_names(tmp_path: Path) -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=10_000, folder=tmp_path)
    before = pa.default_memory_pool().bytes_allocated()
    for begin in range(0, 100_000, 100):
        waiting.add(rows(*[(n % 7, n) for n in range(begin, begin + 100)]))
        waiting.settle()
    assert waiting.size_bytes > 2_000_000
    assert pa.default_memory_pool().bytes_allocated() - before < 100_000
    assert list(tmp_path.iterdir()) == []
    taken, _ = waiting.take(7, ALL_BYTES)
    assert content(taken) == sorted((n % 7, n) for n in range(100_000))


def test_when_it_is_full_so_much_has_to_leave_that_there_is_room() -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000, most_bytes=16_000)
    for stamp in range(1000):
        assert waiting.opens_ms is None
        waiting.add(rows((stamp, stamp)))
        if waiting.size_bytes >= 16_000:
            break
    opens_ms = waiting.opens_ms
    assert opens_ms is not None
    taken, _ = waiting.take(opens_ms - 1, ALL_BYTES)
    assert taken.nbytes <= 1000
    more, _ = waiting.take(opens_ms, ALL_BYTES)
    assert taken.nbytes + more.nbytes > 1000


def test_a_little_before_much_does_not_open_it() -> None:
    waiting = WaitingTuples(SCHEMA, most_bytes=16_000)
    waiting.add(rows((1, 0)))
    waiting.add(rows(*[(7, number) for number in range(1000)]))
    assert waiting.opens_ms == 7
    waiting.add(rows((8, 0)))
    assert waiting.opens_ms == 7


def test_small_batches_are_put_together() -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=2**15)
    for number in range(200):
        waiting.add(rows((number % 3, number)))
        waiting.settle()
        assert len(list(waiting.batches())) <= 2**15 // BATCH_BYTES
    assert content(waiting.take(3, ALL_BYTES)[0]) == sorted((n % 3, n) for n in range(200))


def test_a_timestamp_is_never_divided() -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=100)
    for number in range(50):
        waiting.add(rows((5, number), (6, number)))
        waiting.settle()
    taken, until_ms = waiting.take(9, 1)
    assert content(taken) == [(5, number) for number in range(50)]
    assert until_ms == 5


def test_what_lies_in_a_file_comes_before_what_came_later() -> None:
    waiting = WaitingTuples(SCHEMA, memory_bytes=2000)
    for begin in (0, 100):
        waiting.add(rows(*[(5, number) for number in range(begin, begin + 100)]))
        waiting.settle()
    waiting.add(rows((5, 200)))
    waiting.settle()
    assert content(waiting.take(5, ALL_BYTES)[0]) == [(5, number) for number in range(201)]
