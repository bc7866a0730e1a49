"""Network usage, recovery time and longest path by their definitions, one link after the other.

Slow and plain on purpose: the figures that `placement.evaluation` computes in arrays are compared
with these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from placement.evaluation.cost import Reader, StandbyRates
from placement.graph import QueryGraph
from placement.network import NetworkView, Node
from placement.records import Recovery

Places = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A secondary upstream, which may have to go on sending."""

    node: str
    recovery: Recovery


def recovery(
    graph: QueryGraph,
    operator: str,
    secondary: str,
    primaries: Places,
    standbys: Mapping[str, Standby],
    view: NetworkView,
    detection_ms: float,
    batch_size: int = 1,
) -> Recovery:
    """Recovery time (1) of an operator if `secondary` stood by for it."""
    transfer_ms = 0.0
    for link in graph.inputs[operator]:
        node, caught_up_ms = primaries[link.source], 0.0
        standby = standbys.get(link.source)
        if standby is not None and node == primaries[operator]:
            node, caught_up_ms = standby.node, standby.recovery.catch_up_ms
        transfer_ms = max(transfer_ms, caught_up_ms + view.one_way_ms(node, secondary))
    held = (batch_size - 1) * len(graph.inputs[operator])
    return Recovery(
        detection_ms=detection_ms,
        transfer_ms=transfer_ms,
        reprocess_ms=held * graph.by_name[operator].cost_us / 1e3,
    )


def primary_usage(graph: QueryGraph, primaries: Places, view: NetworkView) -> float:
    """Network usage (2) of the links between primaries, bytes."""
    return sum(
        link_usage(link.rate_bytes_s, primaries[link.source], primaries[name], view)
        for name in graph.order
        for link in graph.inputs[name]
    )


def standby_usage(
    graph: QueryGraph, primaries: Places, secondaries: Places, view: NetworkView
) -> float:
    """Network usage (2) of the same streams to the secondaries, bytes."""
    return sum(
        link_usage(link.rate_bytes_s, primaries[link.source], secondaries[name], view)
        for name in graph.to_place
        for link in graph.inputs[name]
    )


def link_usage(rate_bytes_s: float, source: str, target: str, view: NetworkView) -> float:
    """DR·Lat of one link, bytes."""
    return rate_bytes_s * view.one_way_ms(source, target) / 1e3


def longest_path_ms(
    graph: QueryGraph, primaries: Places, view: NetworkView, hop_overhead_ms: float
) -> float:
    """Latency of the slowest output, from its farthest source, ms."""
    arrived_ms: dict[str, float] = {}
    for name in graph.order:
        reached_ms = [
            arrived_ms[link.source]
            + view.one_way_ms(primaries[link.source], primaries[name])
            + hop_overhead_ms
            for link in graph.inputs[name]
        ]
        arrived_ms[name] = max(reached_ms, default=0.0) + graph.by_name[name].cost_us / 1e3
    return max(arrived_ms.values(), default=0.0)


def cost(
    graph: QueryGraph,
    primaries: Places,
    secondaries: Places,
    view: NetworkView,
    crossing_ms: float,
    standbys: Mapping[str, StandbyRates],
    readers: Sequence[Reader],
) -> float:
    """What the streams of a placement cost, bytes: see `placement.evaluation.cost`."""

    def price(rate: float, source: str, target: str, crossing_ms: float) -> float:
        crosses_ms = 0.0 if source == target else crossing_ms
        return rate * (view.one_way_ms(source, target) + crosses_ms) / 1e3

    total = 0.0
    for link in graph.links:
        source, free = primaries[link.source], graph.by_name[link.source].flows_to
        if primaries[link.target] not in free:
            total += price(link.rate_bytes_s, source, primaries[link.target], crossing_ms)
        if link.target in secondaries and secondaries[link.target] not in free:
            fed = standbys.get(link.target)
            sent = link.rate_bytes_s if fed is None else fed.inputs[link.source]
            total += price(sent, source, secondaries[link.target], 0.0)
    for name, fed in standbys.items():
        total += price(fed.own, primaries[name], secondaries[name], 0.0)
    for reader in readers:
        crossing = 0.0 if reader.is_secondary else crossing_ms
        total += price(reader.rate_bytes_s, primaries[reader.operator], reader.node, crossing)
    return total


LABELS = ("application", "domain", "machine", "driver", "zone")


def label(node: Node, kind: str) -> set[str]:
    """Of which two nodes may share none; empty: it has none."""
    found = {node.machine, node.driver} if kind == "driver" else {getattr(node, kind)}
    return found - {""}


def shared(view: NetworkView, one: Node, other: Node) -> set[str]:
    """Kinds of labels that two nodes share, and of which the hosts have several values."""
    return {
        kind
        for kind in LABELS
        if label(one, kind) & label(other, kind)
        and (kind != "driver" or any(node.driver for node in view.nodes))
        and any(not label(a, kind) & label(b, kind) for a, b in combinations(view.hosts, 2))
    }


def apart(view: NetworkView, one: str, other: str, *dropped: str) -> bool:
    """Whether two replicas may be on these nodes."""
    return one != other and shared(view, view.node(one), view.node(other)) <= set(dropped)


def looseness(view: NetworkView, one: str, other: str) -> int:
    """How many kinds of labels, zones first, then drivers, then machines, must be out of account
    before two replicas may be on these nodes; 4 if that never is."""
    parting = {kind for a, b in combinations(view.nodes, 2) for kind in shared(view, a, b)}
    dropped: list[str] = []
    for kind in ("", "zone", "driver", "machine"):
        if kind in parting and len(parting - {*dropped}) == 1:
            break
        dropped.append(kind)
        if apart(view, one, other, *dropped):
            return len(dropped) - 1
    return 4
