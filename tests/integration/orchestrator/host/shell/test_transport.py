"""Real links on loopback: who may speak, as whom, in what order, and what a broken link says."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import msgspec
import pytest
import zmq

from ha.memory import MemoryBudget
from orchestrator.clock import now_us
from orchestrator.embedded.ports import free_port
from orchestrator.host.core.events import PeerLost
from orchestrator.host.shell.pace import StatePace
from orchestrator.host.shell.parts import PART_BYTES, PART_FRAMES
from orchestrator.host.shell.transport import (
    FLUSHED_US,
    MAX_FRAME_BYTES,
    FramesArrived,
    KeyPair,
    Transport,
)
from orchestrator.records import LinkFault, Peer
from orchestrator.records.versions import WIRE_VERSION
from tests.conftest import WaitUntil

MEMORY_BYTES = 256 * 2**20

DATA = [bytes([WIRE_VERSION, 0x95, 0]), bytes(2**20)]
"""Frames that begin as data does."""


class Host:
    """A transport and all that it has received."""

    def __init__(
        self,
        name: str,
        memory_bytes: int = MEMORY_BYTES,
        address: str = "127.0.0.1",
        advertised: str | None = None,
    ) -> None:
        self.keys = KeyPair.generate()
        budget = MemoryBudget(memory_bytes)
        self.transport = Transport(
            name, self.keys, address, now_us, budget=budget, advertised=advertised
        )
        self.received: list[FramesArrived | PeerLost] = []

    def peer(self, delay_ms: float = 0.0, incarnation: str = "1") -> Peer:
        return Peer(
            node=self.transport.node,
            incarnation=incarnation,
            endpoint=self.transport.endpoint,
            public_key=self.keys.public.decode(),
            delay_ms=delay_ms,
        )

    @property
    def arrived(self) -> list[FramesArrived]:
        return [item for item in self.received if isinstance(item, FramesArrived)]

    @property
    def lost(self) -> list[str]:
        return [item.node for item in self.received if isinstance(item, PeerLost)]


Hosts = Callable[..., list[Host]]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Makes hosts that end with the test."""
    with ExitStack() as stack:

        def make(
            *names: str,
            memory_bytes: int = MEMORY_BYTES,
            address: str = "127.0.0.1",
            advertised: str | None = None,
        ) -> list[Host]:
            made = [Host(name, memory_bytes, address, advertised) for name in names]
            for host in made:
                stack.enter_context(closing(host.transport))
            return made

        yield make


def meet(*everybody: Host, delay_ms: float = 0.0) -> None:
    for host in everybody:
        host.transport.set_peers([other.peer(delay_ms) for other in everybody])


def turn(*everybody: Host) -> None:
    """Let all hosts receive for a moment."""
    for host in everybody:
        host.received += host.transport.receive(2000)


