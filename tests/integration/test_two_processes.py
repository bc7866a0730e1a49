"""Tests in two processes: each is run once, and nothing that the second process says is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COUNT = "import os; open('runs', 'a').write(f'{os.getpid()} {__name__}\\n')"

WAITS = """
import os, time
def test_waits_for_the_other_process():
    open('runs', 'a').write(f'{os.getpid()} {__name__}\\n')
    deadline = time.monotonic() + 60
    while len({line.split()[0] for line in open('runs')}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
def test_next_file_is_claimed_before_this_one():
    pass
"""


def run(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on files `functional/test_real.py` and `unit/test_NAME.py`."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        path = folder / ("functional" if name == "real" else "unit") / f"test_{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.two_processes"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_each_test_is_run_once_and_both_processes_take_part(tmp_path: Path) -> None:
    one = f"def test_once(): {COUNT}\n"
    done = run(tmp_path, real=WAITS, first=one, second=one)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
    runs = [line.split() for line in (tmp_path / "runs").read_text().splitlines()]
    assert sorted(name for _, name in runs) == ["test_first", "test_real", "test_second"]
    assert len({pid for pid, _ in runs}) == 2


@pytest.mark.slow
def test_a_failure_in_the_second_process_is_shown_and_counted(tmp_path: Path) -> None:
    fails = f"def test_fails():\n    {COUNT}\n    assert not 'a fault of the product'\n"
    done = run(tmp_path, real=WAITS, fails=fails)
    assert done.returncode == 1
    assert "assert not 'a fault of the product'" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


@pytest.mark.slow
def test_a_second_process_that_ends_early_is_not_passed_over(tmp_path: Path) -> None:
    ends = f"def test_ends():\n    {COUNT}\n    os._exit(0)\ndef test_never_run(): pass\n"
    done = run(tmp_path, real=WAITS, ends=ends)
    assert done.returncode not in (0, 1)
    assert "unit/test_ends.py::test_never_run" in done.stdout
