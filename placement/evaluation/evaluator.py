"""Promises of placements: recovery time, and latency of the outputs.

Recovery time is that of reliable placement, §3.3, (1), with K a one-way latency. The paper's (1)
leaves out the time until the death is noticed. Here it is part of the recovery time, because users
state their bound about silence at the output:

    R = detection + max_i K_i + Σ_i Q_i·p

*Q.* The tuples that upstream i holds back from the secondary: all but one of a batch of B
(`bench.standby_schemes`), none under Active Standby, where B = 1. Tuples that travel when the
primary dies are not held back: they are processed as they arrive, while the last of them travels
the K_i.

*K when neighbours die together.* The paper takes K_i from the primary of upstream i. If that
primary runs on the very node whose death is recovered from, upstream i's own secondary goes on
sending, once it has caught up; K_i is then that catching up and the way from there.

Many placements of one query are evaluated at once; `placement.evaluation.single` evaluates a batch
of one.

=============  ==================================================================================
symbol         meaning
=============  ==================================================================================
f              a placement, one row
o              an operator, in the graph's order, one column
P[f, o]        index of its primary's node in the view
S[f, o]        index of its secondary's node; that of P means that there is no secondary
=============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.graph import QueryGraph

PairLookup = Callable[[IntArray, IntArray], FloatArray]
"""A figure of pairs of nodes by their indices, element by element (`NetworkView.one_way_of`)."""


class PlacementBatch(NamedTuple):
    """Placements of one query: P and S, both of shape (f, o)."""

    primaries: IntArray
    secondaries: IntArray

    def take(self, rows: IntArray | BoolArray | slice) -> PlacementBatch:
        """Some of the placements."""
        return PlacementBatch(self.primaries[rows], self.secondaries[rows])

    def repeated(self, times: int) -> PlacementBatch:
        """The first placement, so many times, to be changed."""
        return PlacementBatch(
            np.repeat(self.primaries[:1], times, axis=0),
            np.repeat(self.secondaries[:1], times, axis=0),
        )


def stacked(parts: list[PlacementBatch]) -> PlacementBatch:
    """All placements of the parts, in their order."""
    return PlacementBatch(
        np.concatenate([part.primaries for part in parts]),
        np.concatenate([part.secondaries for part in parts]),
    )


def tabled(nodes: IntArray, size: int, table: FloatArray) -> PairLookup:
    """Looks pairs up in a table, for many batches that use few nodes.

    Parameters
    ----------
    nodes
        Indices of the nodes that pairs may consist of.
    size
        Number of all nodes.
    table
        The figures, shape (nodes, nodes).
    """
    number = np.zeros(size, dtype=np.int64)
    number[nodes] = np.arange(len(nodes))

    def look_up(sources: IntArray, targets: IntArray) -> FloatArray:
        return table[number[sources], number[targets]]

    return look_up


class Evaluator:
    """Evaluates placements of one query.

    Parameters
    ----------
    one_way_of
        One-way latencies, ms.
    hop_overhead_ms
        Cost of a link besides its latency, ms.
    batch_size
        B of the standby scheme, ≥ 1.

    Attributes
    ----------
    column
        Operator → o.
    placed
        o of the operators to be placed, in topological order.
    reprocess_ms
        ΣQ·p by operator, shape (o,), ms.
    """

    def __init__(
        self,
        graph: QueryGraph,
        one_way_of: PairLookup,
        *,
        hop_overhead_ms: float = 0.0,
        batch_size: int = 1,
    ) -> None:
        self.graph = graph
        self.one_way_of = one_way_of
        self.column = {name: o for o, name in enumerate(graph.order)}
        self.placed = [self.column[name] for name in graph.to_place]
        self._hop_overhead_ms = hop_overhead_ms
        self._inputs = [
            [self.column[link.source] for link in graph.inputs[name]] for name in graph.order
        ]
        self._cost_ms = [graph.by_name[name].cost_us / 1e3 for name in graph.order]
        self.reprocess_ms = np.array([reprocess_ms(graph, n, batch_size) for n in graph.order])

    def transfer_ms(
        self, o: int, batch: PlacementBatch, secondaries: IntArray, catch_up_ms: FloatArray
    ) -> FloatArray:
        """max K of an operator whose secondary is on each of some nodes, ms.

        Parameters
        ----------
        batch
            One row for each of the secondaries, or one for all. Its S tells where the secondaries
            upstream are.
        secondaries
            Indices of nodes, shape (s,).
        catch_up_ms
            Time that the upstream secondaries need to catch up, in the batch's shape.
        """
        slowest_ms = np.zeros(len(secondaries))
        for source in self._inputs[o]:
            delay_ms = self.one_way_of(batch.primaries[:, source], secondaries)
            together = batch.primaries[:, source] == batch.primaries[:, o]
            if together.any():
                from_heir_ms = self.one_way_of(batch.secondaries[:, source], secondaries)
                delay_ms = np.where(together, catch_up_ms[:, source] + from_heir_ms, delay_ms)
            slowest_ms = np.maximum(slowest_ms, delay_ms)
        return slowest_ms

    def catch_up_ms(self, batch: PlacementBatch) -> FloatArray:
        """Time from noticing a death to being up to date, shape (f, o), ms; 0 if pinned."""
        catch_up_ms = np.zeros(batch.primaries.shape)
        for o in self.placed:
            transfer_ms = self.transfer_ms(o, batch, batch.secondaries[:, o], catch_up_ms)
            catch_up_ms[:, o] = transfer_ms + self.reprocess_ms[o]
        return catch_up_ms

    def arrivals_ms(self, batch: PlacementBatch) -> tuple[FloatArray, IntArray]:
        """When each operator has processed a tuple's last input, and which input comes last.

        A tuple pays the one-way latency and the overhead for each link, and each operator's cost.
        An operator with several inputs waits for the last. Queueing is not in it: that is the
        concern of the deadlines on nodes (`placement.deadline`).

        Returns
        -------
        tuple
            Arrivals, shape (f, o), ms, and columns of the operators upstream, shape (f, o); −1
            for operators without input.
        """
        arrived_ms = np.zeros(batch.primaries.shape)
        via = np.full(batch.primaries.shape, -1, dtype=np.int64)
        for o, sources in enumerate(self._inputs):
            if sources:
                network_ms = self.one_way_of(batch.primaries[:, sources], batch.primaries[:, [o]])
                reached_ms = arrived_ms[:, sources] + network_ms + self._hop_overhead_ms
                arrived_ms[:, o] = reached_ms.max(axis=1)
                via[:, o] = np.array(sources)[reached_ms.argmax(axis=1)]
            arrived_ms[:, o] += self._cost_ms[o]
        return arrived_ms, via

    def latency_ms(self, batch: PlacementBatch) -> FloatArray:
        """Latency of the slowest output from its farthest source, shape (f,), ms."""
        arrived_ms, _ = self.arrivals_ms(batch)
        return arrived_ms.max(axis=1, initial=0.0)


def reprocess_ms(graph: QueryGraph, operator: str, batch_size: int) -> float:
    """ΣQ·p: work on the tuples that the upstreams of an operator hold back at most, ms."""
    held = (batch_size - 1) * len(graph.inputs[operator])
    return held * graph.by_name[operator].cost_us / 1e3
