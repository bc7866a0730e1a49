"""What a sink says of the stream it was delivered."""

from __future__ import annotations

import pytest

from ha.messages import Data
from ha.receiver import Verdict
from orchestrator.host.sink import Sink
from orchestrator.records import SinkAssignment
from streams.chunk import Chunk, Position
from tests.streams_of_numbers import chunk, numbers


def sink() -> Sink:
    made = Sink(SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=5))
    made.receiver.start(Position(), 1)
    return made


def data(part: Chunk) -> Data:
    return Data(stream="s", epoch=1, generation=1, consumer="sink:s", chunk=part)


def test_before_anything_came() -> None:
    status = sink().status(0)
    assert (status.progress_ms, status.latency_ms_p50, status.answers) == (None, None, 0)


def test_latency_is_counted_for_every_answer_and_late_ones_as_misses() -> None:
    made = sink()
    # Origins lie at 10 and 20 ms; both answers arrive at 22 ms.
    verdict, delivery = made.receive(data(chunk(0, [(10, 1), (20, 0)])), 22_000)
    assert verdict is Verdict.ACCEPTED
    assert delivery is not None
    assert (delivery.arrived_us, delivery.lost) == (22_000, 0)
    status = made.status(0)
    assert (status.answers, status.rows, status.deadline_misses) == (2, 1, 1)
    assert status.latency_ms_p50 == pytest.approx(7)
    assert (status.next_seq, status.progress_ms) == (1, 20)


def test_what_comes_again_is_dropped_and_counted() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2)])), 0)
    assert made.receive(data(chunk(0, [(10, 2)])), 0) == (Verdict.DUPLICATE, None)
    _, delivery = made.receive(data(chunk(0, [(10, 2), (20, 1)])), 0)
    assert delivery is not None
    assert numbers([delivery.chunk]) == [2]
    assert (made.status(0).rows, made.status(0).repeated) == (3, 4)


def test_a_gap_is_not_taken_in_until_it_is_given_up_and_then_counted() -> None:
    made = sink()
    made.receive(data(chunk(0, [(10, 2)])), 0)
    late = data(chunk(5, [(40, 1)]))
    assert made.receive(late, 0) == (Verdict.GAP, None)
    lost = made.skip_to(late)
    verdict, delivery = made.receive(late, 0, lost)
    assert verdict is Verdict.ACCEPTED
    assert delivery is not None
    assert delivery.lost == made.status(0).lost == 3
