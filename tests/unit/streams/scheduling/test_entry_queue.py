from __future__ import annotations

import numpy as np
import pytest

from streams.scheduling.entry_queue import EntryQueue
from streams.scheduling.in_time import OperatorCost, own_part_us, tuples_in_time
from streams.vectors.chunk import Chunk
from tests.streams_of_numbers import chunk, numbers, watermarks_ms


def holding(*chunks: Chunk) -> EntryQueue:
    made = EntryQueue()
    for each in chunks:
        made.put(each.rows, each.watermarks_ms, each.ingestion_times_us)
    return made


def taken(queue: EntryQueue) -> list[Chunk]:
    found: list[Chunk] = []
    while queue:
        found.append(queue.take())
    assert (queue.tuples, queue.size_bytes) == (0, 0)
    return found


def test_what_entered_before_a_time_is_dropped_and_its_last_watermark_stays() -> None:
    queue = holding(chunk(0, [(10, 2), (20, 3)]), chunk(5, [(30, 1), (40, 2)]))
    assert queue.drop_before(40_000) == 6
    assert queue.tuples == 2
    (rest,) = taken(queue)
    assert (numbers([rest]), watermarks_ms([rest])) == ([6, 7], [30, 40])


def test_nothing_is_dropped_that_entered_just_then() -> None:
    queue = holding(chunk(0, [(10, 2)]))
    assert queue.drop_before(10_000) == 0
    assert queue.drop_before(10_001) == 2
    assert queue.drop_before(10_001) == 0
    assert watermarks_ms(taken(queue)) == [10]


def test_dropping_everything_leaves_one_watermark() -> None:
    queue = holding(*(chunk(n, [(10 * n, 1)]) for n in range(1, 6)))
    assert queue.drop_before(10**9) == 5
    assert watermarks_ms(taken(queue)) == [50]


def test_the_oldest_go_until_the_others_fit() -> None:
    queue = holding(*(chunk(n, [(10 * n, 1)]) for n in range(1, 6)))
    most_bytes = 3 * chunk(1, [(10, 1)]).size_bytes
    assert queue.drop_beyond(most_bytes) == 3
    assert queue.size_bytes <= most_bytes
    assert numbers(taken(queue)) == [4, 5]
    assert EntryQueue().drop_beyond(0) == 0


def test_the_oldest_go_although_the_clock_was_set_back_meanwhile() -> None:
    earlier = chunk(0, [(20, 2)])
    queue = holding(chunk(0, [(10, 0)]))
    queue.put(earlier.rows, earlier.watermarks_ms, earlier.ingestion_times_us - 15_000)
    assert queue.drop_beyond(0) == 2
    assert watermarks_ms(taken(queue)) == [20]


def test_whole_timestamp_groups_are_taken() -> None:
    whole = chunk(0, [(10, 2), (20, 3), (30, 1)])
    queue = holding(whole)
    first = queue.take(1)
    assert (numbers([first]), watermarks_ms([first])) == ([0, 1], [10])
    rest = queue.take(whole.size_bytes)
    assert (numbers([rest]), watermarks_ms([rest])) == ([2, 3, 4, 5], [20, 30])
    assert not queue


@pytest.mark.parametrize("seed", range(20))
def test_every_tuple_is_taken_once_or_dropped_whatever_happens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queue, ts, put, dropped, last_ms = EntryQueue(), 0, 0, 0, 0
    found: list[Chunk] = []
    for _ in range(200):
        match int(rng.integers(4)):
            case 0:
                groups = [(ts + 10 * (n + 1), int(rng.integers(3))) for n in range(3)]
                ts = groups[-1][0]
                made = chunk(put, groups)
                queue.put(made.rows, made.watermarks_ms, made.ingestion_times_us)
                put += made.rows.num_rows
            case 1:
                dropped += queue.drop_before(int(rng.integers(0, 1000 * ts + 1)))
            case 2:
                dropped += queue.drop_beyond(int(rng.integers(0, 20_000)))
            case _:
                found += [queue.take(int(rng.integers(1, 3000)))] if queue else []
    waiting = queue.tuples
    found += taken(queue)
    got = numbers(found)
    assert len(got) + dropped == put, f"{waiting} were waiting at last"
    assert got == sorted(set(got))
    for each in watermarks_ms(found):
        assert each > last_ms
        last_ms = each
    assert last_ms == ts


def test_tuples_in_time() -> None:
    chain = (OperatorCost(1000, 40, selectivity=0.5), OperatorCost(1000, 20))
    assert tuples_in_time(chain, 12_000) == 200
    assert tuples_in_time(chain, 0) == 1
    assert tuples_in_time((OperatorCost(0, 0),), 1_000) == 1_000_000


def test_others_work_counts_but_leaves_each_task_its_part() -> None:
    assert own_part_us(100_000, 0, 5) == 50_000
    assert own_part_us(100_000, 30_000, 5) == 20_000
    assert own_part_us(100_000, 10**9, 5) == 10_000
