"""Proportional sub-deadlines of a placement: equal laxity for all operators of an output.

The proportional sub-deadlines d' of deadline placement, (1), divide a deadline as if network delay
were zero. Once operators are placed, the latencies of their links are known. All operators of an
output s then get sub-deadlines in proportion to their costs, with the largest stretch λ_s that
latency leaves room for:

    d_{s,o} = λ_s·c_o,   λ_s the largest with   Σ_{l on path} Lat(l) + λ_s·Σ_{o on path} c_o ≤ d_s

for every path that ends in s, including the links from sources and to the sink. The normalised
laxity ratio of every operator of s is then λ_s − 1. Without latency, on a single path, d = d'.

Deviation from deadline placement: it neglects network delay, and divides a deadline in proportion
to the cost of all operators of the output (c'_s), here of the operators on the critical path.

The left side is the maximum of many linear functions of λ, one for each path, hence convex.
Newton's method from above therefore follows one path after the other and ends at the binding one.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import least_by_operator
from placement.deadline.sub_deadlines import Delay

MOST_STEPS = 100
"""Limit of Newton steps. A handful suffice in practice: each follows a path with less work than the
one before."""


def proportional_stretch(problem: DeadlineProblem, places: Mapping[str, str]) -> dict[str, float]:
    """λ_s by output stream; ≤ 0 if latencies alone use up the deadline.

    Parameters
    ----------
    places
        Operator → node, of all operators.
    """
    delay = Delay(problem, places)
    return {stream: _stretch(problem, delay, stream) for stream in problem.output}


def proportional_sub_deadlines(
    problem: DeadlineProblem, places: Mapping[str, str]
) -> dict[str, float] | None:
    """min_s λ_s·c_o by operator, ms; None if latencies alone use up a deadline.

    Parameters
    ----------
    places
        Operator → node, of all operators.
    """
    stretch = proportional_stretch(problem, places)
    if min(stretch.values()) <= 0:
        return None
    return least_by_operator(
        {(s, name): stretch[s] * problem.cost_ms(name) for s, name in problem.pair_index}
    )


def _stretch(problem: DeadlineProblem, delay: Delay, output: str) -> float:
    room_ms = delay.room_ms(output)
    # No path has less work than its cheapest operator.
    stretch = room_ms / min(problem.cost_ms(name) for name in problem.needed[output])
    for _ in range(MOST_STEPS):
        travel_ms, work_ms = _longest(problem, delay, output, stretch)
        following = (room_ms - travel_ms) / work_ms
        if following >= stretch:
            break
        stretch = following
    return stretch


def _longest(
    problem: DeadlineProblem, delay: Delay, output: str, stretch: float
) -> tuple[float, float]:
    """Latency and work, ms, of the path to an output's producer that is longest at a stretch."""
    done: dict[str, tuple[float, float]] = {"": (0.0, 0.0)}
    for name in problem.needed[output]:
        paths = [(done[p][0] + ms, done[p][1]) for p, ms in delay.before_ms(name).items()]
        travel_ms, work_ms = max(paths, key=lambda path: path[0] + stretch * path[1])
        done[name] = travel_ms, work_ms + problem.cost_ms(name)
    return done[problem.producer[output]]
