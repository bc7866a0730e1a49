"""Where a replica that begins from nothing needs its input from."""

from __future__ import annotations

from msgspec import Struct

from foundation.bounds import EventTime


class Beginning(Struct, frozen=True, kw_only=True):
    """Where a replica that begins from nothing needs its input from.

    Attributes
    ----------
    after_ms
        The replica needs its input after this event time, because its windows reach back to there.
        `NO_WATERMARK`: all of it.
    delivered_ms
        Event time up to which sinks have kept all results that its output leads to. Later input
        that no producer has any more is lost. `NO_WATERMARK`: nobody knows.
    """

    after_ms: EventTime
    delivered_ms: EventTime
