"""The springs of many queries in one set of arrays, so that all of them are solved at once.

Operators are bodies and links are springs (`placement.relaxation`). No spring joins two queries, so
the matrices of a thousand queries are the blocks of one block-diagonal matrix. The links are gone
through once, in Python; everything after that is arithmetic on arrays.

=================  ================  ===================================================
symbol             name here         meaning
=================  ================  ===================================================
x_i                points_ms         place of body i in coordinate space, ms
w_l                weights           constant of spring l: DR(l) or a reweighted DR(l)
L                  laplacian         diag(Σ_l w_l) − (w between free bodies), n × n
p                  pull              Σ w_l·x_j over anchored neighbours j, n × d
F = p − L·x        force             force on every free body
=================  ================  ===================================================

A body is a free operator or an *anchor*, the end of a link at a pinned operator. Anchors come
after the free bodies. Links between two pinned operators are left out: nothing moves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.errors import GraphError
from placement.graph import QueryGraph

MIN_RATE_BYTES_S = 1.0
"""Least spring constant. A link without tuples still carries its stream's watermarks, and an
operator on idle links only must still be drawn somewhere."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpringSystem:
    """n free operators of q queries, a anchors, and m springs between them.

    Attributes
    ----------
    names
        Operators to be placed by query, in the order of `QueryGraph.to_place`.
    query_of_body
        Query of every free operator, rising, shape (n,).
    anchors_ms
        Where the pinned ends are, shape (a, d), ms.
    ends
        The two bodies of every spring, shape (m, 2): below n a free operator, else n + an anchor.
        The first is always free.
    rates
        DR of every spring, at least `MIN_RATE_BYTES_S`, shape (m,).
    query_of_spring
        Rising, shape (m,).
    """

    names: tuple[tuple[str, ...], ...]
    query_of_body: IntArray
    anchors_ms: FloatArray
    ends: IntArray
    rates: FloatArray
    query_of_spring: IntArray

    @classmethod
    def of(
        cls, graphs: Sequence[QueryGraph], pinned_ms: Sequence[Mapping[str, FloatArray]]
    ) -> SpringSystem:
        """The springs of several queries.

        Parameters
        ----------
        pinned_ms
            By query: position of every pinned operator, shape (d,), ms.

        Raises
        ------
        GraphError
            If a pinned operator has no position, or none with d finite coordinates.
        """
        names = tuple(graph.to_place for graph in graphs)
        free = sum(map(len, names))
        # Pinned ends are numbered in the order they come up, below zero: −1, −2, …
        anchored: list[tuple[int, str]] = []
        ends: list[tuple[int, int]] = []
        rates: list[float] = []
        springs_by_query: list[int] = []
        first = 0
        for query, graph in enumerate(graphs):
            index = {name: first + i for i, name in enumerate(names[query])}
            first += len(index)
            before = len(ends)
            # In the order of names, since sums of floats depend on it.
            for link in (link for name in graph.order for link in graph.inputs[name]):
                movable = [index[end] for end in (link.source, link.target) if end in index]
                if not movable:
                    continue
                if len(movable) == 1:
                    anchored.append((query, link.target if link.source in index else link.source))
                    movable.append(-len(anchored))
                ends.append((movable[0], movable[1]))
                rates.append(link.rate_bytes_s)
            springs_by_query.append(len(ends) - before)
        pairs = np.array(ends, dtype=np.int64).reshape(len(ends), 2)
        return cls(
            names=names,
            query_of_body=_owners([len(operators) for operators in names]),
            anchors_ms=_positions(anchored, graphs, pinned_ms),
            ends=np.where(pairs < 0, free - 1 - pairs, pairs),
            rates=np.maximum(np.array(rates, dtype=np.float64), MIN_RATE_BYTES_S),
            query_of_spring=_owners(springs_by_query),
        )

    def only(self, wanted: BoolArray) -> SpringSystem:
        """The springs of some of the queries, in the same order.

        Parameters
        ----------
        wanted
            By query, shape (q,).
        """
        bodies, springs = wanted[self.query_of_body], wanted[self.query_of_spring]
        free, ends = len(bodies), self.ends[springs]
        anchors = np.zeros(len(self.anchors_ms), dtype=np.bool_)
        anchors[ends[ends >= free] - free] = True
        number = np.cumsum(np.concatenate([bodies, anchors])) - 1
        query = np.cumsum(wanted) - 1
        return SpringSystem(
            names=tuple(self.names[i] for i in np.flatnonzero(wanted)),
            query_of_body=query[self.query_of_body[bodies]],
            anchors_ms=self.anchors_ms[anchors],
            ends=number[ends],
            rates=self.rates[springs],
            query_of_spring=query[self.query_of_spring[springs]],
        )

    def system(self, weights: FloatArray) -> tuple[csc_array, FloatArray]:
        """L and p of springs with other constants, shapes (n, n) and (n, d).

        Parameters
        ----------
        weights
            By spring, > 0, shape (m,).
        """
        free, dimensions = len(self.query_of_body), self.anchors_ms.shape[1]
        near, far = self.ends.T
        inner = far < free
        totals = np.bincount(near, weights, minlength=free)
        totals += np.bincount(far[inner], weights[inner], minlength=free)
        pull = np.empty((free, dimensions))
        drawn = weights[~inner, None] * self.anchors_ms[far[~inner] - free]
        for axis in range(dimensions):
            pull[:, axis] = np.bincount(near[~inner], drawn[:, axis], minlength=free)
        diagonal = np.arange(free)
        rows = np.concatenate([diagonal, near[inner], far[inner]])
        columns = np.concatenate([diagonal, far[inner], near[inner]])
        entries = np.concatenate([totals, -weights[inner], -weights[inner]])
        return csc_array((entries, (rows, columns)), shape=(free, free)), pull

    def balance(self, weights: FloatArray) -> FloatArray:
        """The points at which springs with such constants leave no force, shape (n, d), ms.

        They are unique: every free operator has a pinned source upstream, so L is positive
        definite, and elimination needs no pivots. It goes in topological order, inputs first,
        which fills nothing in where streams only join. An order that SciPy chose would depend on
        the queries beside, and with it the last bits of every point; so a query's points are the
        same bit by bit whatever it is solved with, and wherever.
        """
        if not len(self.query_of_body):
            return np.empty((0, self.anchors_ms.shape[1]))
        laplacian, pull = self.system(weights)
        factors = splu(
            laplacian,
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        return factors.solve(pull)

    def lengths_ms(self, points_ms: FloatArray) -> FloatArray:
        """‖x_i − x_j‖ of every spring when the free operators are there, shape (m,), ms."""
        bodies = np.concatenate([points_ms, self.anchors_ms])
        apart = bodies[self.ends[:, 0]] - bodies[self.ends[:, 1]]
        return np.sqrt(np.einsum("ij,ij->i", apart, apart))

    def by_query(self, per_spring: FloatArray) -> FloatArray:
        """Sums over the springs of every query, shape (q,)."""
        sums = np.bincount(self.query_of_spring, per_spring, minlength=len(self.names))
        return sums.astype(np.float64)

    def greatest(self, per_spring: FloatArray) -> FloatArray:
        """The greatest of the springs of every query, at least 0, shape (q,)."""
        greatest = np.zeros(len(self.names))
        np.maximum.at(greatest, self.query_of_spring, per_spring)
        return greatest

    def wrap(self, points_ms: FloatArray) -> list[dict[str, FloatArray]]:
        """Points by operator, for every query."""
        starts = np.searchsorted(self.query_of_body, np.arange(len(self.names)))
        return [
            dict(zip(operators, points_ms[start : start + len(operators)], strict=True))
            for operators, start in zip(self.names, starts.tolist(), strict=True)
        ]


def _owners(counts: Sequence[int]) -> IntArray:
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def _positions(
    anchored: Sequence[tuple[int, str]],
    graphs: Sequence[QueryGraph],
    pinned_ms: Sequence[Mapping[str, FloatArray]],
) -> FloatArray:
    """Positions of the pinned ends, checked: (query, operator) → shape (a, d)."""
    found: list[FloatArray] = []
    for query, name in anchored:
        position_ms = pinned_ms[query].get(name)
        if position_ms is None:
            raise GraphError(
                graphs[query].name, f"operator {name}", "is pinned but has no position"
            )
        if position_ms.ndim != 1 or position_ms.shape != (found or [position_ms])[0].shape:
            raise GraphError(
                graphs[query].name,
                f"operator {name}",
                f"is pinned at a position of shape {position_ms.shape}; "
                "all positions need the same number of coordinates",
            )
        found.append(position_ms)
    if not found:
        return np.empty((0, 0))
    positions_ms = np.array(found, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(positions_ms).all(axis=1))
    if len(wrong):
        query, name = anchored[int(wrong[0])]
        raise GraphError(
            graphs[query].name, f"operator {name}", f"is pinned at {found[int(wrong[0])].tolist()}"
        )
    return positions_ms
