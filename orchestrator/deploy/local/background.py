"""Starting and ending a cluster's process in the background, from another process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.deploy.context import ClusterContext, withdraw
from orchestrator.deploy.local.service import (
    EXIT_BUG,
    Failed,
    Order,
    Ready,
    Step,
    encode_order,
    read_news,
)
from orchestrator.errors import VivaceError
from orchestrator.progress import Progress

END_TIMEOUT_S = 60.0
"""Time for a cluster to end in order; Spark takes most of it."""

LAST_WAIT_S = 10.0
"""Time for processes to outlive the process that started them, before they are killed."""


class NotStarted(VivaceError):
    """The cluster's process failed; carries its message and exit status."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def start(order: Order, on_progress: Progress) -> ClusterContext:
    """Start a cluster that outlives this process, and wait until it is ready.

    If the wait is interrupted, the cluster is ended again.

    Raises
    ------
    NotStarted
        With the message of the cluster's process.
    """
    handle, name = tempfile.mkstemp(prefix=f"vivace-{order.manifest.name}-", suffix=".log")
    log = Path(name)
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.deploy.local.service"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=handle,
        # In a session of its own, neither Ctrl-C nor the end of the terminal reaches it.
        start_new_session=True,
    )
    os.close(handle)
    try:
        context = _follow(process, order, on_progress, log)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    finally:
        # Only a crash of the interpreter writes to this file; the message then names it.
        if log.stat().st_size == 0:
            log.unlink()
    return context


def _follow(
    process: subprocess.Popen[bytes], order: Order, on_progress: Progress, log: Path
) -> ClusterContext:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(encode_order(order))
        process.stdin.close()
    for line in process.stdout:
        match read_news.decode(line):
            case Step(step=step, detail=detail):
                on_progress(step, detail)
            case Ready(context=context):
                return context
            case Failed(message=message, exit_status=status):
                process.wait()
                raise NotStarted(message, status)
    status = process.wait()
    raise NotStarted(
        f"the cluster's process ended with exit status {status} before it was ready; "
        f"its log is {log}",
        status if status > 0 else EXIT_BUG,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a cluster ended: the number of processes, and the pids of those that were killed."""

    processes: int
    killed: Sequence[int]


def end(context: ClusterContext, home: Path, timeout_s: float = END_TIMEOUT_S) -> Ending:
    """End a cluster; when this returns, its process and all processes below it are gone."""
    try:
        process = psutil.Process(context.pid)
        family = {process, *process.children(recursive=True)}
        process.terminate()
    except psutil.NoSuchProcess:
        withdraw(context.cluster, home)
        return Ending(processes=0, killed=())
    deadline = time.monotonic() + timeout_s
    while process.is_running() and time.monotonic() < deadline:
        # While the process ends it may start others, such as a host that Spark restarts.
        with contextlib.suppress(psutil.NoSuchProcess):
            family.update(process.children(recursive=True))
        psutil.wait_procs([process], timeout=0.2)
    # Executors end after their driver.
    _, left = psutil.wait_procs(list(family), timeout=LAST_WAIT_S)
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(left, timeout=LAST_WAIT_S)
    withdraw(context.cluster, home)
    return Ending(processes=len(family), killed=sorted(each.pid for each in left))
