"""Replicas that were moved, and nodes that are kept free."""

from __future__ import annotations

from orchestrator.results.result import Result


class MoveDocument(Result, frozen=True, kw_only=True):
    """One move.

    Attributes
    ----------
    outcome
        `planned`, `begun`, `done` or `failed`; `unchanged` if the replica is there already.
    problem
        Why it failed, or would be refused.
    primary, secondary
        Nodes, before and after.
    recovery_ms, latency_ms
        Of the fragment, and of the slowest output of its query, before and after as planned; None
        if nobody knows.
    state_bytes
        Of the state that goes with it; None if nobody knows.
    """

    fragment: str
    role: str
    node: str
    outcome: str
    problem: str | None = None
    primary: tuple[str, str]
    secondary: tuple[str, str]
    recovery_ms: tuple[float, float] | None = None
    bound_ms: float | None = None
    latency_ms: tuple[float, float] | None = None
    deadline_ms: float | None = None
    state_bytes: float | None = None


class MovesDocument(Result, frozen=True, kw_only=True):
    """A plan of moves.

    Attributes
    ----------
    name
        Of the plan's record; None after a dry run.
    cordoned
        The node that is drained.
    remaining
        Fragments that keep a replica on it.
    done
        Whether every move was made.
    """

    name: str | None
    moves: tuple[MoveDocument, ...]
    cordoned: str | None = None
    remaining: tuple[str, ...] = ()
    done: bool = False


class CordonDocument(Result, frozen=True, kw_only=True):
    """A node, and whether it is cordoned now.

    Attributes
    ----------
    changed
        Whether it was not so before, or not for good.
    replicas
        Fragments that have a replica there.
    """

    node: str
    cordoned: bool
    changed: bool
    replicas: tuple[str, ...]


class MoveStepStatus(Result, frozen=True, kw_only=True):
    """One move of a plan.

    Attributes
    ----------
    was
        The nodes of primary and secondary when it began; null: it has not.
    outcome
        `planned`, `begun`, `done` or `failed`.
    problem
        Why it failed.
    moved_bytes, state_bytes
        How much of the state has been sent, and all of it; null: nobody knows.
    """

    fragment: str
    role: str
    node: str
    was: tuple[str, str] | None = None
    outcome: str
    problem: str | None = None
    moved_bytes: float = 0.0
    state_bytes: float | None = None


class MovePlanStatus(Result, frozen=True, kw_only=True):
    """A plan of moves under way, or as it ended.

    Attributes
    ----------
    outcome
        How many of its moves are done, and what failed.
    by
        Who asked for it; empty: the leader decided it.
    submitted_us, ended_us
        Cluster clock, µs.
    at_a_time, keep_going, throttle_bytes_s, undo_of, digest
        As it was applied.
    undone_by
        The plan that takes it back, or has; null: none.
    moved_bytes, state_bytes
        How much of all states has been sent, and all of them; null: nobody knows.
    """

    name: str
    under_way: bool
    outcome: str
    by: str
    submitted_us: int
    ended_us: int | None
    at_a_time: int
    keep_going: bool
    throttle_bytes_s: float | None
    undo_of: str | None
    undone_by: str | None = None
    digest: str
    moved_bytes: float
    state_bytes: float | None
    steps: tuple[MoveStepStatus, ...]


class MovePlansDocument(Result, frozen=True, kw_only=True):
    """Plans of moves, the newest first."""

    plans: tuple[MovePlanStatus, ...]
