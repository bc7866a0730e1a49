"""Where operators would stand if they could stand anywhere (reliable placement, Algorithm 3).

Operators are massless bodies and links are springs, with the link's data rate as constant and its
latency as extension (Pietzuch et al., "Network-aware operator placement for stream-processing
systems", ICDE 2006). Pinned operators hold still, the others give way until no force is left.

=================  ================  ===================================================
symbol             name here         meaning
=================  ================  ===================================================
x_i (O_i)          points_ms         place of operator i in coordinate space, ms
DR(i, j)           rates             data rate between i and j, bytes/s
F_i                force             Σ_j DR(i, j)·(x_j − x_i), bytes/s · ms
δ                  delta             share of the force followed in one step
F_t                rest_ms           see below
=================  ================  ===================================================

What deviates from the text:

- *Sign.* The paper subtracts the other way round, which would push linked operators apart.
- *δ.* `x_i += δ·F_i` with δ in (0, 1] overshoots ever further as soon as δ·Σ_j DR(i, j) exceeds 2,
  that is for any rate above 2 bytes/s. The force is therefore divided by Σ_j DR(i, j): a step
  goes the share δ of the way to the weighted mean of the neighbours, which converges for all
  rates when each operator is connected with a pinned one (the step's matrix is then a strict
  contraction), and has the same fixed point.
- *F_t.* Rates differ by orders of magnitude and so do forces. An operator is at rest when the
  force on it is less than what the weakest link of the query would exert if stretched by
  `rest_ms`.
- *End.* Two bodies on a strong spring that hang together on weak ones creep; after `max_rounds`
  the fixed point, which solves a linear system, is computed instead of awaited.

The springs' rest position minimises Σ DR·Lat², not the network usage Σ DR·Lat (2) itself; the
paper takes one for the other, and so does this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from placement.errors import SettingsError
from placement.graph import QueryGraph

FloatArray = npt.NDArray[np.float64]

MIN_RATE_BYTES_S = 1.0
"""Least spring constant. A link that carries no tuple still carries its stream's progress, and an
operator on idle links only must still be drawn somewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxationSettings:
    """δ in (0, 1], F_t ≥ 0 as an extension in ms, and the rounds after which it is solved."""

    delta: float = 0.9
    rest_ms: float = 1e-3
    max_rounds: int = 1_000

    def __post_init__(self) -> None:
        if not 0 < self.delta <= 1:
            raise SettingsError(f"relaxation delta {self.delta} is not in (0, 1]")
        if not (math.isfinite(self.rest_ms) and self.rest_ms > 0):
            raise SettingsError(f"relaxation rest_ms {self.rest_ms} is not a number > 0")
        if self.max_rounds < 0:
            raise SettingsError(f"relaxation max_rounds {self.max_rounds} is negative")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxation:
    """Points of the operators to be placed, and how they were found.

    Attributes
    ----------
    points_ms
        By operator, shape (d,), ms.
    rounds
        Steps taken.
    solved
        Whether the points were computed because the steps had not come to rest.
    """

    points_ms: dict[str, FloatArray]
    rounds: int
    solved: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Springs:
    """The springs between n free operators, and from them to pinned ones.

    Attributes
    ----------
    rates
        DR between free operators, symmetric, shape (n, n).
    totals
        Σ_j DR(i, j) over all neighbours, shape (n,).
    pull
        Σ_j DR(i, j)·x_j over pinned neighbours, shape (n, d).
    weakest
        Least rate of any link.
    """

    rates: FloatArray
    totals: FloatArray
    pull: FloatArray
    weakest: float

    def force(self, points_ms: FloatArray) -> FloatArray:
        """F_i = Σ_j DR(i, j)·(x_j − x_i), shape (n, d)."""
        return self.rates @ points_ms + self.pull - self.totals[:, None] * points_ms

    def equilibrium(self) -> FloatArray:
        """The points at which no force is left, shape (n, d)."""
        points_ms: FloatArray = np.linalg.solve(
            np.diag(self.totals) - self.rates, self.pull
        ).astype(np.float64)
        return points_ms


def relax(
    graph: QueryGraph,
    pinned_ms: Mapping[str, FloatArray],
    start_ms: FloatArray,
    settings: RelaxationSettings | None = None,
) -> Relaxation:
    """Let the free operators of a query move until the forces on them balance.

    Parameters
    ----------
    graph
        The query.
    pinned_ms
        Position of every pinned operator, shape (d,), ms.
    start_ms
        Where the operators of `graph.to_place` start, in that order, shape (n, d), ms.
        The fixed point is unique, so this matters only within the tolerance.
    """
    settings = settings or RelaxationSettings()
    free = graph.to_place
    if not free:
        return Relaxation(points_ms={}, rounds=0, solved=False)
    springs = _springs(graph, pinned_ms, start_ms.shape[1])
    points_ms = start_ms
    at_rest = settings.rest_ms * springs.weakest
    for rounds in range(settings.max_rounds + 1):
        force = springs.force(points_ms)
        if np.linalg.norm(force, axis=1).max() < at_rest:
            return _wrap(free, points_ms, rounds=rounds, solved=False)
        points_ms = points_ms + settings.delta * force / springs.totals[:, None]
    return _wrap(free, springs.equilibrium(), rounds=settings.max_rounds, solved=True)


def _springs(graph: QueryGraph, pinned_ms: Mapping[str, FloatArray], dimensions: int) -> _Springs:
    index = {name: i for i, name in enumerate(graph.to_place)}
    rates = np.zeros((len(index), len(index)))
    pull = np.zeros((len(index), dimensions))
    totals = np.zeros(len(index))
    weakest = math.inf
    # In the order of names, since sums of floats depend on it.
    for link in (link for name in graph.order for link in graph.inputs[name]):
        rate = max(link.rate_bytes_s, MIN_RATE_BYTES_S)
        weakest = min(weakest, rate)
        for end, other in ((link.source, link.target), (link.target, link.source)):
            if end not in index:
                continue
            totals[index[end]] += rate
            if other in index:
                rates[index[end], index[other]] += rate
            else:
                pull[index[end]] += rate * pinned_ms[other]
    return _Springs(rates=rates, totals=totals, pull=pull, weakest=weakest)


def _wrap(
    names: tuple[str, ...], points_ms: FloatArray, *, rounds: int, solved: bool
) -> Relaxation:
    return Relaxation(
        points_ms=dict(zip(names, points_ms, strict=True)), rounds=rounds, solved=solved
    )
