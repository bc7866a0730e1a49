"""The placement of an acyclic query graph as a mixed-integer linear program.

=================  ================  ===================================================
symbol             name here         meaning
=================  ================  ===================================================
N_o                choices[o]        nodes that operator o may take; one if it is pinned
z_{o,n} ∈ {0, 1}   places[o]         o runs on n
y_{l,n,m} ≥ 0      routes[l]         link l goes from n to m
t_o ≥ 0            arrivals[o]       o has a tuple's last input processed, ms after its origin
T                  latest            the last t_o, ms
DR(l), Lat(n, m)                     rate, bytes/s; one-way latency, ms
P_{o,n}                              load price of o on n: DR into o · CPU axis of n
c_o, C_n           left              cores that o needs; that n has left
p_o                                  processing time of o, ms
h                  hop_overhead_ms            what a link takes besides its latency, ms
=================  ================  ===================================================

The program, with (3), (4) and (5) only where they are asked for:

    min Σ_l Σ_{n,m} DR(l)·Lat(n,m)·y_{l,n,m} + Σ_o Σ_n P_{o,n}·z_{o,n}
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
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array

from placement.graph import QueryGraph
from placement.network import NetworkView
from topology.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DagTask:
    """What is to be placed.

    Attributes
    ----------
    choices
        Indices of nodes for every operator; a single one for those that are pinned.
    price_ms
        CPU axis that a copy meets, by node, shape (n,), ms.
    capacity_left
        What the operators to be placed may need together, by node, shape (n,), cores; or any.
    deadline_ms
        Of the longest path, infinite if there is none; None: paths are not modelled.
    hop_overhead_ms
        What a link takes besides its latency, ms.
    apart
        Whether operators to be placed that are linked must take different nodes.
    """

    graph: QueryGraph
    view: NetworkView
    choices: Mapping[str, IntArray]
    price_ms: FloatArray
    capacity_left: FloatArray | None
    deadline_ms: float | None
    hop_overhead_ms: float
    apart: bool


@dataclass(slots=True, kw_only=True, eq=False)
class _Rows:
    """Rows lower ≤ A·x ≤ upper as they are written."""

    count: int = 0
    rows: list[IntArray] = field(default_factory=list[IntArray])
    columns: list[IntArray] = field(default_factory=list[IntArray])
    values: list[FloatArray] = field(default_factory=list[FloatArray])
    lower: list[float] = field(default_factory=list[float])
    upper: list[float] = field(default_factory=list[float])

    def add(
        self,
        *terms: tuple[IntArray, float | FloatArray],
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> None:
        """One row: the sum of the terms, each some columns times a factor or one a column."""
        for columns, factors in terms:
            self.rows.append(np.full(columns.size, self.count))
            self.columns.append(columns.ravel())
            self.values.append(np.broadcast_to(factors, columns.shape).astype(np.float64).ravel())
        self.lower.append(lower)
        self.upper.append(upper)
        self.count += 1

    def constraint(self, width: int) -> LinearConstraint:
        entries = (
            np.concatenate(self.values),
            (np.concatenate(self.rows), np.concatenate(self.columns)),
        )
        matrix = csr_array(entries, shape=(self.count, width))
        return LinearConstraint(matrix, np.array(self.lower), np.array(self.upper))


class DagModel:
    """Columns and rows of the program.

    Attributes
    ----------
    usage
        The objective, bytes, by column.
    whole
        1 for columns that are whole numbers, else 0.
    """

    def __init__(self, task: DagTask) -> None:
        self._task = task
        self._width = 0
        graph, choices = task.graph, task.choices
        self._links = [link for name in graph.order for link in graph.inputs[name]]
        self._places = {name: self._columns(len(choices[name])) for name in graph.order}
        self.whole: IntArray = np.ones(self._width, dtype=np.int64)
        self._routes = [
            self._columns(len(choices[link.source]), len(choices[link.target]))
            for link in self._links
        ]
        self._latency_ms = [
            task.view.one_way_between(choices[link.source], choices[link.target])
            for link in self._links
        ]
        self._arrivals = self._columns(len(graph.order) if task.deadline_ms is not None else 0)
        self._latest = self._columns(1 if task.deadline_ms is not None else 0)
        self.whole = np.pad(self.whole, (0, self._width - len(self.whole)))
        self.usage: FloatArray = self._usage()
        self._rows = _Rows()
        self._assign()
        self._route()
        self._fit()
        self._arrive()

    def latest(self) -> FloatArray:
        """An objective for models with paths: T, ms."""
        objective = np.zeros(self._width)
        objective[self._latest] = 1.0
        return objective

    def bounds(self) -> Bounds:
        """Bounds of all columns: whole ones and routes are shares, times are positive."""
        task = self._task
        upper = np.full(self._width, np.inf)
        upper[: len(upper) - self._arrivals.size - self._latest.size] = 1.0
        if task.deadline_ms is not None:
            upper[self._latest] = task.deadline_ms
        if task.apart:
            # (5)  y_{l,n,n} = 0
            free = set(task.graph.to_place)
            for link, columns in zip(self._links, self._routes, strict=True):
                if link.source in free and link.target in free:
                    source, target = task.choices[link.source], task.choices[link.target]
                    upper[columns[source[:, None] == target]] = 0.0
        return Bounds(np.zeros(self._width), upper)

    def constraint(self) -> LinearConstraint:
        """All rows."""
        return self._rows.constraint(self._width)

    def exclude(self, together: Mapping[str, int]) -> None:
        """Forbid that all of these operators take these nodes.

            Σ_o z_{o,n(o)} ≤ number of operators − 1

        Parameters
        ----------
        together
            Operator → which of its choices.
        """
        columns = np.array([self._places[name][at] for name, at in together.items()])
        self._rows.add((columns, 1.0), upper=len(columns) - 1.0)

    def chosen(self, x: FloatArray) -> dict[str, int]:
        """Which of its choices each operator takes in a solution."""
        return {name: int(np.argmax(x[columns])) for name, columns in self._places.items()}

    def _columns(self, *shape: int) -> IntArray:
        """The next columns, in that shape."""
        first, size = self._width, int(np.prod(shape))
        self._width += size
        return np.arange(first, first + size, dtype=np.int64).reshape(shape)

    def _usage(self) -> FloatArray:
        """Σ_l Σ_{n,m} DR(l)·Lat(n,m)·y_{l,n,m} + Σ_o Σ_n P_{o,n}·z_{o,n}."""
        task, objective = self._task, np.zeros(self._width)
        for link, columns, latency_ms in zip(
            self._links, self._routes, self._latency_ms, strict=True
        ):
            objective[columns] = link.rate_bytes_s * latency_ms / 1e3
        for name in task.graph.to_place:
            price_ms = task.price_ms[task.choices[name]]
            objective[self._places[name]] = task.graph.input_rate(name) * price_ms / 1e3
        return objective

    def _assign(self) -> None:
        # (1)  Σ_n z_{o,n} = 1
        for columns in self._places.values():
            self._rows.add((columns, 1.0), lower=1.0, upper=1.0)

    def _route(self) -> None:
        # (2)  Σ_m y_{l,n,m} = z_{src(l),n},  Σ_n y_{l,n,m} = z_{dst(l),m}
        for link, columns in zip(self._links, self._routes, strict=True):
            for place, routes in zip(self._places[link.source], columns, strict=True):
                self._rows.add((routes, 1.0), (np.atleast_1d(place), -1.0), lower=0.0, upper=0.0)
            for place, routes in zip(self._places[link.target], columns.T, strict=True):
                self._rows.add((routes, 1.0), (np.atleast_1d(place), -1.0), lower=0.0, upper=0.0)

    def _fit(self) -> None:
        # (3)  Σ_o c_o·z_{o,n} ≤ C_n
        task = self._task
        if task.capacity_left is None:
            return
        needs: dict[int, list[tuple[int, float]]] = {}
        for name in task.graph.to_place:
            for node, column in zip(task.choices[name], self._places[name], strict=True):
                needs.setdefault(int(node), []).append((int(column), task.graph.cores(name)))
        for node, terms in needs.items():
            columns = np.array([column for column, _ in terms], dtype=np.int64)
            cores = np.array([cores for _, cores in terms])
            if cores.sum() > task.capacity_left[node]:
                self._rows.add((columns, cores), upper=float(task.capacity_left[node]))

    def _arrive(self) -> None:
        # (4)  t_dst ≥ t_src + Σ_{n,m} Lat(n,m)·y_{l,n,m} + h + p_dst,  t_o ≥ p_o,  t_o ≤ T
        task = self._task
        if task.deadline_ms is None:
            return
        arrivals = dict(zip(task.graph.order, self._arrivals[:, None], strict=True))
        cost_ms = {name: task.graph.by_name[name].cost_us / 1e3 for name in task.graph.order}
        for link, routes, latency_ms in zip(
            self._links, self._routes, self._latency_ms, strict=True
        ):
            self._rows.add(
                (arrivals[link.target], 1.0),
                (arrivals[link.source], -1.0),
                (routes, -latency_ms),
                lower=task.hop_overhead_ms + cost_ms[link.target],
            )
        for name, arrival in arrivals.items():
            self._rows.add((arrival, 1.0), lower=cost_ms[name])
            self._rows.add((self._latest, 1.0), (arrival, -1.0), lower=0.0)
