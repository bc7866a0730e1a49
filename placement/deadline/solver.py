"""Placement and sub-deadlines, fast: a good placement at once, and HiGHS for what is left.

1. `placement.deadline.heuristic` places, `placement.deadline.sub_deadlines` finds sub-deadlines. If
   all of them are fair shares, (3) is 0, which nothing beats: no program is solved.
2. Else `placement.deadline.estimate` levels it and finds a bound, which often is the same.
3. Else HiGHS looks for something better (`placement.deadline.solver_model`). SciPy hands it
   no first solution, so the one known becomes an upper limit of the objective: whatever cannot
   be better by more than the gap is cut off. Where one program of the whole is too large, regions
   have one each (`placement.deadline.decomposed`).
4. If there is no placement, two elastic programs say what would have to give: deadlines of
   outputs, or work on nodes.

In (6) operators of a chain count against each other, though they never wait at once. Chains that
are bound to one node are better contracted first (`placement.deadline.contraction`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from placement.deadline.decomposed import improve_in_parts
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.estimate import bounded, estimate, placed
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement
from placement.deadline.settings import SolverSettings
from placement.deadline.solver_model import SolverModel
from placement.errors import SolverStopped
from placement.program import MilpSettings

NEGLIGIBLE_MS = 1e-6
"""Relaxations smaller than this are HiGHS's rounding."""

MOST_RELAXATIONS = 3
"""Times that deadlines are relaxed because fair shares changed places. Together with the program
of the nodes they take no longer than one program may."""


def place_by_deadline(
    problem: DeadlineProblem, settings: SolverSettings | None = None
) -> DeadlinePlacement:
    """Nodes and sub-deadlines of all operators.

    Returns
    -------
    DeadlinePlacement
        If a limit came first, the best placement found with the bound that was proven.

    Raises
    ------
    DeadlinesUnattainable
        If there is no placement: with the least relaxation of deadlines that would allow one,
        and the least work that nodes would have to be relieved of.
    SolverStopped
        If a limit came before any placement.
    """
    settings = settings or SolverSettings()
    gap = settings.milp.gap
    try:
        found = estimate(problem, settings)
    except DeadlinesUnattainable as error:
        raise unattainable(problem, settings) from error
    known = None
    if found.placement is not None:
        known = bounded(found.placement, found.bound, gap)
        if known.optimal:
            return known
    if sum(len(operator.candidates) for operator in problem.operators) > settings.largest:
        return improve_in_parts(problem, found, settings)
    return _solve(problem, known, found.bound, settings)


def _solve(
    problem: DeadlineProblem,
    known: DeadlinePlacement | None,
    bound: float,
    settings: SolverSettings,
) -> DeadlinePlacement:
    """By one program of the whole, better than what is known."""
    model = SolverModel(problem, usage_weight=settings.usage_weight)
    gap = settings.milp.gap
    if known is not None:
        model.program.cap(known.objective * (1 - gap))
    answer = model.program.solve(settings.milp)
    if known is not None and answer.infeasible:
        # Whatever is better by more than the gap was cut off.
        return bounded(known, known.objective * (1 - gap), gap)
    found = None
    if answer.x is not None:
        found = placed(problem, model.places(answer.x.tolist()), settings)
    best = min((one for one in (known, found) if one is not None), key=_objective, default=None)
    if best is not None:
        return bounded(best, max(answer.bound, bound), gap)
    if not answer.infeasible:
        raise SolverStopped("of the deadline model", answer.message)
    raise unattainable(problem, settings)


def unattainable(problem: DeadlineProblem, settings: SolverSettings) -> DeadlinesUnattainable:
    """What would have to give: two elastic programs, each with the least that suffices.

        min Σ_s late_s     t_{s,o} + Lat(o, sink) ≤ d_s + late_s
        min Σ_n excess_n   W_{n,k(l)} + running ≤ d_{s_l,o_l} + excess_n

    The first takes (6) in the order of the fair shares there are. With later deadlines it may be
    another, and ask for more; so it is solved again with them, until nothing more is asked for.
    """
    part_s = settings.milp.time_limit_s / (MOST_RELAXATIONS + 1)
    milp = replace(settings.milp, time_limit_s=part_s)
    late_ms: dict[str, float] = {}
    relaxed = problem
    for _ in range(MOST_RELAXATIONS):
        more_ms = _least(SolverModel(relaxed, elastic="deadlines"), milp)
        if not more_ms:
            break
        late_ms = {
            name: late_ms.get(name, 0.0) + more_ms.get(name, 0.0) for name in (late_ms | more_ms)
        }
        relaxed = relax(problem, late_ms)
    excess_ms = _least(SolverModel(problem, elastic="nodes"), milp)
    return DeadlinesUnattainable(late_ms, excess_ms)


def relax(problem: DeadlineProblem, later_ms: Mapping[str, float]) -> DeadlineProblem:
    """The same problem with later deadlines, by output."""
    return DeadlineProblem(
        nodes=problem.nodes,
        operators=problem.operators,
        sources=problem.sources,
        outputs=tuple(
            replace(output, deadline_ms=output.deadline_ms + later_ms.get(output.stream, 0.0))
            for output in problem.outputs
        ),
        one_way_ms=problem.one_way_ms,
        rates_bytes_s=problem.rates_bytes_s,
    )


def _least(model: SolverModel, settings: MilpSettings) -> dict[str, float]:
    answer = model.program.solve(settings)
    if answer.x is None:
        return {}
    values = {name: float(answer.x[at]) for name, at in (model.late | model.excess).items()}
    return {name: ms for name, ms in values.items() if ms > NEGLIGIBLE_MS}


def _objective(placement: DeadlinePlacement) -> float:
    return placement.objective
