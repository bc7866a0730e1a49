"""`vivace verify` with real Spark: what it reads and tells, and how it ends if it cannot go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.cli.invocation import EXIT_INTERRUPTED
from orchestrator.errors import EXIT_UNREACHABLE
from tests.conftest import WaitUntil

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = "tests.integration.orchestrator.api.verified_cluster"


class Verification:
    """The command, under way."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(folder), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def await_step(self, step: str) -> None:
        """Wait until it says that it is at a step."""
        assert self.process.stderr is not None
        while not (line := self.process.stderr.readline()).startswith(step):
            assert line

    def java(self) -> psutil.Process:
        """Its Spark."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        return next(each for each in below if each.name() == "java")

    def end(self) -> tuple[int, str, str]:
        """Exit status, output, and the rest of the messages."""
        out, err = self.process.communicate()
        return self.process.returncode, out, err


@pytest.fixture
def verifying(tmp_path: Path) -> Iterator[list[Verification]]:
    """Verifications, which are ended with the test."""
    made: list[Verification] = []
    yield made
    for each in made:
        each.process.kill()
        each.process.communicate()


def test_the_last_minutes_are_compared_and_rows_are_counted(
    tmp_path: Path, verifying: list[Verification]
) -> None:
    verifying.append(run := Verification(tmp_path))
    status, out, err = run.end()
    assert status == 0, err
    assert "span     the last 10 min of 1 h that are archived; --all compares everything" in out
    assert "input    north 30,001 tuples, from 1970-01-01 00:49:59.996 on: windows reach" in out
    assert "✓ alerts: 30,001 rows, equal row for row" in out
    assert "recomputing: evens, statement 1 of 2: 0 of 30,001 rows" in err


def test_everything_is_compared_and_with_json_nothing_else_is_printed(
    tmp_path: Path, verifying: list[Verification]
) -> None:
    verifying.append(run := Verification(tmp_path, "--all", "--json"))
    status, out, err = run.end()
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["begin_ms"], found["last_ms"], found["inputs"]) == (0, None, {"north": 180_001})
    assert found["outputs"][0]["archived"] == 180_001


def test_spark_that_is_killed_is_said_with_a_remedy(
    tmp_path: Path, verifying: list[Verification], wait_until: WaitUntil
) -> None:
    verifying.append(run := Verification(tmp_path, "--all"))
    run.await_step("recomputing")
    java = run.java()
    java.kill()
    status, out, err = run.end()
    assert (status, out) == (EXIT_UNREACHABLE, "")
    assert "Spark at this machine has ended while it computed results again (signal 9)" in err
    assert "bug" not in err
    assert "Traceback" not in err
    wait_until(lambda: not java.is_running())


@pytest.mark.parametrize("step", ["starting", "recomputing"])
def test_ctrl_c_ends_it_with_a_line(
    tmp_path: Path, verifying: list[Verification], step: str, wait_until: WaitUntil
) -> None:
    verifying.append(run := Verification(tmp_path, "--all"))
    run.await_step(step)
    below = psutil.Process(run.process.pid).children(recursive=True)
    run.process.send_signal(signal.SIGINT)
    status, out, err = run.end()
    assert (status, out) == (EXIT_INTERRUPTED, "")
    lines = [
        line for line in err.splitlines() if not line.startswith(("starting:", "recomputing:"))
    ]
    assert lines == ["stopped: proximity is not verified"]
    wait_until(lambda: not any(each.is_running() for each in below))
