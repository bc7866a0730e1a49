"""A real process fails as a drill's record asks it to, and goes on by itself where it can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import psutil
import pytest

from orchestrator.embedded.process_faults import FULL_BYTES
from tests.conftest import WaitUntil

pytestmark = pytest.mark.slow

PROGRAM = """
import signal, sys
from orchestrator.clock import now_us
from orchestrator.embedded.struck_process import EXECUTOR, StruckProcess
from orchestrator.records import StrikeKind, StrikeRecord
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import STRIKES
from orchestrator.store.strikes import StrikeLink

# What is asked is whether the signal comes: it ends the process at once, wherever that is.
signal.signal(signal.SIGINT, signal.SIG_DFL)
kind, lasts_s = StrikeKind[sys.argv[1]], float(sys.argv[2])
store, key = MemoryServer().connect(), STRIKES.key("here")
link = StrikeLink(store, "here", lambda: "1", now_us, StruckProcess(EXECUTOR))
asked = StrikeRecord(
    kind=kind, life="1", take_by_us=now_us() + 60_000_000, lasts_us=round(lasts_s * 1e6)
)
store.create(key, asked)
link.look()
said = False
while True:
    record = store.get(key).record
    if record.problem is not None:
        print("problem", record.problem, flush=True)
        sys.exit(1)
    if record.struck_us is not None and not said:
        said = True
        print("struck", flush=True)
    if sys.stdin in __import__("select").select([sys.stdin], [], [], 0.01)[0]:
        if not sys.stdin.readline():
            sys.exit(0)
        store.delete(key, 1)
        link.look()
        print("deleted", flush=True)
"""


@contextmanager
def asked(kind: str, lasts_s: float) -> Generator[subprocess.Popen[str]]:
    """A process that is asked to fail."""
    begun = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, str(lasts_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield begun
    finally:
        begun.kill()
        begun.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("kind", "number"), [("KILL", signal.SIGKILL), ("END", signal.SIGINT)])
def test_it_ends(kind: str, number: signal.Signals) -> None:
    with asked(kind, 0.0) as process:
        assert process.wait() == -number


def test_it_hangs_and_goes_on_by_itself(wait_until: WaitUntil) -> None:
    with asked("HANG", 2.0) as process:
        found = psutil.Process(process.pid)
        wait_until(lambda: found.status() == psutil.STATUS_STOPPED)
        wait_until(lambda: found.status() != psutil.STATUS_STOPPED)
        assert said(process) == "struck"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone limits processes")
@pytest.mark.parametrize("kind", ["FULL_DISK", "SLOW"])
@pytest.mark.parametrize("lasts_s", [0.5, 60.0])
def test_a_fault_ends_with_its_time_or_its_record(
    kind: str, lasts_s: float, wait_until: WaitUntil
) -> None:
    def suffers() -> bool:
        if kind == "SLOW":
            return found.cpu_affinity() != psutil.Process().cpu_affinity()
        return found.rlimit(psutil.RLIMIT_FSIZE)[0] == FULL_BYTES

    with asked(kind, lasts_s) as process:
        found = psutil.Process(process.pid)
        if lasts_s > 1.0:
            wait_until(suffers)
            assert process.stdin is not None
            process.stdin.write("delete\n")
            process.stdin.flush()
        assert said(process) == "struck"
        wait_until(lambda: not suffers())
        wait_until(lambda: not found.children(recursive=True))


def test_a_process_of_no_executor_says_so() -> None:
    with asked("KILL_EXECUTOR", 0.0) as process:
        assert (
            said(process) == f"problem process {process.pid} belongs to no Spark executor on "
            "this machine"
        )
