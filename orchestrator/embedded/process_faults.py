"""Faults of processes that end by themselves, whatever ends the process that asks for them.

A process may strike itself, and one that is stopped cannot go on by itself. A drill that strikes
servers of ZooKeeper may end at any moment: its terminal is closed (SIGHUP), or it is killed
(SIGKILL) and can undo nothing. So neither imposes such a fault itself. A *fault watchdog* does, a
process with a session of its own, which no signal of the terminal reaches. It ends the fault when
its time is over, or when whoever asked closes its end of a pipe, which the kernel does whatever
ends a process. If the watchdog alone is killed, whoever asked ends the fault. Only if both are
killed before the fault is over, it stays, until another drill has struck the same process.

To end a fault needs nothing that was read before it: the process gets what its parent has. So two
drills that strike one process leave nothing behind either.

This file is also the watchdog's program
(`python -m orchestrator.embedded.process_faults FAULT SECONDS PID…`).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

import psutil

from orchestrator.errors import VivaceError

RIVALS = 3
"""Busy processes that a slow host shares its processor with: it gets a quarter."""

BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"
"""Takes a processor until its parent has ended, whose number it is told: the parent may have ended
before it could ask."""

FULL_BYTES = 100
"""A file may not grow beyond this while the disk is full; a write that crosses it is cut short."""

READY, IMPOSED = b"ready\n", b"imposed\n"
"""What a watchdog says before it imposes the fault, and once the fault is there."""


class NotImposed(VivaceError):
    """A fault could not be imposed on a process."""

    exit_status = 1


@dataclass(frozen=True, slots=True)
class ProcessFault:
    """How a fault is imposed on a process, and ended.

    Attributes
    ----------
    impose
        What it adds to the stack is undone before the fault is ended.
    end
        May be called for a process that has no fault.
    """

    impose: Callable[[psutil.Process, ExitStack], None]
    end: Callable[[psutil.Process], None]


def _stop(process: psutil.Process, _rivals: ExitStack) -> None:
    process.suspend()


def _fill_disk(process: psutil.Process, _rivals: ExitStack) -> None:
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (FULL_BYTES, hard))


def _empty_disk(process: psutil.Process) -> None:
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    soft, _ = _parent(process).rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (soft, hard))


def _share_processor(process: psutil.Process, rivals: ExitStack) -> None:
    processors = [min(process.cpu_affinity() or ())]
    for _ in range(RIVALS):
        rival = busy_process()
        rivals.callback(rival.wait)
        rivals.callback(rival.kill)
        os.sched_setaffinity(rival.pid, processors)
    _bind(process, processors)


def busy_process() -> subprocess.Popen[bytes]:
    """A process that takes a processor for as long as this one runs."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", BUSY, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Hosts have sessions of their own, and Linux divides processors among sessions first.
        start_new_session=True,
    )


def _leave_alone(process: psutil.Process) -> None:
    _bind(process, _parent(process).cpu_affinity() or ())


def _bind(process: psutil.Process, processors: Sequence[int]) -> None:
    """Bind all threads: each has the processors of the one that started it."""
    for thread in process.threads():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread.id, processors)


def _parent(process: psutil.Process) -> psutil.Process:
    if (parent := process.parent()) is None:
        raise psutil.NoSuchProcess(process.pid)
    return parent


STOPPED, FULL_DISK, CROWDED = "stopped", "full-disk", "crowded"

FAULTS: Mapping[str, ProcessFault] = {
    STOPPED: ProcessFault(_stop, psutil.Process.resume),
    FULL_DISK: ProcessFault(_fill_disk, _empty_disk),
    CROWDED: ProcessFault(_share_processor, _leave_alone),
}


@contextmanager
def imposed(
    fault: str,
    processes: Sequence[psutil.Process],
    lasts_s: float,
    begin: Callable[[], None] = lambda: None,
) -> Generator[None]:
    """Impose a fault on processes for the time of a block, in which they may end.

    Parameters
    ----------
    fault
        `STOPPED`: by SIGSTOP. `FULL_DISK`: they can write nothing to their files. `CROWDED`: they
        share one processor with busy ones.
    lasts_s
        When the fault ends, although the block does not.
    begin
        Called when everything is prepared. What it raises is raised, and nothing is imposed.

    Raises
    ------
    NotImposed
        A process has ended, or belongs to somebody else.
    """
    pids = [str(each.pid) for each in processes]
    watchdog = subprocess.Popen(
        [sys.executable, "-m", __name__, fault, str(lasts_s), *pids],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        # An executor may have been told by Spark where packages are.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        with watchdog:
            assert watchdog.stdin is not None, "it is a pipe"
            _said(watchdog, fault)
            begin()
            with suppress(BrokenPipeError):
                watchdog.stdin.write(READY)
                watchdog.stdin.flush()
            _said(watchdog, fault)
            yield
    finally:
        if watchdog.returncode:
            # It was killed.
            for process in processes:
                _end(fault, process)


def _said(watchdog: subprocess.Popen[bytes], fault: str) -> bytes:
    """What a watchdog says next, if it is none of its errors."""
    assert watchdog.stdout is not None, "it is a pipe"
    said = watchdog.stdout.readline()
    if said not in (READY, IMPOSED):
        *_, why = (said + watchdog.stdout.read()).decode().splitlines() or ["no reason"]
        raise NotImposed(f"the fault {fault} could not be imposed: {why}")
    return said


def _end(fault: str, process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        FAULTS[fault].end(process)


def _watch(fault: str, lasts_s: float, pids: Sequence[int]) -> None:
    """Impose a fault until its time is over, or the other end of the standard input is closed."""

    def outlive(_number: int, _frame: FrameType | None) -> None:
        """Ignore it. With SIG_IGN, busy processes would do so, too."""

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, outlive)
    with ExitStack() as ends:
        processes = [psutil.Process(pid) for pid in pids]
        _say(READY)
        if sys.stdin.buffer.readline() != READY:
            return
        for process in processes:
            ends.callback(_end, fault, process)
            FAULTS[fault].impose(process, ends)
        _say(IMPOSED)
        select.select([sys.stdin], [], [], lasts_s)


def _say(what: bytes) -> None:
    # Who asked may have ended.
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(what)
        sys.stdout.flush()


if __name__ == "__main__":
    _watch(sys.argv[1], float(sys.argv[2]), [int(pid) for pid in sys.argv[3:]])
