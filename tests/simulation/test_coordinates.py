"""Coordinates of hosts without a coordinator, also after the network has changed."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from foundation.bounds import MAX_RTT_MS
from ha.messages import Pong
from orchestrator.host.core.prober import COORDINATE_EXCHANGES, LINK_EXCHANGES, Prober
from orchestrator.records import Assignment, ClusterRecord, HostSpec, NodeKind, Peer
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import ASSIGNMENTS, NODES, Store

WITHIN_MS, ACROSS_MS = 2.0, 20.0
"""One-way delays."""

WEST, EAST = ("w1", "w2", "w3"), ("e1", "e2", "e3")
CROSS = tuple(product(WEST, EAST))


def start(seed: int) -> World:
    """Hosts of two regions, without a coordinator."""
    specs = [
        HostSpec(
            cluster="c",
            node=node,
            kind=NodeKind.EXECUTOR,
            region=node[0],
            zookeeper="",
            secret="",
        )
        for node in (*WEST, *EAST)
    ]
    return World(
        ClusterRecord(name="c", delays_ms={}),
        specs,
        seed=seed,
        deliver=lambda _node, _delivery, _arrived_us: None,
    )


def shape_links(world: World, store: Store, across_ms: float) -> None:
    """Tell all hosts how far away the others are, as the coordinator does the link shaper."""
    for node, host in world.hosts.items():
        peers = tuple(
            Peer(
                node=other,
                incarnation=world.hosts[other].incarnation,
                endpoint="",
                public_key="",
                delay_ms=WITHIN_MS if other[0] == node[0] else across_ms,
            )
            for other in world.hosts
            if other != node
        )
        assignment = Assignment(incarnation=host.incarnation, peers=peers)
        found = store.get(ASSIGNMENTS.key(node))
        if found is None:
            store.create(ASSIGNMENTS.key(node), assignment)
        else:
            store.update(ASSIGNMENTS.key(node), assignment, found.version)


def distances_ms(world: World) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Distances of all pairs across the regions, by their coordinates."""
    places = {node: host.core.prober.coordinate.position_ms for node, host in world.hosts.items()}
    return np.array([np.linalg.norm(np.subtract(places[w], places[e])) for w, e in CROSS], float)


class Exchanges:
    """Counts what each host measures from now on."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_link: Counter[tuple[str, str]] = Counter()
        self._names = {id(host.core.prober): node for node, host in world.hosts.items()}
        measured = Prober.measured

        def counted(prober: Prober, peer: str, pong: Pong, now_us: int) -> None:
            self.by_link[self._names[id(prober)], peer] += 1
            measured(prober, peer, pong, now_us)

        monkeypatch.setattr(Prober, "measured", counted)

    def least(self) -> int:
        """The least number of measurements of any host."""
        of_host: Counter[str] = Counter()
        for (node, _), count in self.by_link.items():
            of_host[node] += count
        return min(of_host[node] for node in self._names.values())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_latency_between_regions_doubles(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = start(seed)
    store = world.server.connect()
    shape_links(world, store, ACROSS_MS)
    world.run_for(60)
    assert distances_ms(world) == pytest.approx(2 * ACROSS_MS, rel=0.1)

    shape_links(world, store, 2 * ACROSS_MS)
    world.run_for(0.1)
    exchanges = Exchanges(world, monkeypatch)
    while exchanges.least() < COORDINATE_EXCHANGES:
        world.run_for(0.02)
        for (node, peer), count in exchanges.by_link.items():
            if node[0] != peer[0] and count >= LINK_EXCHANGES:
                latencies_ms = world.hosts[node].core.prober.latencies_ms
                assert latencies_ms[peer] == pytest.approx(4 * ACROSS_MS, rel=0.01)
    assert distances_ms(world) == pytest.approx(4 * ACROSS_MS, rel=0.1)


def test_the_record_says_how_uncertain_the_place_is() -> None:
    world = start(1)
    store = world.server.connect()
    world.run_for(0.1)
    before = store.list(NODES).records
    assert {n.record.coordinate.error_ms for n in before.values() if n.record.coordinate} == {
        MAX_RTT_MS
    }
    shape_links(world, store, ACROSS_MS)
    world.run_for(60)
    for found in store.list(NODES).records.values():
        assert found.record.coordinate is not None
        assert 0 < found.record.coordinate.error_ms < 0.05 * 2 * ACROSS_MS
