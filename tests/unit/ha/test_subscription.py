import pytest

from ha.beginning import Beginning
from ha.cursor import StreamCursor
from ha.messages import Data, Offer, Subscribe, Subscribed
from ha.subscription import PATIENCE_US, REPEATED_US, RETRY_US, STALLED_US, Subscription
from streams.vectors.chunk import Position
from tests.streams_of_numbers import chunk

AT_30 = Position(next_seq=3, watermark_ms=30)
AT_80 = Position(next_seq=8, watermark_ms=80)


def answer(position: Position, generation: int = 1, request: int = 0) -> Subscribed:
    return Subscribed(
        stream="s", position=position, epoch=1, generation=generation, request=request
    )


def subscription(*cursors: StreamCursor) -> Subscription:
    made = Subscription("s")
    made.use(("primary", "secondary"), {"primary", "secondary"})
    readers = cursors or (StreamCursor(),)
    made.read_by({f"r{i}": cursor for i, cursor in enumerate(readers)}, patient=False)
    return made


def at(position: Position, generation: int = 1) -> StreamCursor:
    cursor = StreamCursor()
    cursor.start(position, generation)
    return cursor


def confirmed(*cursors: StreamCursor) -> Subscription:
    made = subscription(*cursors)
    for node in made.producers:
        made.answered(node, answer(Position()))
    return made


def offer(watermark_ms: int, *, sent: bool, generation: int = 1) -> Offer:
    return Offer(generation=generation, epoch=1, watermark_ms=watermark_ms, sent=sent)


def departing(generation: int, departs_ms: int | None) -> Data:
    part = chunk(0, [(10, 1)])
    return Data(stream="s", epoch=1, generation=generation, chunk=part, departs_ms=departs_ms)


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
    cursor = StreamCursor()
    made = subscription(cursor)
    made.answered("secondary", answer(Position(next_seq=7, watermark_ms=70)))
    made.answered("primary", answer(Position(next_seq=9, watermark_ms=90)))
    made.answered("secondary", answer(AT_80))
    assert cursor.position == Position(next_seq=9, watermark_ms=90)
    assert not made.unrecoverable("r0", 0)


def test_a_reader_that_begins_from_nothing_says_what_it_needs_and_starts_at_the_earliest() -> None:
    cursor, other = StreamCursor(), StreamCursor()
    cursor.begins = Beginning(after_ms=60, delivered_ms=65)
    other.begins = Beginning(after_ms=50, delivered_ms=70)
    made = subscription(cursor, other, at(AT_80), StreamCursor())
    needs = Beginning(after_ms=50, delivered_ms=65)
    assert [request.begins for _, request in made.requests(0)] == [needs, needs]
    made.answered("secondary", answer(Position(next_seq=7, watermark_ms=70)))
    first = Position(next_seq=6, watermark_ms=60)
    made.answered("primary", answer(first))
    made.answered("secondary", answer(AT_80))
    assert (cursor.position, other.position) == (first, first)
    # It may have been lost, or not answered yet. Once data has come, it has a position.
    made.ask_again()
    assert [request.begins for _, request in made.requests(RETRY_US)] == [needs, needs]
    for each in (cursor, other):
        each.receive(Data(stream="s", epoch=1, generation=1, chunk=chunk(6, [(90, 1)])))
    made.ask_again()
    assert [request.begins for _, request in made.requests(2 * RETRY_US)] == [None, None]


def test_a_producer_that_has_said_where_a_reader_begins_is_asked_for_what_it_lacks() -> None:
    """The primary may keep less than a standby. Asked where to begin, it would say that forever,
    send again what does not follow, and nobody would ask the standby."""
    cursor, ahead = StreamCursor(), at(AT_80)
    cursor.begins = Beginning(after_ms=20, delivered_ms=20)
    made = subscription(cursor, ahead)
    made.requests(0)
    made.answered("secondary", answer(AT_30))
    made.answered("primary", answer(Position(next_seq=5, watermark_ms=50)))
    ((node, request),) = made.requests(1)
    assert (node, request.position, request.begins) == ("primary", AT_30, None)
    made.answered("primary", answer(Position(next_seq=5, watermark_ms=50)))
    assert made.confirmed
    assert made.has_gap("primary")
    assert made.missing("primary", 2) is None
    ((node, request),) = made.ask_others("primary", 2)
    assert (node, request.position, request.feed) == ("secondary", AT_30, True)


