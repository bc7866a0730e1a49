"""What a placement costs and promises: network usage, recovery time, latency of the outputs.

Network usage and recovery time are the paper's (reliable placement, §3.3, (2) and (1)), with
Lat and K one-way latencies. In (1) the time until the death is noticed is left out; here it is
part of the recovery time, as the bound a user states is about silence at the output:

    R = detection + max_i K_i + Σ_i Q_i·p

*Q under Active Standby.* The secondary gets every tuple at once and works in step with the
primary, so what it still has to process when it takes over is what is on its way to it: the
tuples an upstream sent during the last K_i, Q_i = (tuples/s)·K_i. What was sent before it has
processed and answers from its own output log.

*K when neighbours die together.* The paper takes K_i from the primary of upstream i. If that runs
on the very node whose death is recovered from, it is upstream i's own secondary that goes on
sending, once it has caught up; K_i is then that catching up and the way from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.graph import QueryGraph
from placement.network import NetworkView

Places = Mapping[str, str]
"""Operator → node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Recovery time of one operator on one secondary, ms, by its parts.

    Attributes
    ----------
    detection_ms
        Until the primary's death is noticed.
    transfer_ms
        max K: from the farthest upstream primary to the secondary.
    reprocess_ms
        ΣQ·p: processing what was on its way.
    """

    detection_ms: float
    transfer_ms: float
    reprocess_ms: float

    @property
    def catch_up_ms(self) -> float:
        """From noticing the death to being up to date, ms."""
        return self.transfer_ms + self.reprocess_ms

    @property
    def total_ms(self) -> float:
        """R, ms."""
        return self.detection_ms + self.catch_up_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """The secondary of one operator."""

    node: str
    recovery: Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestPath:
    """The slowest way from a source to an output."""

    latency_ms: float
    operators: tuple[str, ...]


def recovery(
    graph: QueryGraph,
    operator: str,
    secondary: str,
    primaries: Places,
    standbys: Mapping[str, Standby],
    view: NetworkView,
    detection_ms: float,
) -> Recovery:
    """Recovery time (1) of an operator if `secondary` stood by for it.

    Parameters
    ----------
    primaries
        Node of every operator.
    standbys
        Secondaries of the operators upstream. One that has none (it is pinned) and shares the
        operator's node counts as if it survived: nothing could take its place.
    """
    cost_us = graph.by_name[operator].cost_us
    transfer_ms = 0.0
    reprocess_ms = 0.0
    for link in graph.inputs[operator]:
        node = primaries[link.source]
        standby = standbys.get(link.source)
        if standby is not None and node == primaries[operator]:
            delay_ms = standby.recovery.catch_up_ms + view.one_way_ms(standby.node, secondary)
        else:
            delay_ms = view.one_way_ms(node, secondary)
        transfer_ms = max(transfer_ms, delay_ms)
        in_flight = link.tuples_s * delay_ms / 1e3
        reprocess_ms += in_flight * cost_us / 1e3
    return Recovery(detection_ms=detection_ms, transfer_ms=transfer_ms, reprocess_ms=reprocess_ms)


def primary_usage(graph: QueryGraph, primaries: Places, view: NetworkView) -> float:
    """Network usage (2) of the links between primaries: Σ DR·Lat, bytes/s × s = bytes."""
    return sum(
        link_usage(link.rate_bytes_s, primaries[link.source], primaries[name], view)
        for name in graph.order
        for link in graph.inputs[name]
    )


def standby_usage(
    graph: QueryGraph, primaries: Places, secondaries: Places, view: NetworkView
) -> float:
    """Network usage (2) of what Active Standby adds: the same streams to the secondaries, bytes."""
    return sum(
        link_usage(link.rate_bytes_s, primaries[link.source], secondaries[name], view)
        for name in graph.to_place
        for link in graph.inputs[name]
    )


def link_usage(rate_bytes_s: float, source: str, target: str, view: NetworkView) -> float:
    """DR·Lat of one link, bytes."""
    return rate_bytes_s * view.one_way_ms(source, target) / 1e3


def longest_path(
    graph: QueryGraph, primaries: Places, view: NetworkView, hop_ms: float
) -> LongestPath:
    """Latency of the slowest output, from its farthest source.

    A tuple pays the one-way latency and `hop_ms` for each link, and each operator's cost. An
    operator with several inputs waits for the last, so the longest path counts. Queueing is not
    in it: that is what deadlines on nodes are for.
    """
    arrived_ms: dict[str, float] = {}
    via: dict[str, str] = {}
    for name in graph.order:
        arrived_ms[name] = graph.by_name[name].cost_us / 1e3
        latest_ms = -1.0
        for link in graph.inputs[name]:
            network_ms = view.one_way_ms(primaries[link.source], primaries[name])
            reached_ms = arrived_ms[link.source] + network_ms + hop_ms
            if reached_ms > latest_ms:
                latest_ms, via[name] = reached_ms, link.source
        arrived_ms[name] += max(latest_ms, 0.0)
    if not arrived_ms:
        return LongestPath(latency_ms=0.0, operators=())
    last = max(graph.order, key=arrived_ms.__getitem__)
    path = [last]
    while path[-1] in via:
        path.append(via[path[-1]])
    return LongestPath(latency_ms=arrived_ms[last], operators=tuple(reversed(path)))
