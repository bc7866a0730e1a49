"""The cheapest primaries of an acyclic query graph among candidates, by a mixed-integer program.

Graphs with shared operators contain circles, and dynamic programming would have to carry all of a
circle's choices along. HiGHS solves the program of `placement.dag_model` instead (Huangfu and Hall,
"Parallelizing the dual revised simplex method", Math. Prog. Comp. 10, 2018, and its
branch-and-bound). The same program places trees whose cheapest placement misses a deadline, since
dynamic programming knows no paths.

*Exactness.* The placement costs at most `gap` more than the least, as a share. HiGHS keeps
rows to 10⁻⁶; placements that miss a deadline or a capacity by so little are excluded one by one,
so that the returned placement keeps them by the figures of `placement.evaluation`.

*Determinism.* HiGHS draws its random numbers from a seed of its own, always 0 by way of SciPy,
which passes no other. Only a run that ends by its time limit may depend on the machine; one that
ends by `node_limit` does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.dag_model import DagModel, DagTask
from placement.errors import (
    CapacityUnattainable,
    DeadlineUnattainable,
    NetworkError,
    NoNode,
    PlacementError,
    SolverStopped,
)
from placement.evaluation import single
from placement.evaluation.load import ROUNDING_CORES
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.program import MilpResult, MilpSettings

LARGEST_COST = 1e3
"""Value that the objective is scaled to: HiGHS's tolerances are absolute, 10⁻⁶ and less, and usages
range from milli- to gigabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagPlacement:
    """The cheapest places.

    Attributes
    ----------
    primaries
        Node of every operator, pinned ones included.
    cost
        Network usage of the primaries and load price, bytes.
    bound
        No placement costs less, bytes.
    gap
        (cost − bound) / cost.
    optimal
        Whether the gap is the one asked for; False if a limit came first.
    """

    primaries: dict[str, str]
    cost: float
    bound: float
    gap: float
    optimal: bool


def solve_dag(task: DagTask, settings: MilpSettings | None = None) -> DagPlacement:
    """Place the operators of a query at least network usage and load price.

    Raises
    ------
    NoNode
        If an operator has no candidate, or none that keeps it apart.
    CapacityUnattainable, DeadlineUnattainable
        If no placement fits or is in time: with the figures that decide it.
    NetworkError
        If candidates, prices or capacities are not of this network.
    SolverStopped
        If a limit came before any placement.
    """
    graph, view, left = task.graph, task.view, task.capacity_left
    _check_figures(task.price_bytes, view, "price_bytes", (0.0, np.finfo(np.float64).max))
    if left is not None:
        _check_figures(left, view, "capacity_left", (-math.inf, math.inf))
    task = replace(
        task,
        candidates=_choices(graph, view, task.candidates),
        capacity_left=None if left is None else left.clip(min=0.0),
    )
    settings = settings or MilpSettings()
    if not graph.operators:
        return DagPlacement(primaries={}, cost=0.0, bound=0.0, gap=0.0, optimal=True)
    model = DagModel(task)
    while True:
        result = model.program.solve(settings, largest_cost=LARGEST_COST)
        if result.x is None:
            raise _reason(task, result, settings)
        chosen = model.chosen(result.x)
        missed = _missed(task, chosen)
        if not missed:
            return _wrap(task, chosen, result)
        model.exclude(missed)


def _choices(
    graph: QueryGraph, view: NetworkView, candidates: Mapping[str, IntArray]
) -> dict[str, IntArray]:
    """Candidates of all operators, checked; by name, so that only names break ties."""
    choices: dict[str, IntArray] = {}
    for name in graph.order:
        pinned = graph.by_name[name].pinned
        if pinned is not None:
            choices[name] = np.array([view.index[view.node(pinned).name]], dtype=np.int64)
            continue
        found = np.unique(np.asarray(candidates.get(name, ()), dtype=np.int64))
        if not len(found):
            raise NoNode(graph.name, name, "has no candidate node")
        if found[0] < 0 or found[-1] >= len(view.nodes):
            raise NetworkError(
                f"query {graph.name}, operator {name}: candidates {found.tolist()} "
                f"are not all indices of the {len(view.nodes)} nodes"
            )
        choices[name] = found[np.argsort(view.names(found))]
    return choices


