"""Vivaldi forces: latency samples as springs between many coordinates.

This is `topology.vivaldi.spring` for arrays of samples. `topology.bulk_steps`
moves nodes by these forces; `topology.bulk_coordinates` explains the symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from topology.bulk_coordinates import BulkCoordinates, lengths
from topology.latency_samples import LatencySamples
from topology.vivaldi import MAX_ERROR, MIN_ERROR


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VivaldiForces:
    """Forces of a batch of samples.

    Attributes
    ----------
    stretch_ms, weight
        e and w of each sample, shape (s,).
    direction
        Unit vectors from the peer to the node, shape (s, d).
    errors
        Relative error of the coordinates on each sample, at most `MAX_ERROR`, shape (s,).
    """

    stretch_ms: FloatArray
    weight: FloatArray
    direction: FloatArray
    errors: FloatArray


def forces_of(
    samples: LatencySamples, own: BulkCoordinates, theirs: BulkCoordinates, rng: np.random.Generator
) -> VivaldiForces:
    """Forces of samples between nodes and their peers.

    Parameters
    ----------
    samples
        Possible ones only.
    own, theirs
        Coordinates that `samples.nodes` and `samples.peers` index.
    rng
        Draws a direction for two nodes at the same point.
    """
    apart = own.positions_ms[samples.nodes]
    apart -= theirs.positions_ms[samples.peers]
    distance_ms = lengths(apart)
    together = distance_ms == 0
    if together.any():
        apart[together] = rng.normal(size=(int(together.sum()), apart.shape[1]))
        apart /= np.where(together, lengths(apart), distance_ms)[:, None]
    else:
        apart /= distance_ms[:, None]
    own_error = own.errors[samples.nodes]
    their_error = np.clip(theirs.errors[samples.peers], MIN_ERROR, MAX_ERROR)
    stretch_ms = samples.rtt_ms - distance_ms
    return VivaldiForces(
        stretch_ms=stretch_ms,
        weight=own_error / (own_error + their_error),
        direction=apart,
        errors=np.minimum(np.abs(stretch_ms) / samples.rtt_ms, MAX_ERROR),
    )


def rounds(samples: LatencySamples) -> Iterator[LatencySamples]:
    """The samples in batches of at most one per node: all first ones, all second ones, …"""
    by_node = np.argsort(samples.nodes, kind="stable")
    nodes = samples.nodes[by_node]
    turns = np.arange(len(nodes)) - np.searchsorted(nodes, nodes, side="left")
    by_turn = np.argsort(turns, kind="stable")
    ends = np.cumsum(np.bincount(turns))
    for batch in np.split(by_node[by_turn], ends):
        # The split leaves an empty rest behind the last end.
        if len(batch):
            yield samples.take(batch)
