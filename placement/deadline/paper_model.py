"""The paper's program of placement and sub-deadlines, as printed (deadline placement, §5.2).

===================  =================  ====================================================
symbol               name here          meaning
===================  =================  ====================================================
z_{n,o} ∈ {0, 1}     runs[n, o]         o runs on n
x_{n,n',s} ∈ {0, 1}  flows[n, m, s]     s flows from n to n'
y_{n,s} ∈ {0, 1}     available[n, s]    s is available on n
l_{n,s} ≥ 0          level[n, s]        relay level of s on n
d_{s,o} ≥ 0          sub_deadline[s, o] sub-deadline of o for output s, ms
h⁺, h⁻ ≥ 0           above, below       deviation of a laxity ratio from its output's mean
===================  =================  ====================================================

This model is the yardstick for `placement.deadline.solver_model`, which the planner uses. It
deviates from the printed text in these points:

- (4) is printed with h⁺ + h⁻ on its right. We read h⁺ − h⁻, since otherwise (3) would not be a sum
  of absolute values.
- (6) charges an operator once per node, at its first pair, not once for each output it serves. As
  printed, (6) restricts every pair on every node, also pairs whose operator runs elsewhere. EDF
  needs it only for the operators of the same node, but a condition on z would be another model.
- (7) lets no stream flow from a node to itself; (11) excludes this in any case.
- Every operator runs on exactly one node, and every output reaches its sink's node. The text
  implies both without writing them down.
- Operator costs are c_o divided by the node's speed, and the admitted work of a node takes part in
  (6) with its own sub-deadline. The paper has neither speeds nor admitted work.

Latency is neglected, as in the paper.

(6) suffices for EDF whatever the order of the pairs. Let A be the operators of a node with
sub-deadlines up to some D. Take the one of A whose binding pair comes last: its row in (6) charges
all of A, and its sub-deadline is at most D. So the work of A is at most D, for every D.
"""

from __future__ import annotations

from placement.deadline.demand import demand_rows
from placement.deadline.errors import DeadlinesUnattainable, TooManyPaths
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement, deviation
from placement.errors import SolverStopped
from placement.program import IntegerProgram, MilpSettings, Term

MOST_PATHS = 10_000
"""Limit of the paths to one output; each has a row in (5)."""


