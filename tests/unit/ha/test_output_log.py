from dataclasses import dataclass

import pytest
from msgspec import structs

from ha.beginning import Beginning
from ha.errors import InvariantViolation
from ha.messages import Ack, Data, Offer, Subscribe, Subscribed
from ha.output_log import OutputLog
from ha.producer import acknowledge, feed_subscribers, overdue_offer, subscribe
from ha.subscriber import OVERDUE_AFTER
from streams.vectors.chunk import NO_WATERMARK, Position
from tests.streams_of_numbers import chunk, numbers, schema

ALICE, BOB = "alice", "bob"


def log_of(*timestamp_groups: tuple[int, int]) -> OutputLog:
    log = OutputLog(schema, linger_us=0)
    for timestamp_group in timestamp_groups:
        one = chunk(log.end.next_seq, [timestamp_group])
        log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        log.check_invariants()
    return log


def test_numbers_appended_tuples() -> None:
    log = log_of((10, 2), (20, 0), (30, 1))
    assert log.end == Position(next_seq=3, watermark_ms=30)
    assert numbers(log.chunks()) == [0, 1, 2]


def test_sends_each_chunk_to_each_consumer_once() -> None:
    log = log_of((10, 2), (20, 1))
    log.subscribe(ALICE, None)
    log.subscribe(BOB, Position(next_seq=2, watermark_ms=10))
    assert numbers(log.take_unsent(ALICE)) == [0, 1, 2]
    assert numbers(log.take_unsent(BOB)) == [2]
    assert log.take_unsent(ALICE) == []


def test_keeps_output_until_every_consumer_has_acknowledged_it() -> None:
    log = log_of((10, 2), (20, 1), (30, 1))
    log.subscribe(ALICE, None)
    log.subscribe(BOB, None)
    log.acknowledge(ALICE, log.end)
    assert log.base == Position()
    log.acknowledge(BOB, Position(next_seq=2, watermark_ms=10))
    assert numbers(log.chunks()) == [2, 3]
    assert log.base == Position(next_seq=2, watermark_ms=10)


@pytest.mark.parametrize(
    ("next_seq", "watermark_ms", "other"),
    [
        *((3, 20, False), (2, 20, True), (4, 20, True), (3, 25, False), (3, 29, False)),
        *((4, 30, False), (3, 30, True)),
        # Before the log's beginning there were 2 tuples at most, and after its end there are 4 at
        # least.
        *(
            (2, 5, False),
            (0, 5, False),
            (3, 5, True),
            (4, 40, False),
            (9, 40, False),
            (3, 40, True),
        ),
    ],
)
def test_a_position_is_none_of_an_output_that_numbers_otherwise(
    next_seq: int, watermark_ms: int, *, other: bool
) -> None:
    log = log_of((10, 2), (20, 1), (30, 1))
    log.subscribe(ALICE, None)
    log.acknowledge(ALICE, Position(next_seq=2, watermark_ms=10))
    assert log.base == Position(next_seq=2, watermark_ms=10)
    assert log.contradicts(Position(next_seq=next_seq, watermark_ms=watermark_ms)) == other


def test_keeps_everything_without_subscribers() -> None:
    log = log_of((10, 1), (20, 1))
    assert numbers(log.chunks()) == [0, 1]


def test_keeps_nothing_for_a_consumer_that_left() -> None:
    log = log_of((10, 1), (20, 1))
    log.subscribe(ALICE, None)
    log.subscribe(BOB, None)
    log.acknowledge(ALICE, log.end)
    log.unsubscribe(BOB)
    assert log.chunks() == ()


def test_an_older_acknowledgement_changes_nothing() -> None:
    log = log_of((10, 1), (20, 1))
    log.subscribe(ALICE, None)
    log.acknowledge(ALICE, log.end)
    log.acknowledge(ALICE, Position(next_seq=1, watermark_ms=10))
    assert log.subscribers[ALICE].acknowledged == log.end


def test_takeover_sends_again_from_the_acknowledged_position() -> None:
    log = log_of((10, 2), (20, 1))
    log.subscribe(ALICE, None)
    log.take_unsent(ALICE)
    log.acknowledge(ALICE, Position(next_seq=2, watermark_ms=10))
    log.rewind()
    assert numbers(log.take_unsent(ALICE)) == [2]


