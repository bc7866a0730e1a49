"""The figures of one placement, by names of operators and nodes: a batch of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement.evaluation.cost import StreamEnd, TrafficCost
from placement.evaluation.evaluator import Evaluator, PlacementBatch
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.records import Recovery, Secondary

Places = Mapping[str, str]
"""Operator → node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestPath:
    """The slowest way from a source to an output."""

    latency_ms: float
    operators: tuple[str, ...]


def as_batch(
    graph: QueryGraph, view: NetworkView, primaries: Places, secondaries: Places | None = None
) -> PlacementBatch:
    """A single placement as a batch.

    Parameters
    ----------
    primaries
        Node of every operator, pinned ones included.
    secondaries
        Node of those that have one.

    Raises
    ------
    NetworkError
        If there is no such node.
    """
    secondaries = secondaries or {}
    return PlacementBatch(
        np.array([[view.at(primaries[name]) for name in graph.order]], dtype=np.int64),
        np.array(
            [[view.at(secondaries.get(name, primaries[name])) for name in graph.order]],
            dtype=np.int64,
        ),
    )


def primary_usage(graph: QueryGraph, primaries: Places, view: NetworkView) -> float:
    """Network usage (2) of the links between primaries, bytes."""
    batch = as_batch(graph, view, primaries)
    return _usage(graph, batch, view, StreamEnd.PRIMARY)


def standby_usage(
    graph: QueryGraph, primaries: Places, secondaries: Places, view: NetworkView
) -> float:
    """Network usage (2) that Active Standby adds, bytes."""
    batch = as_batch(graph, view, primaries, secondaries)
    return _usage(graph, batch, view, StreamEnd.SECONDARY)


def _usage(graph: QueryGraph, batch: PlacementBatch, view: NetworkView, end: StreamEnd) -> float:
    traffic = TrafficCost(graph, view)
    return float(traffic.of(batch, traffic.ending(end))[0])


def running_secondaries(
    graph: QueryGraph,
    primaries: Places,
    secondaries: Places,
    view: NetworkView,
    detection_ms: float,
    batch_size: int = 1,
) -> dict[str, Secondary]:
    """Secondaries where they run, with the recovery times (1) that they have there.

    Parameters
    ----------
    secondaries
        Node of those operators that have one.
    batch_size
        B of the standby scheme, ≥ 1.
    """
    evaluator = Evaluator(graph, view.one_way_of, batch_size=batch_size)
    (catch_up_ms,) = evaluator.catch_up_ms(as_batch(graph, view, primaries, secondaries))
    found: dict[str, Secondary] = {}
    for name, node in secondaries.items():
        o = evaluator.column[name]
        reprocess_ms = float(evaluator.reprocess_ms[o])
        recovery = Recovery(
            detection_ms=detection_ms,
            transfer_ms=float(catch_up_ms[o]) - reprocess_ms,
            reprocess_ms=reprocess_ms,
        )
        found[name] = Secondary(node=node, recovery=recovery)
    return found


def longest_path(
    graph: QueryGraph, primaries: Places, view: NetworkView, hop_overhead_ms: float
) -> LongestPath:
    """Latency of the slowest output, and its way (`Evaluator.arrivals_ms`)."""
    if not graph.order:
        return LongestPath(latency_ms=0.0, operators=())
    evaluator = Evaluator(graph, view.one_way_of, hop_overhead_ms=hop_overhead_ms)
    (arrived_ms,), (via,) = evaluator.arrivals_ms(as_batch(graph, view, primaries))
    path = [last := int(arrived_ms.argmax())]
    while via[path[-1]] >= 0:
        path.append(int(via[path[-1]]))
    operators = tuple(graph.order[o] for o in reversed(path))
    return LongestPath(latency_ms=float(arrived_ms[last]), operators=operators)


def with_nodes(operators: Sequence[str], primaries: Places) -> tuple[str, ...]:
    """A path for people: `operator @ node`."""
    return tuple(f"{name} @ {primaries[name]}" for name in operators)
