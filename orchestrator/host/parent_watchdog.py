"""How a host learns that the executor it belongs to is gone.

A host is a Python process forked by a daemon, which an executor's Java process started. When that
dies, the daemon reads end of file and hangs up on its children, so that a host normally ends
within a second. It must not depend on it: a daemon that was killed too, or is stuck, tells nobody,
and a host that lives on without its executor would answer for a node that Spark starts anew.
So the host itself looks, from its loop, at who its parents are.
"""

from __future__ import annotations

import os
import time

import psutil

LOOK_EVERY_S = 0.5
"""Asking who the parent's parent is takes about a millisecond: seldom enough not to matter."""


class ParentWatchdog:
    """Remembers who a process's parent and grandparent were.

    Create it when the process starts its work, in that process.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._grandparent = _parent_of(self._parent)
        self._look_at = time.monotonic()

    def parent_is_gone(self) -> bool:
        """Whether the parent or the grandparent has ended since; cheap enough for every turn.

        The kernel gives a process whose parent ended to another parent, so that unlike a look at
        whether some pid is alive this is not fooled by a pid that was given out again.
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
