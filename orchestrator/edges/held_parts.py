"""What the readers of a process hold: the parts of responses that they have not taken.

A reader that never reads holds one part, which its thread tries to send. All parts together are
bounded. Where they take more, the readers that have had theirs for longest drop their connections.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator

MOST_BYTES = 32 * 2**20
"""Of all parts, unless told otherwise."""


class HeldParts:
    """The parts that readers hold; for any thread.

    Attributes
    ----------
    most_bytes
        What they may take together. One part may always be held.
    size_bytes
        What they take.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._held: dict[object, tuple[int, Callable[[], None]]] = {}
        """Those that were held first come first."""

    @property
    def count(self) -> int:
        """How many readers hold one."""
        return len(self._held)

    @contextlib.contextmanager
    def holding(self, size_bytes: int, drop: Callable[[], None]) -> Generator[None]:
        """Hold a part until the end of a block.

        Parameters
        ----------
        drop
            Ends the reader's connection, so that the block ends soon.
        """
        key = object()
        slow: list[Callable[[], None]] = []
        with self._lock:
            self._held[key] = size_bytes, drop
            self.size_bytes += size_bytes
            while self.size_bytes > self.most_bytes and len(self._held) > 1:
                slow.append(self._release(next(iter(self._held))))
        for each in slow:
            each()
        try:
            yield
        finally:
            with self._lock:
                if key in self._held:
                    self._release(key)

    def _release(self, key: object) -> Callable[[], None]:
        size_bytes, drop = self._held.pop(key)
        self.size_bytes -= size_bytes
        return drop
