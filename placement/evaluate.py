"""What a placement costs and promises: network usage, recovery time, latency of the outputs.

Network usage and recovery time are the paper's (reliable placement, §3.3, (2) and (1)), with
Lat and K one-way latencies. In (1) the time until the death is noticed is left out; here it is
part of the recovery time, as the bound a user states is about silence at the output:

    R = detection + max_i K_i + Σ_i Q_i·p

*Q.* The tuples that upstream i holds back from the secondary: all but one of a batch of
B (`placement.schemes`), none under Active Standby, where B = 1. What is on its way when the primary
dies is not held: it is processed as it comes in, while the last of it travels the K_i.

*K when neighbours die together.* The paper takes K_i from the primary of upstream i. If that runs
on the very node whose death is recovered from, it is upstream i's own secondary that goes on
sending, once it has caught up; K_i is then that catching up and the way from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement.graph import Link, QueryGraph
from placement.network import NetworkView
from topology.arrays import FloatArray, IntArray

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
        ΣQ·p: processing what was held back.
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
    """The secondary of one operator, fed in batches of so many tuples (1: Active Standby)."""

    node: str
    recovery: Recovery
    batch_size: int = 1


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
    batch_size: int = 1,
) -> Recovery:
    """Recovery time (1) of an operator if `secondary` stood by for it.

    Parameters
    ----------
    primaries
        Node of every operator.
    standbys
        Secondaries of the operators upstream. One that has none (it is pinned) and shares the
        operator's node counts as if it survived: nothing could take its place.
    batch_size
        B, tuples that each upstream sends the secondary at once, ≥ 1.
    """
    nodes = np.array([view.index[view.node(secondary).name]])
    transfer_ms = transfers_ms(graph, operator, nodes, primaries, standbys, view)
    return Recovery(
        detection_ms=detection_ms,
        transfer_ms=float(transfer_ms[0]),
        reprocess_ms=reprocess_ms(graph, operator, batch_size),
    )


def transfers_ms(
    graph: QueryGraph,
    operator: str,
    secondaries: IntArray,
    primaries: Places,
    standbys: Mapping[str, Standby],
    view: NetworkView,
) -> FloatArray:
    """max K for many secondaries at once; see `recovery`.

    Parameters
    ----------
    secondaries
        Indices of nodes, shape (s,).

    Returns
    -------
    FloatArray
        Shape (s,), ms.
    """
    slowest_ms = np.zeros(len(secondaries))
    for link in graph.inputs[operator]:
        node, caught_up_ms = primaries[link.source], 0.0
        standby = standbys.get(link.source)
        if standby is not None and node == primaries[operator]:
            node, caught_up_ms = standby.node, standby.recovery.catch_up_ms
        source = np.array([view.index[view.node(node).name]])
        delay_ms = caught_up_ms + view.one_way_between(source, secondaries)[0]
        slowest_ms = np.maximum(slowest_ms, delay_ms)
    return slowest_ms


def reprocess_ms(graph: QueryGraph, operator: str, batch_size: int) -> float:
    """ΣQ·p: work on what the upstreams of an operator hold back at most, ms."""
    held = (batch_size - 1) * len(graph.inputs[operator])
    return held * graph.by_name[operator].cost_us / 1e3


def primary_usage(graph: QueryGraph, primaries: Places, view: NetworkView) -> float:
    """Network usage (2) of the links between primaries: Σ DR·Lat, bytes/s × s = bytes."""
    links = [link for name in graph.order for link in graph.inputs[name]]
    return _usage(links, primaries, primaries, view)


def standby_usage(
    graph: QueryGraph, primaries: Places, secondaries: Places, view: NetworkView
) -> float:
    """Network usage (2) of what Active Standby adds: the same streams to the secondaries, bytes."""
    links = [link for name in graph.to_place if name in secondaries for link in graph.inputs[name]]
    return _usage(links, primaries, secondaries, view)


def _usage(links: Sequence[Link], sources: Places, targets: Places, view: NetworkView) -> float:
    """Σ DR·Lat, bytes."""
    delays_ms = view.one_ways_ms([(sources[link.source], targets[link.target]) for link in links])
    usages = (
        link.rate_bytes_s * delay_ms / 1e3 for link, delay_ms in zip(links, delays_ms, strict=True)
    )
    return sum(usages, 0.0)


def link_usage(rate_bytes_s: float, source: str, target: str, view: NetworkView) -> float:
    """DR·Lat of one link, bytes."""
    return rate_bytes_s * view.one_way_ms(source, target) / 1e3


def longest_path(
    graph: QueryGraph, primaries: Places, view: NetworkView, hop_overhead_ms: float
) -> LongestPath:
    """Latency of the slowest output, from its farthest source.

    A tuple pays the one-way latency and `hop_overhead_ms` for each link, and each operator's cost.
    An operator with several inputs waits for the last, so the longest path counts. Queueing is not
    in it: that is what deadlines on nodes are for.
    """
    links = [link for name in graph.order for link in graph.inputs[name]]
    # In the order in which they are come to.
    delays_ms = iter(view.one_ways_ms([(primaries[n.source], primaries[n.target]) for n in links]))
    arrived_ms: dict[str, float] = {}
    via: dict[str, str] = {}
    for name in graph.order:
        arrived_ms[name] = graph.by_name[name].cost_us / 1e3
        latest_ms = -1.0
        for link in graph.inputs[name]:
            reached_ms = arrived_ms[link.source] + next(delays_ms) + hop_overhead_ms
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


def with_nodes(operators: Sequence[str], primaries: Places) -> tuple[str, ...]:
    """A path for people: `operator @ node`."""
    return tuple(f"{name} @ {primaries[name]}" for name in operators)
