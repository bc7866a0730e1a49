import msgspec
import pytest

from ha.cursor import Receipt, StreamCursor
from ha.messages import Data
from streams.vectors.chunk import Chunk, Position
from tests.streams_of_numbers import chunk, numbers


def data(sent: Chunk, *, epoch: int = 1, generation: int = 1) -> Data:
    return Data(stream="s", epoch=epoch, generation=generation, chunk=sent)


def started(generation: int = 1) -> StreamCursor:
    cursor = StreamCursor()
    cursor.start(Position(), generation)
    return cursor


def test_receives_the_chunk_that_follows() -> None:
    cursor = started()
    received = cursor.receive(data(chunk(0, [(10, 2)])))
    assert received.receipt is Receipt.ACCEPTED
    assert cursor.position == Position(next_seq=2, watermark_ms=10)


def test_receives_nothing_before_it_has_a_position() -> None:
    cursor = StreamCursor()
    assert cursor.receive(data(chunk(0, [(10, 2)]))).receipt is Receipt.GAP
    assert cursor.position is None


def test_drops_and_counts_tuples_received_before() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2), (20, 1)])))
    again = cursor.receive(data(chunk(0, [(10, 2), (20, 1)]), epoch=2))
    assert again.receipt is Receipt.DUPLICATE
    assert cursor.repeated_tuples == 3
    assert cursor.epoch == 2


def test_keeps_only_the_new_part_of_a_chunk_cut_otherwise() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)])))
    received = cursor.receive(data(chunk(0, [(10, 2), (20, 3)])))
    assert received.chunk is not None
    assert received.chunk.first_seq == 2
    assert received.chunk.rows.num_rows == 3


def test_notices_a_gap_of_one_tuple() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)])))
    assert cursor.receive(data(chunk(3, [(30, 1)]))).receipt is Receipt.GAP
    assert cursor.position == Position(next_seq=2, watermark_ms=10)


@pytest.mark.parametrize(
    "part",
    [
        chunk(2, [(20, 2), (30, 4), (40, 3)]),
        chunk(2, [(20, 2), (30, 2), (40, 3)]),
        chunk(4, [(30, 4)]),
        chunk(6, [(40, 3)]),
    ],
    ids=["one more", "one fewer", "no further", "begins beyond"],
)
def test_takes_nothing_that_continues_other_tuples_than_it_has(part: Chunk) -> None:
    """A successor of the producer makes other output from 15 ms on, under the same numbers."""
    cursor = StreamCursor()
    cursor.start(Position(next_seq=7, watermark_ms=30), 1)
    said = Data(stream="s", epoch=2, generation=1, chunk=part, departs_ms=15)
    assert cursor.receive(said).receipt is Receipt.DIFFERS
    assert cursor.position == Position(next_seq=7, watermark_ms=30)
    # What departs beyond all that was received cannot differ from it, whatever is said.
    said = msgspec.structs.replace(said, departs_ms=30)
    assert cursor.receive(said).receipt is not Receipt.DIFFERS


@pytest.mark.parametrize(
    "part",
    [
        chunk(2, [(20, 2), (30, 3), (40, 3)]),
        chunk(4, [(30, 3), (40, 1)]),
        chunk(7, [(40, 3)]),
        chunk(7, [(35, 0), (40, 3)]),
    ],
)
def test_takes_what_continues_its_tuples_although_the_stream_departs(part: Chunk) -> None:
    cursor = StreamCursor()
    cursor.start(Position(next_seq=7, watermark_ms=30), 1)
    received = cursor.receive(Data(stream="s", epoch=2, generation=1, chunk=part, departs_ms=15))
    assert received.receipt is Receipt.ACCEPTED
    assert received.chunk is not None
    assert received.chunk.first_seq == 7


def test_a_timestamp_without_tuples_is_progress() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)])))
    received = cursor.receive(data(chunk(2, [(20, 0)])))
    assert received.receipt is Receipt.ACCEPTED
    assert cursor.position == Position(next_seq=2, watermark_ms=20)


def test_stops_at_a_newer_generation_until_it_crosses() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2), (20, 2)])))
    before = cursor.position
    received = cursor.receive(data(chunk(0, [(20, 2), (30, 1)]), epoch=3, generation=3))
    assert (received.receipt, received.chunk) == (Receipt.RESET, None)
    assert cursor.position == before
    assert cursor.receive(data(chunk(4, [(30, 1)]))).receipt is Receipt.ACCEPTED


def test_filters_what_a_new_generation_repeats_however_it_is_cut() -> None:
    again = chunk(0, [(5, 1), (10, 2), (20, 2), (30, 1), (40, 2)])
    for ends in ([5], [1, 2, 3, 4, 5], [2, 5], [3, 4, 5]):
        cursor, taken, begin = started(), list[Chunk](), 0
        cursor.receive(data(chunk(0, [(10, 1), (20, 2)])))
        cursor.cross(Position(), 3)
        parts = [(5, 1), (10, 2), (20, 2), (30, 1), (40, 2)]
        next_seq = 0
        for end in ends:
            part = chunk(next_seq, parts[begin:end])
            next_seq, begin = part.next_seq, end
            received = cursor.receive(data(part, generation=3))
            assert received.receipt in (Receipt.ACCEPTED, Receipt.DUPLICATE)
            taken += [received.chunk] if received.chunk is not None else []
        assert numbers(taken) == numbers([again])[5:]
        assert taken[0].first_seq == 5
        assert cursor.position == again.end
        assert cursor.repeated_tuples == 0


def test_what_arrives_first_after_a_crossing_says_that_it_moved() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)])))
    cursor.cross(Position(), 2)
    assert cursor.receive(data(chunk(0, [(20, 2)]), generation=2)).moved
    assert not cursor.receive(data(chunk(2, [(30, 2)]), generation=2)).moved


def test_epochs_of_a_former_generation_are_forgotten() -> None:
    """What a reader tells a producer of them would have it yield to nobody."""
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)]), epoch=7))
    cursor.cross(Position(), 2)
    assert cursor.epoch == 0
    cursor.receive(data(chunk(0, [(20, 2)]), epoch=3, generation=2))
    assert cursor.epoch == 3
    cursor.start(Position(next_seq=9, watermark_ms=90), 2)
    assert cursor.epoch == 3


def test_an_answer_says_nothing_about_what_a_crossing_filters() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)])))
    cursor.cross(Position(next_seq=3, watermark_ms=5), 2)
    assert cursor.stand_at(chunk(3, [(5, 0)]), 2).chunk is None
    assert cursor.crossing
    cursor.receive(data(chunk(3, [(20, 1)]), generation=2))
    assert cursor.stand_at(chunk(4, [(30, 0)]), 1).chunk is None
    assert cursor.stand_at(chunk(4, [(30, 0)]), 2).chunk is not None
    assert cursor.position == Position(next_seq=4, watermark_ms=30)


def test_a_given_up_state_is_not_listened_to() -> None:
    cursor = started(3)
    cursor.receive(data(chunk(0, [(10, 2)]), generation=3))
    assert cursor.receive(data(chunk(2, [(20, 1)]), generation=1)).receipt is Receipt.STALE


def test_a_hole_is_crossed_with_its_size() -> None:
    cursor = started()
    cursor.receive(data(chunk(0, [(10, 2)])))
    after = chunk(5, [(30, 1)])
    assert cursor.skip_to(after) == 3
    received = cursor.receive(data(after))
    assert received.moved
    assert numbers([received.chunk] if received.chunk else []) == [5]
