"""Moves that the leader proposes and makes by itself: what people want of that; what it proposes.

People write what they want (`AutomationRecord`). The leader writes what it proposes
(`ProposedMoves`), and asks itself for it as a client would (`AutomaticRequest`).
"""

from __future__ import annotations

from enum import Enum

from orchestrator.records.base import Record
from orchestrator.records.plan_files import PlanFile
from orchestrator.records.rebalancing import RebalanceLimits

LASTS_US = 900_000_000
"""How long a proposal of moves lasts."""

DAY_MIN = 24 * 60


class AutomationMode(Enum):
    """What the leader does about moves that are worth it."""

    OFF = "off"
    """Nothing: people plan."""
    PROPOSE = "propose"
    """It plans, and people apply."""
    APPLY = "apply"
    """It plans and applies."""


class QuietHours(Record, frozen=True, kw_only=True):
    """Minutes of each day, UTC, from the first one up to the second one, over midnight too."""

    begin_min: int
    end_min: int

    def covers(self, minute: int) -> bool:
        """Whether a minute of the day lies in them."""
        return (minute - self.begin_min) % DAY_MIN < (self.end_min - self.begin_min) % DAY_MIN

    def __str__(self) -> str:
        begin, end = (f"{each // 60:02}:{each % 60:02}" for each in (self.begin_min, self.end_min))
        return f"{begin}-{end}"


class AutomationRecord(Record, frozen=True, kw_only=True):
    """`/automation`: what people want. It is not there as long as nobody wants it otherwise.

    Attributes
    ----------
    moves_an_hour, bytes_an_hour
        How much is moved without being asked for; None: any number of bytes.
    quiet
        When nothing is planned or moved.
    paused
        Whether that is so now ...
    paused_until_us
        ... up to this time, cluster clock; None: until somebody resumes it.
    """

    mode: AutomationMode = AutomationMode.PROPOSE
    moves_an_hour: int = 10
    bytes_an_hour: float | None = None
    quiet: tuple[QuietHours, ...] = ()
    paused: bool = False
    paused_until_us: int | None = None

    def is_paused(self, now_us: int) -> bool:
        """Whether it is paused at this time."""
        return self.paused and (self.paused_until_us is None or now_us < self.paused_until_us)

    def rests(self, now_us: int) -> str | None:
        """Why nothing is planned at this time; None: something may be."""
        if self.mode is AutomationMode.OFF:
            return "it is off"
        if self.is_paused(now_us):
            return "it is paused"
        minute = now_us // 60_000_000 % DAY_MIN
        found = next((str(each) for each in self.quiet if each.covers(minute)), None)
        return None if found is None else f"{found} UTC are quiet hours"

    def bars_moves(self, now_us: int) -> str | None:
        """Why nothing is moved at this time that nobody asks for; None: something may be."""
        proposes = self.mode is AutomationMode.PROPOSE
        return self.rests(now_us) or ("it proposes only" if proposes else None)


class ProposedMoves(Record, frozen=True, kw_only=True):
    """`/proposal`: the moves that the leader proposes by itself; a new proposal replaces it.

    Attributes
    ----------
    reasons
        Why it has looked for moves.
    made_us
        Cluster clock, µs.
    """

    file: PlanFile
    reasons: tuple[str, ...]
    made_us: int

    @property
    def until_us(self) -> int:
        """When it ends by itself."""
        return self.made_us + LASTS_US


class AutomaticRequest(Record, frozen=True, kw_only=True, tag="automatic"):
    """The leader itself wants to know which moves are worth it, and do not flap."""

    limits: RebalanceLimits
    reasons: tuple[str, ...]
    asked_us: int
    """Cluster clock, µs."""
