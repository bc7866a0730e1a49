"""Whether consumers hold a producer up, as people are told of it."""

from __future__ import annotations

from dataclasses import dataclass

THROTTLED_US = 2_000_000
"""How long a producer that was held up counts as throttled: hosts report about once a second, and
credit comes and goes several times meanwhile."""


@dataclass(slots=True)
class Throttle:
    """Whether a producer is held up now, or was lately."""

    held_up: bool = False
    _until_us: int = 0
    _now_us: int = 0

    def update(self, now_us: int, *, held_up: bool) -> None:
        """Note how it is now."""
        self.held_up, self._now_us = held_up, now_us
        if held_up:
            self._until_us = now_us + THROTTLED_US

    @property
    def lately(self) -> bool:
        """Whether it was held up a moment ago, for people to see."""
        return self._now_us < self._until_us
