"""Ends a host whose executor is gone.

A host is a Python process that was forked by a daemon, which in turn was started by the Java
process of an executor. When that Java process dies, the daemon normally reads end of file and
terminates its children within a second. If the daemon was killed too, or hangs, nobody terminates
the host, and it would go on for a node that Spark has started anew. The host's loop therefore
checks who its parents are.
"""

from __future__ import annotations

import os
import time

import psutil

LOOK_EVERY_S = 0.5
"""Interval between two checks of the grandparent: each takes about a millisecond."""


class ParentWatchdog:
    """Remembers who a process's parent and grandparent were.

    Create it when the process starts its work, in that process.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._grandparent = _parent_of(self._parent)
        self._look_at = time.monotonic()

    def parent_is_gone(self) -> bool:
        """Whether the parent or the grandparent has ended; cheap enough for every turn.

        When a parent ends, the kernel gives its children another parent. Comparing parents is
        therefore safe even if the pid of the old one is used again.
        """
        if os.getppid() != self._parent:
            return True
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_EVERY_S
        return _parent_of(self._parent) != self._grandparent


def _parent_of(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None
