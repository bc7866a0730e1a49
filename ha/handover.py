"""When a primary that has been superseded stops sending: at a watermark of its successor.

A standby that becomes primary may be behind: its work waits for slack, and it had to hear of its
new role. If the former primary stopped at once, output would rest for as long. So it goes on until
its successor says that its own output has come as far as the former primary's had when the two met.
Both send meanwhile. They give identical tuples identical numbers, so consumers drop what they have.

Only a successor that is heard ends this. A plan alone never does: its host may not have read it
yet, and may never.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_US = 1_000_000
"""How long a former primary waits for a successor that others hear and it does not, or that does
not catch up. Two primaries are harmless, but what they send is sent twice."""


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
    """

    epoch: int
    watermark_ms: int | None
    since_us: int

    def is_over(self, reached_ms: int | None, now_us: int) -> bool:
        """Whether the successor can do alone.

        Parameters
        ----------
        reached_ms
            Up to where the successor says that its output is complete; None: it does not say.
        """
        caught_up = self.watermark_ms is None or (
            reached_ms is not None and reached_ms >= self.watermark_ms
        )
        return caught_up or now_us - self.since_us >= LONGEST_US
