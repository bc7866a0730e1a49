"""Loads the compiled kernels of a host's engines without holding up its loop.

Loading takes seconds of processor time (`streams.panes.kernels`). A host begins with kernels that
give the same bits without being compiled, and goes over to the compiled ones once a thread of its
own has loaded them. A host without a statement that needs kernels never loads any.
"""

from __future__ import annotations

import threading

import psutil

from orchestrator.clock import thread_us
from streams.panes import kernels


class KernelLoader:
    """Loads them once, when the first statement asks for them."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._used_s = 0.0

    def attend(self) -> None:
        """Begin to load if it is time to; returns at once."""
        if self._thread is None and kernels.missing():
            self._thread = threading.Thread(target=self._load, name="kernels", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until a load that has begun is done."""
        if self._thread is not None:
            self._thread.join(seconds)

    def used_s(self) -> float:
        """Processor time that loading has taken so far, s. It is no load that stays."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            for each in psutil.Process().threads():
                if each.id == thread.native_id:
                    self._note(each.user_time + each.system_time)
        return self._used_s

    def _load(self) -> None:
        kernels.load()
        self._note(thread_us() / 1e6)

    def _note(self, used_s: float) -> None:
        self._used_s = max(self._used_s, used_s)
