"""The best embedding of a given number of dimensions: the yardstick for network coordinates.

Round trips are not Euclidean distances, so no coordinates of few dimensions reproduce them exactly.
A decentralised method is therefore compared with multidimensional scaling, which sees the whole
table at once and takes as long as it needs.

*Classical* scaling (Torgerson) takes the leading eigenvectors of the doubly centred squares.
*SMACOF* (de Leeuw 1977) starts from these and lowers the stress in each step, by the Guttman
transform:

    minimise  σ(X) = Σ_{i<j} w_ij (δ_ij − d_ij(X))²
    X ← V⁺ B(X) X,   V = Σ w_ij (e_i − e_j)(e_i − e_j)ᵀ,   B_ij = −w_ij δ_ij / d_ij(X)

=========  ======================  ======================================================
symbol     name here               meaning
=========  ======================  ======================================================
δ_ij       rtt_ms                  round trips
X, d_ij    positions_ms            coordinates and their distances
w_ij       weights                 0 for an unknown pair, else 1 / δ_ij^p
p          rtt_exponent            0 plain stress, 1 Sammon's, 2 that of relative errors
σ          stress                  weighted sum of squared errors
=========  ======================  ======================================================

Classical scaling is scikit-learn's. Its SMACOF has no weights, hence cannot handle missing pairs.
None of the stresses is the median relative error by which coordinates are compared, and each has
local minima, so `best` takes the stress and start with the least such error.

References
----------
I. Borg, P. Groenen, "Modern Multidimensional Scaling", 2nd ed., 2005, chapters 8 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist
from sklearn.manifold import ClassicalMDS

from foundation.arrays import FloatArray

STRESS_TOLERANCE = 1e-5
"""SMACOF ends when a step lowers the stress by less than this share of it: the median error then
moves in its fourth digit."""

MAX_STEPS = 1_000
"""Steps of SMACOF at most; a few hundred are the rule."""

LEAST_MS = 1e-9
"""Distances below this count as this where they divide; no round trip is as short."""


class EmbeddingError(ValueError):
    """A table, or a number of dimensions, that nothing can be embedded from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeErrors:
    """How far distances are from round trips: |distance − rtt| / rtt over distinct known pairs.

    Attributes
    ----------
    each
        The error of every pair, shape (pairs,).
    """

    each: FloatArray

    @property
    def median(self) -> float:
        """Half of the pairs are at most this far off."""
        return float(np.median(self.each))

    @property
    def p90(self) -> float:
        """Nine in ten pairs are at most this far off."""
        return float(np.percentile(self.each, 90))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding:
    """Coordinates and how well they do.

    Attributes
    ----------
    method
        What found them: `classical`, `smacof 0`, `smacof 1`, `smacof 2` (the exponent p).
    positions_ms
        Shape (n, dimensions).
    errors
        Against the table that they were made from.
    """

    method: str
    positions_ms: FloatArray
    errors: RelativeErrors


def relative_errors(rtt_ms: FloatArray, positions_ms: FloatArray) -> RelativeErrors:
    """Errors of coordinates whose distances stand for round trips.

    Parameters
    ----------
    rtt_ms
        Symmetric, shape (n, n), NaN = unknown; only pairs with a round trip > 0 count.
    positions_ms
        Shape (n, dimensions).

    Examples
    --------
    >>> relative_errors(np.array([[0, 10.0], [10.0, 0]]), np.array([[0.0], [9.0]])).median
    0.1
    """
    distances_ms = cdist(positions_ms, positions_ms)
    pairs = np.triu(rtt_ms > 0, k=1)  # NaN compares false.
    known_ms = rtt_ms[pairs]
    return RelativeErrors(each=np.abs(distances_ms[pairs] - known_ms) / known_ms)


