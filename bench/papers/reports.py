"""The reports that the page rests on: benchmarks are run that have none of this commit.

Each runs in a process of its own. Those that measure times run alone; those whose figures are the
same on every machine then run side by side. A benchmark that fails leaves the reason in the place
of its figures, and the others go on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.registry import benchmarks
from bench.report import ROOT, commit

Report = dict[str, Any]
"""`benchmark`; `commit`, `arguments` and `figures`, or `failed`: why there are none, with the
`status` of its process if it was run; or figures and `status`, if they are not as required."""

LOG_LINES = 3
"""Last lines of a failed benchmark that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a benchmark is run for the papers.

    Attributes
    ----------
    part
        Names its report beside that of another run of the benchmark.
    alone
        Whether it measures times.
    whole, quick
        Its arguments, in a whole and in a quick run; None: not at all.
    """

    benchmark: str
    part: str = ""
    alone: bool = False
    whole: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ("--quick",)

    @property
    def report(self) -> str:
        """Name of its report."""
        return "_".join(filter(None, (self.benchmark, self.part)))

    def arguments(self, *, quick: bool) -> tuple[str, ...] | None:
        """Its arguments in this run."""
        return self.quick if quick else self.whole


def _only(*kinds: str) -> tuple[str, ...]:
    return tuple(word for kind in kinds for word in ("--only", kind))


PUSHED_DOWN = _only("fig5", "fig6", "naive")
EXECUTORS = _only("real", "real_burst", "real_deferred", "real_overdue")
FIGURES = _only("fig7", "fig8", "fig10", "fig12", "fig13", "zipf", "phi_10")
QUICK_FIGURES = ("--quick", *_only("fig7", "fig8", "fig10"))

RUNS = (
    Run(benchmark="worked_examples"),
    # Windows of twenty tuples, which a quick run of it has, say nothing.
    Run(benchmark="aggregates", alone=True, whole=PUSHED_DOWN, quick=PUSHED_DOWN),
    Run(benchmark="recursion", alone=True),
    Run(benchmark="deadline", alone=True, quick=("--quick", *_only("sim"))),
    Run(benchmark="batching", part="real", alone=True, whole=EXECUTORS, quick=None),
    Run(benchmark="batching", whole=FIGURES, quick=QUICK_FIGURES),
    Run(benchmark="reliable_placement"),
    Run(benchmark="periodic", alone=True, quick=("--quick", *_only("simulated", "order"))),
    Run(benchmark="batching_constants"),
    Run(benchmark="standby", whole=_only("model"), quick=None),
    Run(benchmark="coordinates", alone=True, whole=("--quick",), quick=None),
)


def reports(
    folder: Path, *, quick: bool, reuse: bool, say: Callable[[str], None]
) -> dict[str, Report]:
    """A report of each benchmark that the catalogue names.

    Parameters
    ----------
    folder
        Where they are kept.
    quick
        Fewer repetitions.
    reuse
        Take a report of another commit, too.
    say
        Takes a phrase that tells what is being done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Report] = {}
    wanted: list[tuple[Run, tuple[str, ...]]] = []
    known, now = benchmarks(), commit()
    for run in RUNS:
        name, arguments = run.report, run.arguments(quick=quick)
        if run.benchmark not in known:
            found[name] = {"failed": f"there is no benchmark {run.benchmark} yet"}
        elif arguments is None:
            found[name] = {"failed": "a quick run leaves it out"}
        elif (kept := _kept(folder / f"{name}.json", arguments)) is not None and (
            reuse or (kept["commit"] == now and not now.endswith("+"))
        ):
            say(f"{name}: the report of {kept['commit'][:8] or 'no commit'}")
            found[name] = kept
        else:
            wanted.append((run, arguments))

    def measure(run: Run, arguments: tuple[str, ...]) -> None:
        say(" ".join(["began", run.benchmark, *arguments]))
        begun = time.monotonic()
        report = _measured(run.benchmark, arguments, folder / f"{run.report}.json")
        taken_s = time.monotonic() - begun
        say(f"ended {run.benchmark}, {taken_s:.0f} s {report.get('failed', '')}".rstrip())
        found[run.report] = report

    for run, arguments in wanted:
        if run.alone:
            measure(run, arguments)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        side_by_side = [pool.submit(measure, *each) for each in wanted if not each[0].alone]
    for each in side_by_side:
        each.result()
    return {run.report: {"benchmark": run.benchmark, **found[run.report]} for run in RUNS}


def _kept(path: Path, arguments: tuple[str, ...]) -> Report | None:
    """The report of an earlier run with the same arguments."""
    try:
        report: Report = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return report if report.get("arguments") == list(arguments) else None


def _measured(name: str, arguments: tuple[str, ...], path: Path) -> Report:
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench", "run", name, *arguments, "--json", str(path)]
    log = path.with_suffix(".log")
    with log.open("w") as lines:
        done = subprocess.run(command, cwd=ROOT, stdout=lines, stderr=lines, check=False)
    if not path.exists():
        last = " ".join(log.read_text().split("\n")[-LOG_LINES - 1 :]).strip()
        return {"failed": f"it failed: {last}", "status": done.returncode}
    made = json.loads(path.read_text())
    report = {
        "commit": made["commit"],
        "arguments": list(arguments),
        "machine": made["machine"],
        "figures": made["figures"],
    }
    if done.returncode:
        report["status"] = done.returncode
    path.write_text(json.dumps(report, indent=2) + "\n")
    return report
