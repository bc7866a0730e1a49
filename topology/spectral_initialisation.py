"""Spectral initialisation: first positions of many nodes from their squared round trips.

Vivaldi from a random start has many wrong local minima: with a dozen random peers per node, a
thousand batches leave most of a large network folded. Classical scaling (Torgerson 1952) needs no
start. With all pairs known, the doubly centred squared distances are inner products, and their
leading eigenvectors are the coordinates. With few pairs known, the same entries averaged over the
samples of each node have the same leading eigenvectors with some noise (as in matrix completion:
Keshavan, Montanari, Oh 2010). This is close enough for relaxation to continue from.

=========  ======================  ======================================================
symbol     name here               meaning
=========  ======================  ======================================================
r_i        mean_squares            mean of rtt² over the samples of node i, ms²
g          grand_mean              mean of r over all nodes, ms²
B_ij       product                 −(rtt² − r_i − r_j + g) / 2 ≈ x_i · x_j
V          vectors                 (n, d), orthonormal columns times √n
W          correlated              W_i = mean of B_ij V_j over the samples of node i
λ          strengths               root mean square of each column of W: variance along it, ms²
=========  ======================  ======================================================

Subspace iteration repeats V ← W made orthonormal until it is steady; the coordinates are V·√λ.
Each iteration passes over the samples once, node by node, so it can be done in blocks. The blocks
have to share only the mean and the d × d products of W's columns (`Moments`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from topology.latency_samples import LatencySamples, possible, sums

ITERATIONS = 12
"""Passes over the samples. Further passes improve less than as many relaxations do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Sums over nodes between two iterations; the moments of blocks add up.

    Attributes
    ----------
    count
        Number of nodes.
    total
        Sum of the nodes' vectors, shape (d,).
    products
        Sum of the outer products of these vectors, shape (d, d).
    """

    count: int
    total: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, vectors: FloatArray) -> Moments:
        """Moments of some nodes' vectors, shape (nodes, d)."""
        return cls(count=len(vectors), total=vectors.sum(axis=0), products=vectors.T.dot(vectors))

    def principal_axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean of the vectors, their variances along the principal axes, rising, and the axes.

        Shapes (d,), (d,) and (d, d), one axis per column.
        """
        mean = self.total / self.count
        variances, axes = np.linalg.eigh(self.products / self.count - np.outer(mean, mean))
        return mean, variances, axes

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            count=self.count + other.count,
            total=self.total + other.total,
            products=self.products + other.products,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Turns W into V, or into coordinates.

    Attributes
    ----------
    centre
        Mean of W, shape (d,).
    transform
        (W − centre) · transform is V, shape (d, d).
    strengths
        λ, ms², rising, shape (d,).
    """

    centre: FloatArray
    transform: FloatArray
    strengths: FloatArray

    @classmethod
    def of(cls, moments: Moments) -> Basis:
        """The basis that makes vectors with these moments orthonormal."""
        centre, variances, axes = moments.principal_axes()
        # An axis without variance (fewer independent nodes than axes) gets zeros.
        floor = max(float(variances[-1]), 0.0) * 1e-12
        strengths = np.sqrt(np.maximum(variances, 0.0))
        scale = np.where(variances > floor, 1 / np.maximum(strengths, np.finfo(float).tiny), 0.0)
        return cls(centre=centre, transform=axes * scale, strengths=strengths)

    def vectors(self, correlated: FloatArray) -> FloatArray:
        """V of some nodes' W, shape (nodes, d)."""
        return (correlated - self.centre).dot(self.transform)

    def positions_ms(self, correlated: FloatArray) -> FloatArray:
        """Coordinates of nodes from their W, ms, shape (nodes, d)."""
        return self.vectors(correlated) * np.sqrt(self.strengths)


def mean_squares(samples: LatencySamples, count: int) -> FloatArray:
    """r of the first `count` nodes, ms²; 0 for those without samples."""
    total = sums(samples.nodes, samples.rtt_ms**2, count)
    return total / np.maximum(np.bincount(samples.nodes, minlength=count), 1)


def correlate(
    vectors: FloatArray, squares: FloatArray, grand_mean: float, samples: LatencySamples, count: int
) -> FloatArray:
    """W of the first `count` nodes, shape (count, d).

    Parameters
    ----------
    vectors, squares
        V and r of these nodes and all their peers, shapes (n, d) and (n,).
    grand_mean
        g.
    samples
        Possible ones only.
    """
    nodes, peers = samples.nodes, samples.peers
    product = (squares[nodes] + squares[peers] - grand_mean - samples.rtt_ms**2) / 2
    product /= np.bincount(nodes, minlength=count)[nodes]
    columns = [
        sums(nodes, product * vectors[peers, axis], count) for axis in range(vectors.shape[1])
    ]
    return np.stack(columns, axis=1)


def spectral_initialisation(
    samples: LatencySamples,
    count: int,
    dimensions: int,
    rng: np.random.Generator,
    iterations: int = ITERATIONS,
) -> FloatArray:
    """First positions of nodes, ms, shape (count, dimensions).

    Parameters
    ----------
    samples
        In both directions (`LatencySamples.both_ways`). A node without samples is at the centre.
    count, dimensions
        Numbers of nodes and dimensions, ≥ 1.
    rng
        Draws the vectors with which the iteration begins.
    iterations
        ≥ 1.
    """
    usable = samples.take(possible(samples))
    squares = mean_squares(usable, count)
    grand_mean = float(squares.mean())
    vectors = rng.normal(size=(count, dimensions))
    basis, correlated = Basis.of(Moments.of(vectors)), vectors
    for _ in range(iterations):
        vectors = basis.vectors(correlated)
        correlated = correlate(vectors, squares, grand_mean, usable, count)
        basis = Basis.of(Moments.of(correlated))
    return basis.positions_ms(correlated)
