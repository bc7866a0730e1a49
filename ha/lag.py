"""Whether a standby lags behind its primary for too long to be a protection.

The primary regularly tells its peer replica up to where its output is complete. A standby that has
not come as far after the allowed time lags: it could take over, but consumers would have to wait
until it has caught up. Only times of the standby's own host are compared, so neither clocks nor the
speed of event time matter.
"""

from __future__ import annotations

REPORT_US = 1_000_000
"""A lag this short is not reported: hosts report about once a second, and a long evaluation or
garbage collection is over by then."""


class StandbyLag:
    """How far one standby lags.

    Attributes
    ----------
    since_us
        Since when the primary has had output that this standby lacks, if that has lasted for too
        long; else None.
    """

    def __init__(self) -> None:
        self._target: tuple[int, int] | None = None
        self.since_us: int | None = None

    def observe(self, primary_ms: int, standby_ms: int, now_us: int, allowed_us: int) -> None:
        """Compare output watermarks. A lag ends when the standby is in time again.

        Parameters
        ----------
        primary_ms, standby_ms
            The watermarks, event time.
        allowed_us
            Lag that the recovery bound leaves room for. `REPORT_US` is added to it.
        """
        bound_us = allowed_us + REPORT_US
        if self._target is not None and standby_ms >= self._target[0]:
            if now_us - self._target[1] <= bound_us:
                self.since_us = None
            self._target = None
        if self._target is None and primary_ms > standby_ms:
            self._target = primary_ms, now_us
        if self._target is None:
            self.since_us = None
        elif self.since_us is None and now_us - self._target[1] > bound_us:
            self.since_us = self._target[1]

    def waits_us(self, now_us: int) -> int:
        """For how long the primary has had output that the standby lacks."""
        return 0 if self._target is None else now_us - self._target[1]

    def reset(self) -> None:
        """Start over: the replica is no standby."""
        self._target = self.since_us = None
