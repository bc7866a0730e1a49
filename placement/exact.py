"""The cheapest primaries among candidates: dynamic programming on trees, a MILP on other graphs.

With every node a candidate, this is the yardstick that heuristics are measured with. With the nodes
near relaxation's points as candidates (`placement.primaries`), it is the default placer.

Both kinds minimise the network usage of the primaries and the load price. On trees, the cost of the
secondaries is added (`placement.exact_tree`); on graphs with circles (`placement.exact_dag`),
secondaries are chosen afterwards.

A query's operators are placed at once, so the load that they add to a node is not seen while they
are placed: descent prices it in afterwards (`placement.rebalancing.descent`).
The MILP keeps capacities itself; dynamic programming does not, so operators of a tree that found no
room on a node are placed again without that node.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from foundation.arrays import FloatArray
from placement.dag_model import DagTask
from placement.errors import CapacityUnattainable, NoNode
from placement.evaluation.load import ROUNDING_CORES, Load
from placement.evaluation.single import Places
from placement.exact_dag import solve_dag
from placement.exact_tree import ExactPlacement, ExactTask, is_tree, place_tree
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.program import MilpSettings


def place_exactly(
    task: ExactTask, load: Load, settings: MilpSettings | None = None
) -> ExactPlacement:
    """Place the operators of a query at least cost.

    Parameters
    ----------
    task
        With candidates that have room for an operator each.
    load
        Without this query: says how much room there is.
    settings
        Of the MILP.

    Raises
    ------
    NoNode
        If the candidates have room for some of the operators but not for all.
    """
    while True:
        found = _solve(task, load, settings or MilpSettings())
        crowded = _without_room(task, found, load)
        if not crowded or not math.isfinite(found.cost):
            return found
        narrowed = dict(task.candidates)
        for name in crowded:
            at = task.view.index[found.primaries[name]]
            narrowed[name] = narrowed[name][narrowed[name] != at]
            if not len(narrowed[name]):
                raise _no_room(task.graph, name)
        task = replace(task, candidates=narrowed)


def room_with_staying(
    graph: QueryGraph, view: NetworkView, load: Load, staying: Places
) -> FloatArray:
    """Cores left by node, at least those that operators need which stay: they do anyway."""
    needed = np.zeros(len(view.nodes))
    for name in staying.keys() & set(graph.to_place):
        needed[view.index[staying[name]]] += graph.cores(name)
    return np.maximum(load.room_cores(), needed)


def _solve(task: ExactTask, load: Load, settings: MilpSettings) -> ExactPlacement:
    graph = task.graph
    if is_tree(graph):
        return place_tree(task)
    try:
        found = solve_dag(
            DagTask(
                graph=graph,
                view=task.view,
                candidates=task.candidates,
                price_bytes=task.price_bytes,
                capacity_left=room_with_staying(graph, task.view, load, task.staying),
                apart=task.apart,
                crossing_ms=task.crossing_ms,
            ),
            settings,
        )
    except CapacityUnattainable as error:
        raise _no_room(graph, error.operators[-1]) from None
    return ExactPlacement(primaries=found.primaries, cost=found.cost)


def _without_room(task: ExactTask, found: ExactPlacement, load: Load) -> list[str]:
    """Operators that exceed their node's capacity, those that stay having come first."""
    crowded: list[str] = []
    left = room_with_staying(task.graph, task.view, load, task.staying)
    for name in sorted(task.graph.to_place, key=lambda name: name not in task.staying):
        at, cores = task.view.index[found.primaries[name]], task.graph.cores(name)
        if name not in task.staying and cores > left[at] + ROUNDING_CORES:
            crowded.append(name)
        else:
            left[at] -= cores
    return crowded


def _no_room(graph: QueryGraph, name: str) -> NoNode:
    return NoNode(graph.name, name, f"its candidates have no {graph.cores(name):g} cores left")
