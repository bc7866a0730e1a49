"""Breaks the product on purpose, one line at a time, and checks that a test notices.

`tests/mutations.yaml` lists the breakages. Each is applied to a copy of the project, in which its
tests then run: the one that the list names first, then those that bear the file's name, the unit
and property tests of the package, and simulated faults. A breakage that no test notices is printed,
and the exit status is 1. One that is listed as harmless is not tried; the list says why.

A test notices a breakage if it fails with it and passes without it. It also fails if its module
cannot be imported any more, if its fixtures raise, or if it runs on beyond `LIMIT_S`. The tests
that the list names for a file run without a breakage first, all in one run; any other test that
seems to notice a breakage runs without it afterwards. A run that was killed says nothing, for the
machine may have had too little memory.

`make mutate`, or `python -m scripts.mutate PART …` for those whose file or text contains a PART.
`--record` has the list name the tests that noticed: a breakage whose test is known takes a second
or two, one whose test is not may take minutes. In parts: `--results FILE --minutes 30` as often as
it takes; each run goes on where the last one ended, and sums up all of them. Delete the file once
tests have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import FrameType

import pytest
import yaml
from hypothesis import Phase, settings
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.yaml"

COPIED = (
    *("orchestrator", "ha", "placement", "streams", "topology", "foundation", "vivace"),
    *("tests", "bench", "examples"),
)
LINKED = ("build", "pyproject.toml", "scripts", "docs", "typings")

ARRAYS = (
    "tests/property/streams/evaluate",
    "tests/property/streams/aggregates",
    "tests/unit/streams/evaluate",
    "tests/unit/streams/aggregates",
)

QUICK = {
    "ha": ("tests/unit/ha", "tests/property/ha", "tests/unit/orchestrator/host"),
    "orchestrator/host": ("tests/unit/orchestrator/host", "tests/property/ha"),
    "orchestrator/control": (
        "tests/unit/orchestrator/control",
        "tests/property/orchestrator/test_decide_properties.py",
    ),
    "orchestrator/edges/sources": ("tests/unit/orchestrator/edges/sources",),
    "orchestrator/edges/sinks": ("tests/unit/orchestrator/edges/sinks",),
    "orchestrator/store": ("tests/unit/orchestrator/store", "tests/unit/orchestrator/host"),
    "orchestrator/drills": ("tests/unit/orchestrator/drills",),
    "orchestrator/api": ("tests/unit/orchestrator/api",),
    "orchestrator": ("tests/unit/orchestrator",),
    "streams/evaluate/panes": ARRAYS,
    "streams/kernels": ARRAYS,
    "streams/aggregates": ARRAYS,
    "placement": ("tests/unit/placement",),
    "streams": ("tests/unit/streams", "tests/property/streams"),
    "topology": ("tests/unit/topology", "tests/property/topology"),
}
"""Folder → tests that should notice a breakage there."""

SLOW = (
    "tests/simulation/test_faults.py",
    "tests/simulation/test_link_cuts.py",
    "tests/simulation/test_back_pressure.py",
)
"""Tests for breakages that the quick ones do not notice."""

LIMIT_S = 300
"""Processor time for the tests of one breakage; the test that is running then fails."""

KILLED_S = LIMIT_S + 60
"""Processor time after which they are killed: compiled code that runs on hears of no limit."""

WAITS_S = 1800
"""Time after which they wait for something that never comes, even on a busy machine."""

SAID = "said.txt"
"""The file of a copy that holds what its tests print."""

NO_SUCH_TEST = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)

UNSHRUNK = (Phase.explicit, Phase.generate)
"""One example that fails is enough. They are the same each time, so that results are, too."""

LIBRARIES = [
    *("pytest", "hypothesis.strategies", "numba", "scipy.optimize", "pyarrow.compute"),
    *("pyarrow.parquet", "kazoo.client", "lark", "msgspec", "zmq", "rich.console"),
]
"""Libraries that most tests import, which takes longer than most tests."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One breakage: a text that occurs once in a file, and what replaces it.

    `test` noticed it the last time; `harmless` says why none can.
    """

    file: str
    text: str
    by: str
    test: str | None = None
    harmless: str | None = None

    @staticmethod
    def load() -> list[Mutation]:
        """The list, in its order."""
        listed: dict[str, list[dict[str, str]]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
        return [
            Mutation(file, entry["replace"], entry["by"], entry.get("test"), entry.get("harmless"))
            for file, entries in listed.items()
            for entry in entries
        ]

    @property
    def entry(self) -> dict[str, str]:
        """What the list says of it."""
        said = {
            "replace": self.text, "by": self.by, "test": self.test, "harmless": self.harmless,
        }  # fmt: skip
        return {key: value for key, value in said.items() if value is not None}

    @property
    def fits(self) -> bool:
        """Whether the file contains the text exactly once."""
        file = ROOT / self.file
        return file.exists() and file.read_text(encoding="utf-8").count(self.text) == 1

    @property
    def key(self) -> str:
        """What a result is known by: the breakage, and the text that it breaks."""
        sound = (ROOT / self.file).read_bytes() if self.fits else b""
        return hashlib.sha256(sound + repr((self.text, self.by)).encode()).hexdigest()[:24]

    @property
    def quick(self) -> tuple[str, ...]:
        """The tests that should notice it."""
        return next(tests for folder, tests in QUICK.items() if self.file.startswith(folder + "/"))

    @property
    def own(self) -> tuple[str, ...]:
        """The tests that bear the file's name. They need a few seconds, and notice most."""
        file = Path(self.file)
        named = (
            Path("tests/unit") / file.parent / f"test_{file.stem}.py",
            Path("tests/property") / file.parent / f"test_{file.stem}_properties.py",
        )
        return tuple(str(tests) for tests in named if (ROOT / tests).exists())

    def __str__(self) -> str:
        return f"{self.file}: {self.text.strip()!r} → {self.by.strip()!r}"


