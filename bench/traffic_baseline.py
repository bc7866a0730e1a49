"""ExistingAlloc, the baseline of deadline placement (§6.1): least traffic, then balanced load.

Deviation from the paper: it uses SQPR for this baseline (Kalyvianaki et al., "SQPR: stream query
planning with reuse", ICDE 2011), a program that weighs network traffic against load and knows no
deadlines. This module keeps the part of SQPR that matters if all queries are to run: between two
nodes each stream travels once, whatever the number of operators that take it in there.

=============  ===========  ========================================================
symbol         name here    meaning
=============  ===========  ========================================================
z_{n,o}        runs[o][n]   o runs on n, one of its candidates
x_{s,n} ≥ 0    travels      s is sent to n from another node
DR(s)                       rate of s, bytes/s
B              busiest      work of the busiest node for one round of input, ms
=============  ===========  ========================================================

    Σ_n z_{n,o} = 1
    x_{s,n} ≥ z_{n,o} − z_{n,p}    for o that takes s in from p;  no z_{n,p} for sources elsewhere
    x_{s,sink} ≥ 1 − z_{sink,p}    for outputs
    Σ_o z_{n,o}·c_o/speed_n + admitted work of n ≤ B

The first program minimises Σ DR(s)·x_{s,n}, the second one B at that traffic: traffic comes before
balance. The placement has no sub-deadlines, which EDF needs; as in the paper, they are borrowed
from the deadline placement (§6.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement, least_by_operator
from placement.deadline.sub_deadlines import best_sub_deadlines
from placement.errors import SolverStopped
from placement.program import IntegerProgram, MilpSettings, Term

ROUNDING = 1e-6
"""Share by which the second program may exceed the least traffic, for the rounding of HiGHS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficBaseline:
    """A placement with the least traffic, and borrowed sub-deadlines.

    Attributes
    ----------
    places
        Operator → node.
    traffic_bytes_s
        Traffic between nodes, including that from sources and to sinks on other nodes.
    busiest_ms
        B.
    pair_deadlines_ms
        d_{s,o} by output and operator, ms; borrowed, so that demand may exceed them.
    """

    places: dict[str, str]
    traffic_bytes_s: float
    busiest_ms: float
    pair_deadlines_ms: dict[tuple[str, str], float]

    @property
    def sub_deadlines_ms(self) -> dict[str, float]:
        """min_s d_{s,o} by operator, ms: the sub-deadlines that EDF uses."""
        return least_by_operator(self.pair_deadlines_ms)


def place_by_traffic(
    problem: DeadlineProblem,
    *,
    lender: DeadlinePlacement | None = None,
    settings: MilpSettings | None = None,
) -> TrafficBaseline:
    """The most balanced of the placements with the least traffic.

    Parameters
    ----------
    problem
        Its deadlines and latencies do not affect the placement.
    lender
        Placement whose sub-deadlines are borrowed. None: the best sub-deadlines of this placement,
        or proportional ones if none keep the deadlines.
    settings
        Gap and limits of each of the two programs.

    Raises
    ------
    SolverStopped
        If a limit came before any placement.
    """
    settings = settings or MilpSettings()
    model = _Model(problem)
    least = model.program.solve(settings)
    if least.x is None:
        raise SolverStopped("of the traffic baseline", least.message)
    model.balance(float(model.program.objective(least.x)))
    balanced = model.program.solve(settings)
    x = least.x if balanced.x is None else balanced.x
    places = model.places(x.tolist())
    pair_deadlines_ms = (
        best_sub_deadlines(problem, places) if lender is None else lender.pair_deadlines_ms
    )
    if pair_deadlines_ms is None:
        pair_deadlines_ms = {
            (pair.output, pair.operator): pair.proportional_ms for pair in problem.pairs
        }
    return TrafficBaseline(
        places=places,
        traffic_bytes_s=traffic_bytes_s(problem, places),
        busiest_ms=max(_work_ms(problem, places).values()),
        pair_deadlines_ms=dict(pair_deadlines_ms),
    )


