"""Benchmark `pod_memory`: what the processes of a pod take, while an example runs.

Each example runs on this machine as `vivace up` runs it. The processes that would share a pod are
put together: an executor's Java process with PySpark's daemon, the host and what the host starts; a
driver's two; a site, a coordinator, a server of ZooKeeper each alone. Of each process the greatest
resident size counts, so the sum is never less than what the pod takes at any moment. A Java
process's heap is left out: it has a size of its own, which somebody sets.

`limit_mib` is the container's limit as `vivace size` tells it for the same manifests. The benchmark
fails if a pod takes more, its heap included.

The figures of processes, such as `executor.host_mib`, belong into
`orchestrator/api/memory_sizes.json`: the greatest of all examples.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.cluster import running
from bench.nexmark_events import write
from bench.registry import Figures, Settings, benchmark
from examples import fetch
from orchestrator import api
from orchestrator.embedded.spark_processes import BACKEND, DRIVER
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from vivace.cluster import connect

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "aircraft": (".",),
    "collision-warning": (".",),
    "nexmark": ("cluster.yaml", "streams.yaml", "q5.yaml", "q8.yaml"),
}

RUN_S, QUICK_S = 600.0, 90.0

LOOK_S = 2.0

HEAP_END = 2**32
"""Java lays the heaps of these sizes below this address, and nothing else."""

COMMANDS = {
    "executor.java": BACKEND,
    "executor.daemon": "pyspark.daemon",
    "executor.trial": "orchestrator.host.shell.trial_process",
    "driver.java": DRIVER,
    "driver.pool": "orchestrator.deploy.host_pool",
    "site.host": "orchestrator.deploy.site",
    "coordinator.coordinator": "orchestrator.deploy.coordinator",
    "web.web": "orchestrator.web",
    "zookeeper.java": "QuorumPeerMain",
}
"""Part of a pod → the end of a word in the command of its process."""

CHILD = "web.child"
"""What web starts for what-if."""

PARTS = (*COMMANDS, "executor.host", CHILD)
"""All parts of pods."""

MIB = 2**20


@benchmark("pod_memory", kinds=EXAMPLES)
def pod_memory(settings: Settings) -> Figures:
    """Resident memory of each pod's processes while an example runs, beside what `size` allows."""
    figures: dict[str, float] = {}
    for example in settings.only or EXAMPLES:
        if example == "nexmark" and not (fetch.DATA / "nexmark-bids.parquet").exists():
            settings.say("nexmark: makes its recordings")
            write(fetch.DATA)
        manifests = load([fetch.EXAMPLES / example / each for each in EXAMPLES[example]])
        seen = PodSizes()
        with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:

            def progress(step: str, detail: str, example: str = example) -> None:
                settings.say(f"{example}: {step}: {detail[:80]}")

            with running(manifests, Path(folder), progress) as cluster:
                settings.say(f"{example}: runs")
                end_s = time.monotonic() + (QUICK_S if settings.quick else RUN_S)
                with ThreadPoolExecutor(1) as aside:
                    # Its process is web's, and may end with it.
                    asked = aside.submit(connect(cluster.api, cluster.token).what_if, load=1.5)
                    while time.monotonic() < end_s or not asked.done():
                        seen.look()
                        time.sleep(LOOK_S)
                asked.result()
        for part, size in _greatest(seen.parts).items():
            key = f"{part}_mib"
            figures[key] = max(figures.get(key, 0.0), size)
        pods = pod_figures(seen, api.cluster_sizes(manifests), example)
        figures |= {f"{example}.{key}": each for key, each in pods.items()}
    return figures


@dataclass(slots=True)
class PodSizes:
    """The greatest sizes that were seen.

    Attributes
    ----------
    parts
        Process of a pod by kind, such as `executor.host`, → process id → its greatest size, MiB.
    heaps
        The same of the heaps of Java processes.
    """

    parts: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    heaps: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def look(self) -> None:
        """Look at all processes of the cluster, which are below this one."""
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                if (part := _part(process)) is None:
                    continue
                taken = _peak_mib(process)
                if part.endswith(".java"):
                    heap = _resident_mib(process, _is_heap)
                    _raise(self.heaps[part], process.pid, heap)
                    taken = process.memory_info().rss / MIB - heap
                if part == "zookeeper.java":
                    # In a pod it starts without class data (`vivace-container`).
                    taken -= _resident_mib(process, _is_class_data)
                _raise(self.parts[part], process.pid, taken)


def _greatest(sizes: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Part → the greatest of its processes."""
    return {part: max(each.values()) for part, each in sorted(sizes.items())}


def pod_figures(seen: PodSizes, told: api.SizeDocument, example: str) -> dict[str, float]:
    """What each kind of pod took, and what it may.

    Raises
    ------
    VivaceError
        One took more, or a process of one was never seen.
    """
    parts, heaps = _greatest(seen.parts), _greatest(seen.heaps)
    # Queries that state all their estimates are not tried.
    if unseen := {*PARTS} - parts.keys() - {"executor.trial"}:
        raise VivaceError(f"pod_memory: {example}: no process was seen of {sorted(unseen)}")
    figures: dict[str, float] = {}
    for pod in told.processes:
        mine = f"{pod.process}."
        beside = sum(size for part, size in parts.items() if part.startswith(mine))
        heap = sum(size for part, size in heaps.items() if part.startswith(mine))
        if beside + heap > pod.limit_mib:
            raise VivaceError(
                f"pod_memory: {example}: a pod of {pod.process} took {beside + heap:,.0f} MiB, and "
                f"`vivace size` allows {pod.limit_mib:,} MiB. Measure memory_sizes.json anew."
            )
        figures |= {
            f"{mine}beside_heap_mib": beside,
            f"{mine}heap_mib": heap,
            f"{mine}limit_mib": pod.limit_mib,
        }
    return figures


def _raise(sizes: dict[int, float], pid: int, size: float) -> None:
    sizes[pid] = max(sizes.get(pid, 0.0), size)


def _part(process: psutil.Process) -> str | None:
    """Which part of which pod a process is; None: of none, such as what only guards another."""
    words = process.cmdline()
    if any(word.endswith("child_process.py") for word in words):
        return None
    for part, command in COMMANDS.items():
        if any(word.endswith(command) for word in words):
            if part != "executor.daemon":
                return part
            # Hosts are forked by the daemon, whose command they keep.
            parent = process.parent()
            above = [] if parent is None else parent.cmdline()
            return "executor.host" if any(word.endswith(command) for word in above) else part
    above = [parent.cmdline() for parent in process.parents()]
    return CHILD if any(COMMANDS["web.web"] in words for words in above) else None


def _peak_mib(process: psutil.Process) -> float:
    """The greatest resident size that a process has had."""
    for line in Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**10
    return 0.0


def _resident_mib(process: psutil.Process, counts: Callable[[int, str], bool]) -> float:
    """What is resident of those mappings of a process of which the end and the rest count."""
    resident_kib, now = 0, False
    for line in Path(f"/proc/{process.pid}/smaps").read_text("ascii", "replace").splitlines():
        first, _, rest = line.partition(" ")
        if "-" in first and not first.endswith(":"):
            now = counts(int(first.partition("-")[2], 16), rest)
        elif now and first == "Rss:":
            resident_kib += int(rest.split()[0])
    return resident_kib / 2**10


def _is_heap(end: int, rest: str) -> bool:
    return end <= HEAP_END and "/" not in rest


def _is_class_data(_end: int, rest: str) -> bool:
    return "/share/vivace/" in rest
