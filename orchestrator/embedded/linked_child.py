"""Child processes that compute for their parent, and talk with it through a socket.

The socket is the child's standard input: what the parent wants comes through it, and what the child
has found goes back.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.embedded.child_process import ChildProcess

NICENESS = 5
"""Hosts, at 0, get three times as much of a processor that both want. At 10 it would be nine times:
where a machine has much to do, starting alone took most of the time that a trial may last."""


def linked_child(program: Sequence[str]) -> tuple[ChildProcess, socket.socket]:
    """Start a program of this Python, with the modules of this process; its process and link."""
    link, other = socket.socketpair()
    path = os.pathsep.join(filter(None, sys.path))
    with other:
        try:
            process = ChildProcess(
                program, log=None, stdin=other.fileno(), env={**os.environ, "PYTHONPATH": path}
            )
        except BaseException:
            link.close()
            raise
    return process, link


def yield_processors() -> None:
    """Have this process get out of the way of others."""
    os.nice(NICENESS)
    # Linux divides processors among sessions first, and such a process has one of its own.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS), encoding="ascii")
