"""Regions of the latency space: which nodes are near each other, so that few need be looked at.

Placing an operator looks for the best node near a point. With regions, centres are compared
first, and nodes only within the nearest regions: some hundreds of distances in place of a
million. Regions are found by k-means in mini-batches (Sculley: "Web-scale k-means clustering",
WWW 2010), which needs a fraction of the nodes in memory at a time; a sample of them is enough to
fit the centres, and labelling needs the centres only, so it can be done in blocks.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from topology.arrays import FloatArray, IntArray

BATCH_NODES = 4096
"""Nodes a mini-batch: enough for steady centres, little enough for any machine."""

STARTS = 3
"""Random starts of which the best counts."""


class RegionsError(ValueError):
    """Positions that cannot be clustered, or a region or point that does not fit them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regions:
    """Nodes by region.

    Attributes
    ----------
    centres_ms
        Shape (regions, d), ms.
    labels
        Region of each node, shape (n,).
    """

    centres_ms: FloatArray
    labels: IntArray

    def __len__(self) -> int:
        return len(self.centres_ms)

    def members(self, region: int) -> IntArray:
        """Nodes of a region, rising.

        Raises
        ------
        RegionsError
            There is no such region.
        """
        if not 0 <= region < len(self):
            raise RegionsError(f"region {region} is not one of {len(self)}, counted from 0")
        return np.flatnonzero(self.labels == region)

    def nearest_regions(self, point_ms: FloatArray, count: int) -> IntArray:
        """The regions whose centres are nearest to a point, nearest first.

        Parameters
        ----------
        point_ms
            Shape (d,), ms.
        count
            ≥ 1; all regions if there are fewer.

        Raises
        ------
        RegionsError
            A point of another space, or not even one region asked for.
        """
        if point_ms.shape != self.centres_ms.shape[1:] or not np.isfinite(point_ms).all():
            raise RegionsError(
                f"point {point_ms.tolist()} is not one of {self.centres_ms.shape[1]} numbers"
            )
        if count < 1:
            raise RegionsError(f"{count} regions were asked for; at least 1 is needed")
        distance_ms = np.linalg.norm(self.centres_ms - point_ms, axis=1)
        # Stable: of equally near centres the first, on every machine.
        return np.argsort(distance_ms, kind="stable")[:count]

    def candidates(self, point_ms: FloatArray, count: int) -> IntArray:
        """Nodes of the `count` regions nearest to a point, rising; raises what those raise."""
        return np.flatnonzero(np.isin(self.labels, self.nearest_regions(point_ms, count)))


def fit_centres(positions_ms: FloatArray, count: int, *, seed: int) -> FloatArray:
    """Centres of at most `count` regions, in lexicographic order, shape (regions, d), ms.

    Parameters
    ----------
    positions_ms
        Of all nodes, or of a sample of them, shape (n, d).
    count
        Regions wanted, in [1, n]; there are fewer if fewer positions differ.
    seed
        Of the random starts.

    Raises
    ------
    RegionsError
        Positions that are no numbers, or a count out of its range.
    """
    _check(positions_ms)
    if not 1 <= count <= len(positions_ms):
        raise RegionsError(f"{count} regions of {len(positions_ms)} nodes: is not in [1, nodes]")
    fitted = MiniBatchKMeans(
        n_clusters=count, batch_size=BATCH_NODES, n_init=STARTS, random_state=seed
    )
    with warnings.catch_warnings():
        # It warns when fewer positions differ than regions are wanted; that is allowed here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres_ms = fitted.fit(positions_ms).cluster_centers_
    used = np.unique(label(positions_ms, centres_ms))
    return np.unique(centres_ms[used], axis=0)


def label(positions_ms: FloatArray, centres_ms: FloatArray) -> IntArray:
    """Region of each position: the nearest centre, shape (n,).

    Raises
    ------
    RegionsError
        Positions that are no numbers, or have other dimensions than the centres.
    """
    _check(positions_ms)
    if positions_ms.shape[1] != centres_ms.shape[1]:
        raise RegionsError(
            f"positions have {positions_ms.shape[1]} dimensions, centres {centres_ms.shape[1]}"
        )
    _, nearest = KDTree(centres_ms).query(positions_ms)
    return np.asarray(nearest, dtype=np.int64)


def regions(positions_ms: FloatArray, count: int, *, seed: int) -> Regions:
    """Cluster nodes into at most `count` regions; parameters and errors as for `fit_centres`.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [100.0], [101.0]])
    >>> found = regions(line, 2, seed=1)
    >>> found.labels.tolist(), found.nearest_regions(np.array([90.0]), 1).tolist()
    ([0, 0, 1, 1], [1])
    """
    centres_ms = fit_centres(positions_ms, count, seed=seed)
    return Regions(centres_ms=centres_ms, labels=label(positions_ms, centres_ms))


def _check(positions_ms: FloatArray) -> None:
    if positions_ms.ndim != 2 or not positions_ms.size:
        raise RegionsError(f"positions of shape {positions_ms.shape} are not (nodes, dimensions)")
    if not np.isfinite(positions_ms).all():
        node = int(np.flatnonzero(~np.isfinite(positions_ms).all(axis=1))[0])
        raise RegionsError(
            f"node {node} has no coordinate that is a number: {positions_ms[node].tolist()}"
        )
