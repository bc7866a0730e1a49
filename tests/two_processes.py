"""Runs the tests in two processes: `pytest -p tests.two_processes`.

The process that was called runs the tests of real parts, one after the other, which often wait.
Meanwhile a second one, which it starts, runs those that compute. Whoever is done with its own goes
on with tests that compute. A process claims the tests of one file at a time, so fixtures of modules
are made once. The second process reports every result to the first, which shows and counts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

FOLDER = "VIVACE_TESTS_SHARED_IN"
"""Environment variable that makes a process the second one: the folder of claims and reports."""

REAL = ("functional", "integration")
COMPUTING = ("simulation", "property", "unit")
"""Folders of tests, in the order in which they are run: small ones last, to end at one time."""

NICENESS = 5
"""Of the second process: tests of real parts, which run in real time, go first."""

END_S = 60.0
"""Time for the second process to end its test's fixtures when it is interrupted."""


class Share:
    """The tests that this process runs, file by file.

    Parameters
    ----------
    folder
        Where a process leaves a file for each file of tests that it claims.
    real
        Whether tests of real parts are among them.
    """

    def __init__(self, folder: Path, *, real: bool) -> None:
        self._folder = folder
        self._folders = (*REAL, *COMPUTING) if real else COMPUTING

    def claimed(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        """Tests of files that the other process has not claimed, which claims them."""
        files: dict[Path, list[pytest.Item]] = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        for path, tests in sorted(files.items(), key=lambda file: self._rank(file[1])):
            if self._kind(tests[0]) in self._folders and self._claim(path):
                yield from tests

    def _claim(self, path: Path) -> bool:
        try:
            (self._folder / quote(str(path), safe="")).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _rank(self, tests: list[pytest.Item]) -> tuple[int, bool]:
        """A file's place: starting Spark takes long, so its tests come first."""
        spark = any(test.get_closest_marker("spark") for test in tests)
        return (*REAL, *COMPUTING).index(self._kind(tests[0])), not spark

    @staticmethod
    def _kind(item: pytest.Item) -> str:
        """The folder that says what the test may use; a test elsewhere needs real parts."""
        below = item.path.relative_to(item.config.rootpath).parts
        return next((part for part in below if part in (*REAL, *COMPUTING)), REAL[0])


class First:
    """The process that was called."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._temporary = tempfile.TemporaryDirectory(prefix="vivace-tests-")
        self._folder = Path(self._temporary.name)
        self._reports = self._folder / "reports"
        self._reports.touch()
        self._read = 0
        self._reported: set[str] = set()
        with (self._folder / "output").open("wb") as output:
            self._second = subprocess.Popen(
                [sys.executable, "-m", "pytest", *config.invocation_params.args],
                cwd=config.invocation_params.dir,
                env={**os.environ, FOLDER: str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run this process's tests, then wait for the other's."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        if session.config.option.collectonly:
            return True
        for _ in run(session, Share(self._folder, real=True)):
            self._pass_on()
            stop_if_due(session)
        while self._second.poll() is None:
            self._pass_on()
            stop_if_due(session)
            time.sleep(0.1)
        self._pass_on()
        missing = [i.nodeid for i in session.items if i.nodeid not in self._reported]
        if missing:
            said = (self._folder / "output").read_text(errors="replace")
            raise RuntimeError(f"{said}\nThe second process has not run {', '.join(missing)}")
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test was run, here or there."""
        if report.when == "teardown":
            self._reported.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        """End the second process, if it still runs."""
        if self._second.poll() is None:
            self._second.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._second.wait(END_S)
            self._second.kill()
            self._second.wait()
        self._temporary.cleanup()

    def _pass_on(self) -> None:
        """Report here what the second process has reported since."""
        with self._reports.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                hook = self._config.hook
                report = hook.pytest_report_from_serializable(
                    config=self._config, data=json.loads(line)
                )
                hook.pytest_runtest_logreport(report=report)


class Second:
    """The process that the first one starts."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config = config
        self._folder = folder
        os.nice(NICENESS)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run this process's tests."""
        for _ in run(session, Share(self._folder, real=False)):
            stop_if_due(session)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell the first process."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with (self._folder / "reports").open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def run(session: pytest.Session, share: Share) -> Iterator[None]:
    """Run a share of the tests; yields after each."""
    claimed = share.claimed(session.items)
    item = next(claimed, None)
    while item is not None:
        following = next(claimed, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield
        item = following


def stop_if_due(session: pytest.Session) -> None:
    """End the run if a failure or a key says so."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def pytest_configure(config: pytest.Config) -> None:
    """Make this process the first or the second."""
    folder = os.environ.pop(FOLDER, None)
    config.pluginmanager.register(First(config) if folder is None else Second(config, Path(folder)))