def test_a_consumer_from_before_the_log_is_told_where_it_begins() -> None:
    log = log_of((10, 2), (20, 1))
    log.subscribe(ALICE, None)
    log.acknowledge(ALICE, Position(next_seq=2, watermark_ms=10))
    assert log.subscribe(BOB, Position()) == Position(next_seq=2, watermark_ms=10)


def test_overflow_drops_the_oldest_and_counts_it() -> None:
    log = OutputLog(schema, capacity_bytes=3 * chunk(0, [(10, 4)]).size_bytes, linger_us=0)
    log.subscribe(ALICE, None)
    for ts in range(10, 60, 10):
        one = chunk(log.end.next_seq, [(ts, 4)])
        log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        log.check_invariants()
    assert log.overflowed_tuples == 8
    assert numbers(log.chunks()) == list(range(8, 20))


def test_a_log_that_went_back_is_held_up_until_all_readers_have_subscribed() -> None:
    log = OutputLog(schema, capacity_bytes=3 * chunk(0, [(10, 4)]).size_bytes, linger_us=0)
    log.readers = {ALICE, BOB}
    log.keep_whole()
    log.subscribe(ALICE, None)

    def append() -> None:
        one = chunk(log.end.next_seq, [(log.end.next_seq + 10, 4)])
        log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        log.acknowledge(ALICE, log.end)
        log.check_invariants()

    while not log.is_held_up(0, by_credit=True):
        append()
    assert numbers(log.chunks()) == list(range(16))
    # Bob reads from where it begins, and demands what follows.
    log.subscribe(BOB, None)
    log.subscribers[BOB].demanded = log.base
    assert log.is_held_up(0, by_credit=False)
    log.acknowledge(BOB, log.end)
    log.subscribers[BOB].demanded = log.end
    append()
    assert numbers(log.chunks()) == [16, 17, 18, 19]


def test_a_log_of_a_checkpoint_awaits_also_the_readers_that_the_checkpoint_names() -> None:
    """They may have more of the output than it says, or go back behind that."""
    log = log_of((10, 2), (20, 1))
    log.readers = {ALICE}
    log.subscribe(ALICE, log.end)
    assert not log.awaits_readers
    log.keep_whole()
    assert log.awaits_readers
    log.subscribe(ALICE, Position(next_seq=2, watermark_ms=10), number=1)
    assert not log.awaits_readers


def test_refuses_a_chunk_that_does_not_join_up() -> None:
    log = log_of((10, 2))
    with pytest.raises(InvariantViolation, match="sequence 5"):
        log.extend(chunk(5, [(20, 1)]))
    with pytest.raises(InvariantViolation, match="watermark 10"):
        log.extend(chunk(2, [(10, 1)]))


def test_output_lingers_for_consumers_that_are_not_known_yet() -> None:
    log = OutputLog(schema, linger_us=15_000)
    log.subscribe(ALICE, None)
    for ts in (10, 20, 30):
        one = chunk(log.end.next_seq, [(ts, 1)])
        log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
    log.acknowledge(ALICE, log.end)
    assert numbers(log.chunks()) == [1, 2]
    assert log.subscribe(BOB, Position(next_seq=1, watermark_ms=10)) == Position(
        next_seq=1, watermark_ms=10
    )


@dataclass
class Made:
    """A producer in its third generation."""

    log: OutputLog
    feeds_subscribers: bool = True
    accepts_subscribers: bool = True
    stream: str = "s"
    epoch: int = 4
    generation: int = 3
    departs_ms: int | None = None
    primary_ms: int = NO_WATERMARK

    @property
    def complete_ms(self) -> int:
        return max(self.log.end.watermark_ms, self.primary_ms)

    def differs_from(self, node: str) -> bool:
        return False


def ack(position: Position, generation: int = 3) -> Ack:
    return Ack(position=position, epoch=4, generation=generation)


def overdue(made: Made, node: str) -> Offer:
    """What is offered when acknowledgements have not come in time."""
    offers = [overdue_offer(made, node) for _ in range(OVERDUE_AFTER + 1)]
    assert offers[-1] is not None
    return offers[-1]


