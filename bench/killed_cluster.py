"""A cluster of which a benchmark kills every process at once, and which it starts again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import vivace
from bench.registry import Figures, Settings
from bench.report import ROOT
from orchestrator.errors import VivaceError

PATIENCE_S = 240.0
LOOK_S = 0.1
CATCHES_UP_S = 1.0
"""How much of what came late a client sends as fast as it is taken."""

KILLS, QUICK_KILLS = 10, 3
FLOWS_S = 2.0, 8.0
"""A kill comes so long after results flow again."""


class KilledCluster:
    """A cluster that `vivace up` runs, and that can be killed as a whole.

    Parameters
    ----------
    folder
        Made; for its manifests and its data.
    cluster, rest
        Texts of the cluster's manifest, and of its streams and queries.
    """

    def __init__(self, folder: Path, cluster: str, rest: str) -> None:
        self.name, self.data, self._home = folder.name, folder / "data", folder / "home"
        folder.mkdir()
        self._manifest, self._rest = folder / "cluster.yaml", folder / "rest.yaml"
        self._manifest.write_text(cluster)
        self._rest.write_text(rest)

    @property
    def archive(self) -> Path:
        """What its sites keep."""
        return self.data / "archive"

    def begin(self) -> None:
        """Start it, and its query."""
        self.await_start(self.start())
        self.vivace("apply", "-f", str(self._rest))

    def start(self) -> subprocess.Popen[str]:
        """Begin to start it."""
        return self._begin("up", "-f", str(self._manifest), "--data", str(self.data))

    def await_start(self, starting: subprocess.Popen[str]) -> None:
        """Wait until `vivace up` has ended."""
        self._end(starting)

    def down(self) -> None:
        """End it."""
        self.vivace("down")

    def events(self) -> list[dict[str, Any]]:
        """Its history."""
        return json.loads(self.vivace("history", "--json", "--limit", "1000"))["history"]

    def began_anew(self) -> list[str]:
        """What the history says that was lost."""
        lost = [each for each in self.events() if each["kind"] in ("state lost", "input lost")]
        return [f"{each['kind']} {each['subject']}: {each['detail']}" for each in lost]

    def steps_s(self, began_us: float) -> dict[str, float]:
        """When the steps of resuming were done, after a moment, by the history."""
        steps = {"hosts": "node joined", "decided": "restored"}
        since = [each for each in self.events() if each["at_us"] > began_us]
        times_us = {
            name: [each["at_us"] for each in since if each["kind"] == kind]
            for name, kind in steps.items()
        }
        return {name: (max(each) - began_us) / 1e6 for name, each in times_us.items() if each}

    def kill(self) -> None:
        """Kill every process, the oldest first: it starts others again."""

        def none_is_left() -> bool:
            found = sorted(self.processes(), key=lambda each: each.create_time())
            for each in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            return not found

        await_(none_is_left)

    def processor_s(self) -> dict[int, float]:
        """Process → processor time that it has taken so far."""
        found: dict[int, float] = {}
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                taken = process.cpu_times()
                found[process.pid] = taken.user + taken.system
        return found

    def processes(self) -> Iterator[psutil.Process]:
        """All of them that run."""
        for process in psutil.process_iter(["cmdline", "environ", "status"]):
            line = " ".join(process.info["cmdline"] or [])
            environment: dict[str, str] = process.info["environ"] or {}
            if process.info["status"] != psutil.STATUS_ZOMBIE and (
                str(self.data) in line or environment.get("VIVACE_HOME") == str(self._home)
            ):
                yield process

    def vivace(self, *words: str, fine: Sequence[int] = (0,)) -> str:
        """What a verb prints.

        Raises
        ------
        VivaceError
            If its status is none that is `fine`.
        """
        return self._end(self._begin(*words), fine)

    def _begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", "from orchestrator.command import main; main()", *words],
            cwd=ROOT,
            env={**os.environ, "VIVACE_HOME": str(self._home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _end(self, process: subprocess.Popen[str], fine: Sequence[int] = (0,)) -> str:
        out, told = process.communicate(timeout=PATIENCE_S)
        if process.returncode not in fine:
            raise VivaceError(
                f"vivace ended with {process.returncode}: {told.strip() or out.strip()}"
            )
        return out


class SteadyClient:
    """A client that pushes at a steady rate, each batch until it is acknowledged.

    Parameters
    ----------
    stream, port
        Its name, and where its site takes tuples.
    batches
        Endless: tuples, and how long after them the next ones are due, s.
    """

    def __init__(self, stream: str, port: int, batches: Iterator[tuple[pa.Table, float]]) -> None:
        self._stream = vivace.site(f"http://127.0.0.1:{port}", patience_s=PATIENCE_S).stream(stream)
        self._batches = batches
        self._ends = threading.Event()
        self._failure: Exception | None = None
        self.acknowledged, self.newest = 0, pa.table({})
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def _push(self) -> None:
        try:
            due_s = time.monotonic()
            for rows, every_s in self._batches:
                if self._ends.wait(max(due_s - time.monotonic(), 0.0)):
                    return
                if rows.num_rows:
                    self._stream.send(rows)
                    self.acknowledged, self.newest = self.acknowledged + rows.num_rows, rows
                # What could not be sent while the cluster was away is not sent faster later.
                due_s = max(due_s + every_s, time.monotonic() - CATCHES_UP_S)
        except Exception as error:  # noqa: BLE001  Told by `check`.
            self._failure = error

    def check(self) -> None:
        """Fail if the client has given up."""
        if self._failure is not None:
            raise VivaceError(f"nothing is pushed any more: {self._failure}")

    def end(self) -> int:
        """Stop; returns how many tuples were acknowledged."""
        self._ends.set()
        self._thread.join()
        self.check()
        return self.acknowledged


@dataclass(slots=True)
class Restarts:
    """What was found of one system."""

    resume_s: list[float] = field(default_factory=list[float])
    steps_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Step of resuming → when it was done each time, after the start of the first process."""
    lost: int = 0
    repeated: int = 0
    checkpoint_bytes: int = 0
    """Of all checkpoints, at most right before a kill."""
    retained_bytes: int = 0
    """Of all journals, likewise."""

    def look(self, cluster: KilledCluster) -> None:
        """Note what its folders take, before a kill."""
        self.checkpoint_bytes = max(self.checkpoint_bytes, size(cluster.data / "state"))
        self.retained_bytes = max(self.retained_bytes, size(cluster.archive / "journal"))

    def resume(
        self, cluster: KilledCluster, done: Callable[[], bool], check: Callable[[], None]
    ) -> None:
        """Start a cluster that was killed, and wait until `done`; fails as soon as `check` does."""
        began_s, began_us = time.monotonic(), time.time() * 1e6
        starting = cluster.start()
        await_(done, check)
        self.resume_s.append(time.monotonic() - began_s)
        cluster.await_start(starting)
        for name, step_s in cluster.steps_s(began_us).items():
            self.steps_s.setdefault(name, []).append(step_s)

    @property
    def newest(self) -> str:
        """When the last start's steps were done, for people."""
        steps = [f"{name} {each[-1]:.1f} s" for name, each in self.steps_s.items()]
        return ", ".join([*steps, f"resumed {self.resume_s[-1]:.1f} s"])

    def figures(self, system: str) -> Figures:
        """Flat figures."""
        return {
            **{f"{system}.{name}_s_median": median(each) for name, each in self.steps_s.items()},
            f"{system}.resume_s_median": median(self.resume_s),
            f"{system}.resume_s_max": max(self.resume_s),
            f"{system}.kills": len(self.resume_s),
            f"{system}.lost": self.lost,
            f"{system}.repeated": self.repeated,
        }


