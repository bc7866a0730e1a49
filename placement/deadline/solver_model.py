"""Placement and sub-deadlines as a mixed-integer linear program that HiGHS solves fast.

===========================  ===============  ==============================================
symbol                       name here        meaning
===========================  ===============  ==============================================
z_{o,n} ∈ {0, 1}             runs[o][n]       o runs on n, one of its candidates
W_{n,k} ≥ 0                  load             work on n of the first k operators charged, ms
d_{s,o} = d' + up − down     up, down         sub-deadline of o for output s, ms
y_{p,o,n,m} ≥ 0              routes           p on n feeds o on m
t_{s,o} ≥ 0                  done             o finishes for s, ms after the source's tuple
Lat(n, m)                    latency_ms       one-way latency, ms
u                            usage_weight     cost of network usage, 1 / (bytes/s × s)
===========================  ===============  ==============================================

    min Σ_{s,o} weight_o·(up + down)/c_o + u·Σ_l DR(l)·Lat(l)                      (3), (4)
    Σ_n z_{o,n} = 1
    W_{n,k} = W_{n,k−1} + z_{o_k,n}·c_{o_k}/speed_n                                      (6)
    W_{n,k(l)} + admitted work of n with a sub-deadline ≤ d'_l  ≤  d_{s_l,o_l}
    Σ_m y_{p,o,n,m} = z_{p,n},  Σ_n y_{p,o,n,m} = z_{o,m}
    t_{s,o} ≥ t_{s,p} + Σ Lat·y_{p,o} + d_{s,o},   t_{s,o} + Lat(o, sink) ≤ d_s           (5)

Where latencies are 0 it has the same solutions as the program of deadline placement, §5.2
(`placement.deadline.paper_model`). It deviates from that program in these points:

- It has no relays, hence neither x, y, l nor the big M of (7)-(9) and (11). A produced stream can
  be sent anywhere, so these rows exclude no placement.
- (5) has the longest path to each operator in place of all paths, whose number may be exponential:
  as many rows as links.
- (6) shares its sums: W_{n,k} adds one operator to W_{n,k−1}, so that each row has four entries
  instead of one for each operator charged before.
- Links have latencies. A link is a transportation problem, as in `placement.dag_model`, only if
  its latency is not 0 and both ends have a choice; with one fixed end, latency is linear in z.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placement.deadline.demand import demand_rows
from placement.deadline.problem import DeadlineProblem
from placement.errors import check_numbers
from placement.program import IntegerProgram, MilpSettings, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverSettings:
    """How `placement.deadline.solver` solves a problem.

    Attributes
    ----------
    usage_weight
        Cost of one byte of network usage (bytes/s × s) in units of (3), ≥ 0. A small weight
        decides between placements that deviate equally.
    milp
        Gap and limits of each program.
    largest
        Up to this number of choices (operators times candidates) one program covers the whole
        problem, ≥ 0; larger problems are solved query by query and region by region.
    """

    usage_weight: float = 0.0
    milp: MilpSettings = field(default_factory=lambda: MilpSettings(gap=1e-4))
    largest: int = 2000

    def __post_init__(self) -> None:
        check_numbers(self, usage_weight="≥ 0", largest="≥ 0")


class SolverModel:
    """Columns and rows of the program.

    Parameters
    ----------
    problem
        The problem to place.
    usage_weight
        Weight of network usage in the objective.
    elastic
        None: the program above. "deadlines": outputs may be late, and their total lateness is the
        objective. "nodes": nodes may have too much work, and the total excess is the objective.
    lower_bounds_ms
        Lower bounds of sub-deadlines, by output and operator, ms.
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
        self.program = IntegerProgram()
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
        self._deviate(lower_bounds_ms or {})
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

    def _deviate(self, lower_bounds_ms: Mapping[tuple[str, str], float]) -> None:
        # min Σ weight_o·(up + down)/c_o
        penalties = self._problem.penalty_per_ms.tolist()
        for pair, penalty in zip(self._problem.pairs, penalties, strict=True):
            cost = 0.0 if self._elastic else penalty
            self.up.append(self.program.column(cost=cost))
            self.down.append(self.program.column(cost=cost, high=pair.proportional_ms))
            # d' + up − down ≥ lower bound
            lower_bound_ms = lower_bounds_ms.get((pair.output, pair.operator), 0.0)
            if lower_bound_ms > 0:
                terms: list[Term] = [(self.up[-1], 1.0), (self.down[-1], -1.0)]
                self.program.row(terms, lower=lower_bound_ms - pair.proportional_ms)

    def _load(self) -> None:
        loads: dict[str, list[int]] = {node.name: [] for node in self._problem.nodes}
        for row in demand_rows(self._problem):
            load = loads[row.node]
            while len(load) < len(row.costs_ms):
                # W_{n,k} = W_{n,k−1} + z_{o_k,n}·c_{o_k}/speed_n
                name, cost_ms = row.costs_ms[len(load)]
                more = self.program.column()
                terms = [(more, 1.0), (self.runs[name][row.node], -cost_ms)]
                terms += [(before, -1.0) for before in load[-1:]]
                self.program.row(terms, lower=0.0, upper=0.0)
                load.append(more)
            # W_{n,k(l)} + admitted ≤ d' + up − down
            terms = [(load[len(row.costs_ms) - 1], 1.0)] if row.costs_ms else []
            room_ms = row.room_ms
            if row.pair is not None:
                if not terms and not room_ms:
                    continue
                terms += [(self.up[row.pair], -1.0), (self.down[row.pair], 1.0)]
                room_ms += self._problem.pairs[row.pair].proportional_ms
            if self._elastic == "nodes":
                terms.append((self.excess[row.node], -1.0))
            self.program.row(terms, upper=room_ms)

    def _route(self, before: str, name: str) -> list[Term]:
        """Latency of the link between two operators, as terms."""
        index = self._problem.node_index
        sources, targets = self.runs[before], self.runs[name]
        rate_bytes_s = self._rate(before, name)
        ms = {(n, m): float(self._latency_ms[index[n], index[m]]) for n in sources for m in targets}
        if len(sources) == 1:
            routes = {(n, m): targets[m] for n, m in ms}
        elif len(targets) == 1:
            routes = {(n, m): sources[n] for n, m in ms}
        else:
            # Σ_m y_{p,o,n,m} = z_{p,n},  Σ_n y_{p,o,n,m} = z_{o,m}
            routes = {key: self.program.column(high=1.0) for key in ms}
            for n, runs in sources.items():
                terms = [(routes[n, m], 1.0) for m in targets]
                self.program.row([*terms, (runs, -1.0)], lower=0.0, upper=0.0)
            for m, runs in targets.items():
                terms = [(routes[n, m], 1.0) for n in sources]
                self.program.row([*terms, (runs, -1.0)], lower=0.0, upper=0.0)
        for key, column in routes.items():
            self._add_usage(column, rate_bytes_s, ms[key])
        return [(routes[key], latency_ms) for key, latency_ms in ms.items() if latency_ms]

    def _arrive(self) -> None:
        problem, program = self._problem, self.program
        sources = {name: self._from_sources(name) for name in problem.order}
        for output in problem.outputs:
            done = {name: program.column() for name in problem.needed[output.stream]}
            for name in done:
                row = problem.pair_index[output.stream, name]
                # d_{s,o} = d' + up − down
                own: list[Term] = [(done[name], 1.0), (self.up[row], -1.0), (self.down[row], 1.0)]
                proportional_ms = problem.pairs[row].proportional_ms
                # t_{s,o} ≥ t_{s,p} + Σ Lat·y_{p,o} + d_{s,o}
                for before in problem.upstream(name):
                    travel = [(c, -ms) for c, ms in self._travel.get((before, name), ())]
                    program.row([*own, (done[before], -1.0), *travel], lower=proportional_ms)
                # t_{s,o} ≥ Lat(source, o) + d_{s,o}
                if sources[name] or not problem.upstream(name):
                    travel = [(c, -ms) for c, ms in sources[name]]
                    program.row([*own, *travel], lower=proportional_ms)
            # t_{s,o} + Lat(o, sink) ≤ d_s
            producer = problem.producer[output.stream]
            sink, index = problem.node_index[output.sink], problem.node_index
            terms: list[Term] = [(done[producer], 1.0)]
            for node, column in self.runs[producer].items():
                ms = float(self._latency_ms[index[node], sink])
                if ms:
                    terms.append((column, ms))
                    self._add_usage(column, problem.rates_bytes_s.get(output.stream, 0.0), ms)
            if self._elastic == "deadlines":
                terms.append((self.late[output.stream], -1.0))
            program.row(terms, upper=output.deadline_ms)

    def _from_sources(self, name: str) -> list[Term]:
        """Latency to an operator from the farthest of its sources, as terms."""
        problem = self._problem
        streams = [s for s in problem.by_name[name].inputs if s in problem.source]
        terms: list[Term] = []
        for node, column in self.runs[name].items():
            here = problem.node_index[node]
            source_ms = {s: problem.source_latency_ms(s, here) for s in streams}
            for s, ms in source_ms.items():
                self._add_usage(column, problem.rates_bytes_s.get(s, 0.0), ms)
            farthest_ms = max(source_ms.values(), default=0.0)
            if farthest_ms:
                terms.append((column, farthest_ms))
        return terms

    def _rate(self, before: str, name: str) -> float:
        """DR of the streams from one operator to another, bytes/s."""
        produced = set(self._problem.by_name[before].outputs)
        streams = produced.intersection(self._problem.by_name[name].inputs)
        return sum(self._problem.rates_bytes_s.get(s, 0.0) for s in streams)

    def _add_usage(self, column: int, rate_bytes_s: float, latency_ms: float) -> None:
        # u·Σ_l DR(l)·Lat(l)
        self.program.add_cost(column, self._usage_weight * rate_bytes_s * latency_ms / 1e3)