def test_an_acknowledgement_of_another_generation_trims_nothing() -> None:
    made = Made(log_of((10, 2), (20, 1)))
    made.log.subscribe(ALICE, None)
    acknowledge(made, ALICE, ack(Position(next_seq=2, watermark_ms=10), generation=1), 0)
    assert numbers(made.log.chunks()) == [0, 1, 2]
    acknowledge(made, ALICE, ack(Position(next_seq=2, watermark_ms=10)), 0)
    assert numbers(made.log.chunks()) == [2]


def test_an_acknowledgement_of_a_host_not_known_here_subscribes_it() -> None:
    made = Made(log_of((10, 2), (20, 1)))
    first = ack(Position(next_seq=2, watermark_ms=10))
    assert acknowledge(made, ALICE, first, 0)
    assert acknowledge(made, BOB, ack(Position(next_seq=2, watermark_ms=10), generation=1), 0)
    assert numbers(made.log.take_unsent(ALICE)) == [2]
    assert numbers(made.log.take_unsent(BOB)) == [0, 1, 2]
    assert not acknowledge(made, ALICE, first, 0)


def test_a_position_of_another_generation_says_nothing_about_this_ones_output() -> None:
    made = Made(log_of((10, 2), (20, 1)))
    position = Position(next_seq=2, watermark_ms=10)
    before = Subscribe(stream="s", position=position, generation=1)
    assert started(subscribe(made, ALICE, before, 0)) == Position()
    now = Subscribe(stream="s", position=position, generation=3)
    assert started(subscribe(made, ALICE, now, 0)) == position


def test_subscribers_that_are_sent_the_same_share_the_message() -> None:
    """It is encoded once for all of them."""
    made = Made(log_of((10, 2), (20, 1)))
    made.log.subscribe(ALICE, None)
    made.log.subscribe(BOB, None)
    made.log.subscribe("carol", None, columns=())
    fed: dict[str, list[Data]] = {}
    for node, data in feed_subscribers(made):
        fed.setdefault(node, []).append(data)
    assert len(fed[ALICE]) == len(fed[BOB]) > 0
    assert all(one is other for one, other in zip(fed[ALICE], fed[BOB], strict=True))
    assert [data.columns for data in fed[ALICE]] == [None] * len(fed[ALICE])
    assert [data.columns for data in fed["carol"]] == [()] * len(fed[ALICE])
    whole = [data.chunk.size_bytes for data in fed[ALICE]]
    assert [data.counted_bytes for data in fed["carol"]] == whole


@pytest.mark.parametrize(
    ("asked", "sent"), [((1, 1), None), ((), ()), ((2, 3), None), ((0, 1), None), (None, None)]
)
def test_a_host_that_asks_for_columns_that_there_are_not_is_sent_all(
    asked: tuple[int, ...] | None, sent: tuple[int, ...] | None
) -> None:
    made = Made(log_of((10, 2)))
    request = Subscribe(stream="s", position=None, generation=None, columns=asked)
    subscribe(made, ALICE, request, 0)
    assert {data.columns for _, data in feed_subscribers(made)} == {sent}


def test_a_standby_sends_only_to_those_that_asked_to_be_fed() -> None:
    made = Made(log_of((10, 2)), feeds_subscribers=False)
    made.log.subscribe(ALICE, None, feed=True)
    made.log.subscribe(BOB, None)
    assert [node for node, _ in feed_subscribers(made)] == [ALICE]
    assert [overdue(made, node).sent for node in (ALICE, BOB)] == [True, False]


def test_an_offer_says_whether_everything_was_sent() -> None:
    made = Made(log_of((10, 2)))
    made.log.subscribe(ALICE, None)
    assert not overdue(made, ALICE).sent
    list(feed_subscribers(made))
    assert overdue(made, ALICE).sent
    assert overdue(made, ALICE).watermark_ms == 10


def test_a_standby_offers_what_its_primary_says_it_has() -> None:
    """It may have been sent nothing of its own input."""
    made = Made(log_of(), feeds_subscribers=False, primary_ms=30)
    made.log.subscribe(ALICE, None)
    offered = overdue(made, ALICE)
    assert (offered.watermark_ms, offered.sent) == (30, False)
    made.log.subscribe(ALICE, None, feed=True)
    list(feed_subscribers(made))
    assert not overdue(made, ALICE).sent


def test_a_deposed_primary_offers_what_it_had_sent_as_a_standby_does() -> None:
    """What was lost on the way comes only if the host asks to be fed."""
    made = Made(log_of((10, 2)))
    made.log.subscribe(ALICE, None)
    list(feed_subscribers(made))
    made.feeds_subscribers = False
    assert not overdue(made, ALICE).sent


