"""What a drill asks of a process: to fail in a certain way, once, and for a while at most.

The record names a kind of fault and two times. Nothing in it is executed: a process knows by
itself how each kind is done to it.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from orchestrator.records.base import Record

LONGEST_STRIKE_US = 60_000_000
"""No fault of a process may last longer, nor be asked for so long before."""


class StrikeKind(Enum):
    """How a process fails."""

    KILL = "kill"
    """At once, as by SIGKILL."""
    END = "end"
    """In order, as by SIGINT: it waits for no turn."""
    KILL_EXECUTOR = "kill executor"
    """With all processes of its Spark executor."""
    KILL_DRIVER = "kill driver"
    """Not the host itself: the Spark driver that started its executor."""
    HANG = "hang"
    """It is stopped for a while, and no connection breaks."""
    FULL_DISK = "full disk"
    """It can write nothing to its files for a while."""
    SLOW = "slow"
    """It shares one processor with busy processes for a while."""


class StrikeRecord(Record, frozen=True, kw_only=True):
    """`/strikes/<process>`: a drill has a host, a driver or a coordinator fail."""

    kind: StrikeKind
    life: str
    """The host's incarnation, or the coordinator's name as a candidate: no other process fails."""
    take_by_us: int
    """When it is too late to begin, cluster clock, µs."""
    lasts_us: Annotated[int, Meta(ge=0, le=LONGEST_STRIKE_US)] = 0
    """How long the fault lasts, whatever becomes of this record; 0: the process ends."""
    by: str = ""
    """Who asked for it."""
    struck_us: int | None = None
    """When the process fails, as it says itself, cluster clock, µs. Written before it does, so that
    it fails once."""
    problem: str | None = None
    """Why it could not."""

    @property
    def until_us(self) -> int:
        """When the fault is over at the latest, cluster clock, µs."""
        return self.take_by_us + self.lasts_us
