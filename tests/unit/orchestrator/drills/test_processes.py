"""Drills strike the processes that they name, and not those that supervise them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator.deploy.embedded.child_process import ChildProcess
from orchestrator.drills.processes import (
    COORDINATOR,
    ZOOKEEPER,
    coordinator_processes,
    crowded,
    zookeeper_processes,
)
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


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone binds threads")
def test_a_crowded_process_shares_one_processor_and_then_has_all_again(tmp_path: Path) -> None:
    with ChildProcess([sys.executable, "-c", SLEEPS], log=tmp_path / "log") as child:
        before, known = os.sched_getaffinity(child.pid), set(psutil.Process().children())
        with crowded(psutil.Process(child.pid)):
            assert len(os.sched_getaffinity(child.pid)) == 1
            assert len(set(psutil.Process().children()) - known) == 3
        assert os.sched_getaffinity(child.pid) == before
        assert set(psutil.Process().children()) <= known