def test_nothing_is_offered_while_acknowledgements_come_in_time() -> None:
    made = Made(log_of((10, 1)))
    made.log.subscribe(ALICE, None)
    for ts in range(20, 100, 10):
        assert overdue_offer(made, ALICE) is None
        one = chunk(made.log.end.next_seq, [(ts, 1)])
        before = made.log.end
        made.log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        made.log.acknowledge(ALICE, before)


def test_nothing_is_offered_that_was_received_and_is_yet_to_be_processed() -> None:
    made = Made(log_of((10, 1)))
    made.log.subscribe(ALICE, None)
    for ts in range(20, 200, 10):
        assert overdue_offer(made, ALICE) is None
        received = structs.replace(ack(Position()), received_ms=made.log.end.watermark_ms)
        one = chunk(made.log.end.next_seq, [(ts, 1)])
        made.log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        acknowledge(made, ALICE, received, 0)


def test_a_host_that_acknowledges_rarely_is_granted_as_many_of_its_own_intervals() -> None:
    made = Made(log_of((10, 1)))
    made.log.subscribe(ALICE, None)
    offered: list[int] = []
    for interval in range(1, 60):
        if overdue_offer(made, ALICE) is not None:
            offered.append(interval)
        one = chunk(made.log.end.next_seq, [(10 + 10 * interval, 1)])
        made.log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        # It acknowledges what there was four intervals ago, and falls silent in the end.
        if interval % 4 == 0 and interval <= 40:
            at_ms = 10 + 10 * (interval - 4)
            position = Position(next_seq=interval - 3, watermark_ms=at_ms)
            acknowledge(made, ALICE, ack(position), 0)
    # At first it seemed to acknowledge in each interval; later it has thrice four.
    assert offered == [4, *range(50, 60)]


def test_a_host_that_subscribes_again_is_sent_everything_from_there_again() -> None:
    made = Made(log_of((10, 2), (20, 1)))
    made.log.subscribe(ALICE, None)
    list(feed_subscribers(made))
    made.log.subscribe(ALICE, Position(next_seq=2, watermark_ms=10))
    ((_, again),) = feed_subscribers(made)
    assert numbers([again.chunk]) == [2]


def rereadable() -> OutputLog:
    """A log of a stream of which 4 tuples came before."""
    base = Position(next_seq=4, watermark_ms=20)
    log = OutputLog(schema, base=base, rereadable=True)
    one = chunk(4, [(30, 1)])
    log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
    return log


def test_output_before_the_log_is_wanted_and_then_the_log_is_sent() -> None:
    log = rereadable()
    assert log.subscribe(ALICE, Position()) == Position()
    assert log.subscribe(BOB, None) == log.base
    assert log.take_unsent(ALICE) == []
    assert numbers(log.take_unsent(BOB)) == [4]
    assert list(log.wanted()) == [(ALICE, Position())]
    assert log.reread(ALICE, Position(), chunk(0, [(10, 2)]))
    after = Position(next_seq=2, watermark_ms=10)
    assert list(log.wanted()) == [(ALICE, after)]
    assert not log.reread(ALICE, Position(), chunk(0, [(10, 2)]))
    assert log.reread(ALICE, after, chunk(2, [(20, 2)]))
    assert list(log.wanted()) == []
    assert numbers(log.take_unsent(ALICE)) == [4]


def test_what_was_processed_meanwhile_is_not_read_again() -> None:
    log = rereadable()
    log.subscribe(ALICE, Position())
    # It has taken a peer replica's state.
    acknowledged = Position(next_seq=2, watermark_ms=10)
    log.acknowledge(ALICE, acknowledged)
    assert list(log.wanted()) == [(ALICE, acknowledged)]
    log.acknowledge(ALICE, log.base)
    assert list(log.wanted()) == []
    assert numbers(log.take_unsent(ALICE)) == [4]


def test_a_reader_that_a_full_log_has_left_behind_is_served_by_the_source() -> None:
    log = OutputLog(schema, capacity_bytes=1, rereadable=True)
    log.subscribe(ALICE, None)
    for at in (10, 20, 30):
        one = chunk(log.end.next_seq, [(at, 1)])
        log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
    assert list(log.wanted()) == [(ALICE, Position())]


