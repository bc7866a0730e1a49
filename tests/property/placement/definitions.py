"""Network usage, recovery time and longest path by their definitions, one link after the other.

Slow and plain on purpose: the figures that `placement.evaluation` computes in arrays are compared
with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.graph import QueryGraph
from placement.network import NetworkView
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
