"""When a primary that has been superseded stops sending: at a watermark of its successor.

A standby that becomes primary may be behind: its work waits for slack, and it had to hear of its
new role. Consumers may have yet to learn that it is a producer. If the former primary stopped at
once, output would rest for as long. So it goes on until its successor says that its own output has
come as far as the former primary's had when the two met, and until every consumer says that it
has heard the successor. Both send meanwhile. They give identical tuples identical numbers, so
consumers drop what they have.

Only a successor that is heard, by this host or by a consumer, ends this. A plan alone never does:
the successor's host may not have read it yet, and may never.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

UNHEARD_US = 1_000_000
"""How long a former primary waits for somebody who does not hear the successor, itself included.
Two primaries are harmless, but what they send is sent twice."""

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
        Up to where the own output was complete when that was first heard; None: there was none.
    since_us
        When it was first heard.
    reached_ms
        Up to where the successor says that its output is complete; None: it has not said.
    heard_by
        Hosts of consumers that know the epoch.
    """

    epoch: int
    watermark_ms: int | None
    since_us: int
    reached_ms: int | None = None
    heard_by: set[str] = field(default_factory=set[str])

    def is_over(self, consumers: Collection[str], now_us: int) -> bool:
        """Whether the successor can do alone.

        Parameters
        ----------
        consumers
            Hosts that demand the output.
        """
        waited_us = now_us - self.since_us
        caught_up = self.watermark_ms is None or (
            self.reached_ms is not None and self.reached_ms >= self.watermark_ms
        )
        if caught_up and self.heard_by.issuperset(consumers):
            return True
        is_behind = self.reached_ms is not None and not caught_up
        return waited_us >= (BEHIND_US if is_behind else UNHEARD_US)
