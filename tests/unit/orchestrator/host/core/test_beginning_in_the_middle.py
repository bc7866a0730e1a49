"""Replicas that begin to read in the middle of a stream, or at its end, where no chunk follows."""

from __future__ import annotations

import msgspec
import pytest

from ha.messages import Data, Snapshot, SnapshotRequest, Subscribe
from ha.roles import ReplicaRole
from orchestrator.records import Assignment
from streams.vectors.chunk import Chunk, Position
from tests.driven_host import (
    COLUMNS,
    Driven,
    assigned,
    assignment_of,
    data,
    peers,
    subscribed,
)
from tests.streams_of_numbers import chunk, numbers, watermarks_ms


def founded() -> Driven:
    """A primary on `one` that the sink at `exit` reads, before any producer has answered."""
    host = Driven("one")
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None))
    return host


def output(host: Driven) -> list[Chunk]:
    """What the sink was sent since the last look, all that can be evaluated being evaluated."""
    host.work()
    return [sent.chunk for sent in host.sent_to("exit", Data)]


def joined(host: Driven, snapshot: Snapshot) -> Driven:
    """A secondary on `two` with a primary's state."""
    made = Driven("two")
    made.assign(assignment_of(assigned("secondary", peer_replica="one")))
    made.hear("site", subscribed(5, 40))
    made.hear("one", snapshot)
    assert made.role is ReplicaRole.STANDBY
    made.commands.clear()
    return made


def state_of(host: Driven) -> Snapshot:
    host.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = host.sent_to("two", Snapshot)
    return snapshot


def reached(host: Driven) -> Position:
    """Where the output of its replica ends."""
    return host.core.replica_manager.replicas["f"].replica.log.end


def test_an_input_at_its_end_is_complete_where_it_is_read_from() -> None:
    host = founded()
    host.hear("site", subscribed(5, 40))
    (sent,) = output(host)
    assert (sent.rows.num_rows, sent.watermarks_ms.tolist()) == (0, [40])
    assert sent.ingestion_times_us.tolist() == [host.core.clock.at(host.now_us)]
    host.hear("site", subscribed(5, 40))
    assert output(host) == [], "it says nothing new"
    assert host.role is ReplicaRole.PRIMARY


def test_what_follows_later_is_evaluated() -> None:
    host = founded()
    host.hear("site", subscribed(5, 40))
    host.hear("site", data(chunk(5, [(50, 4)])))
    sent = output(host)
    assert watermarks_ms(sent) == [40, 50]
    assert numbers(sent) == [5, 6, 7, 8]


def test_an_input_at_its_end_does_not_hold_up_the_other_one() -> None:
    host = Driven("one")
    both = (
        "REGISTER QUERY f RSTREAM(SELECT number FROM s [NOW] UNION ALL SELECT number FROM t [NOW]);"
    )
    host.assign(
        Assignment(
            incarnation="1",
            fragments=(
                msgspec.structs.replace(
                    assigned("primary", peer_replica="two"),
                    statement=both,
                    inputs={"s": COLUMNS, "t": COLUMNS},
                ),
            ),
            producers={"s": ("site",), "t": ("site",)},
            consumers={"f": ("exit",)},
            peers=peers(),
        )
    )
    host.hear("exit", Subscribe(stream="f", position=None, generation=None))
    host.hear("site", subscribed(5, 40))
    assert output(host) == []
    host.hear("site", subscribed(stream="t"))
    host.hear("site", data(chunk(0, [(30, 2), (60, 1)]), "t"))
    sent = output(host)
    assert watermarks_ms(sent) == [30, 40]
    assert numbers(sent) == [0, 1]


def test_until_data_comes_the_latest_answer_counts() -> None:
    """Replicas of the producer trim at different times; the one that sends may have less."""
    host = Driven("one")
    assignment = assignment_of(assigned("primary", peer_replica="two"))
    host.assign(msgspec.structs.replace(assignment, producers={"s": ("site", "two")}))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None))
    host.hear("site", subscribed(5, 40))
    assert watermarks_ms(output(host)) == [40]
    host.hear("two", subscribed(7, 60))
    assert watermarks_ms(output(host)) == [60]
    host.hear("site", data(chunk(5, [(60, 2), (70, 3)])))
    assert numbers(output(host)) == [7, 8, 9]


@pytest.mark.parametrize("at", [(5, 30), (3, 30), (7, 60)])
def test_an_answer_is_no_news_once_data_has_come(at: tuple[int, int]) -> None:
    host = founded()
    host.hear("site", subscribed(0, 10))
    host.hear("site", data(chunk(0, [(40, 5)])))
    assert watermarks_ms(output(host)) == [10, 40]
    host.hear("site", subscribed(*at))
    assert output(host) == []


def test_a_new_secondary_goes_on_from_the_middle() -> None:
    """Its primary's state says where, although no tuple has come."""
    host = founded()
    host.hear("site", subscribed(5, 40))
    host.work()
    secondary = joined(host, state_of(host))
    secondary.hear("site", data(chunk(5, [(50, 2)])))
    secondary.work()
    assert reached(secondary) == Position(next_seq=2, watermark_ms=50)


def test_a_secondary_learns_from_an_answer_that_its_input_has_come_further() -> None:
    """Its primary's state was from before that, and the producer keeps nothing of it."""
    host = founded()
    host.hear("site", subscribed(5, 30))
    host.work()
    secondary = joined(host, state_of(host))
    assert reached(secondary) == Position(watermark_ms=30)
    secondary.hear("site", subscribed(5, 40))
    secondary.work()
    assert reached(secondary) == Position(watermark_ms=40)


def test_a_new_secondary_takes_a_state_from_before_the_latest_answer() -> None:
    """The other producer keeps what lies between."""
    host = founded()
    host.hear("site", subscribed(5, 30))
    host.work()
    secondary = Driven("two")
    assignment = assignment_of(assigned("secondary", peer_replica="one"))
    secondary.assign(msgspec.structs.replace(assignment, producers={"s": ("site", "exit")}))
    secondary.hear("site", subscribed(5, 40))
    secondary.hear("exit", subscribed(7, 60))
    secondary.hear("one", state_of(host))
    assert secondary.role is ReplicaRole.STANDBY


def test_what_lies_between_a_state_and_where_reading_began_is_asked_for() -> None:
    """The source's log begins at the stream's end, so no chunk would ever show that it lacks it."""
    host = founded()
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(30, 5)])))
    host.work()
    secondary = Driven("two")
    secondary.assign(assignment_of(assigned("secondary", peer_replica="one")))
    secondary.hear("site", subscribed(7, 60))
    secondary.commands.clear()
    secondary.hear("one", state_of(host))
    assert secondary.role is ReplicaRole.STANDBY
    (request,) = secondary.sent_to("site", Subscribe)
    assert request.position == Position(next_seq=5, watermark_ms=30)
    secondary.hear("site", subscribed(5, 30))
    secondary.hear("site", data(chunk(5, [(60, 2)])))
    secondary.work()
    assert reached(secondary) == Position(next_seq=5, watermark_ms=60)