@pytest.mark.parametrize("before", ["unanswered", "renewed", "another reader came"])
def test_a_producer_that_has_yet_to_say_where_a_reader_begins_is_asked_that(before: str) -> None:
    """It may have more than those that have answered."""
    cursor, ahead = StreamCursor(), at(AT_80)
    cursor.begins = Beginning(after_ms=20, delivered_ms=20)
    readers = {"r0": cursor, "r1": ahead}
    made = subscription(cursor, ahead)
    made.requests(0)
    made.answered("primary", answer(AT_30))
    match before:
        case "unanswered":
            pass
        case "renewed":
            made.answered("secondary", answer(AT_30))
            made.use(("primary", "secondary"), {"secondary"})
        case _:
            made.answered("secondary", answer(AT_30))
            made.read_by(readers | {"r2": at(AT_80)}, patient=False)
    request = dict(made.requests(RETRY_US))["secondary"]
    assert (request.position, request.begins) == (None, cursor.begins)


def test_a_position_of_ones_own_is_not_moved_by_producers() -> None:
    cursor = at(AT_30)
    subscription(cursor).answered("primary", answer(Position(next_seq=9, watermark_ms=90)))
    assert cursor.position == AT_30


def test_a_renewed_producer_is_asked_again() -> None:
    made = confirmed()
    assert made.use(("primary", "secondary"), {"primary"}) == []
    assert asked(made, 0) == ["primary"]


def test_names_the_producers_it_unsubscribes_from() -> None:
    assert subscription().use(("primary",), set()) == ["secondary"]


def test_asks_for_what_the_reader_furthest_behind_needs() -> None:
    made = confirmed(at(AT_80), at(AT_30))
    request = made.missing("primary", 5)
    assert request is not None
    assert (request.position, request.generation) == (AT_30, 1)


def test_a_new_reader_makes_the_host_ask_again_for_all_that_is_kept() -> None:
    one = at(AT_30)
    made = confirmed(one)
    made.read_by({"r0": one}, patient=False)
    assert asked(made, 0) == []
    made.read_by({"r0": one, "r1": StreamCursor()}, patient=False)
    requests = [request for _, request in made.requests(0)]
    assert [(r.position, r.generation) for r in requests] == [(None, 1)] * 2


def test_a_producer_that_passes_over_what_a_reader_lacks_is_asked_for_that() -> None:
    """Its log begins at the end of the stream, and it reads again what is asked for."""
    made = subscription(at(AT_30), StreamCursor())
    ((_, request), _) = made.requests(0)
    assert request.position is None
    made.answered("primary", answer(AT_80))
    assert not made.confirmed
    ((_, request),) = made.requests(0)
    assert (request.position, request.generation) == (AT_30, 1)
    made.answered("secondary", answer(AT_30))
    made.answered("primary", answer(AT_30))
    assert made.confirmed


def test_a_gap_is_asked_for_once() -> None:
    made = confirmed()
    request = made.missing("primary", 5)
    assert request is not None
    assert request.position == Position()
    assert made.missing("primary", 6) is None


def test_tuples_are_lost_only_if_no_producer_has_them() -> None:
    made = confirmed(at(AT_30))
    made.answered("primary", answer(AT_30))
    assert not made.has_gap("primary")
    made.answered("primary", answer(AT_80))
    assert made.has_gap("primary")
    assert not made.unrecoverable("r0", 0), "the secondary may have them"
    ((node, request),) = made.ask_others("primary", 0)
    assert (node, request.feed, request.position) == ("secondary", True, AT_30)
    assert made.ask_others("primary", 0) == []
    assert not made.unrecoverable("r0", 0), "the secondary has not answered"
    made.answered("secondary", answer(AT_80))
    assert made.unrecoverable("r0", 0)


def test_a_producer_that_was_to_fill_a_hole_and_has_started_over_is_asked_again() -> None:
    made = confirmed(at(AT_30))
    made.answered("primary", answer(AT_80))
    made.ask_others("primary", 0)
    made.answered("secondary", answer(AT_30))
    assert made.ask_others("primary", RETRY_US - 1) == []
    ((node, request),) = made.ask_others("primary", RETRY_US)
    assert (node, request.feed) == ("secondary", True)
    made.answered("secondary", answer(AT_80))
    assert made.unrecoverable("r0", RETRY_US)


def test_a_producer_that_no_longer_keeps_what_is_missing_is_not_asked_again() -> None:
    made = confirmed(at(AT_30))
    made.answered("primary", answer(AT_80))
    assert made.missing("primary", 0) is None
    assert made.missing("secondary", 0) is not None


