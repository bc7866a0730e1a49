"""Placement and sub-deadlines as a mixed-integer linear program made to be solved fast.

===========================  ===============  ==============================================
symbol                       name here        meaning
===========================  ===============  ==============================================
z_{o,n} ∈ {0, 1}             runs[o][n]       o runs on n, one of its candidates
W_{n,k} ≥ 0                  load             work on n of the first k operators charged
d_{s,o} = d' + up − down     up, down         sub-deadline of o for output s, ms
y_{p,o,n,m} ≥ 0              routes           p on n feeds o on m
t_{s,o} ≥ 0                  done             o is done for s, ms after the source's tuple
Lat(n, m)                    latency_ms       one-way latency, ms
u                            usage_weight     price of network usage, 1 / (bytes/s × s)
===========================  ===============  ==============================================

    min Σ_{s,o} weight_o·(up + down)/c_o + u·Σ_l DR(l)·Lat(l)                      (3), (4)
    Σ_n z_{o,n} = 1
    W_{n,k} = W_{n,k−1} + z_{o_k,n}·c_{o_k}/speed_n                                      (6)
    W_{n,k(l)} + what runs on n with a deadline ≤ d'_l  ≤  d_{s_l,o_l}
    Σ_m y_{p,o,n,m} = z_{p,n},  Σ_n y_{p,o,n,m} = z_{o,m}
    t_{s,o} ≥ t_{s,p} + Σ Lat·y_{p,o} + d_{s,o},   t_{s,o} + Lat(o, sink) ≤ d_s           (5)

It has the solutions of the literal model where latencies are 0. What differs:

- Relays are gone, and with them x, y, l and the big M of (7)–(9) and (11): whatever is made
  can be sent, so they restrict nothing.
- Paths, which may be exponentially many, became longest paths: as many rows as links.
- (6) shares its sums: W_{n,k} adds one operator to W_{n,k−1}, so that its rows have four
  entries rather than one for each operator before.
- Links are transportation problems, as in `placement.dag_model`, only where latency is not 0
  and both ends have a choice. With one end fixed, latency is linear in z.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement.deadline.problem import DeadlineProblem
from placement.deadline.sub_deadlines import source_ms
from placement.program import Program, Term


class SolverModel:
    """Columns and rows of the program.

    Parameters
    ----------
    problem
        What is to be placed.
    usage_weight
        Of network usage in the objective.
    elastic
        None: the program as it stands. "deadlines": outputs may be late, and lateness alone is
        the objective. "nodes": nodes may do too much, and that alone is.
    lower_bounds_ms
        What sub-deadlines have to be at least, by output and operator, ms.
    """

    def __init__(
        self,
        problem: DeadlineProblem,
        *,
        usage_weight: float = 0.0,
        elastic: str | None = None,
        lower_bounds_ms: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        self._problem = problem
        self._elastic = elastic
        self._usage_weight = 0.0 if elastic else usage_weight
        self._latency_ms = problem.latency_ms
        self.program = Program()
        self.late = {
            output.stream: self.program.column(cost=1.0)
            for output in problem.outputs
            if elastic == "deadlines"
        }
        self.excess = {
            node.name: self.program.column(cost=1.0) for node in problem.nodes if elastic == "nodes"
        }
        self.runs = {name: self._switches(name) for name in problem.order}
        self.up: list[int] = []
        self.down: list[int] = []
        self._divide(lower_bounds_ms or {})
        self._load()
        self._travel: dict[tuple[str, str], list[Term]] = {}
        if self._latency_ms.any():
            for name in problem.order:
                for before in problem.upstream(name):
                    self._travel[before, name] = self._route(before, name)
        self._arrive()

    def places(self, x: list[float]) -> dict[str, str]:
        """Operator → node in a solution."""
        return {name: max(runs, key=lambda n: x[runs[n]]) for name, runs in self.runs.items()}

    def _switches(self, name: str) -> dict[str, int]:
        # Σ_n z_{o,n} = 1
        candidates = self._problem.by_name[name].candidates
        runs = {node: self.program.switch() for node in candidates}
        self.program.row([(column, 1.0) for column in runs.values()], lower=1.0, upper=1.0)
        return runs

    def _divide(self, lower_bounds_ms: Mapping[tuple[str, str], float]) -> None:
        # min Σ weight_o·(up + down)/c_o
        for pair in self._problem.pairs:
            price = self._problem.by_name[pair.operator].weight
            price = 0.0 if self._elastic else price / self._problem.cost_ms(pair.operator)
            self.up.append(self.program.column(cost=price))
            self.down.append(self.program.column(cost=price, high=pair.proportional_ms))
            # d' + up − down ≥ floor
            lower_bound_ms = lower_bounds_ms.get((pair.output, pair.operator), 0.0)
            if lower_bound_ms > 0:
                terms: list[Term] = [(self.up[-1], 1.0), (self.down[-1], -1.0)]
                self.program.row(terms, lower=lower_bound_ms - pair.proportional_ms)

    def _load(self) -> None:
        problem, program = self._problem, self.program
        charged = sorted(problem.order, key=problem.first.__getitem__)
        for node in problem.nodes:
            easing: list[Term] = []
            if self._elastic == "nodes":
                easing = [(self.excess[node.name], -1.0)]
            load, waiting = -1, iter(charged)
            following = next(waiting, None)
            by_pair: list[int] = []
            for at, pair in enumerate(problem.pairs):
                if following is not None and problem.first[following] == at:
                    # W_{n,k} = W_{n,k−1} + z_{o_k,n}·c_{o_k}/speed_n
                    if node.name in self.runs[following]:
                        cost_ms = problem.cost_ms(following) / node.speed
                        load = self._add(load, self.runs[following][node.name], cost_ms)
                    following = next(waiting, None)
                by_pair.append(load)
                # W_{n,k(l)} + running ≤ d' + up − down
                running_ms = sum(
                    w.cost_ms for w in node.admitted if w.deadline_ms <= pair.proportional_ms
                )
                if load < 0 and not running_ms:
                    continue
                terms: list[Term] = [(self.up[at], -1.0), (self.down[at], 1.0), *easing]
                if load >= 0:
                    terms.append((load, 1.0))
                program.row(terms, upper=pair.proportional_ms - running_ms)
            for work in node.admitted:
                upto = [
                    at
                    for at, p in enumerate(problem.pairs)
                    if p.proportional_ms <= work.deadline_ms
                ]
                last = by_pair[upto[-1]] if upto else -1
                own: list[Term] = [(last, 1.0)] if last >= 0 else []
                running_ms = sum(
                    w.cost_ms for w in node.admitted if w.deadline_ms <= work.deadline_ms
                )
                program.row([*own, *easing], upper=work.deadline_ms - running_ms)

    def _add(self, load: int, runs: int, cost_ms: float) -> int:
        more = self.program.column()
        terms: list[Term] = [(more, 1.0), (runs, -cost_ms)]
        if load >= 0:
            terms.append((load, -1.0))
        self.program.row(terms, lower=0.0, upper=0.0)
        return more

    def _route(self, before: str, name: str) -> list[Term]:
        """Latency of a link, as terms."""
        index = self._problem.node_index
        sources, targets = self.runs[before], self.runs[name]
        rate_bytes_s = self._rate(before, name)
        ms = {(n, m): float(self._latency_ms[index[n], index[m]]) for n in sources for m in targets}
        if len(sources) == 1 or len(targets) == 1:
            free = targets if len(sources) == 1 else sources
            terms = [
                (free[m if len(sources) == 1 else n], latency_ms)
                for (n, m), latency_ms in ms.items()
                if latency_ms
            ]
            for column, latency_ms in terms:
                self._price(column, rate_bytes_s, latency_ms)
            return terms
        # Σ_m y_{p,o,n,m} = z_{p,n},  Σ_n y_{p,o,n,m} = z_{o,m}
        routes = {key: self.program.column(high=1.0) for key in ms}
        for n in sources:
            terms = [(routes[n, m], 1.0) for m in targets]
            self.program.row([*terms, (sources[n], -1.0)], lower=0.0, upper=0.0)
        for m in targets:
            terms = [(routes[n, m], 1.0) for n in sources]
            self.program.row([*terms, (targets[m], -1.0)], lower=0.0, upper=0.0)
        for key, column in routes.items():
            self._price(column, rate_bytes_s, ms[key])
        return [(routes[key], latency_ms) for key, latency_ms in ms.items() if latency_ms]

    def _arrive(self) -> None:
        problem, program = self._problem, self.program
        index_of = {(pair.output, pair.operator): at for at, pair in enumerate(problem.pairs)}
        ends = {name: self._ends(name) for name in problem.order}
        for output in problem.outputs:
            done = {name: program.column() for name in problem.needed[output.stream]}
            for name in done:
                row = index_of[output.stream, name]
                # d_{s,o} = d' + up − down
                own: list[Term] = [(done[name], 1.0), (self.up[row], -1.0), (self.down[row], 1.0)]
                proportional_ms = problem.pairs[row].proportional_ms
                # t_{s,o} ≥ t_{s,p} + Σ Lat·y_{p,o} + d_{s,o}
                for before in problem.upstream(name):
                    travel = [(c, -ms) for c, ms in self._travel.get((before, name), ())]
                    program.row([*own, (done[before], -1.0), *travel], lower=proportional_ms)
                # t_{s,o} ≥ Lat(source, o) + d_{s,o}
                if ends[name] or not problem.upstream(name):
                    travel = [(column, -ms) for column, ms in ends[name]]
                    program.row([*own, *travel], lower=proportional_ms)
            # t_{s,o} + Lat(o, sink) ≤ d_s
            maker = problem.producer[output.stream]
            sink, index = problem.node_index[output.sink], problem.node_index
            terms: list[Term] = [(done[maker], 1.0)]
            for node, column in self.runs[maker].items():
                ms = float(self._latency_ms[index[node], sink])
                if ms:
                    terms.append((column, ms))
                    self._price(column, problem.rates_bytes_s.get(output.stream, 0.0), ms)
            if self._elastic == "deadlines":
                terms.append((self.late[output.stream], -1.0))
            program.row(terms, upper=output.deadline_ms)

    def _ends(self, name: str) -> list[Term]:
        """Latency from the farthest of an operator's sources, as terms."""
        problem = self._problem
        streams = [s for s in problem.by_name[name].inputs if s in problem.source]
        terms: list[Term] = []
        for node, column in self.runs[name].items():
            here = problem.node_index[node]
            ways = {s: source_ms(problem, s, here) for s in streams}
            for s, ms in ways.items():
                self._price(column, problem.rates_bytes_s.get(s, 0.0), ms)
            farthest = max(ways.values(), default=0.0)
            if farthest:
                terms.append((column, farthest))
        return terms

    def _rate(self, before: str, name: str) -> float:
        """DR of all streams from one operator to another, bytes/s."""
        made = set(self._problem.by_name[before].outputs)
        streams = made.intersection(self._problem.by_name[name].inputs)
        return sum(self._problem.rates_bytes_s.get(s, 0.0) for s in streams)

    def _price(self, column: int, rate_bytes_s: float, latency_ms: float) -> None:
        # u·Σ_l DR(l)·Lat(l)
        self.program.add_cost(column, self._usage_weight * rate_bytes_s * latency_ms / 1e3)
