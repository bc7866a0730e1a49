"""The `real` kinds of benchmark `batching`: policies, a burst and overload on Spark executors.

Evaluation takes as long as manifests say (`emulateCosts`), so loads are shares of a host whatever
the machine; what dispatching takes beside is real. All primaries run on one executor, all
secondaries on others.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import running
from foundation.arrays import IntArray
from orchestrator.api import Cluster, apply, delete
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.drills.measurement import sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from orchestrator.store.protocol import StoreError
from streams.vectors.chunk import TIMESTAMP

KINDS = ("real", "real_burst", "real_deferred", "real_overdue")

LOADS = (0.3, 0.6, 0.9)
"""Shares of the host that evaluations take."""

POLICIES = ("taat", "bts-1", "bts-2", "bts-4", "bts-8", "ats", "measured")
QUICK_POLICIES = ("taat", "bts-4", "measured")
FIXED = ("bts-1", "bts-2", "bts-4", "bts-8")
QUICK_FIXED = ("bts-1", "bts-8")

QUERIES, COST_US, DEADLINE_MS = 6, 400, 500
BURST_LOAD, BURST_FACTOR, BURST_S = 0.3, 5.0, 2.0

DEFERRED_QUERIES, DEFERRED_COST_US, CAPACITY_RATIO = 20, 1000, 1.3
DEFERRED_DEADLINES_MS, DEFERRED_S = (1000, 5000), 15.0
"""EDF can keep all deadlines of an overload that is shorter than 13 s: what is due first leaves the
rest 3 s on average."""
QUICK_FACTOR = 3
"""By which a quick run has shorter deadlines and a shorter overload, which leaves late shares as
they are."""
CAUGHT_UP_S = 5.0

OVERDUE_COST_US, OVERDUE_LOAD, OVERDUE_DEADLINE_MS = 1000, 0.5, 1000

INTERVAL_MS = 10
LOOK_S = 0.25
PATIENCE_S = 60.0

CLUSTER = """\
kind: Cluster
name: batching
nodes:
  - {{name: worker, region: here, domain: a}}
  - {{name: spare, region: here, domain: b}}
  - {{name: other, region: here, domain: c}}
sites: [{{name: edge, region: here}}]
batch: 10 ms
emulateCosts: true
admission: off
scheduling: {scheduling}
"""

STREAM = """\
---
kind: Stream
name: {name}
site: edge
columns: {{number: int}}
rate: {rate} B/s
burst: {burst}
overdue: {overdue}
from:
  replay:
    path: {name}.parquet
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:00:{end_s:06.3f}Z"
    interval: {interval} ms
