"""Clocks of simulated machines and hosts: they may run fast or slow, and wall clocks may be set.

As on real machines, hosts never see their machine's wall clock being set. They go by its monotonic
clock, and by how much the wall clock was ahead of it when their process started.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

TICK_US = 100
"""Between two readings of a processor clock on which everything takes as long as anything."""


def ticking(step_us: int = TICK_US) -> Callable[[], int]:
    """A processor clock that goes on by as much at each reading."""
    return count(0, step_us).__next__


class Machine:
    """A machine's monotonic clock and wall clock, as functions of the world's.

    Parameters
    ----------
    name
        Leads the names of its boots.
    world_us
        The world's clock.

    Attributes
    ----------
    wall_ahead_us
        By how much the wall clock is ahead of the monotonic one.
    """

    def __init__(self, name: str, world_us: Callable[[], int]) -> None:
        self._name = name
        self._world_us = world_us
        self._boots = 0
        self._since_us = 0
        self._offset_us = 0
        self._drift_ppm = 0.0
        self.wall_ahead_us = 0

    @property
    def boot(self) -> str:
        """Names the machine until it is booted again."""
        return f"{self._name}/{self._boots}"

    def monotonic_us(self) -> int:
        """What the monotonic clock shows."""
        world_us = self._world_us()
        if not self._drift_ppm:
            return world_us + self._offset_us
        return world_us + self._ahead_us(world_us)

    def world_time_us(self, shown_us: int) -> int:
        """When the monotonic clock will show this, on the world's clock; at the earliest now."""
        now_us = self._world_us()
        remaining_us = shown_us - self.monotonic_us()
        return now_us + max(round(remaining_us / (1 + self._drift_ppm / 1e6)), 0)

    def set_wall(self, by_us: int) -> None:
        """Set the wall clock forwards or backwards."""
        self.wall_ahead_us += by_us

    def drift(self, ppm: float) -> None:
        """Let the clocks gain so many µs a second from now on."""
        world_us = self._world_us()
        self._offset_us = self._ahead_us(world_us)
        self._since_us = world_us
        self._drift_ppm = ppm

    def reboot(self) -> None:
        """Boot again: the monotonic clock starts at 0, the wall clock goes on."""
        shown_us = self.monotonic_us()
        self._offset_us -= shown_us
        self.wall_ahead_us += shown_us
        self._boots += 1

    def _ahead_us(self, world_us: int) -> int:
        if not self._drift_ppm:
            return self._offset_us
        return self._offset_us + round((world_us - self._since_us) * self._drift_ppm / 1e6)


class HostClock:
    """The clock of a process, which starts now."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._monotonic_us = machine.monotonic_us
        self.boot = machine.boot
        self.anchor_us = machine.wall_ahead_us

    def now_us(self) -> int:
        """What the clock shows."""
        return self._monotonic_us() + self.anchor_us

    def world_time_us(self, shown_us: int) -> int:
        """When the clock will show this time, on the world's clock; at the earliest now."""
        return self._machine.world_time_us(shown_us - self.anchor_us)
