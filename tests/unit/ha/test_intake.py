from ha.intake import RETRY_US, Intake
from ha.messages import Subscribed
from ha.receiver import Receiver
from streams.chunk import Position


def answer(position: Position, generation: int = 1) -> Subscribed:
    return Subscribed(stream="s", consumer="c", position=position, epoch=1, generation=generation)


def intake() -> Intake:
    made = Intake("s", "c")
    made.use(("primary", "secondary"), {"primary", "secondary"})
    return made


def asked(made: Intake, receiver: Receiver, now_us: int) -> list[str]:
    return [node for node, _ in made.requests(receiver, now_us)]


def test_asks_every_copy_and_repeats_until_answered() -> None:
    made, receiver = intake(), Receiver()
    assert asked(made, receiver, 0) == ["primary", "secondary"]
    assert asked(made, receiver, RETRY_US - 1) == []
    made.answered("primary", answer(Position()), receiver)
    assert asked(made, receiver, RETRY_US) == ["secondary"]
    made.answered("secondary", answer(Position()), receiver)
    assert made.confirmed


def test_the_latest_beginning_counts_until_data_has_come() -> None:
    made, receiver = intake(), Receiver()
    made.answered("secondary", answer(Position(next_seq=7, progress_ms=70)), receiver)
    made.answered("primary", answer(Position(next_seq=9, progress_ms=90)), receiver)
    made.answered("secondary", answer(Position(next_seq=8, progress_ms=80)), receiver)
    assert receiver.position == Position(next_seq=9, progress_ms=90)
    assert not made.unrecoverable("primary", receiver)


def test_a_position_of_ones_own_is_not_moved_by_answers() -> None:
    made, receiver = intake(), Receiver()
    receiver.start(Position(next_seq=3, progress_ms=30), 1)
    made.answered("primary", answer(Position(next_seq=9, progress_ms=90)), receiver)
    assert receiver.position == Position(next_seq=3, progress_ms=30)


def test_a_renewed_producer_is_asked_again() -> None:
    made, receiver = intake(), Receiver()
    for node in made.producers:
        made.answered(node, answer(Position()), receiver)
    assert made.use(("primary", "secondary"), {"primary"}) == []
    assert asked(made, receiver, 0) == ["primary"]


def test_names_the_producers_it_leaves() -> None:
    assert intake().use(("primary",), set()) == ["secondary"]


def test_a_gap_is_asked_for_once() -> None:
    made, receiver = intake(), Receiver()
    made.answered("primary", answer(Position()), receiver)
    request = made.missing("primary", receiver, 5)
    assert request is not None
    assert request.position == Position()
    assert made.missing("primary", receiver, 6) is None


def test_a_gap_is_lost_only_if_the_producer_no_longer_has_it() -> None:
    made, receiver = intake(), Receiver()
    receiver.start(Position(next_seq=3, progress_ms=30), 1)
    made.answered("primary", answer(Position(next_seq=3, progress_ms=30)), receiver)
    assert not made.unrecoverable("primary", receiver)
    made.answered("primary", answer(Position(next_seq=8, progress_ms=80)), receiver)
    assert made.unrecoverable("primary", receiver)
    assert made.missing("primary", receiver, 0) is None


def test_acknowledges_to_every_copy_that_has_answered() -> None:
    made, receiver = intake(), Receiver()
    made.answered("primary", answer(Position()), receiver)
    assert [node for node, _ in made.acks(Position(), receiver)] == ["primary"]
