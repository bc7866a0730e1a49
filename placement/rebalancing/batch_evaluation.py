"""Many placements of one query, evaluated at once.

Rebalancing and its explanations ask of hundreds of neighbouring placements what `evaluate` says of
one. The figures are the same ones, (1) and (2) of reliable placement and the longest path; here
each of them is an array over the placements, and nodes are numbers.

=============  ==================================================================================
symbol         meaning
=============  ==================================================================================
f              a placement, one row
o              an operator, in the graph's order, one column
P[f, o]        number of its primary's node among `nodes`
S[f, o]        of its secondary's; that of P for a pinned operator, which has none
=============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from placement.evaluate import reprocess_ms
from placement.graph import Link
from placement.network import NetworkView
from placement.records import Request
from topology.arrays import FloatArray, IntArray

ACTIVE_STANDBY = 1
"""Tuples that an upstream sends to a secondary at once."""


class PlacementBatch(NamedTuple):
    """Placements of one query: P and S, both of shape (f, o)."""

    primaries: IntArray
    secondaries: IntArray

    def take(self, rows: IntArray | slice) -> PlacementBatch:
        """Some of them."""
        return PlacementBatch(self.primaries[rows], self.secondaries[rows])

    def repeated(self, times: int) -> PlacementBatch:
        """The first of them, over and over, to be changed."""
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


class BatchEvaluation:
    """One query among the nodes that matter to it.

    Parameters
    ----------
    request
        The query and what its owner asks for.
    view
        Latencies.
    nodes
        Indices of the nodes that placements may use, rising; pinned operators' among them.
    hop_overhead_ms
        Cost of a link besides its latency, ms.

    Attributes
    ----------
    column
        Operator → o.
    placed
        o of the operators to be placed, in topological order.
    latency_ms
        One way between the nodes, shape (nodes, nodes), ms.
    """

    def __init__(
        self, request: Request, view: NetworkView, nodes: IntArray, hop_overhead_ms: float
    ) -> None:
        graph = request.graph
        self.request = request
        self.nodes = nodes
        self.column = {name: o for o, name in enumerate(graph.order)}
        self.placed = [self.column[name] for name in graph.to_place]
        self.latency_ms = view.one_way_between(nodes, nodes)
        self._hop_overhead_ms = hop_overhead_ms
        self._links = [
            (link, self.column[link.source], self.column[link.target])
            for name in graph.order
            for link in graph.inputs[name]
        ]

    def local(self, indices: IntArray) -> IntArray:
        """Numbers among `nodes` of nodes given by their index in the view."""
        return np.searchsorted(self.nodes, indices).astype(np.int64)

    def usage(self, rows: PlacementBatch) -> FloatArray:
        """Network usage (2) of the primaries' links, shape (f,), bytes."""
        total = np.zeros(len(rows.primaries))
        for link, source, target in self._links:
            hop_overhead_ms = self.latency_ms[rows.primaries[:, source], rows.primaries[:, target]]
            total += link.rate_bytes_s * hop_overhead_ms / 1e3
        return total

    def standby_usage(self, rows: PlacementBatch) -> FloatArray:
        """Network usage (2) that Active Standby adds, shape (f,), bytes."""
        total = np.zeros(len(rows.primaries))
        for link, source, target in self._links_to_placed():
            hop_overhead_ms = self.latency_ms[
                rows.primaries[:, source], rows.secondaries[:, target]
            ]
            total += link.rate_bytes_s * hop_overhead_ms / 1e3
        return total

    def changed_usage(
        self, rows: PlacementBatch, base: PlacementBatch, per_pair_ms: FloatArray
    ) -> FloatArray:
        """Σ DR·x over the links that changed against `base`: x of the old and of the new link.

        Parameters
        ----------
        per_pair_ms
            x, shape (nodes, nodes), ms.

        Returns
        -------
        FloatArray
            Shape (f,), bytes.
        """
        total = np.zeros(len(rows.primaries))
        for link, source, target in self._links:
            ends = [(rows.primaries, base.primaries)]
            if target in self.placed:
                ends.append((rows.secondaries, base.secondaries))
            for now, before in ends:
                left, right = rows.primaries[:, source], now[:, target]
                left_before, right_before = base.primaries[0, source], before[0, target]
                changed = (left != left_before) | (right != right_before)
                x_ms = per_pair_ms[left, right] + per_pair_ms[left_before, right_before]
                total += np.where(changed, link.rate_bytes_s * x_ms / 1e3, 0.0)
        return total

    def recovery_ms(self, rows: PlacementBatch) -> FloatArray:
        """Recovery time (1) of every operator, shape (f, o), ms; 0 for pinned ones.

        As in `evaluate.recovery`: an input from the very node that died is sent on by its own
        secondary once that has caught up. Secondaries are fed by Active Standby: larger batches
        are fitted to what the bound leaves when all stand where they should.
        """
        graph = self.request.graph
        catch_up_ms = np.zeros(rows.primaries.shape)
        for o in self.placed:
            name, target = graph.order[o], rows.secondaries[:, o]
            transfer_ms = np.zeros(len(target))
            for link in graph.inputs[name]:
                source = self.column[link.source]
                delay_ms = self.latency_ms[rows.primaries[:, source], target]
                if source in self.placed:
                    heir_ms = self.latency_ms[rows.secondaries[:, source], target]
                    shared = rows.primaries[:, source] == rows.primaries[:, o]
                    delay_ms = np.where(shared, catch_up_ms[:, source] + heir_ms, delay_ms)
                transfer_ms = np.maximum(transfer_ms, delay_ms)
            catch_up_ms[:, o] = transfer_ms + reprocess_ms(graph, name, ACTIVE_STANDBY)
        recovery_ms = np.zeros(rows.primaries.shape)
        recovery_ms[:, self.placed] = self.request.detection_ms + catch_up_ms[:, self.placed]
        return recovery_ms

    def path_ms(self, rows: PlacementBatch) -> FloatArray:
        """Latency of the slowest output (`evaluate.longest_path`), shape (f,), ms."""
        graph = self.request.graph
        arrived_ms = np.zeros(rows.primaries.shape)
        for o, name in enumerate(graph.order):
            latest_ms = np.zeros(len(rows.primaries))
            for link in graph.inputs[name]:
                source = self.column[link.source]
                network_ms = self.latency_ms[rows.primaries[:, source], rows.primaries[:, o]]
                latest_ms = np.maximum(
                    latest_ms, arrived_ms[:, source] + network_ms + self._hop_overhead_ms
                )
            arrived_ms[:, o] = latest_ms + graph.by_name[name].cost_us / 1e3
        return arrived_ms.max(axis=1, initial=0.0)

    def _links_to_placed(self) -> Iterator[tuple[Link, int, int]]:
        return (entry for entry in self._links if entry[2] in self.placed)
