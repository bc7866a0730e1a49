"""Drills strike the processes that they name, and not those that supervise them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator.drills.processes import (
    COORDINATOR,
    ZOOKEEPER,
    coordinator_processes,
    zookeeper_processes,
)
from orchestrator.embedded.child_process import ChildProcess
from tests.conftest import WaitUntil

SLEEPS = "import time; time.sleep(60)"

Find = Callable[[int], list[psutil.Process]]


@pytest.mark.parametrize(
    ("find", "argument"),
    [(zookeeper_processes, f"org.apache.{ZOOKEEPER}"), (coordinator_processes, COORDINATOR)],
    ids=["zookeeper", "coordinator"],
)
def test_a_supervisor_is_not_the_program_that_it_supervises(
    find: Find, argument: str, tmp_path: Path, wait_until: WaitUntil
) -> None:
    command = [sys.executable, "-c", SLEEPS, argument]
    with ChildProcess(command, log=tmp_path / "log") as child:
        wait_until(lambda: bool(find(os.getpid())))
        (found,) = find(os.getpid())
        assert found.pid != child.pid
        assert found.cmdline() == command
