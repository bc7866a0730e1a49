"""A host refuses, and counts, each message that its sender may not send.

`stranger` is a host of the cluster that has nothing to do with fragment `f`.
"""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from ha.messages import (
    Ack,
    Control,
    Data,
    Message,
    Offer,
    OutputDigest,
    Ping,
    Pong,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.roles import ReplicaRole
from orchestrator.edges.events import Deliver, SinkOpened
from orchestrator.host.core.access_control import EARLY_US, MAX_EPOCH_LEAP, MOST_EARLY
from orchestrator.host.core.events import PeerLost, Report, Send
from orchestrator.records import Assignment, Peer, SinkAssignment
from streams.vectors.chunk import Position
from tests.driven_host import (
    COLUMNS,
    HOSTS,
    MS,
    Driven,
    ack,
    assigned,
    assignment_of,
    data,
    peers,
    primary,
    sent_numbers,
    standby,
    subscribed,
)
from tests.streams_of_numbers import chunk, numbers

ASK = Subscribe(stream="f", position=None, generation=None)
GREAT = 2**50
UNKNOWN = Ack(position=Position(), epoch=9, generation=1)


def refused(host: Driven, kind: str) -> int:
    return host.core.counters[f"{kind}_refused"]


def everybody() -> tuple[Peer, ...]:
    return peers((*HOSTS, "stranger"))


def reader() -> Driven:
    """The sink of `f` at `exit`, which reads from `one` and `two`."""
    host = Driven("exit")
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    host.assign(
        Assignment(
            incarnation="1", sinks=(sink,), producers={"f": ("one", "two")}, peers=everybody()
        )
    )
    host.handle(SinkOpened(stream="f", durable=None))
    for node in ("one", "two"):
        host.hear(node, subscribed(stream="f"))
    host.commands.clear()
    return host


def warming() -> tuple[Driven, Snapshot]:
    """A new secondary of `f` on `two`, and the state that it waits for."""
    host = Driven("two")
    host.assign(assignment_of(assigned("secondary", peer_replica="one"), at=everybody()))
    host.hear("site", subscribed())
    other = primary()
    other.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = other.sent_to("two", Snapshot)
    return host, snapshot


def test_data_of_a_host_that_does_not_produce_the_stream() -> None:
    host = reader()
    host.hear("stranger", data(chunk(0, [(10, 3)]), "f"))
    assert host.take(Deliver) == []
    assert refused(host, "data") == 1
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    assert numbers([each.chunk for each in host.take(Deliver)]) == [0, 1]


def test_data_of_a_consumer() -> None:
    host = primary()
    host.hear("exit", data(chunk(0, [(10, 3)])))
    assert host.core.next_work_us is None
    assert refused(host, "data") == 1


def test_a_generation_that_no_producer_has_told() -> None:
    host = reader()
    answer = Subscribed(stream="f", position=Position(), epoch=GREAT, generation=GREAT)
    host.hear("stranger", answer)
    host.hear("stranger", Data(stream="f", epoch=1, generation=GREAT, chunk=chunk(0, [(10, 1)])))
    assert (refused(host, "responses"), refused(host, "data")) == (1, 1)
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    assert numbers([each.chunk for each in host.take(Deliver)]) == [0, 1]


def test_an_epoch_of_a_host_without_the_peer_replica() -> None:
    for sender in ("stranger", "exit", "site"):
        host = primary()
        host.hear(sender, Control(epochs={"f": 2}))
        assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)
        assert refused(host, "epochs") == 1


def test_an_epoch_that_leaves_no_room_for_true_ones() -> None:
    host = primary()
    host.hear("two", Control(epochs={"f": 2 + MAX_EPOCH_LEAP}))
    assert (host.role, host.epoch, refused(host, "epochs")) == (ReplicaRole.PRIMARY, 1, 1)
    host.hear("exit", ack(0, 0, epoch=2 + MAX_EPOCH_LEAP))
    assert (host.role, host.epoch, refused(host, "acks")) == (ReplicaRole.PRIMARY, 1, 1)
    host.hear("two", Control(epochs={"f": 1 + MAX_EPOCH_LEAP}))
    assert host.role is ReplicaRole.STANDBY


