"""Requests to the planner, and its plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement.errors import GraphError, NetworkError
from placement.graph import QueryGraph
from placement.network import NetworkView

Keep = Mapping[str, tuple[str, str | None]]
"""Operator → nodes of its running primary and secondary (None: it lost its secondary)."""

Pairs = Mapping[str, tuple[str, str]]
"""Operator to be placed → nodes of its primary and its secondary."""


class Request(NamedTuple):
    """A query to be placed, with the limits that its owner asks for, ms."""

    graph: QueryGraph
    deadline_ms: float
    recovery_bound_ms: float
    detection_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Recovery time of one operator on one secondary, ms, by its parts.

    Attributes
    ----------
    detection_ms
        Until the primary's death is noticed.
    transfer_ms
        max K: from the farthest upstream primary to the secondary.
    reprocess_ms
        ΣQ·p: processing the tuples that were held back.
    """

    detection_ms: float
    transfer_ms: float
    reprocess_ms: float

    @property
    def catch_up_ms(self) -> float:
        """From noticing the death to being up to date, ms."""
        return self.transfer_ms + self.reprocess_ms

    @property
    def total_ms(self) -> float:
        """R, ms."""
        return self.detection_ms + self.catch_up_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Secondary:
    """The secondary of one operator and its recovery time."""

    node: str
    recovery: Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyChoice:
    """What a secondary is sent.

    Attributes
    ----------
    batch, checkpoint_ms
        B and T (`placement.standby_schemes`).
    bytes_s
        What is sent because of it; nothing of what flows to its node anyway.
    active_bytes_s
        All of its input.
    usage
        Network usage of what is sent because of it, bytes, weighed like that of primaries.
    why
        The reason, for people.
    """

    batch: int
    checkpoint_ms: float
    bytes_s: float
    active_bytes_s: float
    usage: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOperator:
    """Where one operator runs, and the recovery time of its secondary (`Recovery`).

    Attributes
    ----------
    secondary
        Empty while none runs; the recovery time is infinite then.
    point_ms
        Its point if nodes were everywhere; empty for a placement that was not chosen by it.
    standby
        How its secondary is fed; None if that was not asked.
    """

    query: str
    operator: str
    primary: str
    secondary: str
    detection_ms: float
    transfer_ms: float
    reprocess_ms: float
    recovery_ms: float
    point_ms: tuple[float, ...]
    standby: StandbyChoice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """The figures that a plan promises a query.

    Attributes
    ----------
    latency_ms, path
        Of the slowest output, and its way: `operator @ node`, source first.
    network_usage, standby_usage
        u(q), bytes (bytes/s × s), standby traffic included; and that part of it.
    recovery_ms
        The longest recovery time of its operators; 0 if all are pinned.
    """

    query: str
    latency_ms: float
    deadline_ms: float
    path: tuple[str, ...]
    network_usage: float
    standby_usage: float
    recovery_ms: float
    bound_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Placements in the order of the queries and of each graph, and figures by query."""

    placements: tuple[PlacedOperator, ...]
    queries: tuple[QueryFigures, ...]


def check_requests(requests: Sequence[Request], view: NetworkView) -> None:
    """Check that queries can be planned together on a network.

    Raises
    ------
    GraphError
        Naming the query, and the field or operator that contradicts the rest.
    """
    placed_by: dict[str, str] = {}
    names: set[str] = set()
    for request in requests:
        graph = request.graph
        if graph.name in names:
            raise GraphError(graph.name, "name", "is given to two queries")
        names.add(graph.name)
        for field, value in zip(Request._fields[1:], request[1:], strict=True):
            if not math.isfinite(value) or value < 0:
                raise GraphError(graph.name, field, f"{value} is not a number of ms ≥ 0")
        for operator in graph.operators:
            if operator.pinned is not None:
                try:
                    view.node(operator.pinned)
                except NetworkError as error:
                    raise GraphError(
                        graph.name, f"operator {operator.name}", f"cannot be pinned: {error}"
                    ) from None
            elif operator.name in placed_by:
                raise GraphError(
                    graph.name,
                    f"operator {operator.name}",
                    f"is placed with query {placed_by[operator.name]} already; "
                    "pin it to the node that runs it there",
                )
            else:
                placed_by[operator.name] = graph.name
