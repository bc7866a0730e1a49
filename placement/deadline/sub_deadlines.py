"""Sub-deadlines of operators that are placed: the best by objective (3), and proportional ones.

*Best* are the sub-deadlines that deviate least from the proportional ones of the problem. Once the
places are known, the right side of (6) is known: the least value of each d_{s,o}. A sub-deadline
above both this value and d' would only raise objective (3), so

    d_{s,o} = max(d'_{s,o}, least_{s,o}) − down_{s,o},   0 ≤ down_{s,o} ≤ max(d' − least, 0)

    min Σ down_{s,o}·weight_o/c_o
    t_{s,o} ≥ t_{s,p} + latency(p, o) + d_{s,o}    for p upstream of o, and for sources
    t_{s,o} + latency(o, sink) ≤ d_s               for the o that produces s

where t_{s,o} is the latest time at which o finishes. This is a linear program for each output,
which is solved only if some sub-deadline has to go down.

*Proportional sub-deadlines of a placement* give all operators of an output equal laxity. The
proportional sub-deadlines d' of deadline placement, (1), divide a deadline as if network delay
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

import numpy as np

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import LEAST_OBJECTIVE, least_by_operator
from placement.program import IntegerProgram, MilpSettings, Term

ROUNDING_MS = 1e-9
"""By how much a path of proportional sub-deadlines may exceed a deadline through rounding, ms."""


def best_sub_deadlines(
    problem: DeadlineProblem, places: Mapping[str, str]
) -> dict[tuple[str, str], float] | None:
    """Sub-deadlines d_{s,o}, ms, that keep (4)-(6) at the least objective; None if there are none.

    Parameters
    ----------
    places
        Operator → node, of all operators.
    """
    demand = DemandTable(problem, places)
    if demand.overload_ms > LEAST_OBJECTIVE:
        return None
    delay = NetworkDelay(problem, places)
    least_ms = demand.least_ms.tolist()
    highest_ms = np.maximum(problem.proportional_ms, demand.least_ms).tolist()
    by_output: dict[str, dict[str, int]] = {stream: {} for stream in problem.output}
    for at, pair in enumerate(problem.pairs):
        by_output[pair.output][pair.operator] = at
    found: dict[tuple[str, str], float] = {}
    for output, pairs in by_output.items():
        lower_ms = {name: least_ms[at] for name, at in pairs.items()}
        upper_ms = {name: highest_ms[at] for name, at in pairs.items()}
        down_ms = _reductions(problem, delay, output, lower_ms, upper_ms)
        if down_ms is None:
            return None
        found |= {(output, name): upper_ms[name] - down_ms[name] for name in pairs}
    return found


class NetworkDelay:
    """Network delay of a placement.

    Parameters
    ----------
    places
        Operator → node, of all operators.
    """

    def __init__(self, problem: DeadlineProblem, places: Mapping[str, str]) -> None:
        self._problem = problem
        self._at = {name: problem.node_index[node] for name, node in places.items()}

    def before_ms(self, name: str) -> dict[str, float]:
        """Latency to an operator from each upstream operator, and from sources as `""`, ms."""
        problem, here = self._problem, self._at[name]
        found = {
            before: float(problem.latency_ms[self._at[before], here])
            for before in problem.upstream(name)
        }
        sources = [s for s in problem.by_name[name].inputs if s in problem.source]
        if sources:
            found[""] = max(problem.source_latency_ms(s, here) for s in sources)
        return found

    def room_ms(self, output: str) -> float:
        """The deadline of an output minus the latency from its producer to its sink, ms."""
        wanted = self._problem.output[output]
        producer = self._at[self._problem.producer[output]]
        sink = self._problem.node_index[wanted.sink]
        return wanted.deadline_ms - float(self._problem.latency_ms[producer, sink])

    def longest_ms(self, output: str, sub_deadlines_ms: Mapping[str, float]) -> float:
        """The longest path of sub-deadlines and latencies that ends at an output's producer, ms."""
        done = {"": 0.0}
        for name in self._problem.needed[output]:
            before_ms = self.before_ms(name).items()
            done[name] = sub_deadlines_ms[name] + max(done[p] + ms for p, ms in before_ms)
        return done[self._problem.producer[output]]


def _reductions(
    problem: DeadlineProblem,
    delay: NetworkDelay,
    output: str,
    lower_ms: Mapping[str, float],
    upper_ms: Mapping[str, float],
) -> dict[str, float] | None:
    """down_{s,o} of the operators of one output, ms; None if even the lower ends are too long."""
    room_ms = delay.room_ms(output)
    if delay.longest_ms(output, upper_ms) <= room_ms + ROUNDING_MS:
        return dict.fromkeys(upper_ms, 0.0)
    if delay.longest_ms(output, lower_ms) > room_ms + ROUNDING_MS:
        return None
    program = IntegerProgram()
    down: dict[str, int] = {}
    for name, high_ms in upper_ms.items():
        penalty = float(problem.penalty_per_ms[problem.pair_index[output, name]])
        down[name] = program.column(cost=penalty, high=high_ms - lower_ms[name])
    done = {name: program.column(high=room_ms) for name in down}
    for name, high_ms in upper_ms.items():
        # t_{s,o} ≥ t_{s,p} + latency(p, o) + d_{s,o}
        for before, ms in delay.before_ms(name).items():
            terms: list[Term] = [(done[name], 1.0), (down[name], 1.0)]
            if before:
                terms.append((done[before], -1.0))
            program.row(terms, lower=ms + high_ms)
    result = program.solve(MilpSettings(gap=0.0))
    if result.x is None:
        return None
    return {name: float(result.x[column]) for name, column in down.items()}


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
    delay = NetworkDelay(problem, places)
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


def _stretch(problem: DeadlineProblem, delay: NetworkDelay, output: str) -> float:
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
    problem: DeadlineProblem, delay: NetworkDelay, output: str, stretch: float
) -> tuple[float, float]:
    """Latency and work, ms, of the path to an output's producer that is longest at a stretch."""
    done: dict[str, tuple[float, float]] = {"": (0.0, 0.0)}
    for name in problem.needed[output]:
        paths = [(done[p][0] + ms, done[p][1]) for p, ms in delay.before_ms(name).items()]
        travel_ms, work_ms = max(paths, key=lambda path: path[0] + stretch * path[1])
        done[name] = travel_ms, work_ms + problem.cost_ms(name)
    return done[problem.producer[output]]
