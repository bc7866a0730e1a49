"""How fast a processor is: hosts measure it, and plans go by it."""

from __future__ import annotations

import msgspec

SPEEDS = (0.1, 4.0)
"""Least and greatest speed that is believed."""

BUSY_SHARES = (0.5, 0.7)
"""Shares of a machine's processors in use from which on a host begins to be CPU-starved, and is
fully so."""

HOST_CORES = 0.013
"""Processor time, at speed 1, of a host with nothing to do: heartbeats, probes, its record in the
store. Inferred: 0.042 where benchmark `density` shows a `speed` of 0.3 (`empty_host_cores`)."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Of a processor, as a mean over the last ten seconds or so.

    Attributes
    ----------
    ratio
        1: as fast as where costs were found.
    busy
        Share of the machine's processors in use, or of one by the thread itself, if that is more;
        0 to 1.
    """

    ratio: float = 1.0
    busy: float = 0.0

    @property
    def slowness(self) -> float:
        """How many times as long small batches should rest as where costs were found: the inverse
        of a ratio below 1, as far as the host is CPU-starved."""
        begins, full = BUSY_SHARES
        starved = min(max((self.busy - begins) / (full - begins), 0.0), 1.0)
        return 1.0 + starved * (1 / min(self.ratio, 1.0) - 1.0)
