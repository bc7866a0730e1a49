"""However a stream is cut, repeated, delayed or sent by two replicas, a tuple is received once."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ha.cursor import Receipt, StreamCursor
from ha.messages import Data
from ha.output_log import OutputLog
from streams.vectors.chunk import Chunk, Position
from tests.streams_of_numbers import cut, numbers, schema, watermarks_ms

timestamp_groups_of = st.lists(st.integers(0, 3), min_size=1, max_size=20).map(
    lambda counts: [(10 * (i + 1), count) for i, count in enumerate(counts)]
)
cuts = st.lists(st.integers(0, 20), max_size=8)


def data(chunk: Chunk, epoch: int) -> Data:
    return Data(stream="s", epoch=epoch, generation=1, chunk=chunk)


def started() -> StreamCursor:
    cursor = StreamCursor()
    cursor.start(Position(), 1)
    return cursor


@given(timestamp_groups_of, cuts, cuts, st.randoms(use_true_random=False))
def test_two_replicas_interleaved_give_the_stream_once_in_order(
    timestamp_groups: list[tuple[int, int]],
    cuts_of_one: list[int],
    cuts_of_other: list[int],
    random: Random,
) -> None:
    queues = [cut(timestamp_groups, cuts_of_one), cut(timestamp_groups, cuts_of_other)]
    cursor, taken = started(), list[Chunk]()
    while any(queues):
        queue = random.choice([q for q in queues if q])
        received = cursor.receive(data(queue.pop(0), epoch=1))
        assert received.receipt in (Receipt.ACCEPTED, Receipt.DUPLICATE)
        taken += [received.chunk] if received.chunk is not None else []
    assert numbers(taken) == numbers(cut(timestamp_groups, []))
    assert watermarks_ms(taken) == [ts for ts, _ in timestamp_groups]


@given(timestamp_groups_of, cuts, st.data())
def test_chunks_lost_with_a_broken_link_are_noticed_and_sent_again(
    timestamp_groups: list[tuple[int, int]], ends: list[int], draw: st.DataObject
) -> None:
    log, cursor, taken = OutputLog(schema, linger_us=0), started(), list[Chunk]()
    consumer = "node"
    log.subscribe(consumer, None)
    for chunk in cut(timestamp_groups, ends):
        log.append(chunk.rows, chunk.watermarks_ms, chunk.ingestion_times_us)
        for sent in log.take_unsent(consumer):
            if draw.draw(st.booleans(), label="swallowed"):
                continue
            received = cursor.receive(data(sent, epoch=1))
            if received.receipt is Receipt.GAP:
                log.subscribe(consumer, cursor.position)
            taken += [received.chunk] if received.chunk is not None else []
    log.subscribe(consumer, cursor.position)
    for sent in log.take_unsent(consumer):
        received = cursor.receive(data(sent, epoch=1))
        taken += [received.chunk] if received.chunk is not None else []
    assert numbers(taken) == numbers(cut(timestamp_groups, []))


@given(
    timestamp_groups_of,
    cuts,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=30),
)
def test_trimming_never_drops_output_that_a_consumer_may_still_need(
    timestamp_groups: list[tuple[int, int]], ends: list[int], acks: list[tuple[int, int]]
) -> None:
    log = OutputLog(schema, linger_us=0)
    everything = cut(timestamp_groups, [])[0]
    positions = [Position()] * 3
    for who in range(3):
        log.subscribe(f"n{who}", None)
    for chunk in cut(timestamp_groups, ends):
        log.append(chunk.rows, chunk.watermarks_ms, chunk.ingestion_times_us)
    for who, index in acks:
        if index >= len(timestamp_groups):
            continue
        watermark_ms = timestamp_groups[index][0]
        next_seq = sum(count for _, count in timestamp_groups[: index + 1])
        log.acknowledge(f"n{who}", Position(next_seq=next_seq, watermark_ms=watermark_ms))
        positions[who] = max(
            positions[who],
            Position(next_seq=next_seq, watermark_ms=watermark_ms),
            key=lambda p: p.watermark_ms,
        )
        log.check_invariants()
        for cut_at in positions:
            kept = [rest for c in log.chunks() if (rest := c.after(cut_at)) is not None]
            wanted = everything.after(cut_at)
            assert numbers(kept) == numbers([wanted] if wanted is not None else [])
