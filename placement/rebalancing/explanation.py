"""Why an operator is where it is: the records that `placement.rebalancing.explain` returns.

Forces are those of reliable placement, Algorithm 3: a stream of DR bytes/s pulls at both its ends.
Costs are in the planner's currency, bytes/s × s = bytes (`placement.rebalancing.moves`).
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.rebalancing.moves import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """One stream that pulls at a replica.

    Attributes
    ----------
    operator, is_secondary, node
        The replica at its other end.
    incoming
        Whether the stream comes from there.
    direction
        Unit vector towards that node in coordinate space; zeros if the coordinates are the same.
    latency_ms, usage
        One way, ms, and DR·Lat at present, bytes.
    """

    operator: str
    is_secondary: bool
    node: str
    incoming: bool
    rate_bytes_s: float
    direction: tuple[float, ...]
    latency_ms: float
    usage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The reason against a candidate.

    Attributes
    ----------
    reason
        The first that applies.
    subject
        The operator whose bound or query whose deadline would break, the node that is full or
        holds the other replica, the failure domain, or the node that is cheaper.
    value, limit
        The figure on that candidate and its limit: ms, cores or bytes; None for failure domains.
    """

    reason: Reason
    subject: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateNode:
    """The cost of a replica on a node, bytes, and the obstacle to it.

    Attributes
    ----------
    usage
        Of its links to and from primaries.
    standby
        Of its links to or as a secondary: Active Standby traffic.
    load_price
        Its own, for the CPU axis there.
    crowding
        The increase of the load prices of the other replicas there.
    obstacle
        None for the node where it is.
    """

    node: str
    usage: float
    standby: float
    load_price: float
    crowding: float
    obstacle: Obstacle | None

    @property
    def total(self) -> float:
        """All of it, bytes."""
        return self.usage + self.standby + self.load_price + self.crowding


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExplanation:
    """Why one replica is on its node.

    Attributes
    ----------
    forces
        Strongest first, by rate.
    candidates
        All nodes that may run operators, cheapest first; the replica's own among them.
    binding
        The obstacle to the cheapest node of all; None if the replica is there, or if only the
        effort of moving keeps it away.
    best_rejected
        The cheapest of the others; None if there is no other.
    """

    node: str
    forces: tuple[Force, ...]
    candidates: tuple[CandidateNode, ...]
    binding: Obstacle | None
    best_rejected: CandidateNode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an operator's replicas are where they are."""

    query: str
    operator: str
    primary: ReplicaExplanation
    secondary: ReplicaExplanation
