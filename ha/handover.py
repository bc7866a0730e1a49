"""When a primary that has been superseded stops sending: at a watermark of its successor.

A standby that becomes primary may be behind, because standby work waits for slack and it had to
hear of its new role. Consumers may have yet to learn that it is a producer. If the former primary
stopped at once, output would pause for that time. So the former primary goes on until two things
are said. Its successor says that the successor's output has come as far as the former primary's had
when it first heard the successor. And every consumer says that it has heard the successor.
Meanwhile both send. They give identical tuples identical numbers, so consumers drop repeated ones.

A plan alone never ends a handover: the successor's host may not have read the plan yet, and may
never. Nor does a consumer's word alone: the successor may have taken over in vain and been stopped,
because the store had given its place to another replica. If this host does not hear the successor,
or the successor does not catch up, the former primary waits until the store has named another
primary as well.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

UNHEARD_US = 1_000_000
"""How long a former primary waits until it and all consumers hear the successor. Two primaries are
harmless, but they send everything twice. A successor that has said nothing for so long may have
been stopped."""

BEHIND_US = 10_000_000
"""How long it waits for a successor that is heard and does not catch up."""


@dataclass(slots=True)
class Handover:
    """A primary's knowledge of its successor.

    Attributes
    ----------
    epoch
        The newest epoch in which another replica is known to act.
    watermark_ms
        This primary's output watermark when it first heard of that epoch; None: it had no output.
    since_us
        When it first heard of that epoch.
    reached_ms, heard_us
        Up to where the successor says that its output is complete, and when it last said that;
        None: it has not said.
    heard_by
        Hosts of consumers that know the epoch.
    """

    epoch: int
    watermark_ms: int | None
    since_us: int
    reached_ms: int | None = None
    heard_us: int = 0
    heard_by: set[str] = field(default_factory=set[str])

    def hear(self, reached_ms: int, now_us: int) -> None:
        """Note how far the successor says it has come."""
        self.reached_ms = max(reached_ms, self.reached_ms or reached_ms)
        self.heard_us = now_us

    def is_over(self, consumers: Collection[str], now_us: int, *, confirmed: bool = False) -> bool:
        """Whether the successor can do alone.

        Parameters
        ----------
        consumers
            Hosts that demand the output.
        confirmed
            Whether the store has named another primary.
        """
        waited_us = now_us - self.since_us
        caught_up = self.watermark_ms is None or (
            self.reached_ms is not None and self.reached_ms >= self.watermark_ms
        )
        is_there = self.watermark_ms is None or now_us - self.heard_us <= UNHEARD_US
        if caught_up and (is_there or confirmed) and self.heard_by.issuperset(consumers):
            return True
        if not confirmed:
            return False
        is_behind = self.reached_ms is not None and not caught_up
        return waited_us >= (BEHIND_US if is_behind else UNHEARD_US)
