"""Latency samples as springs between coordinates: how far, which way, how hard each pulls.

What `topology.bulk_steps` moves nodes by; `topology.bulk_coordinates` names the symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topology.arrays import FloatArray
from topology.latency_samples import LatencySamples
from topology.vivaldi import MAX_ERROR, MIN_ERROR


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VivaldiForces:
    """What the samples say about the coordinates as they are.

    Attributes
    ----------
    stretch_ms, weight
        e and w of each sample, shape (s,).
    direction
        Unit vectors from the peer to the node, shape (s, d).
    """

    stretch_ms: FloatArray
    weight: FloatArray
    direction: FloatArray


def stretched(
    samples: LatencySamples,
    own: tuple[FloatArray, FloatArray],
    theirs: tuple[FloatArray, FloatArray],
    rng: np.random.Generator,
) -> VivaldiForces:
    """The springs of samples between nodes and their peers.

    Parameters
    ----------
    samples
        Possible ones.
    own, theirs
        Positions, ms, and error estimates, which `samples.nodes` and `samples.peers` index.
    rng
        Draws a direction for two at one point.
    """
    positions_ms, errors = own
    peer_positions_ms, peer_errors = theirs
    apart = positions_ms[samples.nodes]
    apart -= peer_positions_ms[samples.peers]
    distance_ms = lengths(apart)
    together = distance_ms == 0
    if together.any():
        # Two nodes at one point part in any direction; the protocol draws one too.
        apart[together] = rng.normal(size=(int(together.sum()), apart.shape[1]))
        apart /= np.where(together, lengths(apart), distance_ms)[:, None]
    else:
        apart /= distance_ms[:, None]
    own_error = errors[samples.nodes]
    their_error = np.clip(peer_errors[samples.peers], MIN_ERROR, MAX_ERROR)
    return VivaldiForces(
        stretch_ms=samples.rtt_ms - distance_ms,
        weight=own_error / (own_error + their_error),
        direction=apart,
    )


def sample_errors(forces: VivaldiForces, samples: LatencySamples) -> FloatArray:
    """Relative error of the coordinates on each sample, shape (s,), as estimates take it in."""
    return np.minimum(np.abs(forces.stretch_ms) / samples.rtt_ms, MAX_ERROR)


def rounds(samples: LatencySamples) -> Iterator[LatencySamples]:
    """The samples in batches of at most one a node: all first ones, all second ones, …"""
    by_node = np.argsort(samples.nodes, kind="stable")
    nodes = samples.nodes[by_node]
    first = np.searchsorted(nodes, nodes, side="left")
    turns = np.arange(len(nodes)) - first
    by_turn = np.argsort(turns, kind="stable")
    ends = np.cumsum(np.bincount(turns))
    for batch in np.split(by_node[by_turn], ends):
        # The split leaves an empty rest behind the last end.
        if len(batch):
            yield samples.take(batch)


def lengths(vectors: FloatArray) -> FloatArray:
    """Euclidean length of each row; faster than `np.linalg.norm` for short rows."""
    squares: FloatArray = np.einsum("sd,sd->s", vectors, vectors)
    return np.sqrt(squares)
