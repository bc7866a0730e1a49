"""Child processes: how they end, above all when their parent cannot end them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from orchestrator.embedded.child_process import ChildProcess

stubborn = "trap '' TERM; echo $$ >pid; while :; do sleep 0.1; done"
"""A shell program that ignores requests to end."""

parent = """
import sys, time
from pathlib import Path
from orchestrator.embedded.child_process import ChildProcess
process = ChildProcess(["sh", "-c", sys.argv[1]], log=Path("log"), cwd=Path.cwd())
time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def pid_in(file: Path) -> int:
    return int(file.read_text() or 0) if file.exists() else 0


@pytest.mark.parametrize(
    ("program", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL)]
)
def test_exit_status_comes_through(program: str, status: int, tmp_path: Path) -> None:
    with ChildProcess(["sh", "-c", program], log=tmp_path / "log") as process:
        assert process.wait(30) == status


def test_output_goes_to_the_log_behind_what_is_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with ChildProcess(["sh", "-c", "echo out; echo err >&2"], log=log) as process:
        process.wait(30)
    assert log.read_text() == "before\nout\nerr\n"


def test_missing_program_says_so(tmp_path: Path) -> None:
    with ChildProcess([str(tmp_path / "none")], log=tmp_path / "log") as process:
        assert process.wait(30) == 127
    assert "No such file" in (tmp_path / "log").read_text()


def test_stop_ends_what_ignores_it_and_can_be_repeated(
    tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    process = ChildProcess(["sh", "-c", stubborn], log=tmp_path / "log", cwd=tmp_path)
    wait_until(lambda: pid_in(tmp_path / "pid") > 0)
    process.stop(timeout_s=0.1)
    process.stop()
    assert is_gone(pid_in(tmp_path / "pid"))
    assert process.poll() is not None


@pytest.mark.parametrize("waits", ["trap exit TERM; while :; do sleep 0.1; done", stubborn])
def test_stop_ends_processes_that_have_begun_sessions_of_their_own(
    waits: str, tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    """As a Spark driver does, whether the program that has started it ends in order or not."""
    apart = "import os, time; os.setsid(); open('apart', 'w').write(str(os.getpid()))"
    program = f'{sys.executable} -c "{apart}; time.sleep(600)" & {waits}'
    process = ChildProcess(["sh", "-c", program], log=tmp_path / "log", cwd=tmp_path)
    wait_until(lambda: pid_in(tmp_path / "apart") > 0)
    process.stop(timeout_s=0.5)
    assert is_gone(pid_in(tmp_path / "apart"))


def test_program_dies_with_a_killed_parent(
    tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    run = subprocess.Popen([sys.executable, "-c", parent, "echo $$ >pid; sleep 600"], cwd=tmp_path)
    wait_until(lambda: pid_in(tmp_path / "pid") > 0)
    program = psutil.Process(pid_in(tmp_path / "pid"))
    supervisor = program.ppid()
    run.kill()
    run.wait()
    wait_until(lambda: is_gone(program.pid) and is_gone(supervisor))


@pytest.mark.slow
def test_stubborn_program_dies_with_a_killed_parent(
    tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    run = subprocess.Popen([sys.executable, "-c", parent, stubborn], cwd=tmp_path)
    wait_until(lambda: pid_in(tmp_path / "pid") > 0)
    run.kill()
    run.wait()
    wait_until(lambda: is_gone(pid_in(tmp_path / "pid")))


def test_interrupt_at_the_terminal_is_left_to_the_parent(
    tmp_path: Path, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    with ChildProcess(
        ["sh", "-c", "echo $$ >pid; sleep 600"], log=tmp_path / "log", cwd=tmp_path
    ) as process:
        wait_until(lambda: pid_in(tmp_path / "pid") > 0)
        assert os.getpgid(pid_in(tmp_path / "pid")) == process.pid != os.getpgid(0)
