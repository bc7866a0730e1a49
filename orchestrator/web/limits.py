"""How much clients may ask: requests a second, those under way, event streams at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from orchestrator.web.failures import Busy, TooMany

T = TypeVar("T")

REQUESTS_S = 50
"""Of one token; as many at once."""

THREADS = 8
"""For what is quick, and as many for what is not: who waits for the leader holds up no reader."""

MOST_WAITING = 64
"""Requests that wait for one of these threads, and those that have one."""

REQUEST_S = 60.0
"""Time within which a result must be there that does not come later."""

MOST_STREAMS = 256
"""Clients that follow something at the same time."""

MOST_CLIENTS = 10_000
"""Whose rate is known; the one that has been silent longest is forgotten first."""


class RateLimit:
    """Each client's requests: a bucket that holds a second's, and fills again as time goes by."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, client: str) -> None:
        """Count a request.

        Raises
        ------
        TooMany
            There were too many in the last second.
        """
        now_s = self._now_s()
        left, at_s = self._left.pop(client, (float(REQUESTS_S), now_s))
        left = min(left + (now_s - at_s) * REQUESTS_S, REQUESTS_S)
        if len(self._left) >= MOST_CLIENTS:
            del self._left[next(iter(self._left))]
        self._left[client] = (max(left - 1, 0.0) if left >= 1 else left, now_s)
        if left < 1:
            raise TooMany(f"more than {REQUESTS_S} requests a second", retry_s=1)


class CallThreads:
    """Threads in which calls are made that a request waits for."""

    def __init__(self, name: str) -> None:
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._waiting = 0

    async def run(self, call: Callable[[], T]) -> T:
        """What a call returns.

        Raises
        ------
        Busy
            Too many wait already, or it took too long.
        """
        if self._waiting >= MOST_WAITING:
            raise Busy("too many requests are under way", retry_s=1)
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self.pool, call)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(future), REQUEST_S)
        except TimeoutError:
            if future.done():
                raise
            raise late() from None

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        noticed(future)


def late() -> Busy:
    """What to raise of what takes too long."""
    return Busy(f"it took longer than {REQUEST_S:.0f} s", retry_s=5)


def noticed(future: asyncio.Future[Any]) -> None:
    """Read a result that nobody may ask for: asyncio complains about errors that nobody reads."""
    if not future.cancelled():
        future.exception()


class StreamLimit:
    """The streams that are open."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self.open = 0

    @contextmanager
    def opened(self) -> Generator[None]:
        """Count a stream for as long as it is open.

        Raises
        ------
        Busy
            As many as may be are open.
        """
        if self.open >= self._most:
            raise Busy(f"{self._most} clients follow something already", retry_s=10)
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
