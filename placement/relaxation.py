"""The points of operators if they could be anywhere (reliable placement, Algorithm 3).

Operators are massless bodies and links are springs, with the link's data rate as constant and its
latency as extension: *spring relaxation* (Pietzuch et al., "Network-aware operator placement for
stream-processing systems", ICDE 2006). Pinned operators do not move, the others follow the forces
on them until none is left.

=================  ================  ===================================================
symbol             name here         meaning
=================  ================  ===================================================
x_i (O_i)          points_ms         place of operator i in coordinate space, ms
DR(i, j)           springs.rates     data rate between i and j, bytes/s
F_i                force             Σ_j DR(i, j)·(x_j − x_i), bytes/s · ms
δ                  delta             share of the force followed in one step
F_t                rest_ms           see below
=================  ================  ===================================================

Deviations from the text:

- *Sign.* The paper subtracts the other way round, which would push linked operators apart.
- *δ.* `x_i += δ·F_i` multiplies the distance to the fixed point by I − δ·L, where L is the matrix
  of the springs. So it overshoots ever further unless δ times L's largest eigenvalue is less than
  2; with δ in (0, 1] it does for any rate above a few bytes/s. The force is therefore divided by
  Σ_j DR(i, j): a step goes the share δ of the way to the weighted mean of the neighbours. This
  converges for all rates when each operator is connected with a pinned one (the step's matrix is
  then a strict contraction), and has the same fixed point. `paper_steps` follows the text, and
  refuses a δ that would diverge.
- *F_t.* Rates differ by orders of magnitude and so do forces. An operator is at rest when the
  force on it is less than what the weakest link of the query would exert if stretched by
  `rest_ms`.
- *End.* Two bodies on a strong spring that hang together on weak ones creep; after `max_rounds`
  the fixed point, which solves a linear system, is computed instead of awaited
  (`SpringSystem.balance`).

The springs' rest position minimises Σ DR·Lat², not the network usage Σ DR·Lat (2) itself. The paper
takes one for the other, and so does this module; `placement.equilibrium` minimises the usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from placement.errors import RelaxationDiverges, SettingsError, check_numbers
from placement.graph import QueryGraph
from placement.spring_system import MIN_RATE_BYTES_S, SpringSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxationSettings:
    """How operators are let move.

    Attributes
    ----------
    delta
        δ in (0, 1].
    rest_ms
        F_t as an extension of the weakest link, ms, > 0.
    max_rounds
        Steps after which the fixed point is computed.
    paper_steps
        Step by δ·F_i as in the text, instead of δ·F_i / Σ_j DR(i, j).
    """

    delta: float = 0.9
    rest_ms: float = 1e-3
    max_rounds: int = 1_000
    paper_steps: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.delta <= 1:
            raise SettingsError(f"RelaxationSettings: delta {self.delta} is not in (0, 1]")
        check_numbers(self, rest_ms="> 0", max_rounds="≥ 0")


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

    Raises
    ------
    GraphError
        If a pinned operator has no position.
    RelaxationDiverges
        If paper_steps steps of this δ would not come to rest.
    """
    settings = settings or RelaxationSettings()
    if not graph.to_place:
        return Relaxation(points_ms={}, rounds=0, solved=False)
    springs = SpringSystem.of([graph], [pinned_ms])
    sparse, pull = springs.system(springs.rates)
    laplacian = sparse.toarray()
    step = _step(graph, laplacian, settings)
    points_ms = start_ms
    weakest = min(max(link.rate_bytes_s, MIN_RATE_BYTES_S) for link in graph.links)
    at_rest = settings.rest_ms * weakest
    for rounds in range(settings.max_rounds + 1):
        force = pull - laplacian @ points_ms
        if np.linalg.norm(force, axis=1).max() < at_rest:
            return Relaxation(points_ms=springs.wrap(points_ms)[0], rounds=rounds, solved=False)
        points_ms = points_ms + step[:, None] * force
    points_ms = springs.balance(springs.rates)
    return Relaxation(points_ms=springs.wrap(points_ms)[0], rounds=settings.max_rounds, solved=True)


def _step(graph: QueryGraph, laplacian: FloatArray, settings: RelaxationSettings) -> FloatArray:
    """The factor of the force on each operator, shape (n,)."""
    if not settings.paper_steps:
        return settings.delta / laplacian.diagonal()
    limit = 2 / float(np.linalg.eigvalsh(laplacian)[-1])
    if settings.delta >= limit:
        raise RelaxationDiverges(query=graph.name, delta=settings.delta, limit=limit)
    return np.full(len(laplacian), settings.delta)
