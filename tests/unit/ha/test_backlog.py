import msgspec

from ha.backlog import Backlog
from ha.messages import Data
from streams.vectors.chunk import Chunk
from tests.driven_host import data
from tests.streams_of_numbers import chunk, numbers, watermarks_ms

MUCH = 1 << 20

FIRST = data(chunk(0, [(10, 1)]))
SECOND = data(chunk(1, [(20, 2), (30, 0)]))
THIRD = data(chunk(3, [(40, 1)]))


def waited(*parts: Data, readers: tuple[str, ...] = ("a", "b")) -> Backlog:
    """A backlog of readers that have received `FIRST`, with what came since then."""
    backlog = Backlog()
    for reader in readers:
        backlog.wait(reader, FIRST, idle=False)
    for part in parts:
        assert backlog.woken_by(part, MUCH) == ()
        backlog.add(part)
    return backlog


def taken(backlog: Backlog, reader: str) -> Chunk:
    found = backlog.take(reader)
    assert found is not None
    return found.chunk


def test_a_reader_takes_everything_since_it_waits_as_one_chunk() -> None:
    backlog = waited(SECOND, THIRD)
    found = taken(backlog, "a")
    assert found.first_seq == 1
    assert numbers([found]) == [1, 2, 3]
    assert watermarks_ms([found]) == [20, 30, 40]


def test_readers_that_wait_equally_long_share_the_chunk() -> None:
    backlog = waited(SECOND, THIRD)
    assert taken(backlog, "a") is taken(backlog, "b")


def test_what_everybody_has_taken_is_kept_no_longer() -> None:
    backlog = waited(SECOND)
    assert backlog.size_bytes == SECOND.chunk.size_bytes
    assert numbers([taken(backlog, "a")]) == [1, 2]
    backlog.wait("a", SECOND, idle=False)
    backlog.add(THIRD)
    assert numbers([taken(backlog, "b")]) == [1, 2, 3]
    assert backlog.size_bytes == THIRD.chunk.size_bytes
    assert numbers([taken(backlog, "a")]) == [3]
    assert backlog.size_bytes == 0


def test_a_reader_that_has_no_use_for_it_keeps_nothing() -> None:
    backlog = waited(SECOND)
    backlog.leave(["a", "b", "somebody else"])
    assert backlog.size_bytes == 0
    assert backlog.take("a") is None


def test_the_host_has_the_stream_up_to_the_last_chunk_for_those_that_wait() -> None:
    backlog = waited(SECOND, THIRD)
    assert backlog.end_for("a") == THIRD.chunk.end
    assert backlog.end_for("somebody else") is None


def test_nobody_waits_for_data_that_does_not_follow() -> None:
    backlog = waited()
    everybody = ("a", "b")
    assert backlog.woken_by(THIRD, MUCH) == everybody
    assert backlog.woken_by(FIRST, MUCH) == everybody
    assert backlog.woken_by(msgspec.structs.replace(SECOND, generation=2), MUCH) == everybody
    assert backlog.woken_by(msgspec.structs.replace(SECOND, epoch=2), MUCH) == everybody
    assert backlog.woken_by(SECOND, MUCH) == ()


def test_nobody_waits_for_more_than_may_be_kept() -> None:
    backlog = waited(SECOND)
    most_bytes = SECOND.chunk.size_bytes + THIRD.chunk.size_bytes
    assert backlog.woken_by(THIRD, most_bytes) == ()
    assert backlog.woken_by(THIRD, most_bytes - 1) == ("a", "b")


def test_tuples_wake_those_that_wait_with_nothing_but_watermarks() -> None:
    backlog = waited(readers=("busy",))
    backlog.wait("idle", FIRST, idle=True)
    assert backlog.woken_by(data(chunk(1, [(20, 0)])), MUCH) == ()
    assert backlog.woken_by(SECOND, MUCH) == ("idle",)


def test_what_waited_departs_from_where_the_first_of_it_said() -> None:
    """Whoever stands in for a producer may not have heard yet of what that has crossed."""
    backlog = waited(msgspec.structs.replace(SECOND, departs_ms=15), THIRD)
    found = backlog.take("a")
    assert found is not None
    assert found.departs_ms == 15
