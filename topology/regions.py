"""Regions of the latency space: groups of nodes that are near each other.

Regions are found by k-means in mini-batches (Sculley: "Web-scale k-means clustering", WWW 2010).
A sample of the nodes is enough to fit the centres, and labelling a node needs only the centres, so
nodes can be labelled block by block.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.spatial import KDTree
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from foundation.arrays import FloatArray, IntArray

BATCH_NODES = 4096
"""Nodes of a mini-batch: enough for steady centres, few enough for the memory of any machine."""

STARTS = 3
"""Number of random starts, of which the best counts."""


class RegionsError(ValueError):
    """Positions that cannot be clustered, or a number of regions outside its range."""


def fit_centres(positions_ms: FloatArray, count: int, *, seed: int) -> FloatArray:
    """Centres of at most `count` regions, in lexicographic order, shape (regions, d), ms.

    Parameters
    ----------
    positions_ms
        Of all nodes, or of a sample of them, shape (n, d).
    count
        Number of regions, in [1, n]; there are fewer if fewer positions differ.
    seed
        Of the random starts.

    Raises
    ------
    RegionsError
        If a position is not finite, or the count is outside its range.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [100.0], [101.0]])
    >>> label(line, fit_centres(line, 2, seed=1)).tolist()
    [0, 0, 1, 1]
    """
    _check(positions_ms)
    if not 1 <= count <= len(positions_ms):
        raise RegionsError(f"{count} regions of {len(positions_ms)} nodes: is not in [1, nodes]")
    fitted = MiniBatchKMeans(
        n_clusters=count, batch_size=BATCH_NODES, n_init=STARTS, random_state=seed
    )
    with warnings.catch_warnings():
        # It warns if fewer positions differ than regions are wanted, which is allowed here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres_ms = fitted.fit(positions_ms).cluster_centers_
    used = np.unique(label(positions_ms, centres_ms))
    return np.unique(centres_ms[used], axis=0)


def label(positions_ms: FloatArray, centres_ms: FloatArray) -> IntArray:
    """Region of each position, the one with the nearest centre, shape (n,).

    Raises
    ------
    RegionsError
        If a position is not finite, or has other dimensions than the centres.
    """
    _check(positions_ms)
    if positions_ms.shape[1] != centres_ms.shape[1]:
        raise RegionsError(
            f"positions have {positions_ms.shape[1]} dimensions, centres {centres_ms.shape[1]}"
        )
    _, nearest = KDTree(centres_ms).query(positions_ms)
    return np.asarray(nearest, dtype=np.int64)


def _check(positions_ms: FloatArray) -> None:
    if positions_ms.ndim != 2 or not positions_ms.size:
        raise RegionsError(f"positions of shape {positions_ms.shape} are not (nodes, dimensions)")
    if not np.isfinite(positions_ms).all():
        node = int(np.flatnonzero(~np.isfinite(positions_ms).all(axis=1))[0])
        raise RegionsError(
            f"node {node} has no coordinate that is a number: {positions_ms[node].tolist()}"
        )
