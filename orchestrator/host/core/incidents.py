"""Incidents at a host that the history keeps: failures of sources and sinks, and lost input.

A problem is shown as long as it lasts, and ends when a driver is opened again. The leader reads a
host's record now and then, and would miss a short problem. So the record also lists the last
incidents, with their causes.
"""

from __future__ import annotations

from collections import deque

from orchestrator.records import Incident

KEPT = 16
"""Incidents in a host's record: more than happen between two reports of it, but for a flood."""

SAME_US = 60_000_000
"""A cause that shows again within that time is the same incident: a driver is opened again and
again, every half a minute at the latest."""


class Incidents:
    """What has happened at one host lately."""

    def __init__(self) -> None:
        self._newest: deque[Incident] = deque(maxlen=KEPT)
        self._seen_us: dict[tuple[str, str, str], int] = {}

    @property
    def newest(self) -> tuple[Incident, ...]:
        """The last ones, oldest first."""
        return tuple(self._newest)

    def note(self, kind: str, subject: str, detail: str, now_us: int, at_us: int) -> None:
        """Note what has happened, unless it still lasts.

        Parameters
        ----------
        now_us, at_us
            On the host's clock, and on the cluster's.
        """
        self._seen_us = {of: us for of, us in self._seen_us.items() if now_us - us < SAME_US}
        of = kind, subject, detail
        if of not in self._seen_us:
            incident = Incident(at_us=at_us, kind=kind, subject=subject, detail=detail)
            self._newest.append(incident)
        self._seen_us[of] = now_us
