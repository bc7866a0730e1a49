"""Probes over real, shaped links: coordinates follow when the link shaper's delay changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from ha.messages import Ping, Pong
from orchestrator.clock import now_us
from orchestrator.host.core.prober import COORDINATE_EXCHANGES, LINK_EXCHANGES, Prober
from orchestrator.host.shell.transport import FramesArrived, KeyPair, Transport
from orchestrator.host.shell.wire import decode, encode
from orchestrator.records import Peer
from topology.cpu import Linear


class Host:
    """A prober on a link."""

    def __init__(self, name: str, seed: int) -> None:
        self.keys = KeyPair.generate()
        self.transport = Transport(name, self.keys, "127.0.0.1", now_us)
        self.prober = Prober(np.random.default_rng(seed), Linear(10), 100_000)
        self.round_trips_ms: list[float] = []

    def peer(self, delay_ms: float) -> Peer:
        return Peer(
            node=self.transport.node,
            incarnation="1",
            endpoint=self.transport.endpoint,
            public_key=self.keys.public.decode(),
            delay_ms=delay_ms,
        )

    def turn(self) -> None:
        """Receive messages and answer probes."""
        for item in self.transport.receive(500):
            assert isinstance(item, FramesArrived)
            message = decode(item.frames, _no_stream)
            if isinstance(message, Ping):
                self.transport.send(item.sender, encode(self.prober.answer(message, now_us())))
            elif isinstance(message, Pong):
                self.prober.measured(item.sender, message, at_us := now_us())
                self.round_trips_ms.append((at_us - message.sent_us) / 1e3)


def _no_stream(stream: str) -> pa.Schema:
    raise AssertionError(f"nobody sends {stream}")


def exchange(one: Host, other: Host, count: int) -> None:
    """Both probe each other so many times, one probe after the other."""
    for host in (one, other) * count:
        probe = host.prober.next_probe(now_us())
        assert probe is not None
        to, ping = probe
        due = len(host.round_trips_ms) + 1
        host.transport.send(to, encode(ping))
        give_up_us = now_us() + 10_000_000
        while len(host.round_trips_ms) < due:
            assert now_us() < give_up_us, f"{to} does not answer"
            one.turn()
            other.turn()


def link(one: Host, other: Host, delay_ms: float) -> None:
    one.transport.set_peers([other.peer(delay_ms)])
    other.transport.set_peers([one.peer(delay_ms)])


def is_as_measured(one: Host, other: Host, exchanges: int) -> bool:
    """Whether the coordinates are as far apart as the last round trips took, give or take 25 %.

    On a busy machine, one takes several times as long as another.
    """
    recent_ms = one.round_trips_ms[-exchanges:] + other.round_trips_ms[-exchanges:]
    return 0.75 * min(recent_ms) <= distance_ms(one, other) <= 1.25 * max(recent_ms)


def distance_ms(one: Host, other: Host) -> float:
    here, there = one.prober.coordinate.position_ms, other.prober.coordinate.position_ms
    return float(np.linalg.norm(np.subtract(here, there)))


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that know of each other."""
    one, other = Host("one", 1), Host("other", 2)
    with closing(one.transport), closing(other.transport):
        one.prober.use(("other",))
        other.prober.use(("one",))
        yield one, other


def test_a_doubled_delay_is_reflected_within_the_stated_exchanges(hosts: tuple[Host, Host]) -> None:
    """Round trips are what the machine makes of them: the coordinates are held against those."""
    one, other = hosts
    link(one, other, 5)
    exchange(one, other, 40)
    assert one.prober.latencies_ms["other"] >= 10
    assert is_as_measured(one, other, 40)
    link(one, other, 10)
    exchange(one, other, LINK_EXCHANGES)
    assert one.prober.latencies_ms["other"] >= 20
    exchange(one, other, COORDINATE_EXCHANGES - LINK_EXCHANGES)
    assert is_as_measured(one, other, COORDINATE_EXCHANGES)
    assert distance_ms(one, other) > 1.5 * 10
