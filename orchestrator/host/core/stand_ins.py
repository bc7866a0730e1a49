"""Streams that come from a standby instead of their primary, as a problem of this host.

A host asks a standby to feed it if the standby has output that does not come from the primary. New
tuples show whether that is still so. A stream that was sent in one burst and then pauses shows
nothing. So the problem ends when nothing has come for a while, and is reported again if the next
tuples come from the standby.
"""

from __future__ import annotations

from collections.abc import Container

from orchestrator.host.core.events import Outbox

JUDGED_US = 5_000_000
"""For how long after its last data a stream counts as fed by the standby: several times as long as
a host waits for a primary, also on a busy machine."""


class StandIns:
    """The streams of which a host has told that a standby feeds it.

    Parameters
    ----------
    outbox
        Takes the reports.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._came_us: dict[str, int] = {}

    def asked(self, stream: str, standby: str, primary: str, now_us: int) -> None:
        """A standby was asked to feed this host, or does so."""
        if stream not in self._came_us:
            detail = (
                f"does not come from {primary}; {standby} feeds this host, and nothing is lost. "
                f"Look at the link from {primary} (`vivace topology`) and its load (`vivace top`)"
            )
            self._outbox.report("fed by standby", stream, detail)
        self._came_us[stream] = now_us

    def ended(self, stream: str, primary: str) -> None:
        """The primary feeds this host again."""
        self._came_us.pop(stream, None)
        self._outbox.report("fed by primary", stream, f"by {primary} again")

    def look(self, streams: Container[str], now_us: int) -> None:
        """End the problem of streams that have been quiet for a while.

        Parameters
        ----------
        streams
            Those that are read here.
        """
        for stream, came_us in [*self._came_us.items()]:
            if stream in streams and now_us - came_us < JUDGED_US:
                continue
            del self._came_us[stream]
            detail = f"nothing has come for {JUDGED_US / 1e6:.0f} s"
            self._outbox.report("stream rests", stream, detail)
