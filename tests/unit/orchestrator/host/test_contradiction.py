"""Consumers with different output of one fragment, after a primary has given up: who goes on?"""

from __future__ import annotations

import pytest
from msgspec import structs

from ha.messages import Ack, Contradiction, Control, Message, Subscribe
from ha.roles import ReplicaRole
from orchestrator.host.events import PeerLost, Report
from orchestrator.records import Assignment
from streams.chunk import Position
from tests.driven_host import Driven, assigned, assignment_of, data, primary, standby
from tests.streams_of_numbers import chunk

AT_20 = Position(next_seq=4, watermark_ms=20)
"""Where the output of the hosts below ends."""

OTHER = Position(next_seq=3, watermark_ms=20)
"""What a predecessor that had less input has sent."""


def claim(had: Position, *, patient: bool = False) -> Control:
    return Control(
        acks={"f": Ack(position=had, furthest=had, epoch=2, generation=1, patient=patient)}
    )


def with_two_consumers() -> Driven:
    """It took over at 10 ms, and its input departs from there; `exit` and `next` read it."""
    host = standby()
    read_by_two(host, assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.handle(PeerLost(node="one"))
    host.hear("site", structs.replace(data(chunk(2, [(20, 4)])), departs_ms=10))
    host.work()
    host.commands.clear()
    return host


def read_by_two(host: Driven, assignment: Assignment) -> None:
    host.assign(structs.replace(assignment, consumers={"f": ("exit", "next")}))
    for node in ("exit", "next"):
        host.hear(node, Subscribe(stream="f", position=None, generation=None))


@pytest.mark.parametrize("subscribes", [False, True])
def test_a_consumer_that_was_fed_by_another_gives_up_if_others_rely_on_this(
    subscribes: bool,
) -> None:
    host = with_two_consumers()
    host.hear("exit", claim(AT_20))
    host.commands.clear()
    asks = Subscribe(stream="f", position=OTHER, generation=1, furthest=OTHER)
    host.hear("next", asks if subscribes else claim(OTHER))
    said = host.sent_to("next", Contradiction)
    assert said
    assert set(said) == {Contradiction(stream="f", generation=1, position=AT_20)}
    assert host.role is ReplicaRole.PRIMARY


def test_that_others_rely_on_it_may_have_been_said_to_a_standby() -> None:
    host = standby()
    read_by_two(host, assignment_of(assigned("secondary", peer_replica="one")))
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.hear("site", structs.replace(data(chunk(2, [(20, 4)])), departs_ms=10))
    host.work()
    host.hear("exit", claim(AT_20))
    host.handle(PeerLost(node="one"))
    host.hear("next", claim(OTHER))
    assert host.role is ReplicaRole.PRIMARY
    assert host.sent_to("next", Contradiction)


@pytest.mark.parametrize(
    ("had", "patient"),
    [(None, False), (Position(next_seq=1, watermark_ms=10), False), (AT_20, True)],
    ids=["nobody relies on it", "they have what came before", "a sink has the other output"],
)
def test_otherwise_the_producer_gives_up(had: Position | None, patient: bool) -> None:
    host = with_two_consumers()
    if had is not None:
        host.hear("exit", claim(had))
    host.hear("next", claim(OTHER, patient=patient))
    assert host.role is ReplicaRole.WARMING
    assert host.sent_to("next", Contradiction) == []


def contradicted(host: Driven, position: Position, generation: int = 1) -> None:
    host.commands.clear()
    host.hear("site", Contradiction(stream="s", generation=generation, position=position))


def with_input_up_to_20() -> Driven:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    return host


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_primary_with_other_input_gives_up_and_says_why(evaluated: bool) -> None:
    host = with_input_up_to_20()
    if evaluated:
        host.work()
    contradicted(host, Position(next_seq=7, watermark_ms=20))
    assert host.role is ReplicaRole.WARMING
    (report,) = [each for each in host.take(Report) if each.kind == "cannot continue"]
    assert report.detail == "site has other tuples of s, and others rely on those"
    assert host.core.replica_statuses(host.now_us)["f"].failure is not None


def test_what_waits_until_a_rest_ends_is_contradicted_too() -> None:
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    host.hear("site", data(chunk(4, [(15, 1)])))
    host.hear("site", data(chunk(5, [(20, 1)])))
    assert host.core.replica_manager.subscriptions["s"].backlog.holds("f")
    contradicted(host, Position(next_seq=7, watermark_ms=20))
    assert host.role is ReplicaRole.WARMING


def test_a_standby_with_other_input_takes_its_primarys_state() -> None:
    host = standby()
    host.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    contradicted(host, Position(next_seq=7, watermark_ms=20))
    assert host.role is ReplicaRole.WARMING
    assert [each for each in host.take(Report) if each.kind == "cannot continue"] == []
    (request,) = again(host)
    assert request.position is None


def again(host: Driven) -> list[Subscribe]:
    host.wait(100)
    return host.sent_to("site", Subscribe)[:1]


@pytest.mark.parametrize(
    ("position", "generation"),
    [
        (Position(next_seq=6, watermark_ms=20), 1),
        (Position(next_seq=9, watermark_ms=30), 1),
        (Position(next_seq=4, watermark_ms=10), 1),
        (Position(next_seq=7, watermark_ms=20), 2),
    ],
    ids=["the same", "further", "less far", "of another generation"],
)
def test_a_replica_keeps_what_is_not_contradicted(position: Position, generation: int) -> None:
    host = with_input_up_to_20()
    contradicted(host, position, generation)
    assert host.role is ReplicaRole.PRIMARY


def test_a_stranger_contradicts_nobody() -> None:
    host = with_input_up_to_20()
    lie: Message = Contradiction(
        stream="s", generation=1, position=Position(next_seq=7, watermark_ms=20)
    )
    host.hear("exit", lie)
    assert host.role is ReplicaRole.PRIMARY
    assert host.core.counters["responses_refused"] == 1


def test_what_is_not_read_here_is_contradicted_in_vain() -> None:
    host = with_input_up_to_20()
    host.hear("site", Contradiction(stream="other", generation=1, position=AT_20))
    assert host.role is ReplicaRole.PRIMARY
