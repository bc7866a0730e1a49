"""The cluster's clock, as one host reads it.

Everything that a host times for itself, it times on its own clock, which is never set. What other
processes read goes by the cluster's clock: when a stream starts, when a tuple has entered, when an
output has arrived, when a replica was lost. The leader tells each host by how much the cluster's
clock is ahead of its machine's (`orchestrator.control.observe.clocks`).
"""

from __future__ import annotations


class ClusterClock:
    """Turns times of the host's clock into the cluster's.

    Parameters
    ----------
    anchor_us
        By how much the host's clock is ahead of its machine's monotonic one.

    Attributes
    ----------
    ahead_us
        By how much the cluster's clock is ahead of the host's; 0 until that is known.
    known
        Whether it is known.
    """

    def __init__(self, anchor_us: int = 0) -> None:
        self._anchor_us = anchor_us
        self.ahead_us = 0
        self.known = False

    def use(self, of_machine_us: int | None) -> None:
        """Adopt by how much the cluster's clock is ahead of the machine's monotonic one.

        None, if nobody knows, changes nothing.
        """
        if of_machine_us is not None:
            self.ahead_us, self.known = of_machine_us - self._anchor_us, True

    def at(self, own_us: int) -> int:
        """A time of the host's clock, on the cluster's."""
        return own_us + self.ahead_us
