"""The streams that pull at a copy of an operator.

A primary takes in what the primaries upstream send and sends to both copies of every operator
downstream (Active Standby); a secondary takes in the same as its primary and sends nothing. Each
stream costs its rate times the way, so each pulls the copy towards its other end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement.network import NetworkView
from placement.rebalancing.moves import MovedRole
from placement.rebalancing.running import RunningQuery
from topology.arrays import FloatArray


class TrafficTerm(NamedTuple):
    """One stream to or from a copy.

    Attributes
    ----------
    operator, copy, node
        At the other end: the operator, which of its copies, and the index of its node.
    rate_bytes_s
        DR, bytes/s.
    incoming
        Whether the stream comes from there.
    """

    operator: str
    replica: MovedRole
    node: int
    rate_bytes_s: float
    incoming: bool


def traffic_terms_at(
    query: RunningQuery, view: NetworkView, operator: str, replica: MovedRole
) -> list[TrafficTerm]:
    """All streams of a copy, inputs first."""
    graph = query.request.graph
    places = query.places
    terms: list[TrafficTerm] = []

    def ends(name: str) -> tuple[int, ...]:
        pinned = graph.by_name[name].pinned
        return places[name] if pinned is None else (view.index[pinned],)

    for link in graph.inputs[operator]:
        node = ends(link.source)[0]
        terms.append(TrafficTerm(link.source, MovedRole.PRIMARY, node, link.rate_bytes_s, True))
    if replica is MovedRole.PRIMARY:
        for link in graph.outputs[operator]:
            # A pinned operator has no secondary.
            for role, node in zip(
                (MovedRole.PRIMARY, MovedRole.SECONDARY), ends(link.target), strict=False
            ):
                terms.append(TrafficTerm(link.target, role, node, link.rate_bytes_s, False))
    return terms


def usage_by_host(terms: list[TrafficTerm], view: NetworkView) -> FloatArray:
    """Σ DR·Lat if the copy stood on each of the hosts, shape (hosts,), bytes."""
    if not terms:
        return np.zeros(len(view.hosts))
    ends = np.array([term.node for term in terms], dtype=np.int64)
    rates = np.array([term.rate_bytes_s for term in terms])
    return rates @ view.one_way_between(ends, view.host_indices) / 1e3
