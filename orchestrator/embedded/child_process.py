"""Processes that never outlive the process that started them.

A parent that is killed (SIGKILL, out of memory) cannot end its children, and a "die with the
parent" flag exists on Linux only. A pipe works everywhere, because the kernel closes the dead
parent's end. Every program therefore runs under a small supervisor that holds the other end of a
pipe. At end of file the supervisor ends the program; a byte through the pipe makes it kill the
program at once. Program and supervisor have a process group of their own. A Ctrl-C at the terminal
reaches neither, so the parent decides the order in which processes end. Processes below the program
may have begun sessions of their own; what is ended in order ends with them, too.

This file is also the supervisor's program (`python child_process.py DESCRIPTOR SIGNAL COMMAND…`).
It imports only the standard library, so it starts fast and needs no search path.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from psutil import Process

ORPHAN_GRACE_S = 3.0
"""Time for a program whose parent died to end in order, before it is killed."""

KILL_WAIT_S = 10.0
"""Time for a supervisor to kill its program and end, before the supervisor is killed."""


class ChildProcess:
    """A running program, with all processes that it starts; they end when this process does.

    Parameters
    ----------
    args
        The command.
    log
        File its standard output and error are appended to; None: they go where this process's go.
    stdin
        What it reads; nothing if not given.
    env
        Its environment; this process's own if not given.
    cwd
        Its working directory.
    ends_by
        The signal that ends it in order.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        log: Path | None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ends_by: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._ends_by = ends_by
        held, pipe = os.pipe()
        try:
            with contextlib.nullcontext() if log is None else log.open("ab") as output:
                self._supervisor = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, str(held), str(int(ends_by)), *args],
                    stdin=stdin,
                    stdout=output,
                    stderr=output,
                    pass_fds=(held,),
                    start_new_session=True,
                    env=env,
                    cwd=cwd,
                )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(held)
        self._pipe: int | None = pipe

    @property
    def pid(self) -> int:
        """The supervisor's pid, which is also the process group's."""
        return self._supervisor.pid

    def poll(self) -> int | None:
        """Exit status of the program, 128 + n if signal n ended it; None while it runs."""
        return self._supervisor.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the program to end; its exit status.

        Raises
        ------
        subprocess.TimeoutExpired
            The program still runs.
        """
        return self._supervisor.wait(timeout_s)

    def kill(self) -> None:
        """Kill the program, as a crash would; the program is gone when this returns."""
        self._kill(())

    def _kill(self, below: Sequence[Process]) -> None:
        """Kill the program and its group, and further processes."""
        if self._pipe is None:
            return
        # The supervisor kills the program, waits for its end, and ends. The signal to the group
        # then reaches the processes that the program started.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, b"k")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(KILL_WAIT_S)
        self._signal(signal.SIGKILL)
        self._supervisor.wait()
        _kill_all(below)
        os.close(self._pipe)
        self._pipe = None

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask the program to end, and kill it after `timeout_s`; a second call does nothing."""
        if self._pipe is None:
            return
        below = self._below()
        if self._supervisor.poll() is None:
            self._signal(self._ends_by)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(timeout_s)
        # Even if the program has ended, processes that it started may not have.
        self._kill([*below, *self._below()])

    def _below(self) -> Sequence[Process]:
        """The processes below the supervisor, whatever their sessions."""
        import psutil

        try:
            return psutil.Process(self._supervisor.pid).children(recursive=True)
        except psutil.Error:
            return []

    def _signal(self, number: signal.Signals) -> None:
        # macOS reports EPERM, not ESRCH, when only zombies are left in the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._supervisor.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _kill_all(processes: Sequence[Process]) -> None:
    import psutil

    for each in processes:
        # psutil does not take another process that has got the number for it.
        with contextlib.suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(processes, KILL_WAIT_S)


def _supervise(held: int, ends_by: int, args: Sequence[str]) -> int:
    """Run the command until it ends or the parent does; its exit status."""

    def outlive(_number: int, _frame: FrameType | None) -> None:
        """Ignore signals to the group: the supervisor ends when the program does."""

    # A handler rather than SIG_IGN, which the program would inherit.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, outlive)
    try:
        program = subprocess.Popen(args)
    except OSError as error:
        print(f"{args[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 127

    def obey_parent() -> None:
        if os.read(held, 1):
            program.kill()
            return
        os.killpg(0, ends_by)
        time.sleep(ORPHAN_GRACE_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=obey_parent, daemon=True).start()
    status = program.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(_supervise(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