class PaperModel:
    """Columns and rows of (3)–(11)."""

    def __init__(self, problem: DeadlineProblem) -> None:
        self._problem = problem
        self._nodes = [node.name for node in problem.nodes]
        self.program = IntegerProgram()
        self._runs: dict[tuple[str, str], int] = {}
        self._sub_deadline: dict[tuple[str, str], int] = {}
        self._place()
        self._deviate()
        self._meet_deadlines()
        self._meet_demand()
        self._flow()

    def places(self, x: list[float]) -> dict[str, str]:
        """Operator → node in a solution."""
        return {
            name: max(self._nodes, key=lambda node: x[self._runs[node, name]])
            for name in self._problem.order
        }

    def pair_deadlines_ms(self, x: list[float]) -> dict[tuple[str, str], float]:
        """d_{s,o} in a solution, ms."""
        return {key: x[column] for key, column in self._sub_deadline.items()}

    def _place(self) -> None:
        # z_{n,o} = 0  for n ∉ Node(o)                                                  (10)
        # Σ_n z_{n,o} = 1
        for name in self._problem.order:
            candidates = self._problem.by_name[name].candidates
            for node in self._nodes:
                self._runs[node, name] = self.program.switch(possible=node in candidates)
            terms = [(self._runs[node, name], 1.0) for node in self._nodes]
            self.program.row(terms, lower=1.0, upper=1.0)

    def _deviate(self) -> None:
        # min Σ_{s∈T, o∈Pre(s)} (h⁺_{s,o} + h⁻_{s,o})                                    (3)
        # (d_s − c'_s)/c'_s − (d_{s,o} − c_o)/c_o = h⁺_{s,o} − h⁻_{s,o}                  (4)
        # The two −1 cancel, and the first term is d'_{s,o}/c_o.
        for pair in self._problem.pairs:
            cost_ms = self._problem.cost_ms(pair.operator)
            weight = self._problem.by_name[pair.operator].weight
            sub_deadline = self.program.column()
            above, below = self.program.column(cost=weight), self.program.column(cost=weight)
            self._sub_deadline[pair.output, pair.operator] = sub_deadline
            ratio = pair.proportional_ms / cost_ms
            terms = [(sub_deadline, 1 / cost_ms), (above, 1.0), (below, -1.0)]
            self.program.row(terms, lower=ratio, upper=ratio)

    def _meet_deadlines(self) -> None:
        # Σ_{o on path} d_{s,o} ≤ d_s    for every s ∈ T, path ∈ Paths(s)                 (5)
        for output in self._problem.outputs:
            paths = self._problem.count_paths(output.stream)
            if paths > MOST_PATHS:
                raise TooManyPaths(output.stream, paths, MOST_PATHS)
            for path in self._problem.paths(output.stream):
                terms = [(self._sub_deadline[output.stream, name], 1.0) for name in path]
                self.program.row(terms, upper=output.deadline_ms)

    def _meet_demand(self) -> None:
        # Σ_{l'≤l} z_{n,o_l'}·c_{o_l'} ≤ d_{s_l,o_l}    for every n and l                 (6)
        for row in demand_rows(self._problem):
            terms: list[Term] = [
                (self._runs[row.node, name], cost_ms) for name, cost_ms in row.costs_ms
            ]
            if row.pair is not None:
                pair = self._problem.pairs[row.pair]
                terms.append((self._sub_deadline[pair.output, pair.operator], -1.0))
            self.program.row(terms, upper=row.room_ms)

    def _flow(self) -> None:
        program, problem, nodes = self.program, self._problem, self._nodes
        streams = problem.streams
        available = {(n, s): program.switch() for n in nodes for s in streams}
        flows = {
            (n, m, s): program.switch(possible=n != m)
            for n in nodes
            for m in nodes
            for s in streams
        }
        level = {(n, s): program.column() for n in nodes for s in streams}
        much = float(len(nodes))
        for s in streams:
            producer, source = problem.producer.get(s), problem.source.get(s)
            for m in nodes:
                # y_{n',s} ≤ Σ_n x_{n,n',s} + Σ_{o:Out(o)=s} z_{n',o} + Src(n',s)         (7)
                terms = [(available[m, s], 1.0), *((flows[n, m, s], -1.0) for n in nodes)]
                if producer is not None:
                    terms.append((self._runs[m, producer], -1.0))
                supplied = source is not None and m in source.nodes
                program.row(terms, upper=float(supplied))
                for n in nodes:
                    # x_{n,n',s} ≤ y_{n,s}                                               (9)
                    program.row([(flows[n, m, s], 1.0), (available[n, s], -1.0)], upper=0.0)
                    # l_{n,s} ≥ l_{n',s} + 1 − M·(1 − x_{n,n',s}),  M > |N| − 1         (11)
                    if n != m:
                        program.row(
                            [(level[n, s], 1.0), (level[m, s], -1.0), (flows[n, m, s], -much)],
                            lower=1.0 - much,
                        )
        for name in problem.order:
            for s in problem.by_name[name].inputs:
                for n in nodes:
                    # z_{n,o} ≤ y_{n,s}  for s ∈ In(o)                                   (8)
                    program.row([(self._runs[n, name], 1.0), (available[n, s], -1.0)], upper=0.0)
        for output in problem.outputs:
            # y_{sink,s} = 1
            program.fix(available[output.sink, output.stream], 1.0)


def place_by_paper_model(
    problem: DeadlineProblem, settings: MilpSettings | None = None
) -> DeadlinePlacement:
    """Solve (3)-(11) as printed.

    Parameters
    ----------
    problem
        Its latencies and rates are ignored.

    Raises
    ------
    DeadlinesUnattainable
        If there is no placement. The error has no figures; `place_by_deadline` gives them.
    TooManyPaths
        If more than `MOST_PATHS` paths end in an output.
    SolverStopped
        If a limit came before any placement.
    """
    model = PaperModel(problem)
    result = model.program.solve(settings or MilpSettings())
    if result.infeasible:
        raise DeadlinesUnattainable({}, {})
    if result.x is None:
        raise SolverStopped("of the deadline model", result.message)
    values = result.x.tolist()
    pair_deadlines_ms = model.pair_deadlines_ms(values)
    objective = deviation(problem, pair_deadlines_ms)
    return DeadlinePlacement(
        places=model.places(values),
        pair_deadlines_ms=pair_deadlines_ms,
        objective=objective,
        bound=min(max(result.bound, 0.0), objective),
        optimal=result.optimal,
    )
