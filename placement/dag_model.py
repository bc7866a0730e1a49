"""The placement of an acyclic query graph as a mixed-integer linear program.

=================  ================  ===================================================
symbol             name here         meaning
=================  ================  ===================================================
N_o                candidates[o]       nodes that operator o may take; one if it is pinned
z_{o,n} ∈ {0, 1}   places[o]         o runs on n
y_{l,n,m} ≥ 0      routes[l]         link l goes from n to m
t_o ≥ 0            arrivals[o]       when o has processed a tuple's last input, ms after its
                                     ingestion
T                  latest            the last t_o, ms
DR(l), Lat(n, m)                     rate, bytes/s, 0 where the stream flows anyway
                                     (`Operator.flows_to`); one-way latency, ms
X(n, m)            crossing_ms       price of a link between two nodes besides that; 0 within one
P_{o,n}                              load price of o on n
c_o, C_n           left              cores that o needs; that n has left
p_o                                  processing time of o, ms
h                  hop_overhead_ms            what a link takes besides its latency, ms
=================  ================  ===================================================

The program, with (3), (4) and (5) only where they are asked for:

    min Σ_l Σ_{n,m} DR(l)·(Lat(n,m) + X(n,m))·y_{l,n,m} + Σ_o Σ_n P_{o,n}·z_{o,n}
    Σ_n z_{o,n} = 1                                            every o                      (1)
    Σ_m y_{l,n,m} = z_{src(l),n},  Σ_n y_{l,n,m} = z_{dst(l),m}   every l, n and m          (2)
    Σ_o c_o·z_{o,n} ≤ C_n                                      every n                      (3)
    t_dst ≥ t_src + Σ_{n,m} Lat(n,m)·y_{l,n,m} + h + p_dst,  t_o ≥ p_o,  t_o ≤ T ≤ deadline   (4)
    y_{l,n,n} = 0                                              every l between free operators (5)

(2) makes a transportation problem of every link: with whole z, y is whole by itself, and the
relaxation is as tight as a linear one of single links can be, exact on trees. The usual
y ≥ z_{src,n} + z_{dst,m} − 1 has the same whole solutions and a relaxation worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.graph import Link, QueryGraph
from placement.network import NetworkView
from placement.program import IntegerProgram, Term


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DagTask:
    """A query to be placed.

    Attributes
    ----------
    candidates
        Indices of nodes for every operator to be placed. `solve_dag` adds the pinned ones.
    price_bytes
        Load price of a replica by node, shape (n,), bytes (`Load.price_bytes`).
    capacity_left
        CPU that the operators to be placed may need together, by node, shape (n,), cores; None:
        any amount. A node with nothing left, or less, takes operators that need nothing.
    deadline_ms
        Of the longest path, infinite if there is none; None: paths are not modelled.
    hop_overhead_ms
        Cost of a link besides its latency, ms (`placement.evaluation.single.longest_path`).
    apart
        Whether operators to be placed that are linked must take different nodes.
    crossing_ms
        Price of a link between two nodes besides its latency, ms.
    """

    graph: QueryGraph
    view: NetworkView
    candidates: Mapping[str, IntArray]
    price_bytes: FloatArray
    capacity_left: FloatArray | None = None
    deadline_ms: float | None = None
    hop_overhead_ms: float = 0.0
    apart: bool = False
    crossing_ms: float = 0.0


class DagModel:
    """The program of a task.

    Attributes
    ----------
    program
        Its objective is the cost, bytes.
    """

    def __init__(self, task: DagTask) -> None:
        self._task = task
        self.program = IntegerProgram()
        graph, choices, view = task.graph, task.candidates, task.view
        self._links = [link for name in graph.order for link in graph.inputs[name]]
        self._latency_ms = [
            view.one_way_between(choices[link.source], choices[link.target]) for link in self._links
        ]
        self._places = {
            name: self.program.columns(self._price(name), high=1.0, whole=True)
            for name in graph.order
        }
        self._routes = [
            self.program.columns(
                self._rate_bytes_s(link) * (latency_ms + self._crossing_ms(link)) / 1e3,
                high=self._open(link),
            )
            for link, latency_ms in zip(self._links, self._latency_ms, strict=True)
        ]
        self._assign()
        self._route()
        self._fit()
        if task.deadline_ms is not None:
            self._arrive(task.deadline_ms)

    def minimise_latest(self) -> None:
        """Another objective, for models with paths: T, ms."""
        self.program.minimise({self._latest: 1.0})

    def exclude(self, together: Mapping[str, int]) -> None:
        """Forbid that all of these operators take these nodes.

            Σ_o z_{o,n(o)} ≤ number of operators − 1

        Parameters
        ----------
        together
            Operator → which of its choices.
        """
        terms = [(int(self._places[name][at]), 1.0) for name, at in together.items()]
        self.program.row(terms, upper=len(terms) - 1.0)

    def chosen(self, x: FloatArray) -> dict[str, int]:
        """Which of its choices each operator takes in a solution."""
        return {name: int(np.argmax(x[columns])) for name, columns in self._places.items()}

    def _price(self, name: str) -> FloatArray:
        """P_{o,n}; pinned operators are free of charge."""
        nodes, graph = self._task.candidates[name], self._task.graph
        if graph.by_name[name].pinned is not None:
            return np.zeros(len(nodes))
        return self._task.price_bytes[nodes]

    def _rate_bytes_s(self, link: Link) -> FloatArray:
        """DR of a link by the choices of its target."""
        flows_to = self._task.graph.by_name[link.source].flows_to
        targets = self._task.view.names(self._task.candidates[link.target])
        return np.array([0.0 if node in flows_to else link.rate_bytes_s for node in targets])

    def _crossing_ms(self, link: Link) -> FloatArray:
        """X(n, m) of a link by the choices of its ends."""
        choices = self._task.candidates
        is_within = choices[link.source][:, None] == choices[link.target]
        return np.where(is_within, 0.0, self._task.crossing_ms)

    def _open(self, link: Link) -> FloatArray:
        """Upper bounds of the routes of a link: (5)  y_{l,n,n} = 0."""
        by_name, choices = self._task.graph.by_name, self._task.candidates
        source, target = choices[link.source], choices[link.target]
        are_free = all(by_name[end].pinned is None for end in (link.source, link.target))
        shut = (source[:, None] == target) & (self._task.apart and are_free)
        return np.where(shut, 0.0, 1.0)

    def _assign(self) -> None:
        # (1)  Σ_n z_{o,n} = 1
        for columns in self._places.values():
            self.program.row(_terms(columns), lower=1.0, upper=1.0)

    def _route(self) -> None:
        # (2)  Σ_m y_{l,n,m} = z_{src(l),n},  Σ_n y_{l,n,m} = z_{dst(l),m}
        for link, routes in zip(self._links, self._routes, strict=True):
            for end, sides in ((link.source, routes), (link.target, routes.T)):
                for place, columns in zip(self._places[end].tolist(), sides, strict=True):
                    self.program.row([*_terms(columns), (place, -1.0)], lower=0.0, upper=0.0)

    def _fit(self) -> None:
        # (3)  Σ_o c_o·z_{o,n} ≤ C_n
        task = self._task
        if task.capacity_left is None:
            return
        needs: dict[int, list[Term]] = {}
        for name in task.graph.to_place:
            nodes: list[int] = task.candidates[name].tolist()
            for node, column in zip(nodes, self._places[name].tolist(), strict=True):
                needs.setdefault(node, []).append((column, task.graph.cores(name)))
        for node, terms in needs.items():
            if sum(cores for _, cores in terms) > task.capacity_left[node]:
                self.program.row(terms, upper=float(task.capacity_left[node]))

    def _arrive(self, deadline_ms: float) -> None:
        # (4)  t_dst ≥ t_src + Σ_{n,m} Lat(n,m)·y_{l,n,m} + h + p_dst,  t_o ≥ p_o,  t_o ≤ T
        graph, program = self._task.graph, self.program
        arrivals = {name: program.column() for name in graph.order}
        self._latest = program.column(high=deadline_ms)
        cost_ms = {name: graph.by_name[name].cost_us / 1e3 for name in graph.order}
        for link, routes, latency_ms in zip(
            self._links, self._routes, self._latency_ms, strict=True
        ):
            ends = [(arrivals[link.target], 1.0), (arrivals[link.source], -1.0)]
            overhead_ms = self._task.hop_overhead_ms + cost_ms[link.target]
            program.row([*ends, *_terms(routes, -latency_ms)], lower=overhead_ms)
        for name, arrival in arrivals.items():
            program.row([(arrival, 1.0)], lower=cost_ms[name])
            program.row([(self._latest, 1.0), (arrival, -1.0)], lower=0.0)


def _terms(columns: IntArray, factors: FloatArray | float = 1.0) -> list[Term]:
    spread = np.broadcast_to(factors, columns.shape).ravel()
    return list(zip(columns.ravel().tolist(), spread.tolist(), strict=True))
