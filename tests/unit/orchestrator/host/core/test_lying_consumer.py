"""A consumer that lies about what it has: the fragment that it reads keeps its primary.

The primary has begun the generation: nobody else has made output of it that it could lack.
"""

from __future__ import annotations

import pytest

from ha.messages import Ack, Control, Message, SnapshotRequest, Subscribe
from ha.roles import ReplicaRole
from orchestrator.host.core.events import Report
from streams.vectors.chunk import Position
from tests.driven_host import (
    Driven,
    ack,
    assigned,
    assignment_of,
    data,
    primary,
    sent_numbers,
)
from tests.streams_of_numbers import chunk

OTHER = Position(next_seq=7, watermark_ms=20)
"""Where nobody is who has this fragment's output: only four tuples lie before that time."""


def healthy() -> Driven:
    """A primary that was the first of its fragment: it has no predecessor, and crossed nothing."""
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4), (20, 4)])))
    host.work()
    host.hear("exit", ack(10, 2))
    assert host.role is ReplicaRole.PRIMARY
    host.commands.clear()
    return host


@pytest.mark.parametrize(
    "lie",
    [
        Control(
            acks={"f": Ack(position=OTHER, epoch=1, generation=1, furthest=OTHER, departs_ms=0)}
        ),
        Subscribe(stream="f", position=OTHER, generation=1, departs_ms=0),
    ],
    ids=["ack", "subscribe"],
)
def test_what_a_consumer_says_that_it_has_does_not_depose_a_primary(lie: Message) -> None:
    host = healthy()
    host.hear("exit", lie)
    told = [(each.kind, each.detail) for each in host.take(Report)]
    assert host.role is ReplicaRole.PRIMARY, told


def test_a_state_that_was_given_up_for_a_lie_is_gone() -> None:
    host = healthy()
    host.hear("exit", Subscribe(stream="f", position=OTHER, generation=1, departs_ms=0))
    host.commands.clear()
    host.hear("site", data(chunk(8, [(30, 4)])))
    host.work()
    host.hear("two", SnapshotRequest(fragment="f"))
    assert sent_numbers(host), "its consumers get nothing more"


def test_a_primary_that_had_a_successor_listens_to_consumers() -> None:
    """What they have may come from the successor."""
    host = healthy()
    host.hear("two", Control(epochs={"f": 2}, watermarks_ms={"f": 20}))
    host.hear("exit", Control(acks={"f": Ack(position=None, epoch=2, generation=1)}))
    assert host.role is ReplicaRole.STANDBY
    host.assign(assignment_of(assigned("primary", epoch=3, peer_replica="two")))
    assert host.role is ReplicaRole.PRIMARY
    host.hear("exit", Subscribe(stream="f", position=OTHER, generation=1, departs_ms=0))
    assert host.role is ReplicaRole.WARMING