def test_asking_again_acknowledges_nothing() -> None:
    log = log_of((10, 2), (20, 1))
    log.subscribe(ALICE, Position())
    log.subscribe(ALICE, log.end)
    log.acknowledge(ALICE, Position())
    assert log.base == Position()
    log.acknowledge(ALICE, log.end)
    assert log.base == log.end


def batches_of(batch: int, *timestamp_groups: tuple[int, int]) -> Made:
    """A producer from which `BOB` is sent batches, and `ALICE` everything."""
    made = Made(log_of(*timestamp_groups))
    for node, of in ((ALICE, 1), (BOB, batch)):
        asked = Subscribe(stream="s", position=Position(), generation=3, batch=of)
        subscribe(made, node, asked, now_us=0)
    return made


def more(made: Made, timestamp_ms: int, tuples: int) -> None:
    one = chunk(made.log.end.next_seq, [(timestamp_ms, tuples)])
    made.log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)


def fed(made: Made) -> dict[str, list[int]]:
    sent: dict[str, list[int]] = {ALICE: [], BOB: []}
    for node, data in feed_subscribers(made):
        sent[node] += numbers([data.chunk])
    return sent


def test_repeated_acknowledgements_do_not_make_a_host_seem_to_acknowledge_rarely() -> None:
    made = Made(log_of((10, 1)))
    made.log.subscribe(ALICE, None)
    had = structs.replace(ack(Position()), received_ms=10)
    offered: list[int] = []
    for interval in range(1, 20):
        if interval % 4 == 1:
            acknowledge(made, ALICE, had, 0)
        if interval == 10:
            more(made, 20, 1)
        if overdue_offer(made, ALICE) is not None:
            offered.append(interval)
    assert offered == [*range(10 + OVERDUE_AFTER, 20)]


def test_a_standby_that_stands_in_offers_at_once() -> None:
    made = Made(log_of((10, 1)), feeds_subscribers=False)
    made.log.subscribe(ALICE, None)
    assert overdue_offer(made, ALICE) is None
    assert overdue_offer(made, ALICE, at_once=True) is not None
    acknowledge(made, ALICE, structs.replace(ack(Position()), received_ms=10), 0)
    assert overdue_offer(made, ALICE, at_once=True) is None


def test_output_is_not_sent_again_to_who_has_acknowledged_it_elsewhere() -> None:
    """A standby that was not sent its input is behind what consumers have from its primary."""
    made = Made(log_of((10, 2)), feeds_subscribers=False)
    made.log.subscribe(ALICE, Position(next_seq=3, watermark_ms=20), feed=True)
    assert numbers(made.log.take_unsent(ALICE)) == []
    more(made, 20, 1)
    more(made, 30, 1)
    assert numbers(made.log.take_unsent(ALICE)) == [3]


def test_output_is_kept_back_until_a_batch_has_gathered() -> None:
    made = batches_of(4, (10, 2))
    assert fed(made) == {ALICE: [0, 1], BOB: []}
    more(made, 20, 1)
    assert fed(made) == {ALICE: [2], BOB: []}
    more(made, 30, 2)
    assert fed(made) == {ALICE: [3, 4], BOB: [0, 1, 2, 3, 4]}


def test_what_is_acknowledged_meanwhile_is_never_sent() -> None:
    made = batches_of(3, (10, 2))
    acknowledge(made, BOB, structs.replace(ack(made.log.end), batch=3), now_us=1)
    more(made, 20, 2)
    assert fed(made)[BOB] == []
    more(made, 30, 1)
    assert fed(made)[BOB] == [2, 3, 4]


def test_withheld_output_stays_in_the_log() -> None:
    made = batches_of(100, (10, 2), (20, 2))
    made.log.acknowledge(ALICE, made.log.end)
    assert numbers(made.log.chunks()) == [0, 1, 2, 3]


def test_a_smaller_batch_sends_what_was_kept_back() -> None:
    made = batches_of(100, (10, 2))
    assert fed(made)[BOB] == []
    acknowledge(made, BOB, ack(Position()), now_us=1)
    assert fed(made)[BOB] == [0, 1]


def test_nothing_is_kept_back_from_who_demands_output() -> None:
    made = batches_of(100, (10, 2))
    acknowledge(
        made,
        BOB,
        structs.replace(ack(Position()), demanded=Position(), batch=100),
        now_us=1,
    )
    assert fed(made)[BOB] == [0, 1]


