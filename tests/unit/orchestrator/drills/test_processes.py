"""Drills strike the processes that they name, and not those that supervise them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orchestrator.drills.processes import ZOOKEEPER, zookeeper_processes
from orchestrator.embedded.child_process import ChildProcess
from tests.conftest import WaitUntil

SLEEPS = "import time; time.sleep(60)"


def test_a_supervisor_is_not_the_program_that_it_supervises(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    command = [sys.executable, "-c", SLEEPS, f"org.apache.{ZOOKEEPER}"]
    with ChildProcess(command, log=tmp_path / "log") as child:
        wait_until(lambda: bool(zookeeper_processes(os.getpid())))
        (found,) = zookeeper_processes(os.getpid())
        assert found.pid != child.pid
        assert found.cmdline() == command
