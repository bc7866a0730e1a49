import zlib

import numpy as np
import pytest

from ha.checkpoint import (
    AGAIN_US,
    MOST_STATE_BYTES,
    SEGMENT_BYTES,
    STATES_KEPT,
    CheckpointError,
    CheckpointReceiver,
    CheckpointSender,
    Cut,
    read,
    written,
)
from ha.messages import Checkpoint
from streams.vectors.chunk import Position
from streams.vectors.state import SavedState

MS = 1000
RANDOM = np.random.default_rng(1).bytes(3 * SEGMENT_BYTES)


def at(watermark_ms: int) -> Position:
    return Position(next_seq=watermark_ms, watermark_ms=watermark_ms)


def cut(watermark_ms: int, *pieces: bytes) -> Cut:
    return Cut(
        inputs={"s": (1, at(watermark_ms))},
        output=at(watermark_ms),
        state=SavedState.of(pieces),
    )


def sent(sender: CheckpointSender, found: Cut) -> Checkpoint:
    """The checkpoint for `standby` of a cut that all consumers acknowledge at once."""
    sender.take(lambda: found, found.output, 10**12 + found.output.watermark_ms * MS, 0)
    assert sender.acknowledged(found.output) is found
    return sender.message("standby", "f", 1, 1, found)


@pytest.mark.parametrize("size", [0, 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES])
def test_a_state_is_read_as_it_was_written(size: int) -> None:
    state = RANDOM[:size]
    assert read(written(state, b""), b"") == state
    assert read(written(state, RANDOM[100:]), RANDOM[100:]) == state


def test_only_changes_take_room() -> None:
    changed = RANDOM[:9000] + b"changed" + RANDOM[9000:-7]
    assert sum(map(len, written(changed, RANDOM))) < len(RANDOM) / 50


def test_a_segment_cannot_grow_without_bound() -> None:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bomb = deflater.compress(bytes(10**6)) + deflater.flush()
    assert len(read((bomb, bomb), b"")) == 2 * SEGMENT_BYTES


def test_damage_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="segment 0"):
        read((b"\xff\xff\xff",), b"")


def test_a_cut_is_sent_once_every_consumer_has_acknowledged_it() -> None:
    sender = CheckpointSender()
    sender.take(lambda: cut(50, b"state"), at(50), 0, 0)
    assert sender.acknowledged(None) is None
    assert sender.acknowledged(at(49)) is None
    found = sender.acknowledged(at(50))
    assert found is not None
    assert found.output == at(50)
    assert sender.acknowledged(at(50)) is None


def test_one_cut_at_a_time_and_no_more_often_than_wanted() -> None:
    sender, taken = CheckpointSender(), list[int]()

    def take(watermark_ms: int, now_us: int) -> None:
        def found() -> Cut:
            taken.append(watermark_ms)
            return cut(watermark_ms)

        sender.take(found, at(watermark_ms), now_us, 100 * MS)

    take(10, 0)
    take(20, 200 * MS)
    assert sender.acknowledged(at(20)) is not None
    take(20, 50 * MS)
    take(10, 200 * MS)
    take(20, 200 * MS)
    assert taken == [10, 20]


def test_a_replica_that_cannot_be_continued_is_asked_again() -> None:
    sender = CheckpointSender()
    sender.take(lambda: None, at(50), 0, 100 * MS)
    sender.take(lambda: cut(50), at(50), 1, 100 * MS)
    assert sender.acknowledged(at(50)) is not None


def test_later_states_are_relative_to_what_the_standby_holds() -> None:
    sender, receiver = CheckpointSender(), CheckpointReceiver()
    first = sent(sender, cut(10, RANDOM))
    assert first.base_ms is None
    assert receiver.receive(first) == cut(10, RANDOM)
    assert receiver.at_ms == 10
    sender.told("standby", 10)
    second = sent(sender, cut(20, RANDOM, b"more"))
    assert second.base_ms == 10
    assert sum(map(len, second.state)) < 1000
    assert receiver.receive(second) == cut(20, RANDOM, b"more")


def test_a_state_that_the_standby_does_not_hold_is_no_base() -> None:
    sender, receiver = CheckpointSender(), CheckpointReceiver()
    sent(sender, cut(10, RANDOM))
    sender.told("standby", 10)
    second = sent(sender, cut(20, RANDOM))
    with pytest.raises(CheckpointError, match="10 ms is not here"):
        receiver.receive(second)
    # A primary that does not have it either writes the whole state.
    sender.told("standby", 7)
    assert sent(sender, cut(30, RANDOM)).base_ms is None


def test_the_state_that_a_standby_holds_is_kept() -> None:
    sender = CheckpointSender()
    sent(sender, cut(10, RANDOM))
    sender.told("standby", 10)
    for ms in range(20, 200, 10):
        assert sent(sender, cut(ms, RANDOM)).base_ms == 10


def test_what_a_former_standby_holds_is_kept_no_longer() -> None:
    sender = CheckpointSender()
    for ms in range(10, 10 * 2 * STATES_KEPT, 10):
        sender.restrict([f"n{ms}"])
        sent(sender, cut(ms, RANDOM))
        sender.told(f"n{ms}", ms)
    # One that comes back has to be told the whole state: nobody keeps the one that it had.
    sender.told("standby", 10)
    assert sent(sender, cut(500, RANDOM)).base_ms is None


def test_the_newest_state_is_kept_though_standbys_hold_many_others() -> None:
    sender = CheckpointSender()
    for ms in range(10, 10 * STATES_KEPT + 10, 10):
        sent(sender, cut(ms, RANDOM))
        sender.told(f"n{ms}", ms)
    assert sent(sender, cut(500, RANDOM)).base_ms is None


def test_a_standby_has_the_states_between_what_it_said_and_the_newest() -> None:
    sender, receiver = CheckpointSender(), CheckpointReceiver()
    for ms in (10, 20, 30):
        receiver.receive(sent(sender, cut(ms, RANDOM, bytes(ms))))
    sender.told("standby", 10)
    for ms in (40, 50, 60):
        # It says so late which one it holds.
        later = sent(sender, cut(ms, RANDOM, bytes(ms)))
        assert later.base_ms is not None
        assert receiver.receive(later) == cut(ms, RANDOM, bytes(ms))
        if ms == 40:
            sender.told("standby", 20)


def test_a_checkpoint_that_was_lost_is_sent_again() -> None:
    sender = CheckpointSender()
    found = cut(10, RANDOM)
    sender.take(lambda: found, found.output, 0, 0)
    assert sender.due("standby", 0) is None
    sender.acknowledged(found.output)
    assert sender.due("standby", 1) is found
    assert sender.due("third", 1) is found
    assert sender.due("standby", AGAIN_US) is None
    assert sender.due("standby", AGAIN_US + 1) is found
    sender.told("standby", 10)
    assert sender.due("standby", 3 * AGAIN_US) is None


def test_a_state_that_is_too_large_is_not_sent() -> None:
    sender = CheckpointSender()
    sender.take(lambda: cut(10, bytes(MOST_STATE_BYTES)), at(10), 0, 0)
    assert sender.acknowledged(at(10)) is None
    assert sender.too_large == 1
    assert sender.state_bytes is not None
    assert sender.state_bytes > MOST_STATE_BYTES
