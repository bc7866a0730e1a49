"""The streams that pull at a copy of an operator.

A primary takes in what the primaries upstream send and sends to both copies of every operator
downstream (Active Standby); a secondary takes in the same as its primary and sends nothing. Each
stream costs its rate times the way, so each pulls the copy towards its other end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placement.network import NetworkView
from placement.rebalancing.moves import Role
from placement.rebalancing.running import RunningQuery

FloatArray = npt.NDArray[np.float64]


class Pull(NamedTuple):
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
    copy: Role
    node: int
    rate_bytes_s: float
    incoming: bool


def pulls_at(query: RunningQuery, view: NetworkView, operator: str, copy: Role) -> list[Pull]:
    """All streams of a copy, inputs first."""
    graph = query.request.graph
    places = query.places
    pulls: list[Pull] = []

    def ends(name: str) -> tuple[int, ...]:
        pinned = graph.by_name[name].pinned
        return places[name] if pinned is None else (view.index[pinned],)

    for link in graph.inputs[operator]:
        node = ends(link.source)[0]
        pulls.append(Pull(link.source, Role.PRIMARY, node, link.rate_bytes_s, True))
    if copy is Role.PRIMARY:
        for link in graph.outputs[operator]:
            # A pinned operator has no secondary.
            for role, node in zip((Role.PRIMARY, Role.SECONDARY), ends(link.target), strict=False):
                pulls.append(Pull(link.target, role, node, link.rate_bytes_s, False))
    return pulls


def usage_by_host(pulls: list[Pull], view: NetworkView) -> FloatArray:
    """Σ DR·Lat if the copy stood on each of the hosts, shape (hosts,), bytes."""
    if not pulls:
        return np.zeros(len(view.hosts))
    ends = np.array([pull.node for pull in pulls], dtype=np.int64)
    rates = np.array([pull.rate_bytes_s for pull in pulls])
    return rates @ view.one_way_between(ends, view.host_indices) / 1e3
