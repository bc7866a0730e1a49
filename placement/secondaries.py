"""Secondaries: a node that keeps the recovery bound (reliable placement, §4.5).

Two searches, by `SecondarySearch`:

*Outwards* is the paper's. A secondary is fed by the primaries upstream, so the search starts at
the one that sends most, projected to CPU = 0 (with two inputs, §4.5.2 proves by the triangle
inequality that no place between them is cheaper), and goes outwards, nearest first with the CPU
axis. The first node wins that (1) is not the primary's and (2) is within the bound of every
upstream primary. The bound is on R with detection, which under Active Standby is a condition on
the latency as in the text; inputs beyond two are taken the same way.

*Cheapest* takes, of all nodes that keep the bound, the one where traffic from the upstream
primaries and load price (`placement.load`) cost least together. The node must have room, and must
lie in another failure domain than the primary where the hosts lie in several. Secondaries are then
placed in topological order, since a neighbour that dies with the primary is recovered from too
(`placement.evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from placement.errors import BoundUnattainable, NoNode
from placement.evaluate import Places, Recovery, Standby, recovery, transfers_ms
from placement.graph import Link, QueryGraph
from placement.load import Load
from placement.network import NetworkView
from topology.arrays import BoolArray, FloatArray


class SecondarySearch(Enum):
    """How a secondary is looked for; see the module."""

    OUTWARDS = auto()
    CHEAPEST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyTask:
    """The part of a planning problem that secondaries are chosen for.

    Attributes
    ----------
    primaries
        Node of every operator, pinned ones included.
    detection_ms, bound_ms
        Time to notice a death, and R', the query's recovery bound.
    """

    graph: QueryGraph
    view: NetworkView
    primaries: Places
    detection_ms: float
    bound_ms: float
    search: SecondarySearch = SecondarySearch.CHEAPEST

    def standby(self, operator: str, node: str, standbys: Mapping[str, Standby]) -> Standby:
        """What the node would be worth as the operator's secondary."""
        return Standby(
            node=node,
            recovery=recovery(
                self.graph, operator, node, self.primaries, standbys, self.view, self.detection_ms
            ),
        )

    def is_legal(self, operator: str, standby: Standby) -> bool:
        """Whether it stands elsewhere, within the bound, and would not die with the primary."""
        at = self.view.index[standby.node]
        return bool(self.survivors(operator)[at]) and standby.recovery.total_ms <= self.bound_ms

    def survivors(self, operator: str) -> BoolArray:
        """Nodes that need not die with the operator's primary, shape (n,)."""
        primary = self.view.index[self.primaries[operator]]
        if self.search is SecondarySearch.CHEAPEST and self.view.several_domains:
            return self.view.domain_ids != self.view.domain_ids[primary]
        return np.arange(len(self.view.nodes)) != primary


def place_secondaries(
    task: StandbyTask, load: Load, keep: Mapping[str, str | None]
) -> dict[str, Standby]:
    """Choose a secondary for every operator to be placed; kept ones stay if they are legal.

    Parameters
    ----------
    task
        What to protect, and how well.
    load
        With all primaries of the query.
    keep
        Secondaries that run now, all on nodes that host operators.

    Raises
    ------
    NoNode
        If there is no second node to stand by on.
    BoundUnattainable
        If none keeps the bound: with the best that could be had.
    """
    standbys: dict[str, Standby] = {}
    running = {name: node for name in task.graph.to_place if (node := keep.get(name)) is not None}
    for name, node in running.items():
        load = load.with_replicas((node,), task.graph.cores(name))
    for name in task.graph.to_place:
        if name in running:
            kept = task.standby(name, running[name], standbys)
            if task.is_legal(name, kept):
                standbys[name] = kept
                continue
        standbys[name] = _search(task, name, load, standbys)
        load = load.with_replicas((standbys[name].node,), task.graph.cores(name))
    return standbys


def _search(
    task: StandbyTask, operator: str, load: Load, standbys: Mapping[str, Standby]
) -> Standby:
    graph, view = task.graph, task.view
    hosts = view.host_indices
    outwards = task.search is SecondarySearch.OUTWARDS
    # The paper recovers from primaries alone.
    known: Mapping[str, Standby] = {} if outwards else standbys
    transfer_ms = transfers_ms(graph, operator, hosts, task.primaries, known, view)
    possible = task.survivors(operator)[hosts]
    if not outwards:
        possible &= load.has_room(graph.cores(operator))[hosts]
    if not possible.any():
        raise NoNode(graph.name, operator, _why_none(task, operator, hosts))
    # Beyond the bound is beyond choice; what remains is compared by the search's own measure.
    dearness = _distance_ms(task, operator, load) if outwards else _cost(task, operator, load)
    legal = possible & (task.detection_ms + transfer_ms <= task.bound_ms)
    if not legal.any():
        fastest = int(np.where(possible, transfer_ms, np.inf).argmin())
        (node,) = view.names(hosts[[fastest]])
        raise _unattainable(task, operator, node, float(transfer_ms[fastest]))
    best = int(np.where(legal, dearness, np.inf).argmin())
    (node,) = view.names(hosts[[best]])
    return Standby(
        node=node,
        recovery=Recovery(
            detection_ms=task.detection_ms,
            transfer_ms=float(transfer_ms[best]),
            reprocess_ms=0.0,
        ),
    )


def _distance_ms(task: StandbyTask, operator: str, load: Load) -> FloatArray:
    """Distance from the start point with the CPU axis, by host, ms."""
    view = task.view
    main = max(task.graph.inputs[operator], key=_rate)
    start = view.node(task.primaries[main.source]).position_ms
    apart_ms = np.linalg.norm(view.positions_ms[view.host_indices] - start, axis=1)
    return np.hypot(apart_ms, load.cpu_ms()[view.host_indices])


def _cost(task: StandbyTask, operator: str, load: Load) -> FloatArray:
    """Standby traffic and load price, by host, bytes."""
    graph, view = task.graph, task.view
    hosts = view.host_indices
    cost = load.price_bytes(graph.input_rate(operator))[hosts]
    for link in graph.inputs[operator]:
        source = np.array([view.index[task.primaries[link.source]]])
        cost = cost + link.rate_bytes_s * view.one_way_between(source, hosts)[0] / 1e3
    return cost


def _why_none(task: StandbyTask, operator: str, hosts: npt.NDArray[np.int64]) -> str:
    primary = task.primaries[operator]
    if len(hosts[hosts != task.view.index[primary]]) == 0:
        return f"{primary} runs it and no second node could stand by"
    cores = task.graph.cores(operator)
    return (
        f"{primary} runs it and no node of another failure domain has the {cores:g} cores left "
        "that a standby needs"
    )


def _unattainable(
    task: StandbyTask, operator: str, node: str, transfer_ms: float
) -> BoundUnattainable:
    links = task.graph.inputs[operator]
    return BoundUnattainable(
        task.graph.name,
        operator,
        bound_ms=task.bound_ms,
        best_ms=task.detection_ms + transfer_ms,
        best_node=node,
        detection_ms=task.detection_ms,
        transfer_ms=transfer_ms,
        reprocess_ms=0.0,
        inputs=tuple(f"{link.source} @ {task.primaries[link.source]}" for link in links),
    )


def _rate(link: Link) -> float:
    return link.rate_bytes_s
