"""`[UNBOUNDED]`: every tuple so far."""

from __future__ import annotations

from streams.operators.window import arrivals
from streams.state import State
from streams.vector import Delta, Frame


class UnboundedWindow:
    """Rows come and stay; there is nothing to remember."""

    def step(self, timestamp_ms: int, arrived: Frame, first_seq: int) -> Delta:
        """Take in what arrived."""
        return arrivals(arrived, first_seq)

    def next_expiry_ms(self) -> int | None:
        """Never."""
        return None

    def save(self) -> State:
        """Nothing."""
        return State()

    def load(self, state: State) -> None:
        """Nothing."""
