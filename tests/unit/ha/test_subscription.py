from ha.cursor import StreamCursor
from ha.messages import Subscribed
from ha.subscription import RETRY_US, Subscription
from streams.chunk import Position


def answer(position: Position, generation: int = 1) -> Subscribed:
    return Subscribed(stream="s", consumer="c", position=position, epoch=1, generation=generation)


def subscription() -> Subscription:
    made = Subscription("s", "c")
    made.use(("primary", "secondary"), {"primary", "secondary"})
    return made


def asked(made: Subscription, cursor: StreamCursor, now_us: int) -> list[str]:
    return [node for node, _ in made.requests(cursor, now_us)]


def test_asks_every_replica_and_repeats_until_answered() -> None:
    made, cursor = subscription(), StreamCursor()
    assert asked(made, cursor, 0) == ["primary", "secondary"]
    assert asked(made, cursor, RETRY_US - 1) == []
    made.answered("primary", answer(Position()), cursor)
    assert asked(made, cursor, RETRY_US) == ["secondary"]
    made.answered("secondary", answer(Position()), cursor)
    assert made.confirmed


def test_the_latest_beginning_counts_until_data_has_come() -> None:
    made, cursor = subscription(), StreamCursor()
    made.answered("secondary", answer(Position(next_seq=7, watermark_ms=70)), cursor)
    made.answered("primary", answer(Position(next_seq=9, watermark_ms=90)), cursor)
    made.answered("secondary", answer(Position(next_seq=8, watermark_ms=80)), cursor)
    assert cursor.position == Position(next_seq=9, watermark_ms=90)
    assert not made.unrecoverable("primary", cursor)


def test_a_position_of_ones_own_is_not_moved_by_completed_timestamps() -> None:
    made, cursor = subscription(), StreamCursor()
    cursor.start(Position(next_seq=3, watermark_ms=30), 1)
    made.answered("primary", answer(Position(next_seq=9, watermark_ms=90)), cursor)
    assert cursor.position == Position(next_seq=3, watermark_ms=30)


def test_a_renewed_producer_is_asked_again() -> None:
    made, cursor = subscription(), StreamCursor()
    for node in made.producers:
        made.answered(node, answer(Position()), cursor)
    assert made.use(("primary", "secondary"), {"primary"}) == []
    assert asked(made, cursor, 0) == ["primary"]


def test_names_the_producers_it_leaves() -> None:
    assert subscription().use(("primary",), set()) == ["secondary"]


def test_a_gap_is_asked_for_once() -> None:
    made, cursor = subscription(), StreamCursor()
    made.answered("primary", answer(Position()), cursor)
    request = made.missing("primary", cursor, 5)
    assert request is not None
    assert request.position == Position()
    assert made.missing("primary", cursor, 6) is None


def test_a_gap_is_lost_only_if_the_producer_no_longer_has_it() -> None:
    made, cursor = subscription(), StreamCursor()
    cursor.start(Position(next_seq=3, watermark_ms=30), 1)
    made.answered("primary", answer(Position(next_seq=3, watermark_ms=30)), cursor)
    assert not made.unrecoverable("primary", cursor)
    made.answered("primary", answer(Position(next_seq=8, watermark_ms=80)), cursor)
    assert made.unrecoverable("primary", cursor)
    assert made.missing("primary", cursor, 0) is None


def test_acknowledges_to_every_replica_that_has_answered() -> None:
    made, cursor = subscription(), StreamCursor()
    made.answered("primary", answer(Position()), cursor)
    assert [node for node, _ in made.acks(Position(), cursor)] == ["primary"]
