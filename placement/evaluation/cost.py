"""The cost that placements are chosen by, in bytes (bytes/s × s).

What a query costs beside everything else that runs:

    Σ DR·(Lat + X)   streams between its primaries, X if they join two nodes
    Σ DR·Lat         streams to its secondaries, as much of them as the standby schemes send
    Σ DR·(Lat + X)   streams from its primaries to readers in other queries
    load price       `placement.evaluation.load`

The first two are network usage (2) of reliable placement, §3.3, with Lat a one-way latency. A
stream of a pinned source costs nothing on nodes to which it flows anyway (`Operator.flows_to`). The
planner, rebalancing and explanations all price placements so. A change of one query's places
changes the cost of everything by as much as the query's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.evaluation.evaluator import PairLookup, PlacementBatch
from placement.evaluation.load import Load
from placement.graph import Link, QueryGraph
from placement.network import NetworkView


class StreamEnd(Enum):
    """Where a stream ends."""

    PRIMARY = auto()
    SECONDARY = auto()
    NODE = auto()
    """At a node where another query needs it."""


class PricedStream(NamedTuple):
    """A stream that flows from the primary of an operator.

    Attributes
    ----------
    source, target
        Columns of operators; `target` is the index of a node if `end` says so.
    crosses
        Whether it costs X from one node to another.
    pays
        Whether it costs anything on a node, shape (n,); None: it does on all.
    """

    source: int
    target: int
    end: StreamEnd
    rate_bytes_s: float
    crosses: bool = False
    pays: BoolArray | None = None

    def touches(self, columns: Sequence[int]) -> bool:
        """Whether a replica of one of the operators is at one of its ends."""
        return self.source in columns or (self.end is not StreamEnd.NODE and self.target in columns)

    def ends(self, batch: PlacementBatch) -> tuple[IntArray, IntArray]:
        """Its nodes in each placement, two arrays of shape (f,)."""
        left = batch.primaries[:, self.source]
        match self.end:
            case StreamEnd.PRIMARY:
                return left, batch.primaries[:, self.target]
            case StreamEnd.SECONDARY:
                return left, batch.secondaries[:, self.target]
            case StreamEnd.NODE:
                return left, np.full(len(left), self.target, dtype=np.int64)


class Reader(NamedTuple):
    """A replica in another query that is sent an operator's output: its node, and how much."""

    operator: str
    node: str
    rate_bytes_s: float
    is_secondary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyRates:
    """What a secondary is sent, by its scheme, bytes/s.

    Attributes
    ----------
    inputs
        By the operator upstream.
    own
        By its primary: checkpoints.
    """

    inputs: Mapping[str, float]
    own: float = 0.0


class TrafficCost:
    """Prices the streams of placements of one query.

    Parameters
    ----------
    one_way_of
        One-way latencies, ms; those of the view, if None.
    crossing_ms
        X.
    standbys
        Operator → what its secondary is sent; all of its input (Active Standby) if it is not there.
    readers
        In other queries.

    Attributes
    ----------
    streams
        Those between primaries, then those to secondaries, then those to readers.
    """

    def __init__(
        self,
        graph: QueryGraph,
        view: NetworkView,
        one_way_of: PairLookup | None = None,
        *,
        crossing_ms: float = 0.0,
        standbys: Mapping[str, StandbyRates] | None = None,
        readers: Iterable[Reader] = (),
    ) -> None:
        self.column = {name: o for o, name in enumerate(graph.order)}
        self._one_way_of = one_way_of or view.one_way_of
        self._crossing_ms = crossing_ms
        standbys = standbys or {}
        pays = {
            each.name: np.array([node.name not in each.flows_to for node in view.nodes])
            for each in graph.operators
            if each.flows_to
        }

        def stream(link: Link, rate_bytes_s: float, end: StreamEnd) -> PricedStream:
            ends = self.column[link.source], self.column[link.target]
            crosses = end is StreamEnd.PRIMARY
            return PricedStream(*ends, end, rate_bytes_s, crosses, pays.get(link.source))

        self.streams: list[PricedStream] = [
            stream(link, link.rate_bytes_s, StreamEnd.PRIMARY)
            for name in graph.order
            for link in graph.inputs[name]
        ]
        for name in graph.to_place:
            fed = standbys.get(name)
            for link in graph.inputs[name]:
                sent = link.rate_bytes_s if fed is None else fed.inputs[link.source]
                self.streams.append(stream(link, sent, StreamEnd.SECONDARY))
            if fed is not None and fed.own:
                o = self.column[name]
                self.streams.append(PricedStream(o, o, StreamEnd.SECONDARY, fed.own))
        self.streams += [
            PricedStream(
                self.column[each.operator],
                view.at(each.node),
                StreamEnd.NODE,
                each.rate_bytes_s,
                not each.is_secondary,
            )
            for each in readers
        ]

    def of(
        self, batch: PlacementBatch, streams: Sequence[PricedStream] | None = None
    ) -> FloatArray:
        """What some of the streams cost, or all of them, shape (f,), bytes."""
        total = np.zeros(len(batch.primaries))
        for each in self.streams if streams is None else streams:
            left, right = each.ends(batch)
            delay_ms = self._one_way_of(left, right)
            if each.crosses:
                delay_ms = delay_ms + np.where(left == right, 0.0, self._crossing_ms)
            if each.end is StreamEnd.SECONDARY:
                # On the primary's node there is no secondary.
                delay_ms = delay_ms * (right != batch.primaries[:, each.target])
            if each.pays is not None:
                delay_ms = delay_ms * each.pays[right]
            total += each.rate_bytes_s * delay_ms / 1e3
        return total

    def ending(self, *ends: StreamEnd) -> list[PricedStream]:
        """The streams that end so."""
        return [each for each in self.streams if each.end in ends]

    def touching(self, operator: str, *, secondary: bool) -> list[PricedStream]:
        """The streams to and from one replica of an operator."""
        o = self.column[operator]
        if secondary:
            return [s for s in self.ending(StreamEnd.SECONDARY) if s.target == o]
        incoming = [s for s in self.ending(StreamEnd.PRIMARY) if s.target == o]
        return incoming + [s for s in self.streams if s.source == o]


def placed_cost(
    traffic: TrafficCost, batch: PlacementBatch, graph: QueryGraph, load: Load
) -> float:
    """The cost of a query in a single placement.

    Parameters
    ----------
    load
        Of everything else.
    """
    names = [load.view.names(replicas[0]) for replicas in batch]
    pairs = {name: (names[0][o], names[1][o]) for o, name in enumerate(graph.order)}
    price = load.with_operators(graph, pairs).total_price_bytes() - load.total_price_bytes()
    return float(traffic.of(batch)[0]) + price
