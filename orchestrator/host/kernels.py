"""Loads the compiled kernels of a host's engines without holding up its loop.

Loading takes seconds of processor time (`streams.panes.kernels`). A host begins with kernels that
give the same bits without being compiled, and goes over to the compiled ones once a thread of its
own has loaded them. A host without a statement that needs kernels never loads any.
"""

from __future__ import annotations

import threading

from streams.panes import kernels


class KernelLoader:
    """Loads them once, when the first statement asks for them."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def attend(self) -> None:
        """Begin to load if it is time to; returns at once."""
        if self._thread is None and kernels.missing():
            self._thread = threading.Thread(target=kernels.load, name="kernels", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until a load that has begun is done."""
        if self._thread is not None:
            self._thread.join(seconds)
