"""Primaries that meet a deadline, when the nearest nodes do not.

Relaxation minimises traffic and knows no deadline: an operator may stand next to its largest
source and far off the way to its sink. This is a branch-and-bound search over a few candidate
nodes an operator: in topological order, dropping every beginning that is already too late or too
expensive. It finds the least network usage among placements that meet the deadline, or the least
latency when none does.

It is exact over the candidates unless it runs out of steps, and then returns the best so far; it
says nothing about nodes that are no candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement.evaluate import link_usage
from placement.graph import QueryGraph
from placement.load import ROUNDING_CORES
from placement.network import NetworkView
from topology.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTask:
    """What is searched.

    Attributes
    ----------
    candidates
        Nodes of every operator in the order they are tried; one for what stays.
    hop_overhead_ms
        Cost of a link besides its latency, ms.
    steps
        Placements of a single operator after which a search ends.
    room_cores
        What the operators to be placed may need together, by node, shape (n,), cores; None: any
        amount.
    """

    graph: QueryGraph
    view: NetworkView
    candidates: Mapping[str, Sequence[str]]
    hop_overhead_ms: float
    steps: int
    room_cores: FloatArray | None = None


def cheapest_in_time(task: RepairTask, deadline_ms: float) -> dict[str, str] | None:
    """Placement with the least network usage among those that meet the deadline, if any."""
    return _search(task, deadline_ms, by_usage=True)


def fastest(task: RepairTask) -> dict[str, str] | None:
    """Placement with the least longest-path latency, if there is room for any."""
    return _search(task, math.inf, by_usage=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partial:
    """Placement of the first operators of the order."""

    node: str
    arrived_ms: float
    latest_ms: float
    """Least longest-path latency that any completion can have."""
    usage: float


def _search(task: RepairTask, deadline_ms: float, *, by_usage: bool) -> dict[str, str] | None:
    order = task.graph.order
    index = {name: i for i, name in enumerate(order)}
    rest_ms = _least_rest_ms(task)
    best: dict[str, str] | None = None
    best_price = math.inf
    chosen: list[_Partial] = []
    open_nodes: list[Iterator[str]] = [iter(task.candidates[order[0]])] if order else []
    # Enough to complete one placement, so that there is an answer when nothing is ruled out.
    steps = max(task.steps, len(order))
    while open_nodes and steps > 0:
        del chosen[len(open_nodes) - 1 :]
        node = next(open_nodes[-1], None)
        if node is None:
            open_nodes.pop()
            continue
        steps -= 1
        partial = _extend(task, index, chosen, node, rest_ms)
        price = partial.usage if by_usage else partial.latest_ms
        if partial.latest_ms > deadline_ms or price >= best_price:
            continue
        if not _has_room(task, chosen, node):
            continue
        chosen.append(partial)
        if len(chosen) < len(order):
            open_nodes.append(iter(task.candidates[order[len(chosen)]]))
        else:
            best = {name: part.node for name, part in zip(order, chosen, strict=True)}
            best_price = price
    return best


def _extend(
    task: RepairTask,
    index: Mapping[str, int],
    chosen: Sequence[_Partial],
    node: str,
    rest_ms: Mapping[str, float],
) -> _Partial:
    """Put the next operator of the order on a node."""
    name = task.graph.order[len(chosen)]
    reached_ms = 0.0
    usage = chosen[-1].usage if chosen else 0.0
    for link in task.graph.inputs[name]:
        source = chosen[index[link.source]]
        network_ms = task.view.one_way_ms(source.node, node)
        reached_ms = max(reached_ms, source.arrived_ms + network_ms + task.hop_overhead_ms)
        usage += link_usage(link.rate_bytes_s, source.node, node, task.view)
    arrived_ms = reached_ms + task.graph.by_name[name].cost_us / 1e3
    latest_ms = max(arrived_ms + rest_ms[name], chosen[-1].latest_ms if chosen else 0.0)
    return _Partial(node=node, arrived_ms=arrived_ms, latest_ms=latest_ms, usage=usage)


def _has_room(task: RepairTask, chosen: Sequence[_Partial], node: str) -> bool:
    """Whether the next operator of the order fits on a node beside those placed before it."""
    graph = task.graph
    name = graph.order[len(chosen)]
    if task.room_cores is None or graph.by_name[name].pinned is not None:
        return True
    together = [
        placed
        for placed, part in zip(graph.order, chosen, strict=False)
        if part.node == node and graph.by_name[placed].pinned is None
    ]
    needed = sum(graph.cores(placed) for placed in (*together, name))
    return needed <= task.room_cores[task.view.index[node]] + ROUNDING_CORES


def _least_rest_ms(task: RepairTask) -> dict[str, float]:
    """Time from each operator to its slowest output if all links had no latency."""
    rest_ms: dict[str, float] = {}
    for name in reversed(task.graph.order):
        rest_ms[name] = max(
            (
                task.hop_overhead_ms
                + task.graph.by_name[link.target].cost_us / 1e3
                + rest_ms[link.target]
                for link in task.graph.outputs[name]
            ),
            default=0.0,
        )
    return rest_ms
