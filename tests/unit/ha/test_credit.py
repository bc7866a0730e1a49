"""Credit: what a producer may send, when it is held up, and what its log drops."""

from __future__ import annotations

import pytest

from ha.cursor import StreamCursor
from ha.messages import Ack, Data, Offer, Subscribe, Subscribed
from ha.output_log import CREDIT_US, DEMAND_US, OutputLog
from ha.producer import acknowledge, subscribe
from ha.replica import Replica
from ha.roles import RoleEvent
from ha.subscription import STALLED_US, Subscription
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import NO_WATERMARK, Position
from tests.streams_of_numbers import chunk, numbers, schema
from tests.unit.ha.test_output_log import ALICE, BOB, Made

SIZE = chunk(0, [(10, 1)]).size_bytes
START = Position()


def at(ts: int) -> Position:
    """The cut after the tuple of a timestamp."""
    return Position(next_seq=ts // 10, watermark_ms=ts or NO_WATERMARK)


def made(chunks: int = 0, capacity: int = 100) -> Made:
    """A producer whose log has room for so many chunks; each has one tuple."""
    one = Made(OutputLog(schema, capacity_bytes=capacity * SIZE, linger_us=0))
    produce(one, chunks)
    return one


def produce(producer: Made, chunks: int) -> None:
    log = producer.log
    for _ in range(chunks):
        one = chunk(log.end.next_seq, [(10 * log.end.next_seq + 10, 1)])
        log.append(one.rows, one.watermarks_ms, one.ingestion_times_us)
        log.check_invariants()


def ask(
    producer: Made,
    node: str,
    *,
    room: int,
    demands: bool = True,
    patient: bool = False,
    position: Position = START,
) -> None:
    request = Subscribe(
        stream="s",
        position=position,
        generation=3,
        demands=demands,
        patient=patient,
        room_bytes=room * SIZE,
    )
    subscribe(producer, node, request, 0)


def ack(
    producer: Made,
    node: str,
    ts: int,
    *,
    room: int,
    demands: bool = True,
    lagging: Position | None = None,
) -> None:
    told = Ack(
        position=at(ts),
        epoch=4,
        generation=3,
        demanded=at(ts) if demands else None,
        room_bytes=room * SIZE,
        lagging=lagging,
    )
    acknowledge(producer, node, told, 0)


def test_no_more_is_sent_than_there_is_room_for_beyond_what_is_processed() -> None:
    one = made(5)
    ask(one, ALICE, room=2)
    assert numbers(one.log.take_unsent(ALICE)) == [0, 1]
    assert one.log.take_unsent(ALICE) == []
    ack(one, ALICE, 10, room=2)
    assert numbers(one.log.take_unsent(ALICE)) == [2]
    ack(one, ALICE, 20, room=4)
    assert numbers(one.log.take_unsent(ALICE)) == [3, 4]


def test_an_old_or_repeated_credit_does_no_harm() -> None:
    one = made(5)
    ask(one, ALICE, room=2)
    one.log.take_unsent(ALICE)
    for ts in (20, 10, 20, 20):
        ack(one, ALICE, ts, room=2)
    assert numbers(one.log.take_unsent(ALICE)) == [2, 3]


def test_whoever_has_processed_everything_gets_one_chunk_however_little_room_there_is() -> None:
    one = made(3)
    ask(one, ALICE, room=0)
    assert numbers(one.log.take_unsent(ALICE)) == [0]
    assert one.log.take_unsent(ALICE) == []
    ack(one, ALICE, 10, room=0)
    assert numbers(one.log.take_unsent(ALICE)) == [1]


def test_a_reader_that_begins_behind_another_one_gets_its_chunks_one_by_one() -> None:
    """The other one may wait for its output, and process nothing of what it has received."""
    one = made(4)
    ask(one, ALICE, room=3)
    assert numbers(one.log.take_unsent(ALICE)) == [0, 1, 2]
    ask(one, ALICE, room=0, position=at(10))
    for number in (1, 2, 3):
        assert one.log.take_unsent(ALICE) == []
        ack(one, ALICE, 0, room=0, lagging=at(10 * number))
        assert numbers(one.log.take_unsent(ALICE)) == [number]
    assert numbers(one.log.chunks()) == [0, 1, 2, 3], "all that is demanded is kept"


def test_is_held_up_while_its_output_lies_beyond_the_room_of_a_host_that_demands_it() -> None:
    one = made(3)
    ask(one, ALICE, room=3)
    assert not one.log.is_held_up(0, by_credit=True)
    produce(one, 1)
    assert one.log.is_held_up(0, by_credit=True)
    ack(one, ALICE, 10, room=3)
    assert not one.log.is_held_up(0, by_credit=True)


def test_a_host_that_demands_nothing_holds_nobody_up_and_is_left_behind() -> None:
    one = made(capacity=3)
    ask(one, ALICE, room=100)
    ask(one, BOB, room=1, demands=False)
    for ts in range(10, 70, 10):
        produce(one, 1)
        ack(one, ALICE, ts, room=100)
        assert not one.log.is_held_up(0, by_credit=True)
    assert one.log.size_bytes == 3 * SIZE
    assert one.log.base == at(30)
    assert one.log.overflowed_tuples == 3


def test_a_standby_is_held_up_only_by_a_log_that_is_full_of_what_is_demanded() -> None:
    one = made(3, capacity=3)
    ask(one, ALICE, room=1)
    assert not one.log.is_held_up(0, by_credit=False)
    produce(one, 2)
    assert one.log.is_held_up(0, by_credit=False)
    assert numbers(one.log.chunks()) == [0, 1, 2, 3, 4], "nothing that is demanded is dropped"


@pytest.mark.parametrize("how", ["processed", "left", "silent"])
def test_what_is_no_longer_demanded_is_dropped_beyond_the_bound_at_once(how: str) -> None:
    """Nothing may be appended for long."""
    one = made(6, capacity=6)
    ask(one, ALICE, room=100)
    ask(one, BOB, room=100, demands=False)
    one.log.bound(3 * SIZE)
    one.log.check_invariants()
    assert numbers(one.log.chunks()) == [0, 1, 2, 3, 4, 5]
    match how:
        case "processed":
            ack(one, ALICE, 20, room=100)
            assert numbers(one.log.chunks()) == [2, 3, 4, 5]
            ack(one, ALICE, 50, room=100)
        case "left":
            one.log.unsubscribe(ALICE)
        case _:
            one.log.lapse(0)
            one.log.lapse(DEMAND_US + 1)
    one.log.check_invariants()
    assert numbers(one.log.chunks()) == [3, 4, 5]
    one.log.bound(2 * SIZE)
    assert numbers(one.log.chunks()) == [4, 5]


def test_a_host_that_says_nothing_soon_holds_nobody_up_unless_a_sink_is_there() -> None:
    for patient in (False, True):
        one = made(capacity=3)
        ask(one, ALICE, room=1, patient=patient)
        produce(one, 4)
        assert one.log.is_held_up(CREDIT_US, by_credit=True)
        one.log.lapse(DEMAND_US)
        assert one.log.is_held_up(DEMAND_US, by_credit=True), "the log is full"
        one.log.lapse(DEMAND_US + 1)
        assert one.log.is_held_up(DEMAND_US + 1, by_credit=True) is patient


def test_the_credit_of_a_host_that_says_nothing_counts_no_longer() -> None:
    one = made(3)
    ask(one, ALICE, room=1)
    assert one.log.is_held_up(CREDIT_US, by_credit=True)
    assert not one.log.is_held_up(CREDIT_US + 1, by_credit=True)


def test_a_broken_connection_holds_nobody_up() -> None:
    one = made(3)
    ask(one, ALICE, room=1)
    one.log.lost_sight_of(ALICE, now_us=0)
    assert not one.log.is_held_up(0, by_credit=True)
    ack(one, ALICE, 0, room=1)
    assert one.log.is_held_up(0, by_credit=True)


def test_a_broken_connection_costs_no_output_that_is_demanded() -> None:
    """The consumer lives, and comes back for what it has not processed."""
    one = made(capacity=3)
    ask(one, ALICE, room=1)
    produce(one, 4)
    one.log.lost_sight_of(ALICE, now_us=5)
    one.log.lapse(5 + DEMAND_US)
    assert one.log.is_held_up(5 + DEMAND_US, by_credit=True), "the log is full"
    assert numbers(one.log.chunks()) == [0, 1, 2, 3]
    one.log.lapse(6 + DEMAND_US)
    assert not one.log.is_held_up(6 + DEMAND_US, by_credit=True)


def subscription(*readers: tuple[str, Position]) -> Subscription:
    cursors: dict[str, StreamCursor] = {}
    for reader, position in readers:
        cursors[reader] = StreamCursor()
        cursors[reader].start(position, 1)
    one = Subscription("s", room_bytes=7)
    one.use(("primary", "secondary"), set())
    one.read_by(cursors, patient=False)
    for node in one.producers:
        one.requests(0)
        one.answered(node, Subscribed(stream="s", position=Position(), epoch=1, generation=1))
    return one


def test_a_slow_secondary_neither_demands_nor_hides_what_a_primary_has_processed() -> None:
    one = subscription(("fast", at(50)), ("slow", at(50)))
    one.demands = {"fast"}.__contains__
    ((_, told), _) = one.acks({"fast": at(40), "slow": at(10)})
    assert (told.position, told.demanded, told.room_bytes) == (at(10), at(40), 7)
    ((_, told), _) = one.acks({"fast": at(40), "slow": None})
    assert (told.position, told.demanded) == (None, at(40))
    one.demands = set[str]().__contains__
    ((_, told), _) = one.acks({"fast": at(40), "slow": at(10)})
    assert (told.position, told.demanded) == (at(10), None)


def test_of_readers_that_have_received_least_a_host_says_what_they_have_processed() -> None:
    one = subscription(("ahead", at(80)), ("behind", at(50)), ("slow", at(50)), ("standby", at(20)))
    one.demands = {"ahead", "behind", "slow"}.__contains__
    processed: dict[str, Position | None] = {"ahead": at(10), "standby": at(20)}
    for behind, slow, lagging in ((at(50), at(40), at(40)), (at(50), None, at(50))):
        ((_, told), _) = one.acks(processed | {"behind": behind, "slow": slow})
        assert (told.demanded, told.lagging) == (at(10), lagging)
    one.readers["ahead"].start(at(50), 1)
    ((_, told), _) = one.acks(processed | {"behind": at(50), "slow": at(40)})
    assert (told.demanded, told.lagging) == (at(10), at(10))


def test_a_host_that_has_yet_to_process_what_it_received_does_not_ask_for_more() -> None:
    one = subscription(("reader", at(50)))
    ahead = Offer(generation=1, epoch=1, watermark_ms=90, sent=False)
    assert one.offered("secondary", ahead, STALLED_US, busy=True) == []
    assert one.offered("secondary", ahead, 2 * STALLED_US - 1) == []
    ((node, request),) = one.offered("primary", ahead, 2 * STALLED_US)
    assert (node, request.feed) == ("primary", False)
    ((node, request),) = one.offered("secondary", ahead, 3 * STALLED_US)
    assert (node, request.feed) == ("secondary", True)


def test_nothing_is_kept_for_a_host_that_reads_no_more() -> None:
    """It was replaced, and does not know yet."""
    one = made(capacity=3)
    ask(one, ALICE, room=1)
    ask(one, BOB, room=100)
    produce(one, 4)
    ack(one, BOB, 40, room=100)
    assert one.log.is_held_up(0, by_credit=True)
    one.log.restrict({ALICE, BOB})
    assert one.log.is_held_up(0, by_credit=True)
    one.log.restrict({BOB})
    assert not one.log.is_held_up(0, by_credit=True)
    assert [*one.log.subscribers] == [BOB]
    assert one.log.base == at(40)


def test_output_that_is_dropped_gives_a_slow_reader_no_room() -> None:
    """Else whoever demands nothing, such as a hanging observer, would be sent everything."""
    one = made(capacity=3)
    ask(one, ALICE, room=100)
    ask(one, BOB, room=2, demands=False)
    sent: list[int] = []
    for ts in range(10, 100, 10):
        produce(one, 1)
        ack(one, ALICE, ts, room=100)
        ack(one, BOB, 0, room=2, demands=False)
        sent += numbers(one.log.take_unsent(BOB))
    assert sent == [0, 1]
    # Once it has processed that, it learns that it has missed something.
    ack(one, BOB, 20, room=2, demands=False)
    assert numbers(one.log.take_unsent(BOB)) == [6]


def test_what_is_read_again_fits_into_the_room_that_there_is() -> None:
    log = OutputLog(schema, base=at(1000), rereadable=True)
    log.subscribe(ALICE, at(0), room_bytes=4 * SIZE, demands=True)
    whole = chunk(0, [(ts, 1) for ts in range(10, 1000, 10)])
    assert whole.size_bytes > 3 * SIZE
    piece = log.reread(ALICE, at(0), whole)
    assert piece is not None
    assert SIZE < piece.size_bytes <= 2 * SIZE
    piece.check(schema)
    assert log.reread(ALICE, at(0), whole) is None
    assert whole.after(piece.end) is not None
    log.subscribe(BOB, at(0), room_bytes=0, demands=True)
    least = log.reread(BOB, at(0), whole)
    assert least is not None
    assert numbers([least]) == [0], "one timestamp in any case"


def test_what_is_read_again_does_not_wait_for_readers_that_are_further() -> None:
    """No more than two pieces are under way to the one that is behind."""
    one = Made(OutputLog(schema, base=at(1000), rereadable=True))
    ask(one, ALICE, room=2)
    for number in range(4):
        assert list(one.log.wanted()) == [(ALICE, at(10 * number))]
        one.log.reread(ALICE, at(10 * number), chunk(number, [(10 * number + 10, 1)]))
        ack(one, ALICE, 0, room=2, lagging=at(max(10 * number - 10, 0)))
        assert list(one.log.wanted()) == ([] if number else [(ALICE, at(10))])
        ack(one, ALICE, 0, room=2, lagging=at(10 * number))


def test_a_reader_that_crosses_a_discontinuity_goes_on_to_demand_what_follows() -> None:
    """It may wait for its other inputs for long; nothing of this one must be lost meanwhile."""
    one = subscription(("reader", at(50)))
    one.demands = {"reader"}.__contains__
    one.readers["reader"].resume(at(50), 1)
    assert one.acks({"reader": None}) == [], "it has no state"
    one.readers["reader"].cross(at(20), 2)
    ((_, told), _) = one.acks({"reader": None})
    assert (told.generation, told.position, told.demanded) == (2, None, at(20))
    ((_, told), _) = one.acks({"reader": at(30)})
    assert (told.position, told.demanded) == (at(30), at(30))
    one.readers["reader"].reset()
    assert one.acks({"reader": None}) == []


def test_a_reader_that_begins_in_the_middle_demands_what_follows() -> None:
    """Its first input may wait for its other inputs for long, too."""
    one = subscription(("reader", at(50)))
    one.demands = {"reader"}.__contains__
    ((_, told), _) = one.acks({"reader": None})
    assert (told.generation, told.position, told.demanded) == (1, None, at(50))
    one.demands = set[str]().__contains__
    assert one.acks({"reader": None}) == [], "a standby demands nothing"


def test_a_replica_evaluates_no_more_at_once_than_its_output_has_room_for() -> None:
    (statement,) = parse("REGISTER QUERY f RSTREAM(SELECT number FROM s [NOW]);")
    program = compile_statement(statement, {"s": {"number": "int"}})
    replica = Replica(program, {"s": schema}, epoch=1, generation=1)
    replica.apply(RoleEvent.FOUNDED, 1)
    replica.inputs["s"].cursor.start(Position(), 1)
    whole = chunk(0, [(10 * n, 100) for n in range(1, 51)])
    replica.receive(Data(stream="s", epoch=1, generation=1, chunk=whole))
    room_bytes = 20_000
    replica.log.subscribe(ALICE, Position(), demands=True, room_bytes=room_bytes, now_us=0)
    replica.update_held_up(0)
    while replica.has_work:
        assert replica.evaluate(64) is not None
        replica.update_held_up(0)
    group_bytes = chunk(0, [(10, 100)]).size_bytes
    assert room_bytes < replica.log.size_bytes <= room_bytes + group_bytes
