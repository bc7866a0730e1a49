from ha.messages import Data
from ha.subscription import Receipt, StreamCursor
from streams.chunk import Chunk, Position
from tests.streams_of_numbers import chunk


def data(sent: Chunk, *, epoch: int = 1, generation: int = 1) -> Data:
    return Data(stream="s", epoch=epoch, generation=generation, consumer="c", chunk=sent)


def test_receives_the_chunk_that_follows() -> None:
    cursor = StreamCursor()
    received = cursor.receive(data(chunk(0, [(10, 2)])))
    assert received.receipt is Receipt.ACCEPTED
    assert cursor.position == Position(next_seq=2, watermark_ms=10)


def test_drops_and_counts_tuples_received_before() -> None:
    cursor = StreamCursor()
    cursor.receive(data(chunk(0, [(10, 2), (20, 1)])))
    again = cursor.receive(data(chunk(0, [(10, 2), (20, 1)]), epoch=2))
    assert again.receipt is Receipt.DUPLICATE
    assert cursor.repeated_tuples == 3
    assert cursor.epoch == 2


def test_keeps_only_the_new_part_of_a_chunk_cut_otherwise() -> None:
    cursor = StreamCursor()
    cursor.receive(data(chunk(0, [(10, 2)])))
    received = cursor.receive(data(chunk(0, [(10, 2), (20, 3)])))
    assert received.chunk is not None
    assert received.chunk.first_seq == 2
    assert received.chunk.rows.num_rows == 3


def test_notices_a_gap() -> None:
    cursor = StreamCursor()
    cursor.receive(data(chunk(0, [(10, 2)])))
    assert cursor.receive(data(chunk(5, [(30, 1)]))).receipt is Receipt.GAP
    assert cursor.position == Position(next_seq=2, watermark_ms=10)


def test_an_timestamp_without_tuples_is_progress() -> None:
    cursor = StreamCursor()
    cursor.receive(data(chunk(0, [(10, 2)])))
    received = cursor.receive(data(chunk(2, [(20, 0)])))
    assert received.receipt is Receipt.ACCEPTED
    assert cursor.position == Position(next_seq=2, watermark_ms=20)


def test_a_new_generation_numbers_from_zero_and_timestamps_tell_known_tuples() -> None:
    cursor = StreamCursor()
    cursor.receive(data(chunk(0, [(10, 2), (20, 2)])))
    received = cursor.receive(data(chunk(0, [(20, 2), (30, 1)]), epoch=3, generation=3))
    assert received.receipt is Receipt.RESET
    assert received.chunk is not None
    assert received.chunk.rows.num_rows == 1
    assert cursor.position == Position(next_seq=3, watermark_ms=30)


def test_a_given_up_state_is_not_listened_to() -> None:
    cursor = StreamCursor()
    cursor.receive(data(chunk(0, [(10, 2)]), generation=3))
    assert cursor.receive(data(chunk(2, [(20, 1)]), generation=1)).receipt is Receipt.STALE
