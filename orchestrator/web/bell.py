"""A bell that any thread rings, and that tasks of one event loop hear."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Bell:
    """Made in one thread, heard in the event loop that first listens."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake whoever listens."""
        if self._loop is not None:
            # At the end of the process there is nobody to wake.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ring)

    def listen(self) -> asyncio.Event:
        """What is set at the next ring: take it before looking, so that none is missed."""
        self._loop = self._loop or asyncio.get_running_loop()
        return self._rung

    def _ring(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()


async def heard(rung: asyncio.Event, at_most_s: float) -> None:
    """Wait for a ring, or for so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(rung.wait(), at_most_s)
