from ha.messages import Subscribed
from ha.subscription import RETRY_US, StreamCursor, Subscription
from streams.chunk import Position


def answer(position: Position, generation: int = 1) -> Subscribed:
    return Subscribed(stream="s", consumer="c", position=position, epoch=1, generation=generation)


def subscription() -> Subscription:
    made = Subscription("s", "c", StreamCursor())
    made.use(("primary", "secondary"), {"primary", "secondary"})
    return made


def asked(made: Subscription, now_us: int) -> list[str]:
    return [node for node, _ in made.requests(now_us)]


def test_asks_every_replica_and_repeats_until_answered() -> None:
    made = subscription()
    assert asked(made, 0) == ["primary", "secondary"]
    assert asked(made, RETRY_US - 1) == []
    made.answered("primary", answer(Position()))
    assert asked(made, RETRY_US) == ["secondary"]
    made.answered("secondary", answer(Position()))
    assert made.confirmed


def test_the_latest_offered_position_counts_until_data_arrives() -> None:
    made = subscription()
    made.answered("secondary", answer(Position(next_seq=7, watermark_ms=70)))
    made.answered("primary", answer(Position(next_seq=9, watermark_ms=90)))
    made.answered("secondary", answer(Position(next_seq=8, watermark_ms=80)))
    assert made.cursor.position == Position(next_seq=9, watermark_ms=90)
    assert not made.unrecoverable("primary")


def test_a_position_of_ones_own_is_not_moved_by_producers() -> None:
    made = subscription()
    made.cursor.start(Position(next_seq=3, watermark_ms=30), 1)
    made.answered("primary", answer(Position(next_seq=9, watermark_ms=90)))
    assert made.cursor.position == Position(next_seq=3, watermark_ms=30)


def test_a_renewed_producer_is_asked_again() -> None:
    made = subscription()
    for node in made.producers:
        made.answered(node, answer(Position()))
    assert made.use(("primary", "secondary"), {"primary"}) == []
    assert asked(made, 0) == ["primary"]


def test_names_the_producers_it_unsubscribes_from() -> None:
    assert subscription().use(("primary",), set()) == ["secondary"]


def test_a_gap_is_asked_for_once() -> None:
    made = subscription()
    made.answered("primary", answer(Position()))
    request = made.missing("primary", 5)
    assert request is not None
    assert request.position == Position()
    assert made.missing("primary", 6) is None


def test_a_gap_is_lost_only_if_the_producer_no_longer_has_it() -> None:
    made = subscription()
    made.cursor.start(Position(next_seq=3, watermark_ms=30), 1)
    made.answered("primary", answer(Position(next_seq=3, watermark_ms=30)))
    assert not made.unrecoverable("primary")
    made.answered("primary", answer(Position(next_seq=8, watermark_ms=80)))
    assert made.unrecoverable("primary")
    assert made.missing("primary", 0) is None


def test_acknowledges_to_every_replica_that_has_answered() -> None:
    made = subscription()
    made.answered("primary", answer(Position()))
    assert [node for node, _ in made.acks(Position())] == ["primary"]
