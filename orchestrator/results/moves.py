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
