"""Moves of a rebalancing, their prices and gains, and the margin that a gain must exceed.

All figures are in the planner's one currency, bytes/s × s = bytes: a stream of DR bytes/s over a
link of Lat seconds has DR·Lat bytes on its way (reliable placement, (2)), and a busy node counts as
if the input had to travel farther (`placement.evaluation.load`).

*Price of a move.* S bytes of state that are shipped once within a horizon of H seconds are a
stream of S/H bytes/s; over a link of Lat seconds they cost S/H·Lat bytes. Until the new replica is
warm it takes in the operator's inputs besides the two others: Σ DR·Lat over its inputs, for t of
the H seconds. t is the time that shipping takes: S / bandwidth + Lat. A swap of roles ships
nothing.

*Uncertainty.* A latency estimated from coordinates may be off by half of both nodes' errors. A
change is judged by the latencies of the links that it gives up and of those that it takes on, and a
later view may be off to the other side. Hence the uncertainty is Σ DR·(error of both ends) over the
estimated links of either. A change is made only if it gains more than this, so no later view with
errors within the same bound reverses it. Where the round trip was measured, half the spread of its
last samples is taken for the errors (`NetworkView.uncertainty_of`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from placement.errors import SettingsError, check_numbers
from placement.rebalancing.running import RunningQuery


class MoveKind(enum.Enum):
    """Which replica goes to another node.

    `SWAP`: none does. The secondary becomes the primary and the other way round.
    """

    PRIMARY = "primary"
    SECONDARY = "secondary"
    SWAP = "swap"


class Reason(enum.Enum):
    """Why another placement is not taken, though it may be cheaper."""

    FAILURE_DOMAIN = "failure domain"
    PRIMARIES = "primaries"
    """The manifest does not allow the primary there."""
    RECOVERY_BOUND = "recovery bound"
    DEADLINE = "deadline"
    SUB_DEADLINES = "sub-deadlines"
    """The node could not do all its work by its sub-deadlines: the demand test."""
    CAPACITY = "capacity"
    CORDONED = "cordoned"
    SILENT = "silent"
    NOT_THERE = "not there"
    """The node is gone, or does not run operators."""
    FUNCTIONS = "functions"
    """The node lacks a function that the query calls, or has other code of that name."""
    UNPROTECTED = "unprotected"
    """The operator lacks a warm secondary at present, or does not run."""
    NO_LEGAL_ORDER = "no legal order"
    """Legal in the end, but not after each move on the way."""
    OTHER_GOAL = "other goal"
    """It would undo what was gained for a goal that comes first, or move its moves again."""
    MOVED_LATELY = "moved lately"
    """Moved a short while ago without being asked for, and gains too little to move again."""
    UNDOES = "undoes a move"
    """Would take a move of the last hour back, although nothing measured says otherwise since."""
    MARGIN = "margin"
    """Legal, but gains less than uncertainty, price and hysteresis together."""
    BUDGET = "budget"
    """Worth it, but more than the churn budget has left."""
    COST = "cost"
    """Legal, but dearer."""
    WORTH = "worth it"
    """Nothing stands against it: rebalancing proposes it, or a change that gains more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """The reason against a placement.

    Attributes
    ----------
    reason
        The first that applies.
    subject
        The operator whose bound or query whose deadline would break, the node that is full or
        holds the other replica, the failure domain, or the node that is cheaper.
    value, limit
        The figure there and its limit: ms, cores or bytes; None for failure domains.
    told
        The same as a sentence, if whoever judged says more.
    """

    reason: Reason
    subject: str
    value: float | None = None
    limit: float | None = None
    told: str = ""

    def __str__(self) -> str:
        if self.told or self.value is None or self.limit is None:
            return self.told or f"{self.reason.value}: {self.subject}"
        return f"{self.reason.value}: {self.subject} {self.value:.4g}, limit {self.limit:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSettings:
    """When moving is worth it, and how much may move at once.

    Attributes
    ----------
    hysteresis_share, hysteresis_bytes
        For each of its moves a change must gain more than this share of its query's present cost,
        and more than so many bytes: whichever is greater.
    horizon_s
        Time over which the price of a move is spread, s: about how long the new place should serve.
    max_moves, max_bytes
        Churn budget of one plan: moves, and bytes of state that they ship.
    bandwidth_bytes_s
        Rate at which state is shipped.
    most_judged
        Changes that are judged at most: judging takes long. Those left over count as beyond budget.
    """

    hysteresis_share: float = 0.05
    hysteresis_bytes: float = 0.0
    horizon_s: float = 600.0
    max_moves: int = 10
    max_bytes: float = math.inf
    bandwidth_bytes_s: float = 10e6
    most_judged: int = 200

    def __post_init__(self) -> None:
        check_numbers(self, hysteresis_share="≥ 0", hysteresis_bytes="≥ 0")
        check_numbers(self, horizon_s="> 0", bandwidth_bytes_s="> 0")
        check_numbers(self, max_moves="≥ 0", most_judged="≥ 0")
        if not self.max_bytes >= 0:
            raise SettingsError(
                f"RebalanceSettings: max_bytes {self.max_bytes} is not a number ≥ 0"
            )


