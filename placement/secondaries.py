"""Secondaries: a node that keeps the recovery bound (reliable placement, §4.5).

There are two searches (`SecondarySearch`):

*Outwards* is the paper's. A secondary is fed by the primaries upstream, so the search starts at
the one that sends most, projected to CPU = 0 (with two inputs, §4.5.2 proves by the triangle
inequality that no place between them is cheaper), and goes outwards, nearest first with the CPU
axis. The first node wins that (1) is not the primary's and (2) is within the bound of every
upstream primary. The bound is on R with detection, which under Active Standby is a condition on
the latency as in the text; inputs beyond two are treated the same way.

*Cheapest* replaces it. Of all nodes that keep the bound, it takes the one where traffic from the
upstream primaries and load price (`placement.evaluation.load`) cost least together. Blocks of hosts
that are too far from the primaries to hold it are not looked into (`placement.host_blocks`), unless
latencies are measured: then any host may be near. The traffic is
that of Active Standby, or what the caller says (`StandbyTraffic`): a secondary that is fed
otherwise is sent less, and how much less depends on where it stands. The node must have room, and
share no failure domain with the primary (`placement.failure_domains`).
Secondaries are placed in topological order, because a neighbour that dies with the primary is
recovered from too (`placement.evaluation.evaluator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.errors import BoundUnattainable, NoNode
from placement.evaluation.evaluator import Evaluator
from placement.evaluation.load import Load
from placement.evaluation.single import Places, as_batch
from placement.graph import Link, QueryGraph
from placement.host_blocks import HostBlocks
from placement.network import NetworkView
from placement.records import Recovery, Secondary


class SecondarySearch(Enum):
    """How a secondary is looked for; see the module."""

    OUTWARDS = auto()
    CHEAPEST = auto()


class StandbyTraffic(Protocol):
    """Prices the feeding of secondaries."""

    def __call__(self, operator: str, nodes: IntArray, transfer_ms: FloatArray) -> FloatArray:
        """Network usage (2) of feeding an operator's secondary on each of some nodes, bytes.

        Parameters
        ----------
        nodes, transfer_ms
            Indices of nodes that keep the bound under Active Standby, and max K there.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyTask:
    """The part of a planning problem that secondaries are chosen for.

    Attributes
    ----------
    primaries
        Node of every operator, pinned ones included.
    detection_ms, bound_ms
        Time to notice a death, and R', the query's recovery bound.
    batch_size
        B of the standby scheme, ≥ 1.
    traffic
        None: that of Active Standby.
    """

    graph: QueryGraph
    view: NetworkView
    primaries: Places
    detection_ms: float
    bound_ms: float
    search: SecondarySearch = SecondarySearch.CHEAPEST
    batch_size: int = 1
    traffic: StandbyTraffic | None = None

    def survivors(self, operator: str) -> BoolArray:
        """Nodes that need not die with the operator's primary, shape (n,)."""
        primary = self.view.index[self.primaries[operator]]
        if self.search is SecondarySearch.CHEAPEST:
            return self.view.domains.apart_from(primary)
        return np.arange(len(self.view.nodes)) != primary


def place_secondaries(
    task: StandbyTask, load: Load, keep: Mapping[str, str | None]
) -> dict[str, Secondary]:
    """Choose a secondary for every operator to be placed; kept ones stay if they are legal.

    Parameters
    ----------
    task
        The operators to protect, and their bounds.
    load
        With all primaries of the query.
    keep
        Secondaries that run now, all on nodes that are there.

    Raises
    ------
    NoNode
        If there is no second node to stand by on.
    BoundUnattainable
        If none keeps the bound: with the best that could be had.
    """
    graph, view = task.graph, task.view
    running = {name: node for name in graph.to_place if (node := keep.get(name)) is not None}
    load = load.with_operators(graph, {name: (node,) for name, node in running.items()})
    chain = _Recoveries(task)
    found: dict[str, Secondary] = {}
    for name in graph.to_place:
        if name in running:
            at = view.at(running[name])
            recovery = chain.of(name, float(chain.transfer_ms(name, np.array([at]))[0]))
            if task.survivors(name)[at] and recovery.total_ms <= task.bound_ms:
                found[name] = chain.settle(name, at, recovery)
                continue
        at, recovery = _search(task, name, load, chain)
        found[name] = chain.settle(name, at, recovery)
        load = load.with_operators(graph, {name: (found[name].node,)})
    return found


class _Recoveries:
    """Recovery times (1) given the secondaries that are chosen already.

    As long as an operator has none, it counts as if it survived its node, and under the paper's
    search all do: the paper recovers from primaries alone.
    """

    def __init__(self, task: StandbyTask) -> None:
        self._task = task
        self._evaluator = Evaluator(task.graph, task.view.one_way_of, batch_size=task.batch_size)
        self._batch = as_batch(task.graph, task.view, task.primaries)
        self._catch_up_ms = np.zeros(self._batch.primaries.shape)

    def transfer_ms(self, operator: str, nodes: IntArray) -> FloatArray:
        """max K of the operator's secondary on each of some nodes, ms."""
        o = self._evaluator.column[operator]
        return self._evaluator.transfer_ms(o, self._batch, nodes, self._catch_up_ms)

    def of(self, operator: str, transfer_ms: float) -> Recovery:
        """The whole recovery time."""
        return Recovery(
            detection_ms=self._task.detection_ms,
            transfer_ms=transfer_ms,
            reprocess_ms=float(self._evaluator.reprocess_ms[self._evaluator.column[operator]]),
        )

    def settle(self, operator: str, node: int, recovery: Recovery) -> Secondary:
        """Choose the operator's secondary."""
        if self._task.search is SecondarySearch.CHEAPEST:
            o = self._evaluator.column[operator]
            self._batch.secondaries[0, o] = node
            self._catch_up_ms[0, o] = recovery.catch_up_ms
        return Secondary(node=self._task.view.nodes[node].name, recovery=recovery)


