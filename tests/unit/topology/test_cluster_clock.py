"""Times that hosts tell others, on the cluster's clock."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from ha.messages import Subscribe
from orchestrator.edges.events import Deliver, SinkOpened
from orchestrator.records import Assignment, SinkAssignment, SourceAssignment
from tests.driven_host import (
    COLUMNS,
    Driven,
    assigned,
    assignment_of,
    data,
    peers,
    subscribed,
)
from tests.streams_of_numbers import chunk, numbers
from topology.cluster_clock import ClusterClock

HOUR_US = 3_600_000_000


def sink_at_exit(clock_ahead_us: int | None) -> Assignment:
    return Assignment(
        incarnation="1",
        sinks=(SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100),),
        producers={"f": ("one", "two")},
        peers=peers(),
        clock_ahead_us=clock_ahead_us,
    )


def test_times_are_shifted_by_what_the_leader_says_of_the_machine() -> None:
    clock = ClusterClock(anchor_us=HOUR_US)
    assert (clock.at(5), clock.known) == (5, False)
    clock.use(None)
    assert not clock.known
    clock.use(700)
    assert (clock.at(HOUR_US + 5), clock.known) == (705, True)
    # What was known stays known.
    clock.use(None)
    assert (clock.at(HOUR_US + 5), clock.known) == (705, True)


def test_latency_is_taken_on_the_cluster_s_clock() -> None:
    host = Driven("exit")
    host.assign(sink_at_exit(HOUR_US))
    host.handle(SinkOpened(stream="f", durable=None))
    host.hear("one", subscribed(stream="f"))
    part = chunk(0, [(10, 2)])
    now_us = host.now_us + HOUR_US
    times_us = np.full(len(part.watermarks_ms), now_us - 4000)
    host.hear("one", data(replace(part, ingestion_times_us=times_us), "f"))
    (delivered,) = host.take(Deliver)
    assert delivered.arrived_us == now_us
    status = host.core.replica_manager.sinks["f"].status(now_us)
    assert (status.latency_ms_p99, status.deadline_misses) == (4.0, 0)


def test_sink_waits_until_the_clock_is_known_and_then_lacks_nothing() -> None:
    host = Driven("exit")
    host.assign(sink_at_exit(None))
    host.handle(SinkOpened(stream="f", durable=None))
    # Producers must know of it, else they would drop what it lacks.
    assert len(host.take(Subscribe)) == 2
    host.hear("one", subscribed(stream="f"))
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    assert host.take(Deliver) == []
    host.assign(sink_at_exit(0))
    host.hear("one", data(chunk(2, [(20, 1)]), "f"))
    (again,) = host.sent_to("one", Subscribe)
    assert again.position is None or again.position.next_seq == 0
    host.hear("one", subscribed(stream="f"))
    host.hear("one", data(chunk(0, [(10, 2), (20, 1)]), "f"))
    assert numbers([each.chunk for each in host.take(Deliver)]) == [0, 1, 2]


def test_replica_does_not_begin_until_the_clock_is_known() -> None:
    host = Driven("one")
    known = assignment_of(assigned("primary", peer_replica="two"))
    host.assign(msgspec.structs.replace(known, clock_ahead_us=None))
    assert host.core.replica_statuses(host.now_us) == {}
    host.assign(known)
    assert host.core.replica_statuses(host.now_us).keys() == {"f"}


def test_source_does_not_begin_until_the_clock_is_known() -> None:
    host = Driven("site")
    source = SourceAssignment(stream="s", columns=COLUMNS, source=None, start_at_us=None)
    unknown = Assignment(
        incarnation="1",
        sources=(source,),
        consumers={"s": ("one",)},
        peers=peers(),
        clock_ahead_us=None,
    )
    host.assign(unknown)
    assert host.core.replica_manager.sources == {}
    host.assign(msgspec.structs.replace(unknown, clock_ahead_us=7))
    assert host.core.replica_manager.sources.keys() == {"s"}
    # It is not taken away again.
    host.assign(unknown)
    assert host.core.replica_manager.sources.keys() == {"s"}
