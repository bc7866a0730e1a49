"""What the planner is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from placement.graph import QueryGraph


class Request(NamedTuple):
    """A query to be placed, with what its owner asks for, ms."""

    graph: QueryGraph
    deadline_ms: float
    recovery_bound_ms: float
    detection_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOperator:
    """Where one operator runs and what its secondary promises (`evaluate.Recovery`).

    Attributes
    ----------
    secondary
        Empty while none runs; the recovery time is infinite then.
    point_ms
        Where relaxation would put it if nodes were everywhere; empty for a placement that was not
        chosen by its point.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """What a plan promises a query.

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
