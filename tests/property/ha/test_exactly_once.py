"""However a stream is cut, repeated, delayed or sent by two copies, each tuple is taken in once."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ha.messages import Data
from ha.output_log import OutputLog
from ha.receiver import Receiver, Verdict
from streams.chunk import Chunk, Position
from tests.streams_of_numbers import cut, marks, numbers, schema

instants_of = st.lists(st.integers(0, 3), min_size=1, max_size=20).map(
    lambda counts: [(10 * (i + 1), count) for i, count in enumerate(counts)]
)
cuts = st.lists(st.integers(0, 20), max_size=8)


def data(chunk: Chunk, epoch: int) -> Data:
    return Data(stream="s", epoch=epoch, generation=1, consumer="c", chunk=chunk)


@given(instants_of, cuts, cuts, st.randoms(use_true_random=False))
def test_two_copies_interleaved_give_the_stream_once_in_order(
    instants: list[tuple[int, int]],
    cuts_of_one: list[int],
    cuts_of_other: list[int],
    random: Random,
) -> None:
    queues = [cut(instants, cuts_of_one), cut(instants, cuts_of_other)]
    receiver, taken = Receiver(), list[Chunk]()
    while any(queues):
        queue = random.choice([q for q in queues if q])
        received = receiver.receive(data(queue.pop(0), epoch=1))
        assert received.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE)
        taken += [received.chunk] if received.chunk is not None else []
    assert numbers(taken) == numbers(cut(instants, []))
    assert marks(taken) == [ts for ts, _ in instants]


@given(instants_of, cuts, st.data())
def test_what_a_broken_link_swallows_is_noticed_and_sent_again(
    instants: list[tuple[int, int]], ends: list[int], draw: st.DataObject
) -> None:
    log, receiver, taken = OutputLog(schema, linger_us=0), Receiver(), list[Chunk]()
    consumer = ("node", "c")
    log.subscribe(consumer, None)
    for chunk in cut(instants, ends):
        log.append(chunk.rows, chunk.marks, chunk.origins_us)
        for sent in log.outgoing(consumer):
            if draw.draw(st.booleans(), label="swallowed"):
                continue
            received = receiver.receive(data(sent, epoch=1))
            if received.verdict is Verdict.GAP:
                log.subscribe(consumer, receiver.position)
            taken += [received.chunk] if received.chunk is not None else []
    log.subscribe(consumer, receiver.position)
    for sent in log.outgoing(consumer):
        received = receiver.receive(data(sent, epoch=1))
        taken += [received.chunk] if received.chunk is not None else []
    assert numbers(taken) == numbers(cut(instants, []))


@given(instants_of, cuts, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=30))
def test_trimming_never_takes_what_somebody_may_still_need(
    instants: list[tuple[int, int]], ends: list[int], acks: list[tuple[int, int]]
) -> None:
    log = OutputLog(schema, linger_us=0)
    everything = cut(instants, [])[0]
    positions = [Position()] * 3
    for who in range(3):
        log.subscribe((f"n{who}", "c"), None)
    for chunk in cut(instants, ends):
        log.append(chunk.rows, chunk.marks, chunk.origins_us)
    for who, index in acks:
        if index >= len(instants):
            continue
        progress_ms = instants[index][0]
        next_seq = sum(count for _, count in instants[: index + 1])
        log.acknowledge((f"n{who}", "c"), Position(next_seq=next_seq, progress_ms=progress_ms))
        positions[who] = max(
            positions[who],
            Position(next_seq=next_seq, progress_ms=progress_ms),
            key=lambda p: p.progress_ms,
        )
        log.check_invariants()
        for cut_at in positions:
            kept = [rest for c in log.chunks() if (rest := c.after(cut_at)) is not None]
            wanted = everything.after(cut_at)
            assert numbers(kept) == numbers([wanted] if wanted is not None else [])
