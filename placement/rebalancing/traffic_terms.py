"""The streams to and from one replica of an operator.

A primary takes in the output of the primaries upstream and sends to both replicas of every operator
downstream (Active Standby). A secondary takes in the same as its primary and sends nothing. Each
stream costs its rate times its latency, so each pulls the replica towards its other end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foundation.arrays import FloatArray
from placement.network import NetworkView
from placement.rebalancing.running import RunningQuery


class TrafficTerm(NamedTuple):
    """One stream to or from a replica.

    Attributes
    ----------
    operator, is_secondary, node
        The replica at the other end, and the index of its node.
    rate_bytes_s
        DR, bytes/s.
    incoming
        Whether the stream comes from there.
    """

    operator: str
    is_secondary: bool
    node: int
    rate_bytes_s: float
    incoming: bool


def traffic_terms_at(
    query: RunningQuery, view: NetworkView, operator: str, *, secondary: bool
) -> list[TrafficTerm]:
    """All streams of an operator's primary or secondary, inputs first."""
    graph = query.request.graph

    def nodes(name: str) -> tuple[int, ...]:
        """Where the replicas of an operator are; a pinned one has no secondary."""
        pinned = graph.by_name[name].pinned
        return query.places[name] if pinned is None else (view.index[pinned],)

    terms = [
        TrafficTerm(link.source, False, nodes(link.source)[0], link.rate_bytes_s, True)
        for link in graph.inputs[operator]
    ]
    if not secondary:
        terms += [
            TrafficTerm(link.target, bool(replica), node, link.rate_bytes_s, False)
            for link in graph.outputs[operator]
            for replica, node in enumerate(nodes(link.target))
        ]
    return terms


def usage_by_host(terms: list[TrafficTerm], view: NetworkView) -> FloatArray:
    """Σ DR·Lat if the replica were on each of the hosts, shape (hosts,), bytes."""
    if not terms:
        return np.zeros(len(view.hosts))
    ends = np.array([term.node for term in terms], dtype=np.int64)
    rates = np.array([term.rate_bytes_s for term in terms])
    return rates @ view.one_way_between(ends, view.host_indices) / 1e3