def test_an_acknowledgement_of_a_host_that_does_not_read_the_stream() -> None:
    for sender in ("stranger", "two", "site"):
        host = primary()
        host.hear(sender, ack(0, 0, epoch=2))
        assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 1)
        assert refused(host, "acks") == 1
        assert set(host.core.replica_manager.replicas["f"].replica.log.subscribers) == {"exit"}


def test_a_digest_of_a_host_without_the_peer_replica() -> None:
    host = standby()
    digest = OutputDigest(generation=1, interval=0, first_seq=0, rows=7)
    host.hear("stranger", Control(digests={"f": digest}))
    assert refused(host, "digests") == 1
    assert (host.core.counters["divergences"], host.role) == (0, ReplicaRole.STANDBY)


def test_a_watermark_of_a_host_without_the_peer_replica() -> None:
    host = standby()
    host.hear("stranger", Control(watermarks_ms={"f": 10**6}))
    assert refused(host, "watermarks") == 1


def test_nothing_in_a_control_message_is_left_unjudged() -> None:
    """A stranger says all that a control message can hold of the fragment."""
    host = primary()
    host.hear(
        "stranger",
        Control(
            epochs={"f": 2},
            watermarks_ms={"f": 1},
            digests={"f": OutputDigest(generation=1, interval=0, first_seq=0, rows=7)},
            acks=ack(0, 0, epoch=2).acks,
            offers={"s": Offer(generation=1, epoch=1, watermark_ms=50, sent=True)},
            checkpoints={"f": 50},
            standbys={"f": (1, 50)},
            stalled={"f": 2},
        ),
    )
    counted = {kind for kind in host.core.counters if kind.endswith("_refused")}
    # What a host says of itself, it may say to everybody.
    names = {name.removesuffix("_ms") for name in Control.__struct_fields__} - {"lag_us"}
    assert counted == {f"{name}_refused" for name in names}


def test_an_offer_of_a_host_that_does_not_produce_the_stream() -> None:
    host = reader()
    host.wait(1000)
    host.commands.clear()
    offer = Offer(generation=1, epoch=1, watermark_ms=50, sent=True)
    host.hear("stranger", Control(offers={"f": offer}))
    assert refused(host, "offers") == 1
    assert host.take(Subscribe) == []


def test_a_control_message_is_heeded_as_far_as_its_sender_may_say_it() -> None:
    host = primary()
    host.hear("two", Control(epochs={"f": 2}, acks=ack(0, 0, epoch=9).acks))
    assert (host.role, host.epoch) == (ReplicaRole.STANDBY, 2)
    assert (refused(host, "epochs"), refused(host, "acks")) == (0, 1)


def test_a_subscription_of_a_host_that_may_not_read() -> None:
    for request in (ASK, structs.replace(ASK, feed=True), structs.replace(ASK, patient=True)):
        host = primary()
        host.commands.clear()
        host.hear("stranger", request)
        host.hear("site", data(chunk(0, [(10, 4)])))
        host.work()
        host.wait(EARLY_US / MS + 100)
        sent = [c for c in host.commands if isinstance(c, Send) and c.to == "stranger"]
        assert sent == []
        assert refused(host, "subscribes") == 1


def test_a_subscription_that_comes_before_the_assignment_is_answered_after_it() -> None:
    host = primary()
    host.hear("stranger", ASK)
    host.commands.clear()
    may = {"f": ("exit", "stranger")}
    known = assignment_of(assigned("primary", peer_replica="two"), at=everybody())
    host.assign(msgspec.structs.replace(known, consumers=may))
    assert [each.stream for each in host.sent_to("stranger", Subscribed)] == ["f"]
    host.wait(EARLY_US / MS + 100)
    assert refused(host, "subscribes") == 0


def test_a_request_for_the_state_by_a_host_without_the_peer_replica() -> None:
    host = primary()
    host.hear("stranger", SnapshotRequest(fragment="f"))
    host.wait(EARLY_US / MS + 100)
    assert host.take(Snapshot) == []
    assert refused(host, "snapshot_requests") == 1