def too_little(gain: float, margin: float) -> str:
    """Why a change is not worth it, by what it gains and what that has to exceed, bytes."""
    return (
        f"gains {gain:.4g} bytes, which does not exceed price, uncertainty and hysteresis, "
        f"{margin:.4g} bytes"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One planned failover, or the replacement of one secondary.

    Attributes
    ----------
    source, target
        Node that the replica leaves and node that it comes to; of a swap, the old primary's node
        and the new one's.
    bytes_to_ship, seconds
        State that travels to the target, and how long that takes.
    gain
        By how much it lowers the objective, bytes; less than 0 where a later move of the same
        change needs it.
    price
        Of moving, bytes.
    cost_after
        The objective of everything that runs, once it is done, bytes.
    """

    query: str
    operator: str
    kind: MoveKind
    source: str
    target: str
    bytes_to_ship: float
    seconds: float
    gain: float
    price: float
    cost_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChange:
    """Moves that are worth it together, in an order in which each leaves a legal placement.

    Attributes
    ----------
    goal
        The one that it serves.
    uncertainty, hysteresis
        Bytes. A change that serves network usage gains more than these and the price together.
    """

    query: str
    goal: str
    moves: tuple[Move, ...]
    uncertainty: float
    hysteresis: float

    @property
    def gain(self) -> float:
        """By how much it lowers the objective, bytes."""
        return sum(move.gain for move in self.moves)

    @property
    def price(self) -> float:
        """Of moving, bytes."""
        return sum(move.price for move in self.moves)


class ReplicaMove(NamedTuple):
    """A move without its figures: `source` and `target` as in `Move`."""

    operator: str
    kind: MoveKind
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedChange:
    """A change that would be cheaper, and is not made.

    Attributes
    ----------
    gain
        By how much it would lower the objective, bytes.
    """

    query: str
    moves: tuple[ReplicaMove, ...]
    obstacle: Obstacle
    gain: float


class Judge(Protocol):
    """Decides whether a change may be made."""

    def __call__(
        self, query: str, moves: Sequence[ReplicaMove]
    ) -> Obstacle | Sequence[RunningQuery]:
        """Make a change in the planning problem, move by move, or say why not.

        Returns
        -------
        Obstacle or sequence
            The obstacle to one of the moves; the problem is as before then. Else queries of which
            streams or rates are different now; their places are disregarded.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalancing:
    """Changes in the order in which they are to be made; none if the running places are good.

    Attributes
    ----------
    cost_before, cost_after
        The objective (`placement.evaluation.cost`): the cost of each query beside the others, with
        the load prices of all replicas once, bytes.
    places
        Operator → nodes of its primary and secondary, when all is done.
    rejected
        How many cheaper placements of a query, one change away from `places`, are not taken, by
        the first reason that applies.
    dearest
        Those of them that would gain most.
    """

    changes: tuple[PlacementChange, ...]
    cost_before: float
    cost_after: float
    places: Mapping[str, tuple[str, str]]
    rejected: Mapping[Reason, int]
    dearest: tuple[RejectedChange, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        """All moves; one may stop after any of them."""
        return tuple(move for change in self.changes for move in change.moves)
