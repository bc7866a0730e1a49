"""Partitions wait for each other, so that no backlog is late, and for nobody who is silent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from orchestrator.edges.sources.live.partitions import Merged, PartitionMerge
from streams.vectors.chunk import stream_schema

SCHEMA = stream_schema({"number": "int"})
IDLE_US = 1_000_000


def merge(partitions: int = 2, *, waits: bool = True) -> PartitionMerge:
    made = PartitionMerge(SCHEMA, waits=waits, idle_after_us=IDLE_US)
    for partition in range(partitions):
        made.begin(partition, 0)
    return made


def add(
    to: PartitionMerge, partition: int, first_offset: int, *stamps: int, most_ms: int | None = None
) -> None:
    offsets = np.arange(first_offset, first_offset + len(stamps))
    numbers = [100 * partition + n for n in offsets.tolist()]
    rows = pa.RecordBatch.from_pydict({"_ts": stamps, "number": numbers}, schema=SCHEMA)
    to.add(partition, rows, offsets, first_offset + len(stamps), 0, most_ms=most_ms)


def numbers(merged: Merged | None) -> list[int]:
    assert merged is not None
    return merged.rows.column("number").to_pylist()


def test_a_partition_that_is_ahead_waits_for_the_others() -> None:
    both = merge()
    add(both, 0, 0, 10, 20, 30)
    assert both.take(0) is None
    add(both, 1, 5, 15, 25)
    merged = both.take(0)
    assert numbers(merged) == [0, 105, 1, 106]
    assert merged is not None
    assert merged.places == {0: 2, 1: 7}
    assert both.held_bytes(0) < 100


def test_equal_timestamps_come_by_partition_and_offset() -> None:
    both = merge()
    add(both, 1, 0, 7, 7, 9)
    add(both, 0, 0, 7, 8, 9)
    assert numbers(both.take(0)) == [0, 100, 101, 1, 2]
    add(both, 0, 3, 9)
    assert numbers(both.take(0)) == [3]
    add(both, 0, 4, 10)
    assert numbers(both.take(0)) == [102]


def test_of_equal_timestamps_those_of_the_first_partition_wait_for_nobody() -> None:
    both = merge()
    add(both, 0, 0, 7)
    add(both, 1, 0, 7)
    for offset in range(1, 10):
        add(both, 0, offset, 7)
        add(both, 1, offset, 7)
        assert numbers(both.take(0))[-1] == offset
        assert both.held_bytes(0) == 0
    add(both, 0, 10, 8)
    assert numbers(both.take(0)) == [100 + offset for offset in range(10)]


def test_a_silent_partition_is_not_waited_for_once_it_is_read_to_its_end() -> None:
    both = merge()
    add(both, 0, 0, 10, 20)
    assert both.take(5 * IDLE_US) is None
    both.at_end(1)
    assert both.take(IDLE_US - 1) is None
    assert numbers(both.take(IDLE_US)) == [0, 1]
    both.at_end(0)
    add(both, 1, 0, 5)
    both.at_end(1)
    # What is late is not held back for ever: it is counted further on.
    assert numbers(both.take(IDLE_US)) == [100]


def test_a_tuple_behind_an_older_one_stays_behind_it() -> None:
    both = merge()
    add(both, 0, 0, 50, 10, 60)
    add(both, 1, 0, 20, 40)
    assert numbers(both.take(0)) == [100, 101]
    add(both, 1, 2, 55)
    merged = both.take(0)
    assert numbers(merged) == [1, 0, 102]
    assert merged is not None
    assert merged.places == {0: 2, 1: 3}


def test_a_timestamp_far_ahead_holds_nothing_up() -> None:
    both = merge()
    add(both, 0, 0, 10, 10**9, 20, most_ms=1000)
    add(both, 1, 0, 30)
    assert numbers(both.take(0)) == [0, 2, 1]
    add(both, 0, 3, 30)
    assert numbers(both.take(0)) == [3]
    add(both, 0, 4, 40)
    assert numbers(both.take(0)) == [100]


def test_messages_without_rows_are_passed() -> None:
    both = merge()
    both.add(0, pa.RecordBatch.from_pylist([], schema=SCHEMA), np.empty(0, dtype=np.int64), 4, 0)
    merged = both.take(0)
    assert merged is not None
    assert (merged.rows.num_rows, merged.places) == (0, {0: 4})
    assert both.take(0) is None


def test_by_arrival_nobody_waits() -> None:
    both = merge(waits=False)
    add(both, 0, 0, 0, 0)
    assert numbers(both.take(0)) == [0, 1]


def test_nobody_was_silent_while_the_reader_looked_away() -> None:
    both = merge()
    add(both, 0, 0, 10, 20)
    both.at_end(1)
    both.looked_away(30 * IDLE_US)
    assert both.take(31 * IDLE_US - 1) is None
    assert numbers(both.take(31 * IDLE_US)) == [0, 1]
