"""What a host with many streams and replicas tells its peers, and how often."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from ha.messages import Control, Heartbeat, Ping, Subscribed
from ha.subscriber import MOST_ACK_INTERVALS
from orchestrator.host.core.events import CpuMeasured, PeerLost
from orchestrator.host.core.peer_control import MOST_TURNS
from orchestrator.records import Assignment, ClusterRecord
from orchestrator.records.speed import Speed
from streams.scheduling.cadence import every_nth
from streams.vectors.chunk import Position
from tests.driven_host import COLUMNS, SETTINGS, Driven, assigned, data, peers
from tests.streams_of_numbers import chunk

MANY = 100
FEW = 6
INTERVAL_MS = SETTINGS.ack_interval_ms


def crowded(settings: ClusterRecord = SETTINGS, many: int = MANY) -> Driven:
    """Primaries on `one` that read a stream of `site` each, with their peer replicas on `two`."""
    host = Driven("one", settings)
    like = assigned("primary", peer_replica="two")
    fragments = tuple(
        msgspec.structs.replace(
            like,
            fragment=f"f{n}",
            statement=f"REGISTER QUERY f{n} RSTREAM(SELECT number FROM s{n} [NOW]);",
            inputs={f"s{n}": COLUMNS},
        )
        for n in range(many)
    )
    streams = {f"s{n}": ("site",) for n in range(many)}
    host.assign(Assignment(incarnation="1", fragments=fragments, producers=streams, peers=peers()))
    for stream in streams:
        at = Position(next_seq=0, watermark_ms=0)
        host.hear("site", Subscribed(stream=stream, position=at, epoch=1, generation=1))
    host.wait(20 * INTERVAL_MS)
    host.commands.clear()
    return host


def acknowledged(host: Driven) -> Counter[str]:
    """How often each stream was acknowledged since the last look."""
    told = host.sent_to("site", Control)
    return Counter(stream for control in told for stream in control.acks)


def test_of_many_streams_each_is_acknowledged_within_some_intervals() -> None:
    host = crowded()
    for _ in range(3):
        counted = Counter[str]()
        for _ in range(MOST_ACK_INTERVALS):
            host.wait(INTERVAL_MS)
            counted += acknowledged(host)
        assert counted == {f"s{n}": 1 for n in range(MANY)}


def test_many_streams_are_acknowledged_together() -> None:
    host = crowded()
    for _ in range(3 * MOST_ACK_INTERVALS):
        host.wait(INTERVAL_MS)
    with_acks = [control for control in host.sent_to("site", Control) if control.acks]
    assert [len(control.acks) for control in with_acks] == [MANY] * 3


def test_a_host_whose_processor_is_slow_and_short_tells_more_rarely() -> None:
    host = crowded(many=FEW)
    told: list[int] = []
    for speed in (Speed(), Speed(ratio=0.25, busy=1.0), Speed(ratio=0.25, busy=0.0)):
        for _ in range(2):
            host.handle(CpuMeasured(load=0.1, speed=speed))
        host.commands.clear()
        for _ in range(MOST_TURNS):
            host.wait(INTERVAL_MS)
        with_epochs = [control for control in host.sent_to("two", Control) if control.epochs]
        assert all(len(control.epochs) == FEW for control in with_epochs)
        told.append(len(with_epochs))
    assert told == [MOST_TURNS, MOST_TURNS // 4, MOST_TURNS]


def test_a_host_does_not_tell_much_more_rarely_at_once() -> None:
    # Peers grant it the time by how often it told before.
    host = crowded(many=FEW)
    host.handle(CpuMeasured(load=0.1, speed=Speed(ratio=0.1, busy=1.0)))
    host.commands.clear()
    for _ in range(MOST_TURNS):
        host.wait(INTERVAL_MS)
    with_epochs = [control for control in host.sent_to("two", Control) if control.epochs]
    assert len(with_epochs) == MOST_TURNS // 2


@pytest.mark.parametrize(
    ("count", "intervals"), [(0, 1), (7, 1), (8, 2), (15, 2), (16, 4), (31, 4), (32, 8), (500, 8)]
)
def test_more_are_told_of_more_rarely(count: int, intervals: int) -> None:
    assert every_nth(count, 8, most=8) == intervals


def test_a_stream_of_which_much_has_arrived_is_acknowledged_in_the_next_interval() -> None:
    # The credit for each of a hundred streams is 5,120 bytes. A chunk takes more than an eighth of
    # it, which is much, and less than half, so it is not acknowledged as soon as it is processed.
    host = crowded(msgspec.structs.replace(SETTINGS, memory_bytes=2**22))
    for ts in range(10, 100, 10):
        for stream in ("s0", "s1", "s2", "s3"):
            host.hear("site", data(chunk(ts // 10 - 1, [(ts, 1)]), stream))
        host.work()
        assert not acknowledged(host)
        host.wait(INTERVAL_MS)
        assert acknowledged(host) >= Counter(["s0", "s1", "s2", "s3"])


def test_a_stream_is_acknowledged_once_what_used_up_its_credit_is_processed() -> None:
    # Of one stream among a hundred, a chunk takes more than half of the credit.
    host = crowded(msgspec.structs.replace(SETTINGS, memory_bytes=2**20))
    host.hear("site", data(chunk(0, [(10, 1)]), "s0"))
    host.hear("site", data(chunk(0, [(10, 1)]), "s1"))
    assert not acknowledged(host)
    host.work()
    assert acknowledged(host) == Counter(["s0", "s1"])
    # Nothing has arrived since.
    host.work()
    host.handle(PeerLost(node="elsewhere"))
    assert not acknowledged(host)


def test_what_was_acknowledged_unprocessed_is_acknowledged_again_once_it_is_processed() -> None:
    host = crowded(msgspec.structs.replace(SETTINGS, memory_bytes=2**20))
    host.hear("site", data(chunk(0, [(10, 1)]), "s0"))
    host.wait(INTERVAL_MS)
    host.commands.clear()
    host.work()
    assert acknowledged(host) == Counter(["s0"])


def test_a_stream_with_enough_credit_waits_for_the_next_interval() -> None:
    host = crowded()
    host.hear("site", data(chunk(0, [(10, 1)]), "s0"))
    host.work()
    assert not acknowledged(host)


def test_a_task_does_not_rest_while_its_producer_may_have_to_wait() -> None:
    host = crowded(msgspec.structs.replace(SETTINGS, memory_bytes=2**20))
    for first in range(3):
        before_us = host.now_us
        host.hear("site", data(chunk(first, [(10 * first + 10, 1)]), "s0"))
        host.work()
        assert host.now_us == before_us


def test_of_many_replicas_each_is_told_of_within_some_intervals() -> None:
    host = crowded()
    counted = Counter[str]()
    for _ in range(MOST_TURNS):
        host.wait(INTERVAL_MS)
        told = host.sent_to("two", Control)
        counted.update(fragment for control in told for fragment in control.epochs)
    assert counted.keys() == {f"f{n}" for n in range(MANY)}
    assert max(counted.values()) <= 2


def test_a_new_epoch_is_told_in_the_next_interval() -> None:
    host = crowded()
    for number in range(4):
        host.core.replica_manager.replicas[f"f{number}"].replica.epoch = 7
        host.wait(INTERVAL_MS)
        told = [c.epochs.get(f"f{number}") for c in host.sent_to("two", Control)]
        assert 7 in told


def test_a_host_that_is_sent_something_anyway_is_sent_no_heartbeat_beside_it() -> None:
    host = crowded()
    host.core.prober.use(("two",), {})
    host.wait(100 * SETTINGS.heartbeat_ms)
    told = host.sent_to("two", object)
    probes = sum(isinstance(each, Ping) for each in told)
    assert probes > 10
    # Every other heartbeat carries acknowledgements, and is sent in any case.
    assert len(told) <= 100 + probes / 2 + 2


def test_a_host_that_is_sent_nothing_else_is_sent_a_heartbeat() -> None:
    host = crowded()
    host.core.prober.use((), {})
    for _ in range(2 * MOST_TURNS):
        host.wait(SETTINGS.heartbeat_ms)
        assert len(host.sent_to("two", object)) == 1


def test_whatever_serves_as_a_heartbeat_says_how_late_its_sender_is() -> None:
    """Also in an interval in which there is nothing to tell of the replicas."""
    host = crowded()
    host.core.prober.use((), {})
    host.now_us += 200_000
    host.wait(SETTINGS.heartbeat_ms)
    host.commands.clear()
    host.wait(MOST_TURNS * INTERVAL_MS)
    told = [each for each in host.sent_to("two", object) if isinstance(each, Control | Heartbeat)]
    assert len(told) == 2 * MOST_TURNS
    assert all(100_000 < each.lag_us <= 200_000 for each in told)
