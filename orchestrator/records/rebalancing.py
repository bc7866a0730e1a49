"""A rebalancing plan: moves of running replicas that are worth it, as the leader computes them.

Costs, gains and prices are in the planner's currency, bytes/s × s = bytes (`docs/placement.md`).
"""

from __future__ import annotations

from typing import Literal

from orchestrator.records.base import Record
from orchestrator.records.figures import PlaceLoad
from orchestrator.records.moves import MoveStep


class RebalanceLimits(Record, frozen=True, kw_only=True):
    """How much a plan may move, and of what.

    Attributes
    ----------
    max_moves, max_bytes
        Moves, and bytes of state that they ship; None: any number of bytes.
    query
        The only query whose fragments may move; None: all may.
    """

    max_moves: int = 10
    max_bytes: float | None = None
    query: str | None = None


class QueryChange(Record, frozen=True, kw_only=True):
    """The figures of a query before and after a move.

    Attributes
    ----------
    network_usage_bytes
        By the rates that the plan rests on; latencies and recovery are those promised for the rates
        that manifests state.
    latency_ms
        Of the slowest output.
    recovery_ms
        The longest of its fragments; None while one of them has no secondary.
    """

    query: str
    network_usage_bytes: tuple[float, float]
    latency_ms: tuple[float, float]
    deadline_ms: float
    recovery_ms: tuple[float | None, float | None]
    bound_ms: float

    @property
    def slack_ms(self) -> tuple[float, float]:
        """The time that the deadline leaves, before and after."""
        before, after = self.latency_ms
        return self.deadline_ms - before, self.deadline_ms - after


class RebalanceMove(Record, frozen=True, kw_only=True):
    """One move of a replica.

    Attributes
    ----------
    fragment
        `<query>.<fragment>`.
    role
        Of the replica once it is there.
    source, target
        Node that the replica leaves, and node that it comes to.
    swaps
        Whether the fragment's replicas change roles, and nothing is shipped.
    change
        Number of the change that it belongs to: the moves of a change are worth it together.
    bytes_to_ship, seconds
        State that travels to the target, and how long that takes.
    gain_bytes
        By how much it lowers the cost; less than 0 where a later move of its change needs it.
    price_bytes
        Of moving.
    queries
        The query of the fragment, and those that read its stream.
    undoes
        Of a move that nobody has asked for: which one of the last hour it takes back, and what has
        changed since; empty: none.
    """

    fragment: str
    role: Literal["primary", "secondary"]
    source: str
    target: str
    swaps: bool
    change: int
    bytes_to_ship: float
    seconds: float
    gain_bytes: float
    price_bytes: float
    queries: tuple[QueryChange, ...]
    undoes: str = ""

    @property
    def step(self) -> MoveStep:
        """The same in a plan of moves."""
        return MoveStep(fragment=self.fragment, role=self.role, node=self.target)


class RebalanceChange(Record, frozen=True, kw_only=True):
    """What the moves of a change gain together; the gain exceeds the sum of the others, bytes.

    Attributes
    ----------
    number
        As in the moves.
    goal
        The goal that it serves.
    """

    number: int
    goal: str
    gain_bytes: float
    price_bytes: float
    uncertainty_bytes: float
    hysteresis_bytes: float


class FragmentPlaces(Record, frozen=True, kw_only=True):
    """The nodes of a fragment's replicas."""

    fragment: str
    """`<query>.<fragment>`."""
    primary: str
    secondary: str


class UnsurvivedLoss(Record, frozen=True, kw_only=True):
    """A loss that takes both replicas of some fragments.

    Attributes
    ----------
    kind
        `node`, or a label of nodes: `application`, `domain`, `machine`, `zone`.
    """

    kind: str
    name: str
    fragments: tuple[str, ...]


class RefusedCandidate(Record, frozen=True, kw_only=True):
    """A change that would be cheaper, and why it is not made.

    Attributes
    ----------
    steps
        Its moves, in order; none: no node is to be had.
    reason
        In a word or two: those by which refused candidates are counted.
    problem
        The binding constraint in a sentence, with figures and limits.
    gain_bytes
        By how much it would lower the cost.
    """

    steps: tuple[MoveStep, ...]
    reason: str
    problem: str
    gain_bytes: float


class RateUsed(Record, frozen=True, kw_only=True):
    """The rate of a stream that the plan reckons with."""

    stream: str
    bytes_s: float
    tuples_s: float
    measured: bool
    """Whether its fragment or its site has reported it, rather than its manifest stated it."""


class RoundTripUsed(Record, frozen=True, kw_only=True):
    """A measured round trip that the plan reckons with, and the spread of its last samples, ms."""

    source: str
    target: str
    rtt_ms: float
    spread_ms: float


class RebalancePlan(Record, frozen=True, kw_only=True):
    """Moves that are worth it, in an order in which each leaves a legal state.

    Attributes
    ----------
    goals, limits
        As asked for.
    cost_bytes
        The cost of everything that runs, before and after.
    after
        Places of all fragments once all is done.
    loads
        Of nodes and machines then.
    unsurvived
        The single losses, of a node or a label of nodes, that some fragment would not survive then.
    rejected
        Reason → how many candidates that are cheaper then are not taken because of it.
    refused
        The ten of these that would gain most.
    undo
        Places of the fragments that it moves, before.
    rates, round_trips
        The measurements that it rests on; of streams without one, the stated rate. Round trips are
        those among the nodes and sites of the queries that its moves touch.
    assumed_states
        Fragments whose state has an unknown size: the budget of a host's queues is assumed.
    is_whole
        Whether it tells of everything. Else places, rates, unsurvived losses and assumed states are
        those of the queries that its moves touch: with all of them it would be too large.
    """

    goals: tuple[str, ...]
    limits: RebalanceLimits
    cost_bytes: tuple[float, float]
    moves: tuple[RebalanceMove, ...] = ()
    changes: tuple[RebalanceChange, ...] = ()
    after: tuple[FragmentPlaces, ...] = ()
    loads: tuple[PlaceLoad, ...] = ()
    unsurvived: tuple[UnsurvivedLoss, ...] = ()
    rejected: dict[str, int] = {}
    refused: tuple[RefusedCandidate, ...] = ()
    undo: tuple[FragmentPlaces, ...] = ()
    rates: tuple[RateUsed, ...] = ()
    round_trips: tuple[RoundTripUsed, ...] = ()
    assumed_states: tuple[str, ...] = ()
    is_whole: bool = True