def test_a_producer_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    made = confirmed(at(AT_30))
    made.answered("primary", answer(AT_80))
    made.ask_others("primary", 1000)
    made.requests(1000 + RETRY_US)
    assert not made.unrecoverable("r0", 999 + PATIENCE_US)
    assert made.unrecoverable("r0", 1000 + PATIENCE_US)


def test_a_producer_that_sends_is_waited_for_until_it_responds() -> None:
    """A link that was cut lets data through before the answer to what was asked meanwhile, and on a
    busy machine an answer may come after a minute of data."""
    made = confirmed(at(AT_30))
    made.answered("primary", answer(AT_80))
    made.ask_others("primary", 1000)
    heard_us = 0
    for heard_us in range(1000 + PATIENCE_US, 5 * PATIENCE_US, RETRY_US):
        made.heard("secondary", 1, heard_us)
        assert not made.unrecoverable("r0", heard_us)
    assert not made.unrecoverable("r0", heard_us + PATIENCE_US - 1)
    assert made.unrecoverable("r0", heard_us + PATIENCE_US), "it has ended"


def test_a_producer_that_sends_what_is_over_is_not_waited_for() -> None:
    made = confirmed(at(AT_30, 2))
    made.answered("primary", answer(AT_80, 2))
    made.ask_others("primary", 1000)
    made.begin_generation(2)
    made.heard("secondary", 1, PATIENCE_US)
    assert made.unrecoverable("r0", 1000 + PATIENCE_US)


def test_responses_to_what_was_asked_before_a_reader_went_back_are_none() -> None:
    """A producer that is slow to start responds to each request that was repeated meanwhile. The
    reader asked from nowhere until it had read its checkpoint, so they say where the producer's log
    begins, and that is no hole for the reader."""
    cursor = StreamCursor()
    made = Subscription("s")
    made.use(("primary",), set())
    made.read_by({"r0": cursor}, patient=False)
    numbers = [made.requests(us)[0][1].number for us in range(0, 60 * RETRY_US, RETRY_US)]
    cursor.resume(AT_30, 1)
    made.ask_anew()
    back_us = 60 * RETRY_US
    ((_, request),) = made.requests(back_us)
    assert request.position == AT_30
    made.heard("primary", 1, back_us + 1)
    for number in numbers:
        made.answered("primary", answer(AT_80, request=number))
        assert made.begins_for("r0") is None
        assert not made.unrecoverable("r0", back_us + 1)
    made.answered("primary", answer(AT_30, request=request.number))
    assert made.confirmed
    assert not made.unrecoverable("r0", back_us + PATIENCE_US)


def test_a_request_says_which_earlier_ones_it_repeats() -> None:
    """A producer that has responded to one of these has sent the output, too."""
    made = subscription(at(AT_30))

    def told(us: int) -> tuple[int, int]:
        ((_, request),) = [each for each in made.requests(us) if each[0] == "primary"]
        return request.first, request.number

    assert [told(us) for us in (0, RETRY_US, 2 * RETRY_US)] == [(1, 1), (1, 2), (1, 3)]
    made.ask_again()
    assert [told(us) for us in (3 * RETRY_US, 4 * RETRY_US)] == [(4, 4), (4, 5)]
    made.answered("primary", answer(Position(), request=5))
    lacking = made.missing("primary", 5 * RETRY_US)
    assert lacking is not None
    assert (lacking.first, lacking.number) == (6, 6)
    assert told(6 * RETRY_US) == (6, 7)


@pytest.mark.parametrize(("awaiting", "sent"), [(("r0", "r1"), False), (("r0",), True), ((), True)])
def test_a_host_whose_readers_all_give_up_what_comes_asks_to_be_sent_nothing(
    awaiting: tuple[str, ...], *, sent: bool
) -> None:
    made = Subscription("s", awaits=awaiting.__contains__)
    made.use(("primary",), set())
    made.read_by({"r0": StreamCursor(), "r1": at(AT_30)}, patient=False)
    ((_, request),) = made.requests(0)
    assert request.awaits is not sent