def traffic_bytes_s(problem: DeadlineProblem, places: dict[str, str]) -> float:
    """Traffic between nodes: every stream once to each node that needs it."""
    total = 0.0
    for stream in problem.streams:
        wanted = {places[name] for name in problem.consumers[stream]}
        if stream in problem.output:
            wanted.add(problem.output[stream].sink)
        if stream in problem.source:
            wanted.difference_update(problem.source[stream].nodes)
        else:
            wanted.discard(places[problem.producer[stream]])
        total += problem.rates_bytes_s.get(stream, 0.0) * len(wanted)
    return total


def _work_ms(problem: DeadlineProblem, places: dict[str, str]) -> dict[str, float]:
    work_ms = {node.name: sum(w.cost_ms for w in node.admitted) for node in problem.nodes}
    speed = {node.name: node.speed for node in problem.nodes}
    for name, node in places.items():
        work_ms[node] += problem.cost_ms(name) / speed[node]
    return work_ms


class _Model:
    """Columns and rows of both programs."""

    def __init__(self, problem: DeadlineProblem) -> None:
        self._problem = problem
        self.program = IntegerProgram()
        self._runs: dict[str, dict[str, int]] = {}
        for name in problem.order:
            # Σ_n z_{n,o} = 1
            runs = {node: self.program.switch() for node in problem.by_name[name].candidates}
            self.program.row([(at, 1.0) for at in runs.values()], lower=1.0, upper=1.0)
            self._runs[name] = runs
        self._travel()
        self._busiest = self.program.column()
        self._load()

    def places(self, x: list[float]) -> dict[str, str]:
        """Operator → node in a solution."""
        return {name: max(runs, key=lambda n: x[runs[n]]) for name, runs in self._runs.items()}

    def balance(self, traffic_bytes_s: float) -> None:
        """From now on, min B at no more than this traffic."""
        self.program.cap(traffic_bytes_s * (1 + ROUNDING) + ROUNDING)
        self.program.minimise({self._busiest: 1.0})

    def _travel(self) -> None:
        problem = self._problem
        for stream in problem.streams:
            rate = problem.rates_bytes_s.get(stream, 0.0)
            made: dict[str, int] = {}
            nodes: tuple[str, ...] = ()
            if stream in problem.source:
                nodes = problem.source[stream].nodes
            else:
                made = self._runs[problem.producer[stream]]
            travels: dict[str, int] = {}
            for name in problem.consumers[stream]:
                for node, runs in self._runs[name].items():
                    if node in nodes:
                        continue
                    if node not in travels:
                        travels[node] = self.program.column(cost=rate)
                    # x_{s,n} ≥ z_{n,o} − z_{n,p}
                    terms: list[Term] = [(travels[node], 1.0), (runs, -1.0)]
                    if node in made:
                        terms.append((made[node], 1.0))
                    self.program.row(terms, lower=0.0)
            if stream in problem.output:
                sink = problem.output[stream].sink
                if sink not in travels:
                    travels[sink] = self.program.column(cost=rate)
                # x_{s,sink} ≥ 1 − z_{sink,p}
                terms = [(travels[sink], 1.0)]
                if sink in made:
                    terms.append((made[sink], 1.0))
                self.program.row(terms, lower=1.0)

    def _load(self) -> None:
        # Σ_o z_{n,o}·c_o/speed_n + what runs there ≤ B
        problem = self._problem
        for node in problem.nodes:
            terms: list[Term] = [
                (runs[node.name], problem.cost_ms(name) / node.speed)
                for name, runs in self._runs.items()
                if node.name in runs
            ]
            running_ms = sum(work.cost_ms for work in node.admitted)
            self.program.row([*terms, (self._busiest, -1.0)], upper=-running_ms)
