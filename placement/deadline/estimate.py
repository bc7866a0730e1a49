"""A good placement and a bound of the best, without any program of the whole.

*From below.* Queries meet only on nodes. What a query sees there of the others are floors under its
sub-deadlines, from prices on the nodes (`placement.deadline.lower_bounds`); whatever else they do
to it is left out. Each query by itself, with its floors, is a small program, and the sum of what
they cost at least is a bound of (3) for all of them together: they share no pair (s, o), and every
placement of all of them keeps all the rows of each.

    (3)  ≥  Σ_q min { Σ_{(s,o) of q} weight_o·(up + down)/c_o :  (4)–(6) for q alone,  d ≥ floor }

*From above.* The greedy placement is levelled against floors and fair shares
(`placement.deadline.local_search`); so is the one that has every query where it would be by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from placement.deadline.demand_table import DemandTable
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.heuristic import place_greedily
from placement.deadline.local_search import LocalSearch
from placement.deadline.lower_bounds import LowerBounds
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import LEAST_OBJECTIVE, DeadlinePlacement, deviation
from placement.deadline.settings import SolverSettings
from placement.deadline.solver_model import SolverModel
from placement.deadline.sub_deadlines import best_sub_deadlines
from placement.deadline.usage import network_usage
from placement.program import MilpSettings
from topology.arrays import FloatArray

ROUNDS = 30
"""Rounds of levelling at most; it ends by itself long before."""

QUERY_LIMIT_S = 1.0
"""For the program of one query; if it comes first, its bound so far counts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """A good placement and a bound, without any program of the whole.

    Attributes
    ----------
    placement
        None if sub-deadlines were found for none.
    bound
        No placement has a smaller objective.
    curve_ms
        Floor or fair share, whichever is higher, by pair, shape (l,), ms.
    places
        Where operators are in it, or would be.
    """

    placement: DeadlinePlacement | None
    bound: float
    curve_ms: FloatArray
    places: dict[str, str]


def estimate(problem: DeadlineProblem, settings: SolverSettings) -> Estimate:
    """The levelled placement and the bound by queries.

    Raises
    ------
    DeadlinesUnattainable
        If a query by itself has no placement.
    """
    places = place_greedily(problem)
    best = placed(problem, places, settings)
    lower_bounds = LowerBounds(problem)
    curve_ms = np.maximum(DemandTable(problem).proportional_ms, lower_bounds.least_ms)
    if best is not None and best.objective <= LEAST_OBJECTIVE:
        return Estimate(placement=best, bound=0.0, curve_ms=curve_ms, places=places)
    lower_bounds.raise_by_spreading()
    curve_ms = np.maximum(curve_ms, lower_bounds.least_ms)
    bound, wishes = bound_by_queries(problem, lower_bounds.least_ms, settings)
    for start in (places, places | wishes) if wishes else (places,):
        levelled = LocalSearch(problem, start, curve_ms).level(ROUNDS)
        better = placed(problem, levelled, settings)
        if best is None or (better is not None and better.objective < best.objective):
            best, places = better, levelled
    return Estimate(placement=best, bound=bound, curve_ms=curve_ms, places=places)


def bound_by_queries(
    problem: DeadlineProblem, lower_bounds_ms: FloatArray, settings: SolverSettings
) -> tuple[float, dict[str, str]]:
    """Σ over queries of what each costs at least, floors given; and where each would be then.

    Returns
    -------
    float
        Bound of (3).
    dict of str to str
        Operator → node, of queries that cost something by themselves.
    """
    at = {(pair.output, pair.operator): index for index, pair in enumerate(problem.pairs)}
    proportional_ms = DemandTable(problem).proportional_ms
    share = MilpSettings(gap=settings.milp.gap / 10, time_limit_s=QUERY_LIMIT_S)
    total = 0.0
    wishes: dict[str, str] = {}
    for query in queries(problem):
        own = {key: float(lower_bounds_ms[at[key]]) for key in at if key[0] in query}
        below = all(ms <= proportional_ms[at[key]] for key, ms in own.items())
        if below and problem.one_way_ms is None:
            # Nothing is known to cost it anything.
            continue
        part = _query(problem, query)
        model = SolverModel(part, usage_weight=settings.usage_weight, lower_bounds_ms=own)
        answer = model.program.solve(share)
        if answer.infeasible:
            raise DeadlinesUnattainable({}, {})
        total += max(answer.bound, 0.0)
        if answer.x is not None:
            wishes |= model.places(answer.x.tolist())
    return total, wishes


def queries(problem: DeadlineProblem) -> Iterator[set[str]]:
    """Outputs that share no operator with others, together with those that they share with."""
    left = [output.stream for output in problem.outputs]
    while left:
        query, names = {left[0]}, set(problem.needed[left[0]])
        while more := {s for s in left if s not in query and names & set(problem.needed[s])}:
            query |= more
            names.update(name for s in more for name in problem.needed[s])
        left = [s for s in left if s not in query]
        yield query


def placed(
    problem: DeadlineProblem, places: Mapping[str, str], settings: SolverSettings
) -> DeadlinePlacement | None:
    """A placement with its own best sub-deadlines; None if it has none."""
    pair_deadlines_ms = best_sub_deadlines(problem, places)
    if pair_deadlines_ms is None:
        return None
    usage = settings.usage_weight * network_usage(problem, places)
    return DeadlinePlacement(
        places=dict(places),
        pair_deadlines_ms=pair_deadlines_ms,
        objective=deviation(problem, pair_deadlines_ms) + usage,
        bound=0.0,
        optimal=False,
    )


def bounded(placement: DeadlinePlacement, bound: float, gap: float) -> DeadlinePlacement:
    """A placement with what was proven of it."""
    known = replace(placement, bound=min(max(bound, placement.bound), placement.objective))
    return replace(known, optimal=is_closed(known, known.bound, gap))


def is_closed(placement: DeadlinePlacement, bound: float, gap: float) -> bool:
    """Whether a placement is within the gap of a bound."""
    excess = placement.objective - bound
    return placement.objective <= LEAST_OBJECTIVE or excess <= gap * placement.objective


def _query(problem: DeadlineProblem, query: set[str]) -> DeadlineProblem:
    """A query by itself."""
    names = {name for stream in query for name in problem.needed[stream]}
    operators = tuple(operator for operator in problem.operators if operator.name in names)
    taken = {stream for operator in operators for stream in operator.inputs}
    sources = tuple(source for source in problem.sources if source.stream in taken)
    made = {stream for operator in operators for stream in operator.outputs}
    rates = problem.rates_bytes_s.items()
    return DeadlineProblem(
        nodes=problem.nodes,
        operators=operators,
        sources=sources,
        outputs=tuple(output for output in problem.outputs if output.stream in query),
        one_way_ms=problem.one_way_ms,
        rates_bytes_s={s: rate for s, rate in rates if s in made or s in taken},
    )