"""

QUERY = """\
---
kind: Query
name: {query}
deadline: {deadline} ms
recovery: 1 s
overdue: {overdue}
batching: {policy}
outputs: {{{name}_out: edge}}
primaries: {{{name}_out: [worker]}}
estimates: {{{name}_out: {{cost: {cost} us}}}}
statements: |
  REGISTER QUERY {name}_out RSTREAM(SELECT number FROM {name}_in [NOW]);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a phase runs: queries that forward what enters, each with a stream of its own.

    Attributes
    ----------
    name
        Of the phase; begins the names of its queries.
    policy
        Of batching.
    times_ms
        Timestamps of each query's tuples, rising.
    deadlines_ms
        Of each query.
    cost_us
        Emulated, of a tuple.
    seconds
        How long the recordings are.
    """

    name: str
    policy: str
    times_ms: Sequence[IntArray]
    deadlines_ms: Sequence[float]
    cost_us: int
    seconds: float
    overdue: str = "keep"

    @property
    def queries(self) -> list[str]:
        """Names, as those of streams begin."""
        return [f"{self.name}_{number}" for number in range(len(self.times_ms))]


@dataclass(slots=True)
class Phase:
    """What was seen of a phase.

    Attributes
    ----------
    trace
        (time since the beginning, s; mean k; SDMR of the host, %).
    delivered_by
        Query → tuples.
    caught_up_s
        From when the last tuple was due to enter to the last result.
    """

    recorded: int
    overdue: int = 0
    delivered: int = 0
    late: int = 0
    lost: int = 0
    repeated: int = 0
    digest_differences: int = 0
    decided: int = 0
    missed: int = 0
    cpu_s: float = 0.0
    tuples: int = 0
    caught_up_s: float = 0.0
    trace: list[tuple[float, float, float]] = field(
        default_factory=list[tuple[float, float, float]]
    )

    @property
    def unaccounted(self) -> int:
        """Tuples by which recorded = overdue + delivered does not hold."""
        return abs(self.recorded - self.overdue - self.delivered)

    def figures(self, prefix: str) -> dict[str, float]:
        """Flat figures."""
        return {
            f"{prefix}.sdmr_pct": 100 * self.missed / max(self.decided, 1),
            f"{prefix}.overhead_us_tuple": 1e6 * self.cpu_s / max(self.tuples, 1),
            f"{prefix}.k_mean": float(np.mean([k for _, k, _ in self.trace] or [0.0])),
            f"{prefix}.late_pct": 100 * self.late / max(self.delivered, 1),
        }


@dataclass(slots=True)
class _Counted:
    """What a host has counted, and the processor time of its process, s."""

    counters: Mapping[str, int]
    cpu_s: float

    @staticmethod
    def of(view: ClusterView, node: str) -> _Counted:
        found = view.hosts.get(node)
        if found is None:
            return _Counted({}, 0.0)
        return _Counted(dict(found.counters), _cpu_s(found.pid))


def _cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def steady(rng: np.random.Generator, rate_s: float, seconds: float) -> IntArray:
    """Timestamps at random, so many a second."""
    count = round(rate_s * seconds)
    return np.sort(rng.integers(1, round(seconds * 1000), count))


def with_burst(
    rng: np.random.Generator, rate_s: float, seconds: float, burst: tuple[float, float]
) -> IntArray:
    """The same, and `BURST_FACTOR` times as many from a time, for a time."""
    begin_s, lasts_s = burst
    more = steady(rng, (BURST_FACTOR - 1) * rate_s, lasts_s) + round(begin_s * 1000)
    return np.sort(np.concatenate([steady(rng, rate_s, seconds), more]))


def _slug(query: str) -> str:
    return query.replace("_", "-")


def write(asked: Asked, folder: Path) -> Path:
    """Write recordings and manifests of a phase into a new folder; returns the manifests."""
    folder.mkdir()
    parts: list[str] = []
    for query, times_ms, deadline_ms in zip(
        asked.queries, asked.times_ms, asked.deadlines_ms, strict=True
    ):
        columns = {"timestamp": times_ms, "number": np.arange(len(times_ms))}
        parquet.write_table(pa.Table.from_pydict(columns), folder / f"{query}_in.parquet")
        rate = max(round(16 * len(times_ms) / asked.seconds), 1)
        parts.append(
            STREAM.format(
                name=f"{query}_in",
                rate=rate,
                burst=max(round(len(times_ms) / asked.seconds * INTERVAL_MS / 1000), 1),
                overdue=asked.overdue,
                end_s=asked.seconds,
                interval=INTERVAL_MS,
            )
        )
        parts.append(
            QUERY.format(
                query=_slug(query),
                name=query,
                deadline=deadline_ms,
                overdue=asked.overdue,
                policy=asked.policy,
                cost=asked.cost_us,
            )
        )
    path = folder / "phase.yaml"
    path.write_text("".join(parts))
    return path


class Rig:
    """A cluster that runs phases, one after the other."""

    def __init__(self, cluster: LocalCluster, folder: Path, say: Callable[[str], None]) -> None:
        self._cluster, self._folder, self._say = cluster, folder, say
        self._connected = Cluster(cluster.config, cluster.store)

    def run(
        self, asked: Asked, meanwhile: Callable[[ClusterView, float], None] | None = None
    ) -> Phase:
        """Apply the queries, watch until all results have come, and delete them."""
        self._say(f"real: {asked.name}")
        manifests = load([write(asked, self._folder / asked.name)])
        before = _Counted.of(read_view(self._cluster.store), "worker")
        apply(self._connected, manifests, on_progress=lambda step, detail: None)
        phase = Phase(recorded=sum(map(len, asked.times_ms)))
        view = self._watch(asked, phase, meanwhile)
        after = _Counted.of(view, "worker")
        if before.cpu_s and after.cpu_s >= before.cpu_s:
            grown = {
                name: after.counters.get(name, 0) - before.counters.get(name, 0)
                for name in ("arrivals_decided", "arrivals_missed", "tuples_in")
            }
            phase.decided, phase.missed, phase.tuples = grown.values()
            phase.cpu_s = after.cpu_s - before.cpu_s
        phase.digest_differences = sum(
            host.counters.get("divergences", 0) for host in view.hosts.values()
        )
        self._account(asked, phase, view)
        delete(self._connected, *map(_slug, asked.queries), on_progress=lambda step, detail: None)
        self._say(f"real: {asked.name}: {phase.figures('')}")
        return phase

    def _watch(
        self,
        asked: Asked,
        phase: Phase,
        meanwhile: Callable[[ClusterView, float], None] | None,
    ) -> ClusterView:
        outputs = {f"{query}_out" for query in asked.queries}
        begun_s: float | None = None
        give_up_s = time.monotonic() + asked.seconds + PATIENCE_S
        end_ms = round(asked.seconds * 1000)
        while True:
            with suppress(StoreError):
                view = read_view(self._cluster.store)
                sinks = view.hosts["edge"].sinks if "edge" in view.hosts else {}
                reached = [(sinks[o].kept_ms or 0) if o in sinks else 0 for o in outputs]
                if begun_s is None and max(reached) > 0:
                    begun_s = time.monotonic() - max(reached) / 1000
                if begun_s is not None:
                    at_s = time.monotonic() - begun_s
                    self._look(view, phase, outputs, at_s)
                    if meanwhile is not None:
                        meanwhile(view, at_s)
                if min(reached) >= end_ms:
                    sources = view.hosts["edge"].sources
                    phase.overdue = sum(sources[f"{q}_in"].overdue for q in asked.queries)
                    return view
            if time.monotonic() > give_up_s:
                raise VivaceError(f"{asked.name} has not come to its end")
            time.sleep(LOOK_S)

    @staticmethod
    def _look(view: ClusterView, phase: Phase, outputs: set[str], at_s: float) -> None:
        ks = [
            replica.batching.k
            for host in view.hosts.values()
            for name, replica in host.replicas.items()
            if name in outputs and replica.batching is not None
        ]
        sdmrs = [host.sdmr_pct for name, host in view.hosts.items() if name == "worker"]
        if ks:
            phase.trace.append((at_s, float(np.mean(ks)), max(sdmrs, default=0.0)))

    def _account(self, asked: Asked, phase: Phase, view: ClusterView) -> None:
        last_us, last_due_us = 0, 0
        for query, deadline_ms in zip(asked.queries, asked.deadlines_ms, strict=True):
            delivered = read_back(self._cluster.archive, f"{query}_out")
            faults = sequence_faults(delivered)
            phase.lost += faults.lost
            phase.repeated += faults.repeated
            phase.delivered += delivered.rows.num_rows
            start_us = view.entering[f"{query}_in"].running.start_at_us
            if not delivered.rows.num_rows or start_us is None:
                continue
            due_us, arrived_us = due_and_arrived_us(delivered, start_us)
            phase.late += int(np.count_nonzero(arrived_us - due_us > deadline_ms * 1000))
            last_us, last_due_us = max(last_us, arrived_us[-1]), max(last_due_us, due_us[-1])
        phase.caught_up_s = (last_us - last_due_us) / 1e6


def due_and_arrived_us(delivered: Delivered, start_us: int) -> tuple[IntArray, IntArray]:
    """When each tuple was due to enter, and when its result arrived, on the cluster's clock.

    A source that waits for a host that is overloaded brings tuples in later than they are due, and
    latencies count from there.
    """
    timestamps_ms = np.asarray(delivered.rows[TIMESTAMP].to_numpy(), dtype=np.int64)
    places = np.searchsorted(delivered.completed_column("watermark_ms"), timestamps_ms)
    return start_us + 1000 * timestamps_ms, delivered.completed_column("arrived_us")[places]


class Found:
    """Figures of phases, as they come."""

    def __init__(self) -> None:
        self.flat: dict[str, float] = {}
        self._phases: list[Phase] = []

    def add(self, phase: Phase, prefix: str) -> Phase:
        """Take a phase in, with the prefix of its figures."""
        self._phases.append(phase)
        self.flat |= phase.figures(prefix)
        return phase

    def summed(self) -> dict[str, float]:
        """All of them, with what must be 0."""
        found = self._phases
        return self.flat | {
            "real.lost": float(sum(each.lost for each in found)),
            "real.repeated": float(sum(each.repeated for each in found)),
            "real.unaccounted": float(sum(each.unaccounted for each in found)),
            # Hosts count since they have started.
            "real.digest_differences": float(max(each.digest_differences for each in found)),
        }


def real(
    kinds: Sequence[str], plot: Path | None, say: Callable[[str], None], *, quick: bool
) -> dict[str, float]:
    """Flat figures of some of `KINDS`."""
    found = Found()
    with _rig("edf", say) as rig:
        if "real" in kinds:
            for asked, prefix in _loads(quick=quick):
                found.add(rig.run(asked), prefix)
        if "real_burst" in kinds:
            traces: dict[str, list[tuple[float, float, float]]] = {}
            for policy in (*(QUICK_FIXED if quick else FIXED), "measured"):
                phase = found.add(rig.run(_burst(policy, quick=quick)), f"real.burst.{policy}")
                traces[policy] = phase.trace
            if plot is not None:
                plot_traces(traces, plot)
        if "real_deferred" in kinds:
            _run_deferred(rig, "deferred", found, quick=quick)
        if "real_overdue" in kinds:
            for name in ("calm", "burst", "kill"):
                prefix = f"real.overdue.{name}"
                phase = rig.run(_overdue(name), _kill_once() if name == "kill" else None)
                found.add(phase, prefix)
                found.flat |= {
                    f"{prefix}.recorded": float(phase.recorded),
                    f"{prefix}.overdue": float(phase.overdue),
                    f"{prefix}.delivered": float(phase.delivered),
                }
    if "real_deferred" in kinds:
        with _rig("edf-undeferred", say) as rig:
            _run_deferred(rig, "edf", found, quick=quick)
    return found.summed()


def _run_deferred(rig: Rig, name: str, found: Found, *, quick: bool) -> None:
    phase = found.add(rig.run(_deferred(name, quick=quick)), f"real.deferred.{name}")
    found.flat[f"real.deferred.{name}.caught_up_s"] = phase.caught_up_s


def violations(flat: Mapping[str, float]) -> Iterator[str]:
    """What the figures should show and do not: every tuple is accounted for, nothing is dropped
    without overload, deferring makes at most half as many late and all catch up, and `measured`
    misses no more of a burst than the best fixed k, but for a point."""
    for what in ("lost", "repeated", "unaccounted", "digest_differences", "overdue.calm.overdue"):
        if flat.get(f"real.{what}", 0.0):
            yield f"real: {what} {flat[f'real.{what}']:.0f}"
    deferred = flat.get("real.deferred.deferred.late_pct")
    if deferred is not None:
        if not (edf := flat["real.deferred.edf.late_pct"]):
            yield "real.deferred: not even under EDF is anything late"
        if deferred > edf / 2:
            yield "real.deferred: more than half as many are late as under EDF"
    if flat.get("real.deferred.deferred.caught_up_s", 0.0) > CAUGHT_UP_S:
        yield "real.deferred: not all have caught up"
    fixed = [
        value
        for key, value in flat.items()
        if key.startswith("real.burst.bts-") and key.endswith(".sdmr_pct")
    ]
    if fixed and flat["real.burst.measured.sdmr_pct"] > min(fixed) + 1.0:
        yield f"real.burst: measured misses more than the best fixed k, {min(fixed):.1f} %"


@contextmanager
def _rig(scheduling: str, say: Callable[[str], None]) -> Generator[Rig]:
    """A cluster that orders tasks in some way."""

    def progress(step: str, detail: str) -> None:
        say(f"real: {step}: {detail}")

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as name:
        folder = Path(name)
        path = folder / "cluster.yaml"
        path.write_text(CLUSTER.format(scheduling=scheduling))
        with running(load([path]), folder / "work", progress) as cluster:
            yield Rig(cluster, folder, say)


def _loads(*, quick: bool) -> Iterator[tuple[Asked, str]]:
    """Every policy at every load, with the prefix of its figures."""
    seconds = 3.0 if quick else 8.0
    for share in LOADS:
        rate_s = share * 1e6 / COST_US / QUERIES
        for policy in QUICK_POLICIES if quick else POLICIES:
            rng = np.random.default_rng(1)
            asked = Asked(
                name=f"load{share * 10:.0f}_{policy.replace('-', '_')}",
                policy=policy,
                times_ms=[steady(rng, rate_s, seconds) for _ in range(QUERIES)],
                deadlines_ms=[DEADLINE_MS] * QUERIES,
                cost_us=COST_US,
                seconds=seconds + 0.5,
            )
            yield asked, f"real.{share}.{policy}"


def _burst(policy: str, *, quick: bool) -> Asked:
    before_s = 1.0 if quick else 3.0
    seconds = 2 * before_s + BURST_S
    rate_s = BURST_LOAD * 1e6 / COST_US / QUERIES
    rng = np.random.default_rng(2)
    return Asked(
        name=f"burst_{policy.replace('-', '_')}",
        policy=policy,
        times_ms=[with_burst(rng, rate_s, seconds, (before_s, BURST_S)) for _ in range(QUERIES)],
        deadlines_ms=[DEADLINE_MS] * QUERIES,
        cost_us=COST_US,
        seconds=seconds + 0.5,
    )


def _deferred(name: str, *, quick: bool) -> Asked:
    factor = QUICK_FACTOR if quick else 1
    seconds = DEFERRED_S / factor
    rate_s = CAPACITY_RATIO * 1e6 / DEFERRED_COST_US / DEFERRED_QUERIES
    rng = np.random.default_rng(3)
    return Asked(
        name=f"overload_{name}",
        policy="measured",
        times_ms=[steady(rng, rate_s, seconds) for _ in range(DEFERRED_QUERIES)],
        deadlines_ms=[
            round(each / factor) for each in np.linspace(*DEFERRED_DEADLINES_MS, DEFERRED_QUERIES)
        ],
        cost_us=DEFERRED_COST_US,
        seconds=seconds + CAUGHT_UP_S,
    )


OVERDUE_BEFORE_S, OVERDUE_SECONDS = 2.0, 7.0


def _overdue(name: str) -> Asked:
    rate_s = OVERDUE_LOAD * 1e6 / OVERDUE_COST_US
    rng = np.random.default_rng(4)
    burst = OVERDUE_BEFORE_S, BURST_S
    times_ms = (
        steady(rng, rate_s, OVERDUE_SECONDS)
        if name == "calm"
        else with_burst(rng, rate_s, OVERDUE_SECONDS, burst)
    )
    return Asked(
        name=f"overdue_{name}",
        policy="measured",
        times_ms=[times_ms],
        deadlines_ms=[OVERDUE_DEADLINE_MS],
        cost_us=OVERDUE_COST_US,
        seconds=OVERDUE_SECONDS + 2.0,
        overdue="drop",
    )


def _kill_once() -> Callable[[ClusterView, float], None]:
    """Kills the process of the primary's executor in the middle of the burst."""
    killed: list[int] = []

    def kill(view: ClusterView, at_s: float) -> None:
        worker = view.hosts.get("worker")
        if not killed and worker is not None and at_s > OVERDUE_BEFORE_S + BURST_S / 2:
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    return kill


def plot_traces(traces: Mapping[str, Sequence[tuple[float, float, float]]], path: Path) -> None:
    """k and miss ratio of the host over time, by policy."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7, 6))
    above, below = figure.subplots(2, 1, sharex=True)
    for policy, trace in traces.items():
        at_s = [each[0] for each in trace]
        above.plot(at_s, [k for _, k, _ in trace], label=policy)
        below.plot(at_s, [sdmr for *_, sdmr in trace], label=policy)
    above.set_ylabel("k, batch units of 10 ms")
    below.set_ylabel("arrivals missed, %")
    below.set_xlabel("time of the recording, s")
    above.legend(fontsize=8)
    figure.savefig(path, dpi=110)