def test_output_is_kept_until_every_reader_has_subscribed() -> None:
    """A fragment that begins from nothing may have an observer before the sink of its output."""
    log = log_of()
    log.readers = {BOB}
    log.subscribe(ALICE, Position())
    for first, at in ((0, 10), (2, 20)):
        log.extend(chunk(first, [(at, 2)]))
        log.acknowledge(ALICE, log.end)
    assert numbers(log.chunks()) == [0, 1, 2, 3]
    assert log.acknowledged_by_all is None
    log.subscribe(BOB, None)
    log.acknowledge(BOB, Position(next_seq=2, watermark_ms=10))
    assert numbers(log.chunks()) == [2, 3]
    assert log.acknowledged_by_all == Position(next_seq=2, watermark_ms=10)


@pytest.mark.parametrize("feeds", [True, False])
def test_output_that_is_kept_back_is_offered_once_the_log_fills_with_it(feeds: bool) -> None:
    """Of a standby, too: it may soon be the only producer."""
    made = batches_of(100, (10, 2), (20, 2))
    made.feeds_subscribers = feeds
    made.log.capacity_bytes = 2 * made.log.size_bytes
    assert overdue_offer(made, BOB) is None
    made.log.capacity_bytes -= 1
    assert overdue_offer(made, BOB) == Offer(generation=3, epoch=4, watermark_ms=20, sent=False)
    # What is acknowledged and still there may be dropped.
    acknowledge(made, BOB, structs.replace(ack(made.log.end), batch=100), now_us=1)
    more(made, 30, 1)
    assert overdue_offer(made, BOB) is None


def test_output_that_can_be_had_again_does_not_fill_its_log() -> None:
    made = batches_of(100, (10, 2), (20, 2))
    made.log = OutputLog(made.log.schema, capacity_bytes=1, rereadable=True)
    made.log.subscribe(BOB, Position(), batch=100)
    more(made, 10, 4)
    assert not made.log.fills_for(BOB)


def test_output_that_is_kept_back_is_not_offered() -> None:
    made = batches_of(4, (10, 4), (20, 1))
    assert fed(made)[BOB] == [0, 1, 2, 3, 4]
    more(made, 30, 1)
    offers = [overdue_offer(made, BOB) for _ in range(OVERDUE_AFTER + 1)]
    # What was sent and is not acknowledged as received was lost.
    assert offers[-1] == Offer(generation=3, epoch=4, watermark_ms=20, sent=True)
    acknowledge(made, BOB, structs.replace(ack(Position(), 3), received_ms=20, batch=4), now_us=1)
    assert overdue_offer(made, BOB) is None


def test_output_that_is_kept_back_is_offered_once_it_does_not_reach_a_primary() -> None:
    made = batches_of(4, (10, 1))
    demands = structs.replace(ack(Position()), demanded=Position(), received_ms=0)
    acknowledge(made, ALICE, demands, now_us=1)
    offers: list[Offer | None] = []
    for _ in range(OVERDUE_AFTER + 2):
        fed(made)
        overdue_offer(made, ALICE)
        offers.append(overdue_offer(made, BOB))
    assert offers[: OVERDUE_AFTER - 1] == [None] * (OVERDUE_AFTER - 1)
    assert offers[-1] == Offer(generation=3, epoch=4, watermark_ms=10, sent=False)
    acknowledge(made, ALICE, structs.replace(demands, received_ms=10), now_us=2)
    overdue_offer(made, ALICE)
    assert overdue_offer(made, BOB) is None


def test_output_that_a_primary_has_no_room_for_is_not_offered_to_its_standby() -> None:
    made = batches_of(4, (10, 1))
    fed(made)
    full = structs.replace(ack(Position()), demanded=Position(), received_ms=10, room_bytes=0)
    more(made, 20, 1)
    for _ in range(2 * OVERDUE_AFTER):
        acknowledge(made, ALICE, full, now_us=1)
        assert fed(made) == {ALICE: [], BOB: []}
        overdue_offer(made, ALICE)
        assert overdue_offer(made, BOB) is None


