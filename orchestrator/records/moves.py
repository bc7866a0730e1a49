"""Moves of replicas: as planned, and the journal of how far they are."""

from __future__ import annotations

from typing import Literal

from orchestrator.records.base import Record

LEAST_STATE_RATE_BYTES_S = 1e6
"""At less, the parts of a state would follow each other so slowly that they might count as lost
(`orchestrator.host.shell.parts.STALLED_US`)."""

NOT_BEGUN = "not begun, because"
"""Begins what is said of a step that follows one that failed."""

BARRED = "is not moved by itself any more:"
"""Begins what is said of a step that automation does not begin."""


class MoveStep(Record, frozen=True, kw_only=True):
    """One replica of a fragment is to be on another node."""

    fragment: str
    """`<query>.<fragment>`."""
    role: Literal["primary", "secondary"]
    node: str
    """If it is the secondary's, and the primary is to be there, the two change roles."""
    state_bytes: float | None = None
    """Of the state that goes with it, as known when it was planned; None: nobody knew."""
    begun_us: int | None = None
    """When the leader began it, cluster clock, µs."""
    was: tuple[str, str] | None = None
    """The nodes of primary and secondary when it began; before that, as it was planned."""
    doubted_us: int | None = None
    """When it first would have been refused by latencies that may be wrong or by load that may
    fall, cluster clock, µs."""
    moved_bytes: int = 0
    """How much of the state has been sent, as far as hosts have reported it."""
    moved_us: int | None = None
    """When that last grew, cluster clock, µs."""
    done: bool = False
    failed: str | None = None
    """Why it was not done, or was taken back."""

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do."""
        return self.done or self.failed is not None


class StatedFigures(Record, frozen=True, kw_only=True):
    """The measurements by which moves were worth it, as far as they concern these.

    Attributes
    ----------
    uncertainty_bytes
        Of the gain, for each of the moves.
    round_trips_ms
        By `a:b`.
    rates_bytes_s
        By stream.
    """

    uncertainty_bytes: tuple[float, ...]
    round_trips_ms: dict[str, float]
    rates_bytes_s: dict[str, float]


class MovePlan(Record, frozen=True, kw_only=True):
    """`/moves/<name>`: moves that are to be made in order, and the journal of how far they are.

    The leader takes the steps from what it observes, and notes here how each has ended. Every
    prefix of them is a legal state, so a new leader just goes on. Once all are settled, the history
    keeps the plan as it ended.
    """

    name: str
    steps: tuple[MoveStep, ...]
    at_a_time: int = 1
    """Most fragments that are moved at once."""
    keep_going: bool = False
    """Whether others are moved although one could not be; else a failure ends the plan."""
    throttle_bytes_s: float | None = None
    """Most bytes a second that a host sends of a state that moves; None: as the cluster says."""
    drains: str | None = None
    """The node that all of them leave, if they were planned for that."""
    undo_of: str | None = None
    """The plan that they take back."""
    digest: str = ""
    """Of the plan that somebody has reviewed; empty: there was none."""
    stated: StatedFigures | None = None
    """Why the moves were worth it; None: nobody has said."""
    by: str = ""
    """Who asked for it; empty: the leader decided it."""
    submitted_us: int
    """Cluster clock, µs."""
    withdrawn: bool = False
    """Whether steps that are under way are to be taken back, and no other one is begun."""
    ended_us: int | None = None
    """When the last step was settled, cluster clock, µs."""

    @property
    def outcome(self) -> str:
        """How far it has come, or how it has ended, for people."""
        done = f"{sum(step.done for step in self.steps)} of {len(self.steps)}"
        failed = [(each.fragment, each.failed) for each in self.steps if each.failed is not None]
        reasons = [f"{key}: {why}" for key, why in failed if not why.startswith(NOT_BEGUN)]
        if not failed:
            return f"{done} done"
        stopped = self.ended_us is not None and len(reasons) < len(failed)
        told = "; ".join(reasons)
        return f"stopped after {done}: {told}" if stopped else f"{done} done; {told}"

    @property
    def moving(self) -> frozenset[str]:
        """The fragments of steps that are not settled."""
        return frozenset(step.fragment for step in self.steps if not step.settled)

    @property
    def moved_bytes(self) -> int:
        """How much of all states has been sent."""
        return sum(step.moved_bytes for step in self.steps)


class PlannedMove(Record, frozen=True, kw_only=True):
    """One move, with the figures of its query if those before it are made.

    Attributes
    ----------
    primary, secondary
        Nodes, before and after.
    recovery_ms, latency_ms
        Of the fragment, and of the slowest output of its query, before and after.
    state_bytes
        Of the state that goes with it; 0 if roles change, None if nobody knows.
    """

    fragment: str
    """`<query>.<fragment>`."""
    role: Literal["primary", "secondary"]
    node: str
    primary: tuple[str, str]
    secondary: tuple[str, str]
    recovery_ms: tuple[float, float]
    bound_ms: float
    latency_ms: tuple[float, float]
    deadline_ms: float
    state_bytes: float | None = None


class PlannedMoves(Record, frozen=True, kw_only=True):
    """Moves in order.

    Attributes
    ----------
    name
        Of the plan of moves (`MovePlan`) that the leader will write, unless there are none.
    at_a_time, keep_going, throttle_bytes_s, drains, undo_of, digest, stated
        As there. A node that is drained is cordoned first.
    """

    name: str
    moves: tuple[PlannedMove, ...]
    at_a_time: int = 1
    keep_going: bool = False
    throttle_bytes_s: float | None = None
    drains: str | None = None
    cordon_s: float | None = None
    undo_of: str | None = None
    digest: str = ""
    stated: StatedFigures | None = None