def test_who_awaits_its_state_keeps_nobody_from_asking_for_what_follows_its_own() -> None:
    """The two go on from checkpoints, and one of these has been read. Asked from nowhere, the
    producer would send its whole log to it, and that begins beyond its position."""
    cursor, awaiting = at(AT_30), StreamCursor()
    waits = {"r1"}
    made = Subscription("s", awaits=waits.__contains__, demands=lambda _: True)
    made.use(("primary",), set())
    made.read_by({"r0": cursor, "r1": awaiting}, patient=False)
    ((_, request),) = made.requests(0)
    assert (request.position, request.awaits, request.keeps) == (AT_30, False, True)
    made.answered("primary", answer(AT_30, request=request.number))
    # What the other needs is not known yet.
    assert awaiting.position is None
    assert made.acks({"r0": AT_80, "r1": None}) == []
    waits.clear()
    awaiting.resume(Position(), 1)
    made.ask_anew()
    ((_, request),) = made.requests(RETRY_US)
    assert (request.position, request.keeps) == (Position(), False)


def test_output_that_was_sent_and_has_not_arrived_is_asked_for_at_once() -> None:
    made = confirmed(at(AT_30))
    assert made.offered("primary", offer(30, sent=True), 0) == []
    assert made.offered("primary", offer(40, sent=False), 0) == []
    ((node, request),) = made.offered("primary", offer(40, sent=True), 0)
    assert (node, request.position, request.feed) == ("primary", AT_30, False)
    assert made.offered("primary", offer(50, sent=True), 0) == [], "it is being asked"


def test_a_standby_that_is_ahead_is_asked_to_feed_until_the_primary_sends_again() -> None:
    made = confirmed(at(AT_30))
    made.accepted("primary", 1000)
    ahead = offer(90, sent=False)
    assert made.offered("secondary", ahead, 999 + STALLED_US) == []
    ((node, request),) = made.offered("secondary", ahead, 1000 + STALLED_US)
    assert (node, request.feed) == ("secondary", True)
    made.answered("secondary", answer(AT_30))
    assert made.offered("secondary", ahead, 9000 + STALLED_US) == []
    assert made.accepted("secondary", 9000 + STALLED_US) == []
    ((node, request),) = made.accepted("primary", 9001 + STALLED_US)
    assert (node, request.feed) == ("secondary", False)


def test_a_standby_that_feeds_and_becomes_the_primary_no_longer_stands_in() -> None:
    made = confirmed(at(AT_30))
    made.accepted("primary", 1000)
    ahead = offer(90, sent=False)
    assert len(made.offered("secondary", ahead, 1000 + STALLED_US)) == 1
    assert made.stood_in
    made.accepted("secondary", 1001 + STALLED_US)
    assert made.stood_in
    made.use(("secondary", "primary"), set())
    made.answered("secondary", answer(AT_30))
    assert made.accepted("secondary", 1002 + STALLED_US) == [], "nobody else feeds this host"
    assert not made.stood_in


def test_a_primary_that_sends_again_what_a_nearer_standby_has_sent_before_is_heard() -> None:
    """Otherwise a standby that is nearer would feed this host for ever."""
    cursor = at(AT_30)
    made = confirmed(cursor)
    made.offered("secondary", offer(90, sent=False), STALLED_US)
    made.answered("secondary", answer(AT_30))
    cursor.resume(Position(next_seq=9, watermark_ms=90), 1)
    assert made.repeated("primary", 30, STALLED_US) == [], "it had sent that before"
    assert made.repeated("secondary", 60, STALLED_US) == []
    ((node, request),) = made.repeated("primary", 60, STALLED_US)
    assert (node, request.feed) == ("secondary", False)
    assert made.repeated("primary", 70, STALLED_US) == []


def test_a_newer_generation_is_shown_by_the_producer_that_sends() -> None:
    made = confirmed(at(AT_30))
    assert made.answered("secondary", answer(Position(), generation=2)) == []
    assert made.answered("primary", answer(Position(), generation=2)) == ["r0"]
    assert made.answered("primary", answer(AT_80, generation=1)) == []


def test_an_answer_of_a_generation_that_is_over_is_none() -> None:
    """A producer that has not heard that its stream begins anew would number from elsewhere."""
    cursor = StreamCursor()
    made = subscription(cursor)
    made.begin_generation(2)
    assert made.answered("primary", answer(AT_80, generation=1)) == []
    assert (cursor.position, made.is_answered) == (None, False)
    made.answered("primary", answer(AT_30, generation=2))
    assert (cursor.position, cursor.generation) == (AT_30, 2)


def test_producers_are_asked_again_once_the_generation_is_over_that_they_have_answered_for() -> (
    None
):
    """An observer that has had nothing acknowledges nothing: the founder of the next one would
    never hear of it."""
    made = confirmed(StreamCursor())
    made.begin_generation(1)
    assert made.confirmed
    made.answered("primary", answer(Position(), generation=2))
    made.begin_generation(2)
    assert asked(made, 0) == ["secondary"]
    made.answered("secondary", answer(Position(), generation=1))
    assert asked(made, RETRY_US) == ["secondary"]
    made.answered("secondary", answer(Position(), generation=2))
    assert made.confirmed


