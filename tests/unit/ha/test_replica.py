"""A replica by itself: what its role and its inputs allow it to say."""

from __future__ import annotations

import pytest

from ha.cursor import Receipt
from ha.messages import Data
from ha.replica import Replica
from ha.roles import ReplicaRole, RoleEvent
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk, Position, stream_schema
from tests.streams_of_numbers import chunk, numbers

COLUMNS = {"number": "int"}
EPOCH = 3


def secondary() -> Replica:
    """A secondary that has no state yet."""
    (statement,) = parse("REGISTER QUERY f RSTREAM(SELECT number FROM s [NOW]);")
    program = compile_statement(statement, {"s": COLUMNS})
    return Replica(program, {"s": stream_schema(COLUMNS)}, epoch=EPOCH, generation=EPOCH)


def primary() -> Replica:
    """A primary of epoch 3 that reads `s` from its beginning."""
    made = secondary()
    made.apply(RoleEvent.FOUNDED, EPOCH)
    made.inputs["s"].cursor.start(Position(), 1)
    return made


def data(part: Chunk, generation: int = 1) -> Data:
    return Data(stream="s", epoch=1, generation=generation, chunk=part)


def test_a_new_primary_sends_again_what_no_consumer_has_acknowledged() -> None:
    """What it had sent as primary before may have been lost with a link."""
    replica = primary()
    replica.log.subscribe("exit", None)
    replica.receive(data(chunk(0, [(10, 2), (20, 1)])))
    replica.evaluate(2)
    assert numbers(replica.log.take_unsent("exit")) == [0, 1, 2]
    replica.apply(RoleEvent.SUPERSEDED, EPOCH + 1)
    assert replica.log.take_unsent("exit") == []
    replica.apply(RoleEvent.PEER_REPLICA_LOST)
    assert numbers(replica.log.take_unsent("exit")) == [0, 1, 2]


def test_a_primary_is_superseded_in_a_newer_epoch_only() -> None:
    replica = primary()
    for epoch in (EPOCH - 1, EPOCH):
        assert not replica.apply(RoleEvent.SUPERSEDED, epoch)
        assert (replica.role, replica.epoch) == (ReplicaRole.PRIMARY, EPOCH)
    assert replica.apply(RoleEvent.SUPERSEDED, EPOCH + 1)
    assert (replica.role, replica.epoch) == (ReplicaRole.STANDBY, EPOCH + 1)


@pytest.mark.parametrize("heard", [EPOCH + 1, EPOCH + 2])
def test_a_standby_is_promoted_in_the_newest_epoch_that_it_has_heard_of(heard: int) -> None:
    replica = primary()
    replica.apply(RoleEvent.SUPERSEDED, heard)
    assert not replica.apply(RoleEvent.PROMOTED, heard - 1)
    assert (replica.role, replica.epoch) == (ReplicaRole.STANDBY, heard)
    assert replica.apply(RoleEvent.PROMOTED, EPOCH + 2)
    assert (replica.role, replica.epoch) == (ReplicaRole.PRIMARY, EPOCH + 2)


def test_a_former_primary_continues_whatever_its_successor_has_sent() -> None:
    """Once it has stepped down, what it crossed says nothing about what consumers have."""
    replica = primary()
    replica.receive(data(chunk(0, [(10, 2)])))
    replica.evaluate(1)
    replica.cross("s")
    beyond = Position(next_seq=9, watermark_ms=30)
    assert not replica.continues("exit", beyond)
    replica.apply(RoleEvent.SUPERSEDED, EPOCH + 1)
    assert replica.continues("exit", beyond)
    replica.apply(RoleEvent.PEER_REPLICA_LOST)
    assert replica.continues("exit", beyond)


@pytest.mark.parametrize("waiting", [1, 2])
def test_an_input_has_no_position_until_it_is_evaluated_beyond_a_discontinuity(
    waiting: int,
) -> None:
    """Its position counts tuples as the former generation did."""
    replica = primary()
    replica.receive(data(chunk(0, [(10 * n, 50) for n in range(1, waiting + 1)])))
    replica.inputs["s"].cursor.cross(Position(), 2)
    replica.receive(data(chunk(0, [(10, 5), (90, 2)]), generation=2))
    for _ in range(waiting):
        assert replica.processed() == {}
        assert replica.cut() is None
        replica.evaluate(1)
    assert replica.processed() == {}
    replica.evaluate(1)
    assert replica.processed() == {"s": Position(next_seq=7, watermark_ms=90)}


def test_an_input_that_began_anew_and_brings_nothing_new_is_crossed_all_the_same() -> None:
    """It is at its end. Otherwise nobody could ever be given the state."""
    replica, peer = primary(), secondary()
    replica.receive(data(chunk(0, [(10, 5), (20, 1)])))
    replica.inputs["s"].cursor.cross(Position(), 2)
    replica.receive(data(chunk(0, [(10, 2)]), generation=2))
    assert replica.cut() is None
    replica.receive(data(chunk(2, [(20, 7)]), generation=2))
    assert replica.processed() == {}
    replica.evaluate(1)
    assert replica.processed() == {}
    replica.evaluate(1)
    begins = Position(next_seq=9, watermark_ms=20)
    assert replica.processed() == {"s": begins}
    peer.inputs["s"].cursor.start(Position(), 2)
    snapshot = replica.snapshot()
    assert snapshot is not None
    assert peer.install(snapshot)
    for each in (replica, peer):
        received = each.receive(data(chunk(9, [(30, 2)]), generation=2))
        assert received.receipt is Receipt.ACCEPTED
        each.evaluate(1)
        assert each.processed() == {"s": Position(next_seq=11, watermark_ms=30)}


def test_a_standby_that_has_stopped_follows_its_primary_also_where_it_was_further() -> None:
    """It was primary, crossed to a second generation, and filters what was complete before that."""
    standby, successor = primary(), primary()
    standby.receive(data(chunk(0, [(40, 2)])))
    standby.inputs["s"].cursor.cross(Position(), 2)
    standby.apply(RoleEvent.SUPERSEDED, EPOCH + 1)
    standby.stopped.add("s")
    successor.receive(data(chunk(0, [(10, 2)])))
    successor.inputs["s"].cursor.cross(Position(), 3)
    successor.receive(data(chunk(0, [(10, 2), (20, 1)]), 3))
    successor.evaluate(2)
    snapshot = successor.snapshot()
    assert snapshot is not None
    assert standby.install(snapshot)
    assert not standby.stopped
    received = standby.receive(data(chunk(3, [(30, 1)]), 3))
    assert received.receipt is Receipt.ACCEPTED


def test_a_standby_goes_on_by_itself_once_a_hole_before_which_it_stopped_is_filled() -> None:
    standby = primary()
    standby.receive(data(chunk(0, [(10, 2)])))
    standby.apply(RoleEvent.SUPERSEDED, EPOCH + 1)
    standby.stopped.add("s")
    assert standby.needs_state
    assert standby.receive(data(chunk(5, [(30, 1)]))).receipt is Receipt.GAP
    assert standby.needs_state
    assert standby.receive(data(chunk(2, [(20, 3)]))).receipt is Receipt.ACCEPTED
    assert not standby.needs_state
