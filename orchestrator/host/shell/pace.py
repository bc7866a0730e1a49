"""The rate at which a host sends states: not more bytes a second, over all its links together.

A state of hundreds of megabytes that comes to a new secondary shares the links with data. On one
machine, or where links are wide, the receiver's pace suffices (`orchestrator.host.shell.parts`).
Where they are not, the cluster's `stateRate` leaves the rest of a link to data, at the price of a
longer time until a new secondary is warm. A plan of moves may say less for the states that it moves
(`--throttle`); then the lesser of the two counts.
"""

from __future__ import annotations


class StatePace:
    """Tells when the next part of a state may be sent.

    A part is sent whole, and the parts after it wait until the rate has made up for it. Time in
    which nothing was sent is not saved up.

    Parameters
    ----------
    rate_bytes_s
        None: as fast as the receivers confirm.
    """

    def __init__(self, rate_bytes_s: float | None = None) -> None:
        self._rate_bytes_s = rate_bytes_s
        self.free_us = 0

    def allows(self, now_us: int) -> bool:
        """Whether a part may be sent now."""
        return now_us >= self.free_us

    def spend(self, sent_bytes: int, now_us: int) -> None:
        """Note that a part is sent."""
        if self._rate_bytes_s is not None:
            takes_us = round(sent_bytes * 1e6 / self._rate_bytes_s)
            self.free_us = max(self.free_us, now_us) + takes_us