def _check_figures(
    values: FloatArray, view: NetworkView, name: str, limits: tuple[float, float]
) -> None:
    if values.shape != (len(view.nodes),):
        raise NetworkError(f"{name} has shape {values.shape}, not ({len(view.nodes)},)")
    low, high = limits
    wrong = np.flatnonzero(~((values >= low) & (values <= high)))
    if len(wrong):
        at = int(wrong[0])
        raise NetworkError(
            f"{name} of node {view.nodes[at].name!r} is {values[at]}, not within [{low}, {high}]"
        )


def _wrap(task: DagTask, chosen: Mapping[str, int], result: MilpResult) -> DagPlacement:
    """The cost is that of the places, not HiGHS's sum of almost whole numbers."""
    graph, primaries = task.graph, _primaries(task, chosen)
    cost = sum(
        link.rate_bytes_s * (task.view.one_way_ms(source, target) + task.crossing_ms) / 1e3
        for name in graph.order
        for link in graph.inputs[name]
        if (source := primaries[link.source]) != (target := primaries[name])
        and target not in graph.by_name[link.source].flows_to
    )
    cost += sum(
        float(task.price_bytes[task.candidates[name][chosen[name]]]) for name in graph.to_place
    )
    bound = max(min(result.bound, cost), 0.0)
    return DagPlacement(
        primaries=primaries,
        cost=cost,
        bound=bound,
        gap=(cost - bound) / cost if cost > 0 else 0.0,
        optimal=result.optimal,
    )


def _primaries(task: DagTask, chosen: Mapping[str, int]) -> dict[str, str]:
    return {
        name: task.view.nodes[int(task.candidates[name][at])].name for name, at in chosen.items()
    }


def _missed(task: DagTask, chosen: Mapping[str, int]) -> dict[str, int]:
    """Operators that by their places alone break the deadline or a capacity; none if none is."""
    if task.deadline_ms is not None:
        path = single.longest_path(
            task.graph, _primaries(task, chosen), task.view, task.hop_overhead_ms
        )
        if path.latency_ms > task.deadline_ms:
            return {name: chosen[name] for name in path.operators}
    if task.capacity_left is not None:
        on_node: dict[int, list[str]] = {}
        for name in task.graph.to_place:
            on_node.setdefault(int(task.candidates[name][chosen[name]]), []).append(name)
        for node, names in on_node.items():
            needed = sum(map(task.graph.cores, names))
            if needed > task.capacity_left[node] + ROUNDING_CORES:
                return {name: chosen[name] for name in names}
    return {}


def _reason(task: DagTask, result: MilpResult, settings: MilpSettings) -> PlacementError:
    """Which condition it is that no placement meets: the first without which there is one."""
    graph = task.graph
    if not result.infeasible:
        return SolverStopped(graph.name, result.message)
    if task.deadline_ms is not None:
        fastest = DagModel(replace(task, deadline_ms=math.inf))
        fastest.minimise_latest()
        found = fastest.program.solve(settings, largest_cost=LARGEST_COST)
        if found.x is not None:
            primaries = _primaries(task, fastest.chosen(found.x))
            path = single.longest_path(graph, primaries, task.view, task.hop_overhead_ms)
            return DeadlineUnattainable(
                query=graph.name,
                deadline_ms=task.deadline_ms,
                best_ms=path.latency_ms,
                path=single.with_nodes(path.operators, primaries),
            )
    if task.capacity_left is not None:
        roomy = DagModel(replace(task, deadline_ms=None, capacity_left=None))
        if roomy.program.solve(settings, largest_cost=LARGEST_COST).x is not None:
            return _too_small(task, task.capacity_left)
    return NoNode(graph.name, graph.to_place[-1], "has no candidate away from its neighbours")


def _too_small(task: DagTask, left: FloatArray) -> CapacityUnattainable:
    graph = task.graph
    alone = [
        name for name in graph.to_place if graph.cores(name) > left[task.candidates[name]].max()
    ]
    names = alone[:1] or list(graph.to_place)
    nodes = np.unique(np.concatenate([task.candidates[name] for name in names]))
    return CapacityUnattainable(
        query=graph.name,
        operators=tuple(names),
        needed_cores=sum(map(graph.cores, names)),
        left_cores=float(left[nodes].sum()),
    )
