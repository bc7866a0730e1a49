"""Improves a placement region by region, where one program of the whole would be too large.

The estimate's placement and bound (`placement.deadline.estimate`) often agree already. Otherwise
regions are solved until the gap that was asked for is closed. A region is one of the nodes with
the most excess, together with the emptiest of the nodes to which its operators may move. The
operators on these nodes are placed anew within the region; all others stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placement.deadline.demand_table import DemandTable
from placement.deadline.estimate import (
    BoundedPlacement,
    bounded,
    estimate,
    is_closed,
    with_sub_deadlines,
)
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement
from placement.deadline.solver_model import SolverModel, SolverSettings
from placement.errors import SolverStopped

REGION_NODES = 8
"""Nodes of a region; its program has some tens of operators."""

REGIONS = 6
"""Limit of the regions that are solved."""


def place_in_parts(
    problem: DeadlineProblem,
    settings: SolverSettings | None = None,
    found: BoundedPlacement | None = None,
) -> DeadlinePlacement:
    """Solve regions until the gap is closed, without a program of the whole.

    Parameters
    ----------
    found
        Where to start; the estimate of the problem if not given.

    Returns
    -------
    DeadlinePlacement
        With the proven bound; `optimal` says whether the gap that was asked for is reached.

    Raises
    ------
    DeadlinesUnattainable
        If a query has no placement even alone.
    SolverStopped
        If no placement was found, though one may exist.
    """
    settings = settings or SolverSettings()
    found = found or estimate(problem, settings)
    best, places, gap = found.placement, found.places, settings.milp.gap
    milp = replace(settings.milp, time_limit_s=settings.milp.time_limit_s / (2 * REGIONS))
    for region in _regions(problem, found):
        if best is not None and is_closed(best, found.bound, gap):
            break
        candidates = {
            each.name: tuple(node for node in each.candidates if node in region)
            if places[each.name] in region
            else (places[each.name],)
            for each in problem.operators
        }
        model = SolverModel(problem.with_candidates(candidates), usage_weight=settings.usage_weight)
        if best is not None:
            model.program.cap(best.objective * (1 - gap / 2))
        result = model.program.solve(milp)
        if result.x is None:
            continue
        tried = model.places(result.x.tolist())
        better = with_sub_deadlines(problem, tried, settings)
        if better is not None and (best is None or better.objective < best.objective):
            best, places = better, tried
    if best is None:
        raise SolverStopped("of the deadline model, in parts", "no region gave a placement")
    return bounded(best, found.bound, gap)


def _regions(problem: DeadlineProblem, found: BoundedPlacement) -> Iterator[set[str]]:
    """Groups of nodes, each around one of the nodes with the most excess, in that order."""
    demand_ms = DemandTable(problem, found.places).demand_ms
    excess = np.maximum(demand_ms - found.limit_ms, 0.0) @ problem.penalty_per_ms
    ratio = (demand_ms / found.limit_ms).max(axis=1)
    fullest = sorted(range(len(excess)), key=lambda n: (-float(excess[n]), -float(ratio[n])))
    names = [problem.nodes[n].name for n in fullest]
    for name in names[:REGIONS]:
        reachable = {
            node
            for operator in problem.operators
            if found.places[operator.name] == name
            for node in operator.candidates
        }
        emptiest = [node for node in reversed(names) if node in reachable and node != name]
        yield {name, *emptiest[: REGION_NODES - 1]}
