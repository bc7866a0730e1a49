"""A replica by itself: what its role and its inputs allow it to say."""

from __future__ import annotations

import pytest

from ha.messages import Data
from ha.replica import Replica
from ha.roles import ReplicaRole, RoleEvent
from streams.chunk import Chunk, Position, stream_schema
from streams.compiler import compile_statement
from streams.language import parse
from tests.streams_of_numbers import chunk, numbers

COLUMNS = {"number": "int"}
EPOCH = 3


def primary() -> Replica:
    """A primary of epoch 3 that reads `s` from its beginning."""
    (statement,) = parse("REGISTER QUERY f RSTREAM(SELECT number FROM s [NOW]);")
    program = compile_statement(statement, {"s": COLUMNS})
    made = Replica(program, {"s": stream_schema(COLUMNS)}, epoch=EPOCH, generation=EPOCH)
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


def test_a_standby_is_promoted_in_a_newer_epoch_only() -> None:
    replica = primary()
    replica.apply(RoleEvent.SUPERSEDED, EPOCH + 1)
    for epoch in (EPOCH, EPOCH + 1):
        assert not replica.apply(RoleEvent.PROMOTED, epoch)
        assert (replica.role, replica.epoch) == (ReplicaRole.STANDBY, EPOCH + 1)
    assert replica.apply(RoleEvent.PROMOTED, EPOCH + 2)
    assert (replica.role, replica.epoch) == (ReplicaRole.PRIMARY, EPOCH + 2)


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