def test_a_standby_offers_nothing_to_who_is_sent_batches() -> None:
    made = batches_of(4, (10, 6))
    made.feeds_subscribers = False
    offers = [overdue_offer(made, BOB) for _ in range(2 * OVERDUE_AFTER)]
    assert offers == [None] * (2 * OVERDUE_AFTER)


def test_a_log_that_skips_begins_there() -> None:
    made = batches_of(1, (10, 2))
    cut = Position(next_seq=7, watermark_ms=50)
    made.log.skip_to(cut)
    made.log.check_invariants()
    assert (made.log.base, made.log.end, made.log.size_bytes) == (cut, cut, 0)
    more(made, 60, 1)
    made.log.rewind()
    assert fed(made) == {ALICE: [7], BOB: [7]}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_chunk_that_is_missing_is_noticed_also_where_the_others_were_checked(place: int) -> None:
    log = log_of((10, 2), (20, 1), (30, 1))
    log.check_invariants()
    del vars(log)["_chunks"][place]
    with pytest.raises(InvariantViolation, match="jumps" if place < 2 else "log ends at"):
        log.check_invariants()


def test_what_all_have_acknowledged() -> None:
    log = log_of((10, 2), (20, 1))
    assert log.acknowledged_by_all is None
    log.is_read = False
    assert log.acknowledged_by_all == log.end
    log.subscribe(ALICE, Position())
    log.subscribe(BOB, log.end)
    assert log.acknowledged_by_all == Position()


def test_nobody_begins_where_standbys_may_keep_nothing() -> None:
    log = log_of((10, 2), (20, 1))
    cut = Position(next_seq=2, watermark_ms=10)
    log.pass_on(cut)
    assert log.subscribe(ALICE, None) == cut
    assert log.subscribe(BOB, Position()) == Position()


def started(answer: Subscribed | None) -> Position:
    """Where a subscriber begins that lacks nothing."""
    assert answer is not None
    assert answer.lost == 0
    return answer.position


def beginning(after_ms: int, delivered_ms: int | None = None) -> Beginning:
    return Beginning(
        after_ms=after_ms, delivered_ms=after_ms if delivered_ms is None else delivered_ms
    )


def test_a_reader_that_begins_from_nothing_gets_what_follows_its_time() -> None:
    log = log_of((10, 2), (20, 1), (30, 1))
    request = Subscribe(stream="s", position=None, generation=None, begins=beginning(15))
    answer = subscribe(Made(log), ALICE, request, now_us=0)
    assert started(answer) == Position(next_seq=2, watermark_ms=15)
    assert numbers(log.take_unsent(ALICE)) == [2, 3]


@pytest.mark.parametrize(
    ("after_ms", "delivered_ms", "lost"),
    [
        (25, 25, 0),
        (20, 20, 0),
        # What windows reach back to had its results.
        (5, 20, 0),
        (10, 10, 1),
        # Two tuples at 10 ms came in one chunk, which was dropped: more is not known of it.
        (5, 5, 3),
        (NO_WATERMARK, NO_WATERMARK, 0),
    ],
)
def test_what_a_reader_that_begins_from_nothing_can_no_longer_have_is_counted(
    after_ms: int, delivered_ms: int, lost: int
) -> None:
    log = log_of((10, 2), (20, 1), (30, 1), (40, 1))
    log.subscribe(BOB, None)
    log.acknowledge(BOB, Position(next_seq=3, watermark_ms=20))
    begins = beginning(after_ms, delivered_ms)
    start = log.begin(begins)
    assert start is not None
    assert start == Position(next_seq=3, watermark_ms=max(after_ms, 20))
    assert log.count_lost(begins, start) == lost


def test_of_a_log_that_began_later_nobody_knows_how_many_tuples_came_before() -> None:
    log = OutputLog(schema, base=Position(next_seq=7, watermark_ms=50))
    assert log.begin(beginning(40)) == log.base
    assert log.count_lost(beginning(40), log.base) is None


def test_a_reader_that_begins_before_a_log_which_can_be_read_again_waits_for_its_cut() -> None:
    base, begins = Position(next_seq=7, watermark_ms=50), beginning(40)
    log = OutputLog(schema, base=base, rereadable=True)
    request = Subscribe(stream="s", position=None, generation=None, begins=begins)
    assert subscribe(Made(log), ALICE, request, now_us=0) is None
    assert not log.subscribers
    log.located[40] = Position(next_seq=4, watermark_ms=40)
    assert started(subscribe(Made(log), ALICE, request, now_us=0)) == log.located[40]
    log.retained = Position(next_seq=5, watermark_ms=45)
    assert log.begin(begins) == log.retained
    assert log.count_lost(begins, log.retained) is None


