"""Sub-deadlines for operators whose nodes are known: a linear program, often none at all.

With the places, the right side of (6) is known: the least d_{s,o}. No sub-deadline is of use
above both that and its fair share, so

    d_{s,o} = max(d'_{s,o}, least_{s,o}) − down_{s,o},   0 ≤ down_{s,o} ≤ max(d' − least, 0)

    min Σ down_{s,o}·weight_o/c_o
    t_{s,o} ≥ t_{s,p} + latency(p, o) + d_{s,o}    for p upstream of o, and for sources
    t_{s,o} + latency(o, sink) ≤ d_s               for the o that makes s

where t is when o is done at the latest. If nothing has to go down, there is nothing to solve.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import LEAST_OBJECTIVE
from placement.program import MilpSettings, Program, Term
from topology.arrays import FloatArray

ROUNDING_MS = 1e-9
"""By which a path of fair shares may exceed the deadline that it equals on paper."""


def best_sub_deadlines(
    problem: DeadlineProblem, places: Mapping[str, str]
) -> dict[tuple[str, str], float] | None:
    """Sub-deadlines d_{s,o}, ms, that keep (4)–(6) at the least objective; None if there are none.

    Parameters
    ----------
    places
        Operator → node, of all operators.
    """
    demand_table = DemandTable(problem)
    demand_table.put_all(places)
    if demand_table.overload_ms > LEAST_OBJECTIVE:
        return None
    delay = Delay(problem, places)
    by_output: dict[str, dict[str, int]] = {output.stream: {} for output in problem.outputs}
    for at, pair in enumerate(problem.pairs):
        by_output[pair.output][pair.operator] = at
    least_ms = demand_table.least_ms
    high_ms = np.maximum(demand_table.proportional_ms, least_ms)
    pair_deadlines_ms: dict[tuple[str, str], float] = {}
    for output, columns in by_output.items():
        down_ms = _go_down(delay, output, columns, least_ms, high_ms, demand_table.price)
        if down_ms is None:
            return None
        for name, at in columns.items():
            pair_deadlines_ms[output, name] = float(high_ms[at]) - down_ms[name]
    return pair_deadlines_ms


class Delay:
    """Network delay of a placement."""

    def __init__(self, problem: DeadlineProblem, places: Mapping[str, str]) -> None:
        self._problem = problem
        self._at = {name: problem.node_index[node] for name, node in places.items()}
        self._ms = problem.latency_ms

    def before_ms(self, output: str, name: str) -> dict[str, float]:
        """What an operator waits for, and how long that travels; sources under an empty name."""
        problem, here = self._problem, self._at[name]
        found = {
            before: float(self._ms[self._at[before], here]) for before in problem.upstream(name)
        }
        sources = [s for s in problem.by_name[name].inputs if s in problem.source]
        if sources:
            found[""] = max(source_ms(problem, s, here) for s in sources)
        return found

    def room_ms(self, output: str) -> float:
        """The deadline, less the way from the operator that makes the output to the sink."""
        wanted = self._problem.output[output]
        maker = self._at[self._problem.producer[output]]
        return wanted.deadline_ms - float(self._ms[maker, self._problem.node_index[wanted.sink]])

    def longest_ms(self, output: str, pair_deadlines_ms: Mapping[str, float]) -> float:
        """The longest path of sub-deadlines and latencies, up to the maker of the output."""
        done = {"": 0.0}
        for name in self._problem.needed[output]:
            waits = self.before_ms(output, name).items()
            done[name] = pair_deadlines_ms[name] + max(done[before] + ms for before, ms in waits)
        return done[self._problem.producer[output]]


def source_ms(problem: DeadlineProblem, stream: str, node: int) -> float:
    """Latency from the nearest node with the source, ms."""
    nodes = [problem.node_index[name] for name in problem.source[stream].nodes]
    return float(problem.latency_ms[nodes, node].min())


def _go_down(
    delay: Delay,
    output: str,
    columns: Mapping[str, int],
    least_ms: FloatArray,
    high_ms: FloatArray,
    price: FloatArray,
) -> dict[str, float] | None:
    """By how much each operator's sub-deadline for one output goes down, ms."""
    room_ms = delay.room_ms(output)
    if delay.longest_ms(output, {n: float(high_ms[at]) for n, at in columns.items()}) <= (
        room_ms + ROUNDING_MS
    ):
        return dict.fromkeys(columns, 0.0)
    if delay.longest_ms(output, {n: float(least_ms[at]) for n, at in columns.items()}) > (
        room_ms + ROUNDING_MS
    ):
        return None
    program = Program()
    down = {
        name: program.column(cost=float(price[at]), high=float(high_ms[at] - least_ms[at]))
        for name, at in columns.items()
    }
    done = {name: program.column(high=room_ms) for name in columns}
    for name, at in columns.items():
        for before, ms in delay.before_ms(output, name).items():
            terms: list[Term] = [(done[name], 1.0), (down[name], 1.0)]
            if before:
                terms.append((done[before], -1.0))
            program.row(terms, lower=ms + float(high_ms[at]))
    answer = program.solve(MilpSettings(gap=0.0))
    if answer.x is None:
        return None
    return {name: float(answer.x[column]) for name, column in down.items()}