@contextmanager
def killed_cluster(folder: Path, cluster: str, rest: str) -> Generator[KilledCluster]:
    """A cluster of which nothing is left afterwards, with its query; as `KilledCluster`."""
    found = KilledCluster(folder, cluster, rest)
    try:
        found.begin()
        yield found
    finally:
        if any(True for _ in found.processes()):
            found.kill()


def await_(done: Callable[[], bool], check: Callable[[], None] = lambda: None) -> None:
    """Wait; fails if it takes too long, or if `check` does."""
    until_s = time.monotonic() + PATIENCE_S
    while not done():
        check()
        if time.monotonic() > until_s:
            raise VivaceError(f"nothing has come for {PATIENCE_S:g} s")
        time.sleep(LOOK_S)


def size(folder: Path) -> int:
    """Bytes of its files."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def kill_again(
    cluster: KilledCluster,
    found: Restarts,
    settings: Settings,
    due: Callable[[], int],
    arrived: Callable[[], int],
    check: Callable[[], None],
    *,
    seed: int,
) -> list[str]:
    """Kill a cluster, and start it again, until it was killed often enough.

    Parameters
    ----------
    due, arrived
        How far clients have come that push, and the results; in one measure. Results flow again
        when they have reached what was due when the cluster was killed.
    check
        Fails if nothing is pushed any more.
    seed
        Of the moments.

    Returns
    -------
    What the history says that was lost.
    """
    rng = np.random.default_rng(seed)
    for kill in range(1, 1 + kills(settings)):
        time.sleep(rng.uniform(*FLOWS_S))
        settings.say(f"{cluster.name}: kill {kill}")
        found.look(cluster)
        cluster.kill()
        before = due()
        found.resume(cluster, lambda before=before: arrived() >= before, check)
        settings.say(f"{cluster.name}: {found.newest}")
    anew = cluster.began_anew()
    for each in anew:
        settings.say(f"{cluster.name}: {each}")
    return anew


def kills(settings: Settings) -> int:
    """How often everything is killed."""
    return QUICK_KILLS if settings.quick else KILLS
