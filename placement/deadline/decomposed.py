"""Placement and sub-deadlines where one program is too large: improved region by region.

The levelled placement and the bound by queries (`placement.deadline.estimate`) are often the same.
While the placement is dearer than the bound by more than the gap asked for, regions are solved
anew, each with everything else kept where it is: one of the fullest nodes, the emptiest of those
that its operators may go to, and the operators on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from placement.deadline.demand_table import DemandTable
from placement.deadline.estimate import Estimate, bounded, estimate, is_closed, placed
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement
from placement.deadline.settings import SolverSettings
from placement.deadline.solver_model import SolverModel
from placement.errors import SolverStopped

REGION_NODES = 8
"""Nodes of a region: a program of some tens of operators."""

REGIONS = 6
"""Regions solved at most."""


def place_in_parts(
    problem: DeadlineProblem, settings: SolverSettings | None = None
) -> DeadlinePlacement:
    """Nodes and sub-deadlines of all operators, without a program of the whole.

    Returns
    -------
    DeadlinePlacement
        With the proven bound; `optimal` says whether the gap is the one asked for.

    Raises
    ------
    DeadlinesUnattainable
        If a query by itself, with its floors, has no placement: so has the whole none.
    SolverStopped
        If no placement was found though there may be one.
    """
    settings = settings or SolverSettings()
    return improve_in_parts(problem, estimate(problem, settings), settings)


def improve_in_parts(
    problem: DeadlineProblem, found: Estimate, settings: SolverSettings
) -> DeadlinePlacement:
    """Solve regions anew until the gap is closed; see `place_in_parts`."""
    best, bound = found.placement, found.bound
    places = found.places
    share_s = settings.milp.time_limit_s / (2 * REGIONS)
    region_settings = replace(settings.milp, time_limit_s=share_s)
    for region in _regions(problem, found):
        if best is not None and is_closed(best, bound, settings.milp.gap):
            break
        part = _region(problem, places, region)
        model = SolverModel(part, usage_weight=settings.usage_weight)
        if best is not None:
            model.program.cap(best.objective * (1 - settings.milp.gap / 2))
        answer = model.program.solve(region_settings)
        if answer.x is None:
            continue
        tried = model.places(answer.x.tolist())
        better = placed(problem, tried, settings)
        if better is not None and (best is None or better.objective < best.objective):
            best, places = better, tried
    if best is None:
        raise SolverStopped("of the deadline model, in parts", "no region gave a placement")
    return bounded(best, bound, settings.milp.gap)


def _regions(problem: DeadlineProblem, found: Estimate) -> Iterator[set[str]]:
    """Groups of nodes, the fullest first: each with those that its operators may go to."""
    demand_table = DemandTable(problem)
    demand_table.put_all(found.places)
    excess = np.maximum(demand_table.demand_ms - found.curve_ms, 0.0) @ demand_table.price
    nearly = (demand_table.demand_ms / found.curve_ms).max(axis=1)
    names = [node.name for node in problem.nodes]
    fullest = sorted(range(len(names)), key=lambda n: (-float(excess[n]), -float(nearly[n])))
    for at in range(min(REGIONS, len(fullest))):
        yield {names[n] for n in _around(problem, found, fullest[at], fullest)}


def _around(
    problem: DeadlineProblem, found: Estimate, node: int, fullest: Sequence[int]
) -> list[int]:
    """A node, and the emptiest of those that its operators may go to."""
    name = problem.nodes[node].name
    near = {
        problem.node_index[other]
        for operator in problem.operators
        if found.places[operator.name] == name
        for other in operator.candidates
    }
    emptiest = [n for n in reversed(fullest) if n in near and n != node]
    return [node, *emptiest[: REGION_NODES - 1]]


def _region(
    problem: DeadlineProblem, places: Mapping[str, str], region: set[str]
) -> DeadlineProblem:
    """The problem with only those operators free that are in a region, and only within it."""

    def candidates(name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        if places[name] not in region:
            return (places[name],)
        return tuple(node for node in allowed if node in region)

    return DeadlineProblem(
        nodes=problem.nodes,
        operators=tuple(
            replace(operator, candidates=candidates(operator.name, operator.candidates))
            for operator in problem.operators
        ),
        sources=problem.sources,
        outputs=problem.outputs,
        one_way_ms=problem.one_way_ms,
        rates_bytes_s=problem.rates_bytes_s,
    )