def best(
    rtt_ms: FloatArray, dimensions: int, rng: np.random.Generator, random_starts: int = 3
) -> Embedding:
    """The embedding of least median relative error among classical scaling and SMACOFs.

    Parameters
    ----------
    rtt_ms
        As in `relative_errors`.
    dimensions
        The rank, in [1, n).
    rng
        Draws starts.
    random_starts
        From how many of them, beside classical scaling, each of the three stresses is lowered.

    Raises
    ------
    EmbeddingError
        As `classical`.
    """
    torgerson = classical(rtt_ms, dimensions)
    spread_ms = float(torgerson.std())
    drawn = [rng.normal(scale=spread_ms, size=torgerson.shape) for _ in range(random_starts)]
    found = [("classical", torgerson)]
    for exponent in (0, 1, 2):
        for start in (torgerson, *drawn):
            lowered = smacof(rtt_ms, start, rtt_exponent=exponent)
            found.append((f"smacof {exponent}", lowered))
    embeddings = (
        Embedding(method=method, positions_ms=x, errors=relative_errors(rtt_ms, x))
        for method, x in found
    )
    return min(embeddings, key=lambda embedding: embedding.errors.median)


def classical(rtt_ms: FloatArray, dimensions: int) -> FloatArray:
    """Torgerson's scaling; unknown pairs count as their shortest detour.

    Raises
    ------
    EmbeddingError
        If the table does not hang together, or has not more nodes than dimensions.
    """
    count = len(rtt_ms)
    if not 1 <= dimensions < count:
        raise EmbeddingError(
            f"{count} nodes cannot be embedded in {dimensions} dimensions: choose 1 to {count - 1}"
        )
    scaling = ClassicalMDS(n_components=dimensions, metric="precomputed")
    return scaling.fit_transform(completed(rtt_ms))


def completed(rtt_ms: FloatArray) -> FloatArray:
    """The table with unknown pairs filled in by their shortest detour over known ones.

    Raises
    ------
    EmbeddingError
        If there is none.
    """
    known = np.where(rtt_ms > 0, rtt_ms, 0)
    if (rtt_ms[~np.eye(len(rtt_ms), dtype=bool)] > 0).all():
        return known
    detour_ms = shortest_path(known, directed=False)
    if np.isinf(detour_ms).any():
        i, j = np.argwhere(np.isinf(detour_ms))[0]
        raise EmbeddingError(f"no chain of known round trips joins nodes {i} and {j}")
    return np.where(known > 0, known, detour_ms)


def smacof(
    rtt_ms: FloatArray,
    start_ms: FloatArray,
    *,
    rtt_exponent: float = 0.0,
    max_steps: int = MAX_STEPS,
) -> FloatArray:
    """Lower the weighted stress by majorisation, from given coordinates.

    Parameters
    ----------
    rtt_ms
        As in `relative_errors`; what is known must hang together.
    start_ms
        Shape (n, dimensions).
    rtt_exponent
        p of the weights (see the module).
    max_steps
        Steps at most.

    Returns
    -------
    FloatArray
        Coordinates, ms, shape (n, dimensions), centred.
    """
    known = rtt_ms > 0
    np.fill_diagonal(known, False)
    delta = np.where(known, rtt_ms, 0.0)
    w = np.zeros_like(delta)
    w[known] = delta[known] ** -rtt_exponent
    w /= w.max()
    # V has the constant vector as kernel; with 11ᵀ/n added it is regular, and its inverse is V⁺
    # on everything that is centred, as B(X)X is.
    v = np.diag(w.sum(axis=1)) - w
    factor = cast("tuple[FloatArray, bool]", cho_factor(v + w.sum() / len(w) ** 3))
    pull = w * delta
    x = start_ms - start_ms.mean(axis=0)
    distance = cdist(x, x)
    stress = _stress(w, delta, distance)
    for _ in range(max_steps):
        b = pull / np.maximum(distance, LEAST_MS)
        x = cast("FloatArray", cho_solve(factor, b.sum(axis=1)[:, None] * x - b @ x))
        distance = cdist(x, x)
        before, stress = stress, _stress(w, delta, distance)
        if before - stress <= STRESS_TOLERANCE * before:
            break
    return x


def _stress(w: FloatArray, delta: FloatArray, distance: FloatArray) -> float:
    return float(np.sum(w * (delta - distance) ** 2) / 2)
