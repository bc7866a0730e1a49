"""Benchmark `cli`: how long verbs take that ask a cluster and end, each in a process of its own.

Two clusters of two nodes run, one of this tree and one of the last commit whose command line read
the store itself. Each verb is asked of both in turns. The median counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT
from orchestrator.errors import VivaceError

BEFORE = "9f80536e"

VERBS = {
    "status": ("status",),
    "history": ("history",),
    "metrics": ("metrics",),
    "plan": ("plan",),
    "help": ("--help",),
}

CLUSTER = """\
kind: Cluster
name: bench-cli
nodes: [Paris, London]
sites: [{name: desk, region: Paris}]
"""

TIMES, TIMES_QUICK = 15, 3


@benchmark("cli", kinds=VERBS)
def cli(settings: Settings) -> Figures:
    """Seconds that a verb takes that asks a cluster, and how many times that before."""
    figures: dict[str, float] = {}
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        trees = {"now": ROOT, "before": opened.enter_context(_before(folder))}
        for name, tree in trees.items():
            settings.say(f"starting the cluster of {tree}")
            opened.enter_context(_cluster(tree, folder / f"home-{name}"))
        for verb in settings.only or VERBS:
            taken_s: dict[str, list[float]] = {name: [] for name in trees}
            for number in range(1 + (TIMES_QUICK if settings.quick else TIMES)):
                settings.say(f"{verb}, {number}")
                for name, tree in trees.items():
                    began_s = time.monotonic()
                    _vivace(tree, folder / f"home-{name}", *VERBS[verb])
                    taken_s[name].append(time.monotonic() - began_s)
            # The first of each compiles and reads files that the others find in memory.
            medians_s = {name: median(each[1:]) for name, each in taken_s.items()}
            figures[f"{verb}.seconds"] = medians_s["now"]
            figures[f"{verb}.seconds_before"] = medians_s["before"]
            figures[f"{verb}.ratio"] = medians_s["now"] / medians_s["before"]
    return figures


@contextmanager
def _before(folder: Path) -> Generator[Path]:
    """The tree of the commit before."""
    tree = folder / "before"
    git = ["git", "-C", str(ROOT), "worktree"]
    try:
        subprocess.run(
            [*git, "add", "--detach", str(tree), BEFORE], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
        raise VivaceError(f"commit {BEFORE} cannot be checked out: {why}") from None
    try:
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=False, capture_output=True)


@contextmanager
def _cluster(tree: Path, home: Path) -> Generator[None]:
    manifest = home.with_suffix(".yaml")
    manifest.write_text(CLUSTER)
    _vivace(tree, home, "up", "-f", str(manifest))
    try:
        yield
    finally:
        _vivace(tree, home, "down")


def _vivace(tree: Path, home: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from orchestrator.command import main; main()", *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "VIVACE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise VivaceError(f"vivace {' '.join(words)} in {tree}: {done.stderr.strip()}")
