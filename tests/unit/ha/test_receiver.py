from ha.messages import Data
from ha.receiver import Receiver, Verdict
from streams.chunk import Chunk, Position
from tests.streams_of_numbers import chunk


def data(sent: Chunk, *, epoch: int = 1, generation: int = 1) -> Data:
    return Data(stream="s", epoch=epoch, generation=generation, consumer="c", chunk=sent)


def test_takes_in_what_follows() -> None:
    receiver = Receiver()
    received = receiver.receive(data(chunk(0, [(10, 2)])))
    assert received.verdict is Verdict.ACCEPTED
    assert receiver.position == Position(next_seq=2, progress_ms=10)


def test_drops_and_counts_what_it_has() -> None:
    receiver = Receiver()
    receiver.receive(data(chunk(0, [(10, 2), (20, 1)])))
    again = receiver.receive(data(chunk(0, [(10, 2), (20, 1)]), epoch=2))
    assert again.verdict is Verdict.DUPLICATE
    assert receiver.repeated_tuples == 3
    assert receiver.epoch == 2


def test_keeps_only_the_new_part_of_a_chunk_cut_otherwise() -> None:
    receiver = Receiver()
    receiver.receive(data(chunk(0, [(10, 2)])))
    received = receiver.receive(data(chunk(0, [(10, 2), (20, 3)])))
    assert received.chunk is not None
    assert received.chunk.first_seq == 2
    assert received.chunk.rows.num_rows == 3


def test_notices_what_is_missing() -> None:
    receiver = Receiver()
    receiver.receive(data(chunk(0, [(10, 2)])))
    assert receiver.receive(data(chunk(5, [(30, 1)]))).verdict is Verdict.GAP
    assert receiver.position == Position(next_seq=2, progress_ms=10)


def test_an_instant_without_tuples_is_progress() -> None:
    receiver = Receiver()
    receiver.receive(data(chunk(0, [(10, 2)])))
    received = receiver.receive(data(chunk(2, [(20, 0)])))
    assert received.verdict is Verdict.ACCEPTED
    assert receiver.position == Position(next_seq=2, progress_ms=20)


def test_a_new_state_numbers_from_zero_and_time_tells_what_is_known() -> None:
    receiver = Receiver()
    receiver.receive(data(chunk(0, [(10, 2), (20, 2)])))
    received = receiver.receive(data(chunk(0, [(20, 2), (30, 1)]), epoch=3, generation=3))
    assert received.verdict is Verdict.RESET
    assert received.chunk is not None
    assert received.chunk.rows.num_rows == 1
    assert receiver.position == Position(next_seq=3, progress_ms=30)


def test_a_given_up_state_is_not_listened_to() -> None:
    receiver = Receiver()
    receiver.receive(data(chunk(0, [(10, 2)]), generation=3))
    assert receiver.receive(data(chunk(2, [(20, 1)]), generation=1)).verdict is Verdict.STALE
