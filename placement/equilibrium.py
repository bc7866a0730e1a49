"""The points of least network usage of many queries at once.

Relaxation (reliable placement, Algorithm 3; `placement.relaxation`) minimises Σ DR·Lat², which it
takes for the network usage Σ DR·Lat (2). `least_usage` replaces it and minimises the latter: a
Euclidean multifacility location problem, convex but not smooth where operators meet.

=================  ================  ===================================================
symbol             name here         meaning
=================  ================  ===================================================
x_i                points_ms         place of operator i in coordinate space, ms
DR(l)              rates             data rate of link l, bytes/s
Δ_l                lengths_ms        ‖x_i − x_j‖, ms: a round trip, twice the latency
w_l                weights           DR(l) / max(Δ_l, ε), from the points before
ε                  softest_ms        length below which a spring counts as so long, ms
u_l                (w_l·Δ_l)         force on spring l in balance
=================  ================  ===================================================

*Reweighting.* Weiszfeld's algorithm ("Sur le point pour lequel la somme des distances de n points
donnés est minimum", Tohoku Math. J. 43, 1937) with all operators of a query moving together: the
springs of constants w_l pull with DR(l) each, at any length, and are balanced repeatedly. Where an
operator lies on another or on an anchor, w would be infinite. ε makes springs shorter than it
ordinary ones, which costs at most DR·ε/4 a spring, and every balance lowers the cost so softened
(it minimises a parabola that touches it from above).

*Bound.* In balance the forces u_l cancel at every operator. Forces that cancel and exceed DR(l)
nowhere are feasible in the dual problem; so, divided by s = max_l u_l/DR(l), they prove that no
points have a usage below Σ_l u_l·Δ_l/s. A query is done when its best points are within the
tolerance of its best bound.

Deviations: Vardi and Zhang's rule for points on anchors (PNAS 97, 2000) is for one operator and
does not tell when a *group* of operators would leave an anchor together; ε does not have to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from placement.errors import check_numbers
from placement.graph import QueryGraph
from placement.spring_system import SpringSystem

BYTES_PER_PULL = 1 / 2e3
"""Network usage, bytes, of 1 byte/s over a length of 1 ms: half of it is the one-way latency."""

ROUNDING_MS = 1e-9
"""Length of all links together at which a query's usage is taken for the 0 that it is on paper."""

MAX_STIFFNESS = 1e11
"""Ratio of the constants of a query's springs up to which double precision tells what the weak
ones pull; stiffer ones are as stiff as this. Rates 10⁶ apart at lengths 10⁵ apart reach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSettings:
    """How exactly network usage is minimised.

    Attributes
    ----------
    tolerance
        Share by which the usage found may exceed the least possible, ≥ 0.
    softening
        ε as a share of the query's longest link at the start, > 0.
    max_rounds
        Balances after which the best points so far are taken, for a query that converges slowly.
    """

    tolerance: float = 1e-3
    softening: float = 1e-5
    max_rounds: int = 300

    def __post_init__(self) -> None:
        check_numbers(self, tolerance="≥ 0", softening="> 0", max_rounds="≥ 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeastUsage:
    """Points of least network usage of one query.

    Attributes
    ----------
    points_ms
        By operator to be placed, shape (d,), ms.
    network_usage
        Σ DR·Lat (2) over the links that end at such an operator, bytes, Lat being half of the
        distance between points and DR at least `spring_system.MIN_RATE_BYTES_S`.
    lower_bound
        No points have less, bytes, up to rounding.
    rounds
        Balances it took.
    """

    points_ms: dict[str, FloatArray]
    network_usage: float
    lower_bound: float
    rounds: int


def least_usage(
    graphs: Sequence[QueryGraph],
    pinned_ms: Sequence[Mapping[str, FloatArray]],
    settings: UsageSettings | None = None,
) -> list[LeastUsage]:
    """The points of least network usage, by query.

    Parameters
    ----------
    pinned_ms
        By query: position of every pinned operator, shape (d,), ms.

    Raises
    ------
    GraphError
        If a position is missing or is none.
    """
    springs = SpringSystem.of(graphs, pinned_ms)
    return minimise(springs, springs.balance(springs.rates), settings)


def minimise(
    springs: SpringSystem, start_ms: FloatArray, settings: UsageSettings | None = None
) -> list[LeastUsage]:
    """`least_usage` of springs that are in arrays already.

    Parameters
    ----------
    start_ms
        Points to start from, shape (n, d), ms. No query ends with a usage above theirs.
    """
    settings = settings or UsageSettings()
    points_ms = start_ms.copy()
    lengths_ms = springs.lengths_ms(points_ms)
    usage = springs.by_query(springs.rates * lengths_ms)
    bound = np.zeros(len(usage))
    rounds = np.zeros(len(usage), dtype=np.int64)
    slack = ROUNDING_MS * springs.by_query(springs.rates)
    softest_ms = settings.softening * springs.greatest(lengths_ms)
    # Queries that are not done yet, their springs, and their bodies among all.
    left, moving = np.arange(len(usage)), springs
    bodies = np.arange(len(points_ms))
    for count in range(settings.max_rounds + 1):
        going = usage[left] - bound[left] > settings.tolerance * usage[left] + slack[left]
        if not going.any() or count == settings.max_rounds:
            break
        if not going.all():
            lengths_ms = lengths_ms[going[moving.query_of_spring]]
            bodies = bodies[going[moving.query_of_body]]
            moving, left = moving.only(going), left[going]
        weights = _weights(moving, lengths_ms, softest_ms[left])
        balanced_ms = moving.balance(weights)
        lengths_ms = moving.lengths_ms(balanced_ms)
        now = moving.by_query(moving.rates * lengths_ms)
        better = now < usage[left]
        improved = better[moving.query_of_body]
        points_ms[bodies[improved]] = balanced_ms[improved]
        usage[left] = np.where(better, now, usage[left])
        bound[left] = np.maximum(bound[left], _lower_bound(moving, weights, lengths_ms))
        rounds[left] = count + 1
    bound = np.minimum(bound, usage)
    return [
        LeastUsage(
            points_ms=by_name,
            network_usage=float(usage[query]) * BYTES_PER_PULL,
            lower_bound=float(bound[query]) * BYTES_PER_PULL,
            rounds=int(rounds[query]),
        )
        for query, by_name in enumerate(springs.wrap(points_ms))
    ]


def _weights(springs: SpringSystem, lengths_ms: FloatArray, softest_ms: FloatArray) -> FloatArray:
    """w, shape (m,): constants with which springs of these lengths pull with their rates."""
    weights = springs.rates / np.maximum(lengths_ms, softest_ms[springs.query_of_spring])
    weakest = 1 / springs.greatest(1 / weights)
    return np.minimum(weights, MAX_STIFFNESS * weakest[springs.query_of_spring])


def _lower_bound(springs: SpringSystem, weights: FloatArray, lengths_ms: FloatArray) -> FloatArray:
    """The lower bound of every query that balanced springs prove, shape (q,), bytes/s · ms."""
    pulls = weights * lengths_ms
    excess = springs.greatest(pulls / springs.rates)
    work = springs.by_query(pulls * lengths_ms)
    return np.divide(work, excess, out=np.zeros_like(work), where=excess > 0)