def test_output_under_way_is_not_sent_again_to_a_host_that_repeats_its_request() -> None:
    """A host on a busy machine repeats a request before it has read the response, again and again.
    It would have to take the whole log as often."""
    made = Made(log_of((10, 2), (20, 1)))
    first = Subscribe(stream="s", position=None, generation=None, number=1, first=1)
    responses = [subscribe(made, ALICE, structs.replace(first, number=n), 0) for n in (1, 2, 3)]
    assert [started(each) for each in responses] == 3 * [Position()]
    assert [each.request for each in responses if each is not None] == [1, 2, 3]
    assert fed(made)[ALICE] == [0, 1, 2]
    subscribe(made, ALICE, structs.replace(first, number=4), 0)
    assert list(feed_subscribers(made)) == []


@pytest.mark.parametrize("why", ["gap", "renewed", "left and came", "link", "waits"])
def test_output_is_sent_again_to_a_host_that_asks_anew(why: str) -> None:
    made = Made(log_of((10, 2), (20, 1)))
    asked = Subscribe(stream="s", position=None, generation=None, number=2, first=1)
    subscribe(made, ALICE, asked, 0)
    assert fed(made)[ALICE] == [0, 1, 2]
    if why == "link":
        made.log.lost_sight_of(ALICE, 0)
    numbered = {
        # It has found a gap since.
        "gap": {"number": 3, "first": 3},
        # Its process is a new one.
        "renewed": {"number": 1, "first": 1},
        # What it was to count on may never have been sent to this process.
        "left and came": {"number": 4, "first": 3},
        "link": {"number": 3},
        "waits": {"number": 3, "awaits": False},
    }[why]
    if why == "waits":
        made.log.subscribers[ALICE].awaits = True
    subscribe(made, ALICE, structs.replace(asked, **numbered), 0)
    assert fed(made)[ALICE] == [0, 1, 2]


def test_a_host_that_repeats_a_request_and_has_acknowledged_since_is_sent_what_follows() -> None:
    made = Made(log_of((10, 2), (20, 1)))
    asked = Subscribe(stream="s", position=None, generation=None, number=1, first=1)
    subscribe(made, ALICE, asked, 0)
    list(feed_subscribers(made))
    made.log.acknowledge(ALICE, Position(next_seq=2, watermark_ms=10))
    subscribe(made, ALICE, structs.replace(asked, number=2), 0)
    assert fed(made)[ALICE] == [2]


def test_nothing_is_sent_or_offered_to_a_host_that_would_give_it_up() -> None:
    """Its readers have yet to read their checkpoints. Output is kept for them all the same."""
    made = Made(log_of((10, 2), (20, 1)))
    asked = Subscribe(
        stream="s", position=None, generation=None, demands=True, number=1, first=1, awaits=True
    )
    assert started(subscribe(made, ALICE, asked, 0)) == Position()
    assert list(feed_subscribers(made)) == []
    assert all(overdue_offer(made, ALICE) is None for _ in range(3 * OVERDUE_AFTER))
    assert made.log.base == Position()
    subscribe(made, ALICE, structs.replace(asked, number=2, first=2, awaits=False), 0)
    assert fed(made)[ALICE] == [0, 1, 2]


def test_output_is_kept_for_a_reader_that_has_yet_to_read_its_checkpoint() -> None:
    """Another reader there has read its own, and is sent what follows that."""
    made = Made(log_of((10, 2), (20, 1)))
    at_10 = Position(next_seq=2, watermark_ms=10)
    asked = Subscribe(
        stream="s", position=at_10, generation=3, demands=True, number=1, first=1, keeps=True
    )
    for number in (1, 2):
        assert started(subscribe(made, ALICE, structs.replace(asked, number=number), 0)) == at_10
    made.log.restrict({ALICE})
    assert fed(made)[ALICE] == [2]
    assert made.log.subscribers[ALICE].demanded == made.log.base == Position()
    anew = structs.replace(asked, position=Position(), number=3, first=3, keeps=False)
    subscribe(made, ALICE, anew, 0)
    assert fed(made)[ALICE] == [0, 1, 2]
