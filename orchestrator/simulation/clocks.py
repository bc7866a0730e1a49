"""The clock of one simulated host: it may be off, run fast or slow, and be set."""

from __future__ import annotations

from collections.abc import Callable


class HostClock:
    """A host's clock, as a function of the world's.

    Parameters
    ----------
    world_us
        The world's clock.
    """

    def __init__(self, world_us: Callable[[], int]) -> None:
        self._world_us = world_us
        self._since_us = 0
        self._offset_us = 0
        self._drift_ppm = 0.0

    def now_us(self) -> int:
        """What the clock shows."""
        world_us = self._world_us()
        if not self._drift_ppm:
            return world_us + self._offset_us
        return world_us + self._ahead_us(world_us)

    def world_time_us(self, shown_us: int) -> int:
        """When the clock will show this time, on the world's clock; at the earliest now."""
        now_us = self._world_us()
        remaining_us = shown_us - self.now_us()
        return now_us + max(round(remaining_us / (1 + self._drift_ppm / 1e6)), 0)

    def step(self, by_us: int) -> None:
        """Set the clock forwards or backwards."""
        self._offset_us += by_us

    def drift(self, ppm: float) -> None:
        """Let the clock gain so many µs a second from now on."""
        world_us = self._world_us()
        self._offset_us = self._ahead_us(world_us)
        self._since_us = world_us
        self._drift_ppm = ppm

    def _ahead_us(self, world_us: int) -> int:
        if not self._drift_ppm:
            return self._offset_us
        return self._offset_us + round((world_us - self._since_us) * self._drift_ppm / 1e6)