def written(mutations: Iterable[Mutation]) -> str:
    """The list as a file, without its opening comment."""
    lines = list[str]()
    for file, entries in groupby(mutations, lambda mutation: mutation.file):
        lines += ["", f"{file}:"]
        for mutation in entries:
            for number, (key, text) in enumerate(mutation.entry.items()):
                quoted = json.dumps(text, ensure_ascii=False)
                lines.append(f"{'    ' if number else '  - '}{key}: {quoted}")
    return "\n".join(lines) + "\n"


def record(results: Results) -> None:
    """Have the list name the tests that noticed."""

    def with_test(mutation: Mutation) -> Mutation:
        test = named(results.get(mutation) or "")
        return replace(mutation, test=test) if test else mutation

    opening = LIST.read_text(encoding="utf-8").split("\n\n", 1)[0]
    listed = written(map(with_test, Mutation.load()))
    LIST.write_text(f"{opening}\n{listed}", encoding="utf-8")


def copy(folder: Path) -> None:
    """Copy what tests import, and link what they only read."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


@contextmanager
def applied(mutation: Mutation, folder: Path) -> Generator[None]:
    """Break the copy for a while."""
    path = folder / mutation.file
    sound, since = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(sound.replace(mutation.text, mutation.by), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(sound, encoding="utf-8")
        # What was compiled of it bears the time.
        os.utime(path, ns=(since.st_atime_ns, since.st_mtime_ns))


def run_on(_: int, __: FrameType | None) -> None:
    """Fail the test that is running; the signal comes every second from the limit on."""
    pytest.fail(f"runs on beyond {LIMIT_S} s", pytrace=False)


def play(folder: Path, arguments: Sequence[str]) -> None:
    """Run tests of a copy, in a process that has not imported anything of the project yet."""
    signal.signal(signal.SIGXCPU, run_on)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, KILLED_S))
    os.chdir(folder)
    with open(SAID, "wb") as said:
        os.dup2(said.fileno(), sys.stdout.fileno())
        os.dup2(said.fileno(), sys.stderr.fileno())
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    settings.register_profile("mutate", deadline=None, derandomize=True, phases=UNSHRUNK)
    options = ("-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-profile", "mutate")
    sys.exit(pytest.main([*options, "-m", "not round_trip", *arguments]))


class Processes:
    """Run tests in processes that are forked from one which has imported the libraries."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(LIBRARIES)
        # The module looks at all its processes whenever one is started.
        self._lock = Lock()

    def run(self, folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
        """The exit status of pytest, negative for a signal, and what was printed."""
        process = self._context.Process(target=play, args=(folder, arguments))
        with self._lock:
            process.start()
        ended = wait([process.sentinel], WAITS_S)
        with self._lock:
            if not ended:
                process.kill()
            process.join()
        assert process.exitcode is not None
        return process.exitcode, (folder / SAID).read_text(encoding="utf-8")


class Unbroken:
    """Which tests pass without a breakage; each is asked for once."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._passes: dict[str, bool] = {}
        self._looked_at: defaultdict[str, Lock] = defaultdict(Lock)

    def look(self, file: str, tests: Iterable[str], folder: Path) -> None:
        """Run the tests that the list names for a file, all at once, if nobody has yet."""
        with self._looked_at[file]:
            if open_ones := sorted({*tests} - self._passes.keys()):
                status, said = self._processes.run(folder, open_ones)
                if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                    failed = {named(line) for line in failures(said)}
                    self._passes |= {test: test not in failed for test in open_ones}

    def passes(self, test: str, folder: Path) -> bool:
        """Whether a test, or a file of tests, passes in a copy that is not broken now."""
        if test not in self._passes:
            self._passes[test] = self._processes.run(folder, [test])[0] == pytest.ExitCode.OK
        return self._passes[test]


def failures(said: str) -> list[str]:
    """Lines of pytest's summary that name a test that failed, or a file that was not imported."""
    return [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def named(failure: str) -> str:
    """The test that a line of the summary names, without its parameters."""
    found = re.match(r"(?:FAILED|ERROR) ([^\s\[]+)", failure)
    return found[1] if found else ""


def noticed_by(
    mutation: Mutation, folder: Path, processes: Processes, unbroken: Unbroken
) -> str | None:
    """The first test that notices a breakage; None if none does."""
    known = (mutation.test,) if mutation.test else ()
    for tests in filter(None, (known, mutation.own, mutation.quick, SLOW)):
        failure = first_failure(mutation, tests, folder, processes, unbroken)
        if failure is not None:
            return failure
    return None


def first_failure(
    mutation: Mutation,
    tests: Sequence[str],
    folder: Path,
    processes: Processes,
    unbroken: Unbroken,
) -> str | None:
    """What pytest says of the first of some tests that fails, and passes without the breakage.

    Raises
    ------
    RuntimeError
        pytest itself fails.
    """
    left_out: list[str] = []
    while True:
        with applied(mutation, folder):
            status, said = processes.run(folder, ["-x", *tests, *left_out])
        if status <= 0 or status in NO_SUCH_TEST:
            return None
        failed = failures(said)
        if not failed:
            raise RuntimeError(f"the tests cannot start: {said}")
        test = named(failed[0])
        if unbroken.passes(test, folder):
            return failed[0].split(" - ")[0]
        option = f"--deselect={test}" if "::" in test else f"--ignore={test}"
        if option in left_out:
            return None
        left_out.append(option)


@dataclass(frozen=True, slots=True)
class Options:
    """Which breakages to try, and for how long.

    Attributes
    ----------
    parts
        A breakage is tried if its file or text contains one of them; without any, all are.
    results
        A file of results: what it knows is not tried again. None: nothing is known or kept.
    minutes
        After that long, no further one is begun; None: all are tried.
    jobs
        How many are tried at once.
    records
        Whether the list is to name the tests that notice.
    """

    parts: tuple[str, ...] = ()
    results: Path | None = None
    minutes: float | None = None
    jobs: int = os.cpu_count() or 1
    records: bool = False

    @staticmethod
    def of(arguments: Sequence[str]) -> Options:
        """The options of a command line."""
        parser = argparse.ArgumentParser(
            prog="scripts.mutate", description="Break the product one line at a time."
        )
        parser.add_argument("parts", nargs="*", metavar="PART", help="part of a file or text")
        parser.add_argument("--results", type=Path, help="keep results there, and go on from them")
        parser.add_argument("--minutes", type=float, help="begin none after so many minutes")
        parser.add_argument("--jobs", type=int, default=Options().jobs, help="how many at once")
        parser.add_argument("--record", action="store_true", help="list the tests that notice")
        given = parser.parse_args(arguments)
        parts = tuple(given.parts)
        return Options(parts, given.results, given.minutes, given.jobs, given.record)

    def selects(self, mutation: Mutation) -> bool:
        """Whether to try a breakage."""
        return not self.parts or any(part in str(mutation) for part in self.parts)


class Results:
    """Breakage → the test that noticed it, None if none did; kept in a file, a line each.

    A result holds for a text of the file that is broken, and is void once that has changed.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[str, str | None] = {}
        self._lock = Lock()
        for line in file.read_text(encoding="utf-8").splitlines() if file and file.exists() else ():
            key, test = json.loads(line)
            self._known[key] = test

    def add(self, mutation: Mutation, test: str | None) -> None:
        """Keep a result."""
        with self._lock:
            self._known[mutation.key] = test
            if self._file is not None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a", encoding="utf-8") as kept:
                    kept.write(json.dumps([mutation.key, test]) + "\n")

    def __contains__(self, mutation: Mutation) -> bool:
        return mutation.key in self._known

    def get(self, mutation: Mutation) -> str | None:
        """The test that noticed it; None if none did, or nobody has tried."""
        return self._known.get(mutation.key)


def try_all(mutations: Sequence[Mutation], results: Results, options: Options) -> None:
    """Try the breakages without a result, as long as there is time, and tell of each."""
    console = Console()
    open_ones = [mutation for mutation in mutations if mutation not in results]
    ends_s = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    folders: SimpleQueue[Path] = SimpleQueue()
    processes = Processes()
    unbroken = Unbroken(processes)
    tests = {
        file: [mutation.test for mutation in entries if mutation.test]
        for file, entries in groupby(open_ones, lambda mutation: mutation.file)
    }
    with tempfile.TemporaryDirectory(prefix="vivace-mutate-") as work:
        for number in range(options.jobs):
            (folder := Path(work) / str(number)).mkdir()
            copy(folder)
            folders.put(folder)

        def attempt(mutation: Mutation) -> None:
            if time.monotonic() >= ends_s:
                return
            folder = folders.get()
            try:
                unbroken.look(mutation.file, tests[mutation.file], folder)
                test = noticed_by(mutation, folder, processes, unbroken)
            finally:
                folders.put(folder)
            results.add(mutation, test)
            line = f"{mutation}\n      {test or 'NOBODY NOTICES'}"
            console.print(line, markup=False, soft_wrap=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            # Each result is asked for, so that an error in an attempt ends the run.
            for _ in pool.map(attempt, open_ones):
                pass


def main(arguments: Sequence[str] = ()) -> int:
    """Try breakages, and sum up.

    The exit status is 1 if one goes unnoticed or fits the code no more, 3 if some are left.
    """
    console = Console()
    options = Options.of(arguments)
    mutations = [mutation for mutation in Mutation.load() if options.selects(mutation)]
    if not mutations:
        console.print(f"No breakage has {' or '.join(options.parts)} in its file or text.")
        return 2
    if strayed := [mutation for mutation in mutations if not mutation.fits]:
        console.print("Not found exactly once:", *map(str, strayed), sep="\n  ", markup=False)
    mutations = [mutation for mutation in mutations if mutation.fits]
    tried = [mutation for mutation in mutations if mutation.harmless is None]
    results = Results(options.results)
    try_all(tried, results, options)
    if options.records:
        record(results)
    done = [mutation for mutation in tried if mutation in results]
    survivors = [mutation for mutation in done if results.get(mutation) is None]
    left, harmless = len(tried) - len(done), len(mutations) - len(tried)
    if survivors:
        console.print("Nobody notices:", *map(str, survivors), sep="\n  ", markup=False)
    noticed = f"{len(done) - len(survivors)} of {len(tried)} breakages noticed"
    console.print(f"{noticed}, {len(survivors)} not, {left} left to try, {harmless} harmless")
    if survivors or strayed:
        return 1
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
