"""Breaks the product on purpose, one line at a time, and checks that a test notices.

`tests/mutations.yaml` lists the breakages. Each is applied to a copy of the project, in which its
tests then run: those that bear the file's name first, then the unit and property tests of the
package, then simulated faults. A breakage that no test notices within `LIMIT_S` is printed, and the
exit status is 1. One that is listed as harmless is not tried; the list says why.

`make mutate`, or `python -m scripts.mutate PART` for those whose file or text contains PART.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import yaml
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.yaml"

COPIED = (
    *("orchestrator", "ha", "placement", "streams", "topology", "vivace"),
    *("tests", "bench", "examples"),
)
LINKED = ("build", "pyproject.toml", "scripts", "docs", "typings")

QUICK = {
    "ha": ("tests/unit/ha", "tests/property/ha", "tests/unit/orchestrator/host"),
    "orchestrator/host": ("tests/unit/orchestrator/host", "tests/property/ha"),
    "orchestrator/control": (
        "tests/unit/orchestrator/control",
        "tests/property/orchestrator/test_decide_properties.py",
    ),
    "orchestrator/sources": ("tests/unit/orchestrator/sources",),
    "streams/panes": (
        "tests/property/streams/test_panes.py",
        "tests/unit/streams/test_panes.py",
        "tests/property/streams/test_newest_properties.py",
        "tests/property/streams/test_window_join_properties.py",
    ),
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
"""Processor time for the tests of one breakage; one that makes them run on counts as noticed."""

WAITS_S = 1800
"""Time after which they wait for something that never comes, even on a busy machine."""

LIMITED = ("/bin/sh", "-c", f'ulimit -t {LIMIT_S} && exec "$@"', "sh")
"""Ends a command once it has used its processor time."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One breakage: a text that occurs once in a file, and what replaces it."""

    file: str
    text: str
    by: str
    harmless: str | None = None

    @staticmethod
    def load() -> list[Mutation]:
        """The list, in its order."""
        listed: dict[str, list[dict[str, str]]] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
        return [
            Mutation(file, entry["replace"], entry["by"], entry.get("harmless"))
            for file, entries in listed.items()
            for entry in entries
        ]

    @property
    def fits(self) -> bool:
        """Whether the file contains the text exactly once."""
        return (ROOT / self.file).read_text(encoding="utf-8").count(self.text) == 1

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


def copy(folder: Path) -> None:
    """Copy what tests import, and link what they only read."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


@contextmanager
def applied(mutation: Mutation, folder: Path) -> Generator[None]:
    """Break the copy for a while."""
    path = folder / mutation.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(sound.replace(mutation.text, mutation.by), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(sound, encoding="utf-8")


def noticed_by(mutation: Mutation, folder: Path) -> str | None:
    """The first test that notices a breakage; None if none does."""
    with applied(mutation, folder):
        for tests in filter(None, (mutation.own, mutation.quick, SLOW)):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            environment = os.environ | {
                "PYTHONPATH": str(folder),
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            try:
                ran = subprocess.run(
                    [*LIMITED, *command, *tests],
                    cwd=folder, env=environment, capture_output=True, text=True, timeout=WAITS_S,
                    check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"{tests[0]} … does not end"
            if -ran.returncode in (signal.SIGXCPU, signal.SIGKILL):
                return f"{tests[0]} … does not end"
            if ran.returncode:
                failed = [x for x in ran.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
                if not failed:
                    raise RuntimeError(f"the tests cannot start: {ran.stdout}{ran.stderr}")
                return failed[0].split(" - ")[0]
    return None


def main(part: str = "") -> int:
    """Try the breakages; the exit status is 1 if one goes unnoticed."""
    console = Console()
    mutations = [m for m in Mutation.load() if part in str(m)]
    tried = [mutation for mutation in mutations if mutation.harmless is None]
    if strayed := [mutation for mutation in mutations if not mutation.fits]:
        console.print("Not found exactly once:", *map(str, strayed), sep="\n  ", markup=False)
        return 2
    folders: SimpleQueue[Path] = SimpleQueue()
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="vivace-mutate-") as work:
        for number in range(os.cpu_count() or 1):
            (folder := Path(work) / str(number)).mkdir()
            copy(folder)
            folders.put(folder)

        def attempt(mutation: Mutation) -> str | None:
            folder = folders.get()
            try:
                return noticed_by(mutation, folder)
            finally:
                folders.put(folder)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            results = zip(tried, pool.map(attempt, tried), strict=True)
            for number, (mutation, test) in enumerate(results, 1):
                survivors += test is None
                said = test or "NOBODY NOTICES"
                line = f"{number}/{len(tried)} {mutation}\n      {said}"
                console.print(line, markup=False, soft_wrap=True)
    harmless = len(mutations) - len(tried)
    console.print(
        f"{len(tried) - survivors} of {len(tried)} breakages noticed, {harmless} harmless"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