def test_a_request_for_the_state_by_a_secondary_yet_to_be_told_is_answered_then() -> None:
    host = primary()
    host.hear("stranger", SnapshotRequest(fragment="f"))
    host.commands.clear()
    host.assign(assignment_of(assigned("primary", peer_replica="stranger"), at=everybody()))
    assert len(host.sent_to("stranger", Snapshot)) == 1


def test_a_request_that_is_repeated_waits_no_longer_for_that() -> None:
    host = primary()
    for _ in range(4):
        host.hear("stranger", ASK)
        host.wait(0.3 * EARLY_US / MS)
    assert refused(host, "subscribes") == 1


def test_requests_that_wait_are_bounded() -> None:
    host = primary()
    for n in range(MOST_EARLY + 5):
        host.hear(f"stranger-{n}", ASK)
        host.hear("stranger-0", ASK)
    assert refused(host, "subscribes") == 5
    host.wait(EARLY_US / MS + 100)
    assert refused(host, "subscribes") == MOST_EARLY + 5


def test_a_state_of_a_host_without_the_peer_replica() -> None:
    host, snapshot = warming()
    host.hear("stranger", snapshot)
    assert (host.role, refused(host, "snapshots")) == (ReplicaRole.WARMING, 1)
    host.hear("one", snapshot)
    assert host.role is ReplicaRole.STANDBY


@pytest.mark.parametrize("field", ["epoch", "generation"])
def test_a_state_with_a_number_that_leaves_no_room_for_true_ones(field: str) -> None:
    host, snapshot = warming()
    host.hear("one", structs.replace(snapshot, **{field: GREAT}))
    assert (host.role, refused(host, "snapshots")) == (ReplicaRole.WARMING, 1)


def test_whoever_unsubscribes_ends_only_its_own_subscription() -> None:
    host = primary()
    host.hear("stranger", Unsubscribe(stream="f"))
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    assert sent_numbers(host) == [2, 3]


def test_any_peer_may_measure_latencies() -> None:
    host = primary()
    host.hear("stranger", Ping(sent_us=7))
    assert [pong.sent_us for pong in host.sent_to("stranger", Pong)] == [7]


@pytest.mark.parametrize(
    "message",
    [
        data(chunk(0, [(10, 1)]), "unknown"),
        subscribed(stream="unknown"),
        Subscribe(stream="unknown", position=None, generation=None),
        SnapshotRequest(fragment="unknown"),
        Control(epochs={"unknown": 9}, acks={"unknown": UNKNOWN}),
    ],
)
def test_a_message_about_something_that_is_not_here_has_no_effect(message: Message) -> None:
    host = primary()
    host.commands.clear()
    host.hear("stranger", message)
    assert (host.role, host.epoch, host.commands) == (ReplicaRole.PRIMARY, 1, [])


def test_refusals_are_reported_once_and_quote_what_the_sender_wrote() -> None:
    host = reader()
    for _ in range(3):
        host.hear("stranger", data(chunk(0, [(10, 3)]), "f"))
    (report,) = host.take(Report)
    assert (report.kind, report.subject) == ("data refused", "host stranger")
    assert "'f'" in report.detail


def test_a_refusal_is_reported_once_more_after_each_assignment() -> None:
    """What a host may send has changed since, so that it is news that it still sends this."""
    host = primary()
    for _ in range(2):
        host.take(Report)
        host.assign(assignment_of(assigned("primary", peer_replica="two"), at=everybody()))
        for _ in range(2):
            host.hear("stranger", Control(epochs={"f": 2}))
        assert [report.kind for report in host.take(Report)] == ["epochs refused"]
    assert refused(host, "epochs") == 4


def test_a_host_that_was_deposed_by_force_is_primary_again_through_its_own_rules() -> None:
    """The rules of failover are the same with access control."""
    host = standby()
    host.hear("stranger", Control(epochs={"f": 7}))
    host.handle(PeerLost(node="one"))
    assert (host.role, host.epoch) == (ReplicaRole.PRIMARY, 2)