def test_a_newer_generation_that_is_offered_is_asked_for() -> None:
    made = confirmed(at(AT_30))
    ((_, request),) = made.offered("primary", offer(10, sent=True, generation=2), 0)
    assert request.generation == 1


@pytest.mark.parametrize("patient", [True, False])
def test_says_whether_output_must_be_kept_for_an_absent_host(patient: bool) -> None:
    made = subscription()
    made.read_by(made.readers, patient=patient)
    assert [r.patient for _, r in made.requests(0)] == [patient] * 2


def test_acknowledges_the_least_to_every_replica_that_has_answered() -> None:
    made = subscription(at(AT_80), at(AT_80))
    made.answered("primary", answer(Position()))
    ((node, ack),) = made.acks({"r0": AT_80, "r1": AT_30})
    assert (node, ack.position, ack.generation) == ("primary", AT_30, 1)
    assert made.acks({"r0": AT_80, "r1": None}) == []


def test_an_acknowledgement_that_says_nothing_new_is_repeated_after_a_while() -> None:
    made = confirmed(at(AT_80))
    before, after = made.acks({"r0": AT_30}), made.acks({"r0": AT_80})
    assert made.acks_due(before, 0)
    assert not made.acks_due(made.acks({"r0": AT_30}), REPEATED_US - 1)
    assert made.acks_due(before, REPEATED_US)
    assert made.acks_due(after, REPEATED_US + 1)
    # What a producer was told before is news again.
    assert made.acks_due(before, REPEATED_US + 2)


def test_acknowledges_nothing_while_readers_are_in_different_generations() -> None:
    made = confirmed(at(AT_80, 1), at(AT_30, 2))
    assert made.acks({"r0": AT_80, "r1": AT_30}) == []


def test_what_readers_have_is_told_with_where_it_departs_from_what_was_sent_before() -> None:
    made = confirmed(at(AT_30, 2), at(AT_80, 2))
    for generation, departs_ms in ((1, 5), (2, 40), (2, None), (2, 25), (1, 3), (2, 60)):
        made.learn_departure(departing(generation, departs_ms))
    ((_, ack), _) = made.acks({"r0": AT_30, "r1": AT_30})
    assert (ack.position, ack.furthest, ack.departs_ms) == (AT_30, AT_80, 25)
    request = made.missing("primary", 0)
    assert request is not None
    assert (request.position, request.furthest, request.departs_ms) == (AT_30, AT_80, 25)
    made.read_by({"r0": at(AT_30, 3)}, patient=False)
    ((_, request), _) = made.requests(0)
    assert (request.furthest, request.departs_ms) == (AT_30, None)


def test_a_reader_without_a_position_hides_nothing_of_what_others_have() -> None:
    ((_, request), _) = subscription(at(AT_80), StreamCursor()).requests(0)
    assert (request.position, request.generation, request.furthest) == (None, 1, AT_80)
    assert request.complete_ms == 80


def test_a_request_tells_up_to_where_the_stream_is_complete_whatever_generation_that_was_of() -> (
    None
):
    crossing = at(AT_80)
    crossing.cross(Position(), 2)
    ((_, request), _) = subscription(crossing, at(AT_30, 2)).requests(0)
    assert (request.position, request.complete_ms) == (Position(), 30)
    ((_, request), _) = subscription(crossing).requests(0)
    assert (request.position, request.complete_ms) == (Position(), 80)


def test_of_readers_that_may_hold_the_producer_up_the_one_counts_that_has_least() -> None:
    made, demanding = confirmed(at(AT_30), at(AT_80)), {"r1"}
    made.demands = demanding.__contains__
    made.ask_again()
    told = {(request.demands, request.complete_ms) for _, request in made.requests(0)}
    assert told == {(True, 80)}
    # A standby has taken over, and nothing was acknowledged since.
    demanding.add("r0")
    made.ask_again()
    assert {request.complete_ms for _, request in made.requests(0)} == {30}
    demanding.clear()
    made.ask_again()
    told = {(request.demands, request.complete_ms) for _, request in made.requests(0)}
    assert told == {(False, 30)}


def test_a_request_names_the_stream() -> None:
    assert subscription().requests(0)[0][1] == Subscribe(
        stream="s", position=None, generation=None, number=1, first=1
    )