def _search(
    task: StandbyTask, operator: str, load: Load, chain: _Recoveries
) -> tuple[int, Recovery]:
    """The best node that keeps the bound, by its index."""
    view = task.view
    outwards = task.search is SecondarySearch.OUTWARDS
    possible = task.survivors(operator)
    if not outwards:
        possible &= load.has_room(task.graph.cores(operator))
    price_bytes = load.price_bytes(task.graph.mean_input_rate)
    reprocess_ms = chain.of(operator, 0.0).reprocess_ms

    def measure(nodes: IntArray) -> FloatArray:
        """The search's own measure; infinite beyond the bound, which is beyond choice."""
        transfer_ms = chain.transfer_ms(operator, nodes)
        within = task.detection_ms + (transfer_ms + reprocess_ms) <= task.bound_ms
        legal = np.flatnonzero(possible[nodes] & within)
        found = np.full(len(nodes), np.inf)
        if len(legal):
            found[legal] = (
                _distance_ms(task, operator, load, nodes[legal])
                if outwards
                else _cost(task, operator, price_bytes, nodes[legal], transfer_ms[legal])
            )
        return found

    nodes = np.empty(0, dtype=np.int64)
    if view.blocks is not None:
        bounds = _block_costs(task, operator, view.blocks, price_bytes)
        nodes, _ = view.blocks.best(bounds, measure, 1)
    if not len(nodes):
        raise _none_legal(task, operator, chain, possible)
    return int(nodes[0]), chain.of(operator, float(chain.transfer_ms(operator, nodes)[0]))


def _block_costs(
    task: StandbyTask, operator: str, blocks: HostBlocks, price_bytes: FloatArray
) -> FloatArray:
    """Least that a secondary can cost in each block, shape (b,), bytes: a bound of `_cost`.

    Nothing is known unless costs follow from distances.
    """
    links = task.graph.inputs[operator]
    flows = any(task.graph.by_name[link.source].flows_to for link in links)
    outwards = task.search is SecondarySearch.OUTWARDS
    if outwards or task.traffic is not None or task.view.rtt_ms or flows:
        return np.zeros(len(blocks.low_ms))
    least = blocks.least(price_bytes)
    for link in links:
        source_ms = task.view.node(task.primaries[link.source]).position_ms
        least = least + link.rate_bytes_s * (blocks.apart_ms(source_ms) / 2) / 1e3
    return least


def _none_legal(
    task: StandbyTask, operator: str, chain: _Recoveries, possible: BoolArray
) -> NoNode | BoundUnattainable:
    hosts = task.view.host_indices[possible[task.view.host_indices]]
    if not len(hosts):
        return NoNode(task.graph.name, operator, _why_none(task, operator))
    transfer_ms = chain.transfer_ms(operator, hosts)
    fastest = int(transfer_ms.argmin())
    recovery = chain.of(operator, float(transfer_ms[fastest]))
    (node,) = task.view.names(hosts[[fastest]])
    return _unattainable(task, operator, node, recovery)


def _distance_ms(task: StandbyTask, operator: str, load: Load, nodes: IntArray) -> FloatArray:
    """Distance of nodes from the start point with the CPU axis, ms."""
    view = task.view
    main = max(task.graph.inputs[operator], key=_rate)
    start = view.node(task.primaries[main.source]).position_ms
    apart_ms = np.linalg.norm(view.positions_ms[nodes] - start, axis=1)
    return np.hypot(apart_ms, load.axis_ms()[nodes])


def _cost(
    task: StandbyTask,
    operator: str,
    price_bytes: FloatArray,
    nodes: IntArray,
    transfer_ms: FloatArray,
) -> FloatArray:
    """Standby traffic and load price (given for all nodes) on some nodes, bytes."""
    graph, view = task.graph, task.view
    cost = price_bytes[nodes]
    if task.traffic is not None:
        return cost + task.traffic(operator, nodes, transfer_ms)
    for link in graph.inputs[operator]:
        delay_ms = view.one_way_of(np.array([view.index[task.primaries[link.source]]]), nodes)
        if flows_to := graph.by_name[link.source].flows_to:
            delay_ms = delay_ms * [name not in flows_to for name in view.names(nodes)]
        cost = cost + link.rate_bytes_s * delay_ms / 1e3
    return cost


def _why_none(task: StandbyTask, operator: str) -> str:
    primary = task.primaries[operator]
    if all(node.name == primary for node in task.view.hosts):
        return f"{primary} runs it and no second node could stand by"
    cores = task.graph.cores(operator)
    return (
        f"{primary} runs it and no node of another failure domain has the {cores:g} cores left "
        "that a standby needs"
    )


def _unattainable(
    task: StandbyTask, operator: str, node: str, recovery: Recovery
) -> BoundUnattainable:
    links = task.graph.inputs[operator]
    return BoundUnattainable(
        query=task.graph.name,
        operator=operator,
        bound_ms=task.bound_ms,
        best_ms=recovery.total_ms,
        best_node=node,
        detection_ms=recovery.detection_ms,
        transfer_ms=recovery.transfer_ms,
        reprocess_ms=recovery.reprocess_ms,
        inputs=tuple(f"{link.source} @ {task.primaries[link.source]}" for link in links),
    )


def _rate(link: Link) -> float:
    return link.rate_bytes_s
