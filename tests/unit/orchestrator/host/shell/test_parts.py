"""Messages cut into parts and joined again; parts that are lost, repeated or made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.host.shell.pace import StatePace
from orchestrator.host.shell.parts import (
    BULK,
    IN_ORDER,
    PART_BYTES,
    PART_FRAMES,
    PARTS_UNDER_WAY,
    STALLED_US,
    BulkLane,
    Joiner,
    parts,
)

LARGE = [b"head", b"x" * (3 * PART_BYTES + 5), b"", b"end"]

sizes = st.sampled_from([0, 1, 7, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES])


def joined(joiner: Joiner, made: list[list[bytes]], now_us: int = 0) -> list[list[bytes]]:
    """The messages that come out of the parts."""
    taken = [joiner.take(part, now_us).message for part in made]
    return [message for message in taken if message is not None]


@given(st.lists(sizes, min_size=1, max_size=6))
def test_cut_and_joined_messages_are_equal(lengths: list[int]) -> None:
    frames = [bytes([number]) * length for number, length in enumerate(lengths)]
    made = list(parts(IN_ORDER, 1, frames))
    assert all(sum(map(len, part[1:])) <= PART_BYTES for part in made)
    assert joined(Joiner(Counter()), made) == [frames]


def test_a_lost_part_costs_its_message_and_no_other() -> None:
    counters: Counter[str] = Counter()
    joiner = Joiner(counters)
    first, second = list(parts(BULK, 1, LARGE)), list(parts(BULK, 2, LARGE))
    assert len(first) == 4
    assert joined(joiner, [*first[:1], *first[2:], *second]) == [LARGE]
    assert counters == {"messages_cut_short": 1, "parts_refused": 2}


def test_a_message_that_is_cut_short_makes_room_for_the_next() -> None:
    counters: Counter[str] = Counter()
    joiner = Joiner(counters)
    assert joined(joiner, list(parts(BULK, 1, LARGE))[:2]) == []
    joiner.drop_stalled(STALLED_US)
    assert counters == {}
    joiner.drop_stalled(STALLED_US + 1)
    assert counters == {"messages_cut_short": 1}
    assert joined(joiner, list(parts(BULK, 2, LARGE))) == [LARGE]


def test_the_lanes_do_not_mix() -> None:
    joiner = Joiner(Counter())
    one, other = parts(BULK, 1, LARGE), parts(IN_ORDER, 1, [*LARGE, b"other"])
    mixed = [part for pair in zip(one, other, strict=True) for part in pair]
    assert joined(joiner, mixed) == [LARGE, [*LARGE, b"other"]]


def test_more_than_the_bound_is_not_joined() -> None:
    counters: Counter[str] = Counter()
    joiner = Joiner(counters, max_bytes=2 * PART_BYTES)
    assert joined(joiner, list(parts(BULK, 1, LARGE))) == []
    assert counters["messages_cut_short"] == 1


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=5))
def test_made_up_parts_are_refused(made_up: list[list[bytes]]) -> None:
    joiner = Joiner(Counter())
    joined(joiner, made_up)
    assert joined(joiner, list(parts(BULK, 9, LARGE))) == [LARGE]


def endless() -> Iterator[bytes]:
    while True:
        yield b"x" * PART_BYTES


def test_no_more_than_a_window_is_under_way() -> None:
    lane = BulkLane(Counter())
    lane.send("state", endless())
    assert lane.ready
    assert len(list(lane.due(0, 4))) == 4
    assert len(list(lane.due(0, 100))) == PARTS_UNDER_WAY - 4
    assert not lane.ready
    lane.confirm(1, 5)
    assert lane.ready
    assert len(list(lane.due(5, 100))) == 1
    # A confirmation of another message moves nothing.
    lane.confirm(7, 6)
    assert list(lane.due(6, 100)) == []


def test_one_message_follows_the_other_and_repeated_ones_are_dropped() -> None:
    counters: Counter[str] = Counter()
    lane, joiner = BulkLane(counters), Joiner(Counter())
    lane.send("a", [b"first"])
    lane.send("b", [b"second"])
    lane.send("b", [b"again"])
    assert list(lane.due(0, 0)) == []
    lane.send("a", [b"again"])
    assert counters == {"bulk_messages_repeated": 2}
    made = [*lane.due(0, 10), *lane.due(0, 10)]
    assert joined(joiner, made) == [[b"first"], [b"second"]]
    assert not lane.ready


def test_many_small_frames_make_many_parts() -> None:
    frames = [b"small"] * (2 * PART_FRAMES + 1)
    made = list(parts(BULK, 1, frames))
    assert [len(part) - 1 for part in made] == [PART_FRAMES, PART_FRAMES, 1]
    assert joined(Joiner(Counter()), made) == [frames]


def test_a_message_is_on_its_way_until_its_last_part_is_made() -> None:
    lane = BulkLane(Counter())
    assert not lane.is_sending("a")
    lane.send("a", LARGE)
    lane.send("b", [b"second"])
    assert (lane.is_sending("a"), lane.is_sending("b"), lane.is_sending("c")) == (True, True, False)
    assert len(list(lane.due(0, 1))) == 1
    assert lane.is_sending("a")
    list(lane.due(0, 100))
    assert (lane.is_sending("a"), lane.is_sending("b")) == (False, True)
    list(lane.due(0, 100))
    list(lane.due(0, 100))
    assert not lane.is_sending("b")


def test_a_message_that_nobody_confirms_is_given_up() -> None:
    counters: Counter[str] = Counter()
    lane = BulkLane(counters)
    lane.send("state", endless())
    lane.send("other", [b"other"])
    assert len(list(lane.due(0, 100))) == PARTS_UNDER_WAY
    assert list(lane.due(STALLED_US, 100)) == []
    assert len(list(lane.due(STALLED_US + 1, 100))) == 1
    assert counters["bulk_messages_given_up"] == 1


def test_a_message_that_cannot_be_written_to_its_end_is_given_up() -> None:
    def broken() -> Iterator[bytes]:
        yield from [bytes(PART_BYTES)] * 2
        raise RuntimeError("a group that cannot be written")

    counters: Counter[str] = Counter()
    lane = BulkLane(counters)
    lane.send("state", broken())
    lane.send("other", [b"other"])
    list(lane.due(0, 100))
    assert counters["bulk_messages_given_up"] == 1
    (only,) = lane.due(0, 100)
    assert only[-1] == b"other"


def test_a_message_keeps_to_its_own_pace_and_the_next_one_to_none() -> None:
    lane = BulkLane(Counter())
    lane.send("throttled", [bytes(PART_BYTES)] * 2, StatePace(PART_BYTES))
    lane.send("free", [bytes(PART_BYTES)] * 3)
    assert len([*lane.due(0, 10)]) == 1
    assert lane.ready
    # A second for a part, and a little for its header.
    assert 1_000_000 <= lane.free_us < 1_001_000
    assert not [*lane.due(lane.free_us - 1, 10)]
    at_us = lane.free_us
    assert len([*lane.due(at_us, 10)]) == 1
    assert not [*lane.due(lane.free_us, 10)]
    assert len([*lane.due(at_us, 10)]) == 3
