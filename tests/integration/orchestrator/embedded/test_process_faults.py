"""Faults of processes end, whatever ends who asked for them, and leave no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

import psutil
import pytest

from orchestrator.embedded.process_faults import (
    CROWDED,
    FULL_BYTES,
    FULL_DISK,
    STOPPED,
    NotImposed,
    imposed,
)
from tests.conftest import WaitUntil

SLEEPS = "import time; time.sleep(600)"

LONG_S = 600.0

TOKEN = "VIVACE_TEST_TOKEN"

CLIENT = """
import os, signal, subprocess, sys
import psutil
from orchestrator.embedded import process_faults

fault, moment, number, *pids = sys.argv[1:]
# Whoever runs the tests may have had it ignored (`nohup`).
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def die(at):
    if moment == at:
        os.kill(os.getpid(), int(number))
        signal.pause()


class Watchdog(subprocess.Popen):
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        die("before")

    def wait(self, timeout=None):
        die("ending")
        return super().wait(timeout)


process_faults.subprocess.Popen = Watchdog
with process_faults.imposed(fault, [psutil.Process(int(pid)) for pid in pids], 600.0):
    print("imposed", flush=True)
    if moment == "during":
        signal.pause()
"""
"""Imposes a fault, and dies at a moment; `during`, it waits for the test to kill it."""


def stopped(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_STOPPED


def full(process: psutil.Process) -> bool:
    return process.rlimit(psutil.RLIMIT_FSIZE)[0] == FULL_BYTES


def crowded(process: psutil.Process) -> bool:
    return process.cpu_affinity() != psutil.Process().cpu_affinity()


def alive(process: psutil.Process) -> bool:
    """Whether it runs; who ended may wait for a parent to take note of it."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


STRUCK: Mapping[str, Callable[[psutil.Process], bool]] = {
    STOPPED: stopped,
    FULL_DISK: full,
    CROWDED: crowded,
}
"""Fault → whether a process has it."""


def have(fault: str, struck: Sequence[psutil.Process]) -> bool:
    """Whether all have a fault. A signal takes a moment to arrive."""
    return all(STRUCK[fault](each) for each in struck)


def any_has(fault: str, struck: Sequence[psutil.Process]) -> bool:
    """Whether one of them has a fault."""
    return any(STRUCK[fault](each) for each in struck)


each_fault = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault,
            marks=pytest.mark.skipif(
                fault != STOPPED and not hasattr(os, "sched_setaffinity"),
                reason="Linux alone limits and binds other processes",
            ),
        )
        for fault in STRUCK
    ],
)

pytestmark = pytest.mark.slow


@contextmanager
def sleeping(count: int = 2) -> Generator[list[psutil.Process]]:
    """Processes that a fault can strike; they must be without one at the end."""
    begun = [subprocess.Popen([sys.executable, "-I", "-S", "-c", SLEEPS]) for _ in range(count)]
    try:
        yield [psutil.Process(each.pid) for each in begun]
    finally:
        for each in begun:
            each.kill()
            each.wait()


@contextmanager
def client(
    fault: str, moment: str, number: int, struck: Sequence[psutil.Process]
) -> Generator[tuple[subprocess.Popen[str], Callable[[], list[psutil.Process]]]]:
    """A process that imposes a fault; and those that it has left behind."""
    token = uuid.uuid4().hex
    pids = [str(each.pid) for each in struck]
    begun = subprocess.Popen(
        [sys.executable, "-c", CLIENT, fault, moment, str(number), *pids],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN: token},
    )

    def left() -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid != begun.pid and process.environ().get(TOKEN) == token:
                    found.append(process)
        return found

    try:
        yield begun, left
    finally:
        begun.kill()
        begun.communicate()
        for process in left():
            process.kill()


@each_fault
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["before", "during", "ending"])
def test_a_fault_ends_when_its_client_is_killed(
    fault: str, moment: str, number: signal.Signals, wait_until: WaitUntil
) -> None:
    with sleeping() as struck, client(fault, moment, number, struck) as (begun, left):
        assert begun.stdout is not None
        if moment == "during":
            assert begun.stdout.readline() == "imposed\n"
            wait_until(lambda: have(fault, struck))
            assert left()
            begun.send_signal(number)
        assert begun.wait() == -number
        wait_until(lambda: not left())
        assert not any_has(fault, struck)


@each_fault
def test_a_fault_ends_when_its_time_is_over(fault: str, wait_until: WaitUntil) -> None:
    """As where its client is stopped itself."""
    with sleeping() as struck, imposed(fault, struck, 0.2):
        wait_until(lambda: not any_has(fault, struck))


@each_fault
def test_a_fault_ends_with_its_block_although_its_watchdog_is_killed(
    fault: str, wait_until: WaitUntil
) -> None:
    known = set(psutil.Process().children())
    with sleeping() as struck:
        with imposed(fault, struck, LONG_S):
            (watchdog,) = set(psutil.Process().children()) - known - set(struck)
            rivals = watchdog.children()
            wait_until(lambda: have(fault, struck))
            watchdog.kill()
        assert not any_has(fault, struck)
        wait_until(lambda: not any(alive(each) for each in rivals))


@each_fault
def test_two_faults_of_one_process_leave_nothing_behind(fault: str, wait_until: WaitUntil) -> None:
    """Whichever ends first."""
    with sleeping() as struck:
        first, second = (imposed(fault, struck, LONG_S) for _ in range(2))
        first.__enter__()
        with second:
            wait_until(lambda: have(fault, struck))
            first.__exit__(None, None, None)
        assert not any_has(fault, struck)


@each_fault
def test_a_process_may_end_during_its_fault(fault: str) -> None:
    with sleeping() as struck:
        with imposed(fault, struck, LONG_S):
            struck[0].kill()
            struck[0].wait()
        assert not STRUCK[fault](struck[1])


def test_a_fault_of_a_process_that_is_gone_spares_the_others() -> None:
    with sleeping() as struck:
        struck[1].kill()
        struck[1].wait()
        with pytest.raises(NotImposed, match=f"stopped could not be imposed.*{struck[1].pid}"):
            imposed(STOPPED, struck, LONG_S).__enter__()
        assert not stopped(struck[0])


def test_a_crowded_process_shares_its_processor_with_three_busy_ones() -> None:
    known = set(psutil.Process().children(recursive=True))
    with sleeping(1) as struck:
        with imposed(CROWDED, struck, LONG_S):
            begun = set(psutil.Process().children(recursive=True)) - known - set(struck)
            alike = [each for each in begun if each.cpu_affinity() == struck[0].cpu_affinity()]
            assert len(alike) == 3
        assert set(psutil.Process().children(recursive=True)) - known == set(struck)
