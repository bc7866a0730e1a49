"""The fairest sub-deadlines of a placement: the same laxity for all, in what latency leaves.

Fair shares (1) divide a deadline as if nothing had to travel. Of a placement it is known what
does, so for each output s the same stretch λ_s is given to all of its operators,

    d_{s,o} = λ_s·c_o,   λ_s the greatest with   Σ_{l on path} Lat(l) + λ_s·Σ_{o on path} c_o ≤ d_s

for every path that ends in s, links from sources and to the sink included. All normalised laxity
ratios of an output are then λ_s − 1. Without latencies, on a single path, this is (1).

The left side is the greatest of many linear functions of λ, one for each path, hence convex:
Newton's method from above follows one path after the other and ends at the binding one.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement.deadline.problem import DeadlineProblem
from placement.deadline.sub_deadlines import Delay

MOST_STEPS = 100
"""Paths that are followed; a handful in practice, each steeper than the one before."""


def proportional_stretch(problem: DeadlineProblem, places: Mapping[str, str]) -> dict[str, float]:
    """λ_s by output stream; ≤ 0 if latencies alone use up the deadline.

    Parameters
    ----------
    places
        Operator → node, of all operators.
    """
    delay = Delay(problem, places)
    return {output.stream: _stretch(problem, delay, output.stream) for output in problem.outputs}


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
    least: dict[str, float] = {}
    for pair in problem.pairs:
        share_ms = stretch[pair.output] * problem.cost_ms(pair.operator)
        least[pair.operator] = min(share_ms, least.get(pair.operator, share_ms))
    return least


def _stretch(problem: DeadlineProblem, delay: Delay, output: str) -> float:
    room_ms = delay.room_ms(output)
    costs = [problem.cost_ms(name) for name in problem.needed[output]]
    # No path is cheaper than its cheapest operator.
    stretch = room_ms / min(costs)
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
    """Latency and cost of the longest path to the maker of an output, ms."""
    done: dict[str, tuple[float, float]] = {"": (0.0, 0.0)}
    for name in problem.needed[output]:
        ways = [
            (done[before][0] + ms, done[before][1])
            for before, ms in delay.before_ms(output, name).items()
        ]
        travel_ms, work_ms = max(ways, key=lambda way: way[0] + stretch * way[1])
        done[name] = travel_ms, work_ms + problem.cost_ms(name)
    return done[problem.producer[output]]
