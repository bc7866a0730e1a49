"""Places that fragments may get instead of those that are said, because readings are uncertain.

What a node costs follows from round trips, which differ from one reading to the next, most of all
on hosts that have just begun. Where two nodes cost about as much, the leader's choice rests on the
reading of that moment, and on which host records first that something is gone: each secondary
that it names makes a node dearer for the next one. Nobody knows these beforehand. So the loss is
decided some times more, each time with readings drawn anew within their uncertainty and with
records that come one by one in another order.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

import msgspec

from orchestrator.records import NodeCoordinate
from orchestrator.simulation.paper.cluster import PaperCluster
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.copied import StoreCopy, copy_of
from orchestrator.store.protocol import NODES

DRAWS = 6
"""How often a loss is decided again. What comes with a chance of a quarter each time is missing
in one answer of six."""

Place = tuple[str | None, str | None]
"""Nodes of primary and secondary."""


def alternative_places(
    copy: StoreCopy, now_us: int, lost: Collection[str], said: Mapping[str, Place]
) -> dict[str, tuple[Place, ...]]:
    """Fragment → places other than those said.

    Parameters
    ----------
    copy, now_us
        Before the loss, and the cluster's clock.
    lost
        Hosts that end.
    said
        Where fragments are afterwards by the readings as they are.
    """
    found: dict[str, set[Place]] = {name: set() for name in said}
    for number in range(DRAWS):
        rng = random.Random(number)
        paper = PaperCluster(read_again(copy, rng), now_us)
        paper.settle()
        paper.lose(lost, order=rng)
        for name, place in paper.places().items():
            if name in said and place != said[name]:
                found[name].add(place)
    return {
        name: tuple(sorted(places, key=lambda each: [node or "" for node in each]))
        for name, places in found.items()
        if places
    }


def read_again(copy: StoreCopy, rng: random.Random) -> StoreCopy:
    """The same records with round trips and coordinates within their uncertainty."""
    server = MemoryServer()
    server.restore(copy)
    store = server.connect()
    for name, found in store.list(NODES).records.items():
        node = found.record
        latencies_ms = {
            peer: max(rtt_ms + rng.uniform(-0.5, 0.5) * node.spreads_ms.get(peer, 0.0), 0.0)
            for peer, rtt_ms in node.latencies_ms.items()
        }
        coordinate = node.coordinate and _elsewhere(node.coordinate, rng)
        again = msgspec.structs.replace(node, latencies_ms=latencies_ms, coordinate=coordinate)
        store.update(NODES.key(name), again, found.version)
    return copy_of(store)


def _elsewhere(told: NodeCoordinate, rng: random.Random) -> NodeCoordinate:
    """A coordinate in a random direction, no farther away than it may be off."""
    way = [rng.gauss(0.0, 1.0) for _ in told.position_ms]
    length = sum(each * each for each in way) ** 0.5 or 1.0
    share = rng.uniform(0.0, told.error_ms) / length
    position_ms = tuple(at + share * each for at, each in zip(told.position_ms, way, strict=True))
    return msgspec.structs.replace(told, position_ms=position_ms)
