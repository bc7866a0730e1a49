"""Finds nodes and sub-deadlines: first a good placement without a program, then HiGHS for the rest.

1. `placement.deadline.local_search` places the operators and `placement.deadline.sub_deadlines`
   finds their sub-deadlines. If all of these are proportional, (3) is 0 and the placement is
   optimal.
2. Otherwise `placement.deadline.estimate` improves the placement by local search and finds a lower
   bound, which often equals the objective.
3. Otherwise HiGHS searches for a better placement (`placement.deadline.solver_model`). SciPy cannot
   pass a first solution to HiGHS, so the known objective becomes an upper limit: the program admits
   only placements that are better by more than the gap. If one program of the whole is too large,
   it is solved region by region (`placement.deadline.decomposed`).
4. If there is no placement, two elastic programs determine what would allow one: later deadlines,
   or less work on nodes.

(6) counts the operators of a chain against each other, although they never wait at the same time.
Contract chains that are bound to one node first (`placement.deadline.contraction`).

Deviation from deadline placement, §5.2: it solves one program, which
`placement.deadline.paper_model` has as printed. Both have the same optimum where latency is
neglected.
"""

from __future__ import annotations

from dataclasses import replace

from placement.deadline.decomposed import place_in_parts
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.estimate import BoundedPlacement, bounded, estimate, with_sub_deadlines
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement
from placement.deadline.solver_model import SolverModel, SolverSettings
from placement.errors import SolverStopped
from placement.program import MilpSettings

NEGLIGIBLE_MS = 1e-6
"""A smaller relaxation is a rounding error of HiGHS."""

MOST_RELAXATIONS = 8
"""Limit of the relaxation programs. Together with the program of the nodes they share the time
limit of one program."""


def place_by_deadline(
    problem: DeadlineProblem, settings: SolverSettings | None = None
) -> DeadlinePlacement:
    """Nodes and sub-deadlines of all operators.

    Returns
    -------
    DeadlinePlacement
        If a limit came first, the best placement found, with the bound that was proven.

    Raises
    ------
    DeadlinesUnattainable
        If there is no placement: with the least relaxation of deadlines that would allow one, and
        the least work that would have to be taken from nodes.
    SolverStopped
        If a limit came before any placement.
    """
    settings = settings or SolverSettings()
    try:
        found = estimate(problem, settings)
    except DeadlinesUnattainable as error:
        raise unattainable(problem, settings) from error
    if found.placement is not None:
        known = bounded(found.placement, found.bound, settings.milp.gap)
        if known.optimal:
            return known
        found = replace(found, placement=known)
    if sum(len(operator.candidates) for operator in problem.operators) > settings.largest:
        return place_in_parts(problem, settings, found)
    return _solve(problem, found, settings)


def _solve(
    problem: DeadlineProblem, found: BoundedPlacement, settings: SolverSettings
) -> DeadlinePlacement:
    """Search for a better placement with one program of the whole problem."""
    gap, best = settings.milp.gap, found.placement
    model = SolverModel(problem, usage_weight=settings.usage_weight)
    if best is not None:
        model.program.cap(best.objective * (1 - gap))
    result = model.program.solve(settings.milp)
    if result.infeasible:
        if best is None:
            raise unattainable(problem, settings)
        # No placement is better by more than the gap.
        return bounded(best, best.objective * (1 - gap), gap)
    if result.x is not None:
        better = with_sub_deadlines(problem, model.places(result.x.tolist()), settings)
        if best is None or (better is not None and better.objective < best.objective):
            best = better
    if best is None:
        raise SolverStopped("of the deadline model", result.message)
    return bounded(best, max(result.bound, found.bound), gap)


def unattainable(problem: DeadlineProblem, settings: SolverSettings) -> DeadlinesUnattainable:
    """The least changes that would allow a placement, from two elastic programs.

        min Σ_s late_s     t_{s,o} + Lat(o, sink) ≤ d_s + late_s
        min Σ_n excess_n   W_{n,k(l)} + admitted ≤ d_{s_l,o_l} + excess_n

    The first program takes (6) in the order of the present proportional sub-deadlines. Later
    deadlines may change this order and require more, so the program is solved again with them
    until it requires nothing more.
    """
    milp = replace(settings.milp, time_limit_s=settings.milp.time_limit_s / (MOST_RELAXATIONS + 1))
    late_ms: dict[str, float] = {}
    for _ in range(MOST_RELAXATIONS):
        more_ms = _least(SolverModel(problem.later(late_ms), elastic="deadlines"), milp)
        if not more_ms:
            break
        late_ms = {
            name: late_ms.get(name, 0.0) + more_ms.get(name, 0.0) for name in (late_ms | more_ms)
        }
    excess_ms = _least(SolverModel(problem, elastic="nodes"), milp)
    return DeadlinesUnattainable(late_ms, excess_ms)


def _least(model: SolverModel, settings: MilpSettings) -> dict[str, float]:
    result = model.program.solve(settings)
    if result.x is None:
        return {}
    values = {name: float(result.x[at]) for name, at in (model.late | model.excess).items()}
    return {name: ms for name, ms in values.items() if ms > NEGLIGIBLE_MS}
