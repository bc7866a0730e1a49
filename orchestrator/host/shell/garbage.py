"""Garbage collection that does not stop a host for long.

The collector visits every container object of a generation. Young generations are small. The oldest
one contains all that a host keeps: with a state of hundreds of thousands of groups, one collection
of it takes a second, in which the host sends no heartbeat. States contain no reference cycles, so
such a collection frees nothing. The host therefore decides itself when to collect the oldest
generation: regularly, as long as the process has few objects. The price: cycles that outlive two
collections of the young generations stay while a large state is kept. They are rare, and small.

An observer is a host in somebody else's process, whose collections are that one's affair. Who
measures with it sets aside what the process holds meanwhile: a collection of that holds up the
observer for longer than many a takeover lasts.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager

COLLECT_EVERY_US = 10_000_000
"""Interval between two collections of the oldest generation."""

MOST_BLOCKS = 200_000
"""Blocks of memory allocated since the start with which a collection takes about 20 ms."""

NEVER = 2**31 - 1


def collect_young_only() -> None:
    """Have the interpreter collect the young generations only; what exists is never visited again.

    Loaded modules never become garbage.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


@contextmanager
def set_aside() -> Generator[None]:
    """Have the collector not visit what there is now, for the time of a block."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class FullCollections:
    """Collects the oldest generation of a host's process, where the interpreter does not.

    Parameters
    ----------
    now_us
        When the host starts.
    """

    def __init__(self, now_us: int) -> None:
        self._is_asked = gc.get_threshold()[2] == NEVER
        self._blocks = sys.getallocatedblocks()
        self._next_us = now_us + COLLECT_EVERY_US

    def attend(self, now_us: int) -> bool:
        """Collect if that is due and takes little time; returns whether it did."""
        if not self._is_asked or now_us < self._next_us:
            return False
        self._next_us = now_us + COLLECT_EVERY_US
        if sys.getallocatedblocks() - self._blocks > MOST_BLOCKS:
            return False
        gc.collect()
        return True
