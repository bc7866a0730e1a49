"""A host receives a stream once for its readers that rest."""

import msgspec
import pytest

from ha.messages import Control, Subscribed
from ha.roles import ReplicaRole
from orchestrator.host.core.events import PeerLost
from streams.vectors.chunk import Position
from tests.driven_host import (
    Driven,
    assignment_of,
    data,
    primary,
    sent_numbers,
    standby,
    subscribed,
)
from tests.streams_of_numbers import chunk


def resting(host: Driven) -> Driven:
    """The host, when its replica has evaluated [2] and rests with the tuple 3."""
    host.hear("site", data(chunk(0, [(10, 3)])))
    host.work()
    host.hear("site", data(chunk(3, [(20, 1)])))
    return host


def chunks_waiting(host: Driven) -> int:
    return len(host.core.replica_manager.replicas["f"].replica.engine.waiting_chunks("s"))


def test_a_replica_that_rests_is_given_once_what_comes_meanwhile() -> None:
    host = resting(primary())
    for number in range(4, 9):
        host.hear("site", data(chunk(number, [(10 * number, 1)])))
    assert chunks_waiting(host) == 1
    host.work()
    assert sent_numbers(host) == [2, 3, 4, 5, 6, 7, 8]
    assert host.core.replica_manager.subscriptions["s"].backlog.size_bytes == 0


def test_what_waits_counts_as_received() -> None:
    host = resting(primary())
    host.hear("site", data(chunk(4, [(40, 1)])))
    host.commands.clear()
    host.wait(60)
    (told, *_) = [each.acks["s"] for each in host.sent_to("site", Control) if each.acks]
    assert told.received_ms == 40
    assert told.position == Position(next_seq=3, watermark_ms=10)


def test_a_standby_that_takes_over_sends_what_had_waited() -> None:
    host = resting(standby())
    for number in range(4, 9):
        host.hear("site", data(chunk(number, [(10 * number, 1)])))
    host.handle(PeerLost(node="one"))
    assert host.role is ReplicaRole.PRIMARY
    host.work()
    sink = host.core.replica_manager.replicas["f"].replica.log
    assert sink.end == Position(next_seq=7, watermark_ms=80)


def test_a_gap_is_noticed_although_readers_rest() -> None:
    host = resting(primary())
    host.hear("site", data(chunk(4, [(40, 1)])))
    host.commands.clear()
    host.hear("site", data(chunk(6, [(60, 1)])))
    host.hear("site", subscribed(next_seq=5, watermark_ms=40))
    host.hear("site", data(chunk(5, [(50, 1), (60, 1)])))
    host.work()
    assert sent_numbers(host) == [3, 4, 5, 6]


def test_a_new_generation_begins_after_what_had_waited() -> None:
    host = resting(primary())
    host.hear("site", data(chunk(4, [(40, 1)])))
    began = Subscribed(stream="s", position=Position(), epoch=2, generation=2)
    host.hear("site", began)
    later = msgspec.structs.replace(data(chunk(0, [(50, 4)]), epoch=2), generation=2)
    host.hear("site", later)
    host.work()
    assert sent_numbers(host) == [2, 3, 4, 2, 3]


@pytest.mark.parametrize("kept", [True, False])
def test_a_replica_that_is_assigned_anew_has_what_had_waited_if_it_is_the_same(kept: bool) -> None:
    host = resting(primary())
    host.hear("site", data(chunk(4, [(40, 1)])))
    manager = host.core.replica_manager
    (a,) = [hosted.assignment for hosted in manager.replicas.values()]
    generation = 1 if kept else 2
    host.assign(assignment_of(msgspec.structs.replace(a, generation=generation, epoch=generation)))
    assert manager.subscriptions["s"].backlog.readers == ()
    assert chunks_waiting(host) == (2 if kept else 0)
