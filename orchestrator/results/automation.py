"""Moves that nobody asks for: what is wanted, what has been done, and what is proposed."""

from __future__ import annotations

from orchestrator.records import AutomationMode, PlanFile
from orchestrator.results.result import Result


class AutomationStatus(Result, frozen=True, kw_only=True):
    """What the leader does about moves that nobody asks for.

    Attributes
    ----------
    moves_an_hour, bytes_an_hour, quiet
        As they are wanted; null: any number of bytes. Quiet hours are UTC.
    paused, paused_until_us
        Whether it is paused, and until when; null: until it is resumed.
    rests
        Why it does nothing now; null: it does.
    moved, moved_bytes
        What it has moved within the last hour.
    """

    mode: AutomationMode
    moves_an_hour: int
    bytes_an_hour: float | None
    quiet: tuple[str, ...]
    paused: bool
    paused_until_us: int | None
    rests: str | None
    moved: int
    moved_bytes: float


class ProposalSummary(Result, frozen=True, kw_only=True):
    """The moves that the leader proposes by itself, in short.

    Attributes
    ----------
    name
        The digest of the plan.
    made_us, until_us
        When it was made, and when it ends by itself; cluster clock.
    reasons
        Why the leader has looked for moves.
    moves, state_bytes
        How many, and of how much state; null: nobody knows.
    cost_bytes
        Of everything that runs, before and after.
    """

    name: str
    made_us: int
    until_us: int
    reasons: tuple[str, ...]
    moves: int
    state_bytes: float | None
    cost_bytes: tuple[float, float]


class ProposalStatus(ProposalSummary, frozen=True, kw_only=True):
    """The moves that the leader proposes by itself.

    Attributes
    ----------
    plan
        To be applied.
    """

    plan: PlanFile
