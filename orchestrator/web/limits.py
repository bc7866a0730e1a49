"""How much clients may ask: requests a second, event streams at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from orchestrator.web.failures import Busy, TooMany

REQUESTS_S = 50
"""Of one token; as many at once."""

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