def test_frames_arrive_whole_in_order_and_under_the_senders_name(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other, third = hosts("one", "other", "third")
    meet(one, other, third)
    for number in range(100):
        one.transport.send("other", [b"%d" % number, b"", b"body"])
        third.transport.send("other", [b"third"])

    def all_there() -> bool:
        turn(one, other, third)
        return len(other.arrived) == 200

    wait_until(all_there)
    from_one = [item.frames for item in other.arrived if item.sender == "one"]
    assert from_one == [[b"%d" % number, b"", b"body"] for number in range(100)]
    assert {item.sender for item in other.arrived} == {"one", "third"}


def test_waiting_goes_on_after_a_message_that_is_dealt_with_at_once(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    one.transport.send("other", [b"at once"])
    one.transport.send("other", [b"later"])
    dealt: list[FramesArrived] = []

    def take(arrived: FramesArrived) -> bool:
        if arrived.frames == [b"at once"]:
            dealt.append(arrived)
        return arrived.frames == [b"at once"]

    def all_there() -> bool:
        turn(one)
        other.received += other.transport.receive(2000, take)
        return bool(other.arrived)

    wait_until(all_there)
    assert [each.frames for each in other.arrived] == [[b"later"]]
    assert [each.sender for each in dealt] == ["one"]


def test_messages_gather_before_they_are_looked_for(hosts: Hosts, wait_until: WaitUntil) -> None:
    one, other = hosts("one", "other")
    meet(one, other)

    def heard() -> bool:
        one.transport.send("other", [b"are you there?"])
        turn(one, other)
        return bool(other.arrived)

    wait_until(heard)
    for number in range(5):
        one.transport.send("other", [b"%d" % number])
        one.transport.flush()
    # They have arrived long before it looks for them.
    gathered = other.transport.receive(60_000_000, pause_us=200_000)
    frames = [each.frames for each in gathered if isinstance(each, FramesArrived)]
    assert frames[-5:] == [[b"%d" % number] for number in range(5)]


def test_an_unknown_key_is_refused_and_counted(hosts: Hosts, wait_until: WaitUntil) -> None:
    one, stranger = hosts("one", "stranger")
    one.transport.set_peers([one.peer()])
    stranger.transport.set_peers([one.peer()])
    stranger.transport.send("one", [b"let me in"])

    def refused() -> bool:
        turn(one, stranger)
        return one.transport.counters["connections_refused"] > 0

    wait_until(refused)
    assert one.arrived == []


def test_a_process_that_was_replaced_is_refused_on_the_connection_it_has(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, former = hosts("one", "other")
    (successor,) = hosts("other")
    meet(one, former)
    former.transport.send("one", [b"before"])

    def connected() -> bool:
        turn(one, former)
        return bool(one.arrived)

    wait_until(connected)
    one.transport.set_peers([one.peer(), successor.peer(incarnation="2")])
    successor.transport.set_peers([one.peer(), successor.peer()])

    def refused() -> bool:
        former.transport.send("one", [b"after"])
        turn(one, former)
        return one.transport.counters["frames_from_strangers"] > 0

    wait_until(refused)
    successor.transport.send("one", [b"successor"])

    def successor_came() -> bool:
        turn(one, successor)
        return len(one.arrived) > 1

    wait_until(successor_came)
    assert [item.frames for item in one.arrived] == [[b"before"], [b"successor"]]


def test_a_connection_without_a_key_is_refused(hosts: Hosts, wait_until: WaitUntil) -> None:
    one, friend = hosts("one", "friend")
    meet(one, friend)
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.DEALER) as naked:
        naked.setsockopt(zmq.LINGER, 0)
        naked.connect(one.transport.endpoint)
        naked.send_multipart([struct.pack("<qI", now_us(), 1), b"hello"])
        friend.transport.send("one", [b"hello"])

        def friend_came() -> bool:
            turn(one, friend)
            return bool(one.arrived)

        wait_until(friend_came)
    assert [item.sender for item in one.arrived] == ["friend"]


def test_the_sender_is_identified_by_its_key_and_not_by_its_claim(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, honest, liar = hosts("one", "honest", "liar")
    meet(one, honest, liar)
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IDENTITY, b"honest")
        socket.curve_serverkey = one.keys.public
        socket.curve_publickey = liar.keys.public
        socket.curve_secretkey = liar.keys.secret
        socket.connect(one.transport.endpoint)
        socket.send_multipart([struct.pack("<qI", now_us(), 1), b"I am honest"])

        def came() -> bool:
            turn(one, honest, liar)
            return bool(one.arrived)

        wait_until(came)
    assert one.arrived == [FramesArrived("liar", [b"I am honest"])]


def test_messages_between_two_flushes_travel_together(hosts: Hosts, wait_until: WaitUntil) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    frames = [[b"first", b"of two"], [b"second"], [b"third", b"", b"of three"]]
    for each in frames:
        one.transport.send("other", each)
    assert one.transport.counters["messages_sent"] == 0

    def came() -> bool:
        turn(one, other)
        return bool(other.arrived)

    wait_until(came)
    assert [item.frames for item in other.arrived] == frames
    assert one.transport.counters["messages_sent"] == 3
    assert one.transport.counters["bytes_sent"] == sum(len(f) for each in frames for f in each)


@pytest.mark.parametrize(
    "bundle",
    [
        [b"short"],
        [struct.pack("<qI", 0, 1)],
        [struct.pack("<qI", 0, 2), b"one frame of two"],
        [struct.pack("<qI", 0, 1), b"two frames", b"of one"],
        [struct.pack("<qII", 0, 1, 0), b"and a message of none"],
        [struct.pack("<q", 0) + b"abc", b"lengths cut off"],
    ],
)
def test_a_bundle_that_does_not_fit_its_head_is_refused_and_counted(
    hosts: Hosts, wait_until: WaitUntil, bundle: list[bytes]
) -> None:
    one, peer = hosts("one", "peer")
    meet(one, peer)
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.curve_serverkey = one.keys.public
        socket.curve_publickey = peer.keys.public
        socket.curve_secretkey = peer.keys.secret
        socket.connect(one.transport.endpoint)
        socket.send_multipart(bundle)
        socket.send_multipart([struct.pack("<qI", now_us(), 1), b"in order"])

        def came() -> bool:
            turn(one)
            return bool(one.arrived)

        wait_until(came)
    assert one.arrived == [FramesArrived("peer", [b"in order"])]
    assert one.transport.counters["bundles_refused"] == 1


def test_nothing_arrives_before_the_links_delay_has_passed(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other, delay_ms=60.0)
    sent_us = now_us()
    one.transport.send("other", [b"x"])
    arrived_us: list[int] = []

    def came() -> bool:
        turn(one, other)
        arrived_us.append(now_us())
        return bool(other.arrived)

    wait_until(came)
    assert arrived_us[-1] - sent_us >= 60_000


def test_shorter_delay_does_not_let_later_frames_overtake(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other, delay_ms=80.0)
    one.transport.send("other", [b"first"])

    def under_way() -> bool:
        turn(one)
        other.received += other.transport.receive(0)
        return now_us() >= begun_us + 40_000

    begun_us = now_us()
    wait_until(under_way)
    other.transport.set_peers([one.peer(0.0), other.peer()])
    one.transport.send("other", [b"second"])

    def both() -> bool:
        turn(one, other)
        return len(other.arrived) == 2

    wait_until(both)
    assert [item.frames for item in other.arrived] == [[b"first"], [b"second"]]


def test_a_link_that_is_cut_carries_nothing_that_way_until_its_time_is_over(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    until_us = now_us() + 400_000
    cut = msgspec.structs.replace(one.peer(), fault=LinkFault(until_us=until_us))
    other.transport.set_peers([cut, other.peer()])
    sent = 0

    def came() -> bool:
        nonlocal sent
        sent += 1
        one.transport.send("other", [b"%d" % sent])
        other.transport.send("one", [b"back"])
        turn(one, other)
        if now_us() < until_us - 50_000:
            assert not other.arrived
        return bool(other.arrived) and bool(one.arrived)

    wait_until(came)
    # What was sent meanwhile is lost, and nobody had to mend the link.
    assert other.arrived[0].frames != [b"1"]
    assert other.transport.counters["bundles_cut"] > 0
    assert other.lost == one.lost == []


def test_a_peer_that_ends_is_reported_lost(hosts: Hosts, wait_until: WaitUntil) -> None:
    one, other, third = hosts("one", "other", "third")
    meet(one, other, third)
    for host in (other, third):
        one.transport.send(host.transport.node, [b"x"])

    def connected() -> bool:
        turn(one, other, third)
        return bool(other.arrived and third.arrived)

    wait_until(connected)
    assert one.lost == []
    other.transport.close()

    def noticed() -> bool:
        turn(one, third)
        return bool(one.lost)

    wait_until(noticed)
    assert set(one.lost) == {"other"}


def test_a_message_to_an_unknown_peer_is_counted(hosts: Hosts) -> None:
    (one,) = hosts("one")
    one.transport.send("nobody", [b"a"])
    assert one.transport.counters["sends_to_unknown_peer"] == 1


def test_data_for_a_peer_that_is_not_heard_is_bounded_and_other_messages_are_not(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    most = MemoryBudget(MEMORY_BYTES).unheard_bytes // sum(map(len, DATA))
    for _ in range(most + 5):
        one.transport.send("other", DATA, is_data=True)
    one.transport.send("other", [b"control"])
    assert one.transport.counters["sends_to_full_queue"] == 5

    def control_is_there() -> bool:
        turn(one, other)
        for arrived in other.arrived:
            other.transport.handled(arrived)
        found = [each for each in other.arrived if each.frames == [b"control"]]
        other.received.clear()
        return bool(found)

    wait_until(control_is_there)
    other.transport.send("one", [b"heard"])

    def heard() -> bool:
        turn(one, other)
        return bool(one.arrived)

    wait_until(heard)
    one.transport.send("other", DATA, is_data=True)
    assert one.transport.counters["sends_to_full_queue"] == 5


def test_data_that_arrives_and_is_not_handled_is_bounded(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    budget = MemoryBudget(MEMORY_BYTES)
    most = budget.transit_bytes // sum(map(len, DATA))
    for _ in range(most + 5):
        one.transport.send("other", DATA)
    one.transport.send("other", [b"control"])

    def all_there() -> bool:
        turn(one, other)
        return bool(other.arrived) and other.arrived[-1].frames == [b"control"]

    wait_until(all_there)
    assert len(other.arrived) == most + 1
    assert other.transport.counters["arrivals_dropped"] == 5
    assert other.transport.transit_bytes <= budget.transit_bytes
    for arrived in other.arrived:
        other.transport.handled(arrived)
    assert other.transport.transit_bytes == 0


def test_data_that_alone_exceeds_the_budget_arrives(hosts: Hosts, wait_until: WaitUntil) -> None:
    one, other = hosts("one", "other", memory_bytes=2**20)
    meet(one, other)
    one.transport.send("other", DATA, is_data=True)
    one.transport.send("other", [b"control"])

    def both_are_there() -> bool:
        turn(one, other)
        return [each.frames for each in other.arrived] == [DATA, [b"control"]]

    wait_until(both_are_there)


def test_messages_that_wait_for_a_closed_link_are_counted(hosts: Hosts) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    one.transport.send("other", [b"a"])
    one.transport.send("other", [b"b", b"c"])
    one.transport.set_peers([])
    assert one.transport.counters["sends_to_unknown_peer"] == 2


def test_host_on_all_interfaces_tells_peers_the_address_that_it_is_given() -> None:
    keys = KeyPair.generate()
    with closing(Transport("one", keys, "0.0.0.0", now_us, advertised="10.1.2.3")) as transport:
        assert transport.endpoint.startswith("tcp://10.1.2.3:")


def test_hosts_on_different_addresses_reach_each_other(hosts: Hosts, wait_until: WaitUntil) -> None:
    """All of 127.0.0.0/8 is this machine (Linux)."""
    (one,) = hosts("one", address="127.0.0.2")
    (other,) = hosts("other", address="127.0.0.3")
    (everywhere,) = hosts("everywhere", address="0.0.0.0", advertised="127.0.0.4")
    meet(one, other, everywhere)
    told = [each.transport.endpoint.rpartition(":")[0] for each in (one, other, everywhere)]
    assert told == ["tcp://127.0.0.2", "tcp://127.0.0.3", "tcp://127.0.0.4"]
    for sender in (one, other, everywhere):
        for to in ("one", "other", "everywhere"):
            sender.transport.send(to, [sender.transport.node.encode()])

    def all_there() -> bool:
        turn(one, other, everywhere)
        return all(len(each.arrived) == 2 for each in (one, other, everywhere))

    wait_until(all_there)


def test_a_link_over_ipv6_comes_in_at_the_port_that_is_named(wait_until: WaitUntil) -> None:
    port = free_port()
    keys = [KeyPair.generate(), KeyPair.generate()]
    with (
        closing(Transport("one", keys[0], "[::1]", now_us, port=port)) as one,
        closing(Transport("other", keys[1], "::1", now_us)) as other,
    ):
        assert one.endpoint == f"tcp://[::1]:{port}"
        pairs = zip((one, other), keys, strict=True)
        peers = [
            Peer(
                node=each.node,
                incarnation="1",
                endpoint=each.endpoint,
                public_key=key.public.decode(),
                delay_ms=0.0,
            )
            for each, key in pairs
        ]
        for each in (one, other):
            each.set_peers(peers)
        other.send("one", [b"\x00hello"])
        other.flush()

        def came() -> bool:
            other.receive(2000)
            return any(isinstance(each, FramesArrived) for each in one.receive(2000))

        wait_until(came)


def test_wake_ends_a_wait(hosts: Hosts) -> None:
    (one,) = hosts("one")
    one.transport.wake()
    assert one.transport.receive(60_000_000) == []


@pytest.mark.slow
def test_a_message_beyond_all_frames_arrives_whole_and_in_order(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    large = [b"head", b"x" * (MAX_FRAME_BYTES + 1), b"", b"y" * PART_BYTES, b"end"]
    one.transport.send("other", [b"before"])
    one.transport.send("other", large)
    one.transport.send("other", [b"after"])

    def all_there() -> bool:
        turn(one, other)
        return len(other.arrived) == 3

    wait_until(all_there)
    assert [item.frames for item in other.arrived] == [[b"before"], large, [b"after"]]
    assert one.lost == other.lost == []


def test_a_bulky_message_is_overtaken_and_delays_nothing(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    made: list[int] = []

    def frames() -> Iterator[bytes]:
        for number in range(200):
            made.append(number)
            yield bytes([number]) * 1_000_000

    one.transport.send_bulk("other", "state", frames())
    assert made == []
    one.transport.send_bulk("other", "state", [b"asked again while the first is on its way"])
    for _ in range(3):
        turn(one, other)
    one.transport.send("other", [b"heartbeat"])

    def overtaken() -> bool:
        turn(one, other)
        return bool(other.arrived)

    wait_until(overtaken)
    assert [item.frames for item in other.arrived] == [[b"heartbeat"]]
    # No more than the window is under way.
    assert len(made) < 200

    def complete() -> bool:
        turn(one, other)
        return len(other.arrived) == 2

    wait_until(complete)
    assert [frame[:1] for frame in other.arrived[1].frames] == [bytes([n]) for n in range(200)]
    assert sum(map(len, other.arrived[1].frames)) == 200_000_000
    assert one.transport.counters["bulk_messages_repeated"] == 1
    assert one.lost == other.lost == []


def test_a_bulky_message_to_a_peer_that_dies_is_given_up(
    hosts: Hosts, wait_until: WaitUntil
) -> None:
    one, other = hosts("one", "other")
    meet(one, other)
    one.transport.send("other", [b"hello"])

    def met() -> bool:
        turn(one, other)
        return bool(other.arrived)

    wait_until(met)
    one.transport.send_bulk("other", "state", (b"x" * 1_000_000 for _ in range(50)))
    turn(one, other)
    other.transport.close()

    def given_up() -> bool:
        turn(one)
        return one.transport.counters["bulk_messages_given_up"] == 1

    wait_until(given_up)


def test_parts_that_take_long_to_make_are_made_one_a_flush() -> None:
    used_us, made = 0, list[int]()

    def slow() -> Iterator[bytes]:
        nonlocal used_us
        for number in range(100):
            used_us += FLUSHED_US
            made.append(number)
            yield b"groups"

    keys, other = KeyPair.generate(), Host("other")
    with (
        closing(other.transport),
        closing(Transport("one", keys, "127.0.0.1", now_us, lambda: used_us)) as t,
    ):
        t.set_peers([other.peer()])
        t.send_bulk("other", "state", slow())
        assert t.is_sending("other", "state")
        assert not t.is_sending("other", "else")
        assert not t.is_sending("nobody", "state")
        t.flush()
        # A part is sent when it is known whether another one follows.
        first = len(made)
        assert first == 2 * PART_FRAMES + 1
        t.flush()
        assert len(made) == first + PART_FRAMES


def test_states_keep_to_the_pace_over_all_links_one_after_the_other() -> None:
    at_us = 1
    rate_bytes_s, size = 1e6, 3 * PART_BYTES
    keys, near, far = KeyPair.generate(), Host("near"), Host("far")
    pace = StatePace(rate_bytes_s)
    with (
        closing(near.transport),
        closing(far.transport),
        closing(Transport("one", keys, "127.0.0.1", lambda: at_us, lambda: 0, pace=pace)) as t,
    ):
        t.set_peers([near.peer(), far.peer()])
        for peer in ("near", "far"):
            t.send_bulk(peer, "state", [bytes(size)])
        while t.is_sending("near", "state") or t.is_sending("far", "state"):
            t.flush()
            assert t.counters["bytes_sent"] <= PART_BYTES + 100 + rate_bytes_s * at_us / 1e6
            if t.is_sending("near", "state"):
                assert t.counters["bytes_sent"] <= size + 100
            at_us += 1_000
        # The last part is waited for as well.
        assert 2 * size / rate_bytes_s <= at_us / 1e6 <= 1.1 * 2 * size / rate_bytes_s
