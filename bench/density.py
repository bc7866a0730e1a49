"""Benchmark `density`: many small queries on one machine, first undisturbed, then a kill.

The workload is `bench.density_workload`; links are not those of a WAN. For each number of queries a
cluster is started, and the queries are applied, some at a time, until all are or admission refuses
further ones: as they are, and once more with leave to share what they compute, for many of them
compute the same. What follows is measured with those that were admitted. A quiet stretch of the
recording tells what replicas cost that receive nothing but watermarks, a busy one the latencies. No
host fails in either, so every suspicion and takeover is a false one. Then an executor is killed,
and the drill waits until every fragment has a warm secondary again.

A size that does not start or does not recover has the figures measured until then;
`<queries>.admitted` and `<queries>.recovered` tell.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import psutil

from bench.density_workload import (
    BOUND_MS,
    BUSY_S,
    HOSTS,
    QUICK_SIZES,
    QUIET_S,
    ROUND_S,
    SHARED_SIZES,
    SIZES,
    STREAM,
    output,
    workload,
)
from bench.registry import Settings, benchmark
from foundation.arrays import FloatArray
from orchestrator.api import Cluster, apply, status
from orchestrator.clock import now_us
from orchestrator.control.observe.measured_load import mean_speed
from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.overhead import idle_cores
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.drills.disturbances import fail_primary
from orchestrator.drills.kill_executor import Killed
from orchestrator.drills.measurement import outage, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import Refused, VivaceError
from orchestrator.manifest import Manifests
from orchestrator.store.protocol import Store

EMPTY_S = 3.0
"""How long the cluster is watched before it has queries."""

EDGE_S = 2.0
"""Left out at the beginning of a stretch: what the one before has left is still under way. Hosts
report their counters once a second."""

PORTION = 10
"""Queries that are applied at once."""

START_TIMEOUT_S = 60.0
LOOK_S = 0.2

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a cluster has used and counted so far.

    Attributes
    ----------
    at_us
        Cluster clock.
    hosts_s
        Processor time of the hosts of nodes and sites.
    total_s
        Processor time of all processes of the cluster.
    counters
        Sums of what the hosts count.
    """

    at_us: int
    hosts_s: float
    total_s: float
    counters: Counter[str]

    @staticmethod
    def read(store: Store) -> Usage:
        """As of now."""
        hosts = read_view(store).hosts.values()
        counters: Counter[str] = Counter()
        for host in hosts:
            counters.update(host.counters)
        return Usage(
            at_us=now_us(),
            hosts_s=sum(_processor_s(psutil.Process(host.pid)) for host in hosts),
            total_s=sum(map(_processor_s, psutil.Process().children(recursive=True))),
            counters=counters,
        )

    def since(self, before: Usage) -> Rates:
        """What was used a second since an earlier moment."""
        seconds = (self.at_us - before.at_us) / 1e6
        return Rates(
            hosts_cores=(self.hosts_s - before.hosts_s) / seconds,
            cores=(self.total_s - before.total_s) / seconds,
            messages_s=(self.counters - before.counters)["messages_sent"] / seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a cluster uses a second: processors of its hosts and of all its processes; messages."""

    hosts_cores: float
    cores: float
    messages_s: float


@benchmark("density", takes_sizes=True, kinds=("apart", "shared"))
def density(settings: Settings) -> Mapping[str, float]:
    """10 to 300 small queries on six nodes: latency, cost, false suspicions, and a kill."""
    figures: dict[str, float] = {}
    for share, kind, sizes in ((False, "apart", SIZES), (True, "shared", SHARED_SIZES)):
        if settings.only and kind not in settings.only:
            continue
        for queries in settings.sizes or (QUICK_SIZES if settings.quick else sizes):
            before = f"shared.{queries}" if share else f"{queries}"
            for key, value in _measure(settings, queries, share=share).items():
                figures[f"{before}.{key}"] = value
    return figures


def _measure(settings: Settings, queries: int, *, share: bool) -> dict[str, float]:
    manifests = workload(settings.folder, queries, share=share)
    assert manifests.cluster is not None
    figures: dict[str, float] = {"admitted": 0.0, "recovered": 0.0}
    killed: Killed | None = None
    admitted, busy_us = 0, (0, 0)

    def progress(step: str, detail: str) -> None:
        settings.say(f"{queries} queries: {step}: {detail[:80]}")

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        cluster = LocalCluster(manifests.cluster, Path(work), on_progress=progress)
        # A cluster that ends in disorder must not take the figures with it.
        with suppress(VivaceError), cluster:
            time.sleep(EDGE_S)
            before = Usage.read(cluster.store)
            time.sleep(EMPTY_S)
            empty = Usage.read(cluster.store).since(before)
            admitted = _apply(cluster, manifests, figures, settings.say)
            if not admitted:
                return figures
            idle = _stretch(cluster.store, 0.0, QUIET_S, progress)[0]
            busy, busy_us = _stretch(cluster.store, QUIET_S, BUSY_S, progress)
            cost_us_s = (idle.hosts_cores - empty.hosts_cores) * 1e6
            replicas = sum(
                len(each.record.replicas) for each in read_view(cluster.store).fragments.values()
            )
            figures |= {
                "replicas": float(replicas),
                "empty_host_cores": empty.hosts_cores / HOSTS,
                "idle_fragment_us_s": cost_us_s / replicas,
                "cpu_cores": busy.cores,
                "hosts_cores": busy.hosts_cores,
                "messages_s": busy.messages_s,
            }
            figures |= _false_alarms(cluster.store)
            figures |= _loads(cluster) | _overhead(cluster.store)
            with suppress(VivaceError):
                killed = fail_primary(cluster.store, None, progress)
                figures["recovered"] = 1.0
            time.sleep(EDGE_S)
        if busy_us[1]:
            delivered = {
                query.record.name: read_back(cluster.archive, output(number))
                for number, query in enumerate(manifests.queries[:admitted])
            }
            figures |= _latencies(list(delivered.values()), *busy_us)
            faults = [sequence_faults(one) for one in delivered.values()]
            figures |= {
                "lost": float(sum(each.lost for each in faults)),
                "repeated": float(sum(each.repeated for each in faults)),
            }
            if killed is not None:
                figures |= _recovery(killed, delivered)
    return figures


def _apply(cluster: LocalCluster, manifests: Manifests, figures: dict[str, float], say: Say) -> int:
    """Apply the queries, a portion at a time; returns how many run."""
    began = time.monotonic()
    client, queries = Cluster(cluster.config, cluster.store), manifests.queries
    admitted = 0
    try:
        for first in range(0, len(queries), PORTION):
            portion = queries[first : first + PORTION]
            apply(client, msgspec.structs.replace(manifests, queries=portion))
            admitted += len(portion)
            say(f"{admitted} of {len(queries)} queries run")
    except Refused as refused:
        say(str(refused))
        figures |= {
            f"refused.{name}": value
            for name, value in refused.figures.items()
            if isinstance(value, float)
        }
    except VivaceError as failed:
        say(str(failed)[:100])
        figures |= _false_alarms(cluster.store)
        return 0
    figures |= {
        "admitted": float(admitted == len(queries)),
        "admitted_queries": float(admitted),
        "applied_s": time.monotonic() - began,
    }
    return admitted


def _loads(cluster: LocalCluster) -> dict[str, float]:
    """What each host, and the machine that they share, should take and have taken lately."""
    figures: dict[str, float] = {}
    for load in status(Cluster(cluster.config, cluster.store)).loads:
        name = "machine" if load.is_machine else load.name
        figures[f"{name}.predicted_cores"] = load.predicted_cores
        if load.measured_cores is not None:
            figures[f"{name}.measured_cores"] = load.measured_cores
        if load.is_machine:
            figures |= {f"{kind}_cores": cores for kind, cores in load.services.items()}
            figures["takeover_cores"] = load.takeover_cores
    return figures


def _overhead(store: Store) -> dict[str, float]:
    """How fast processors work, and what nodes have spent lately on everything but evaluating."""
    nodes = [node for node in read_view(store).executors.values() if node.load is not None]
    speed = mean_speed(nodes)
    spent_us = sum(
        (node.load.cores - node.load.evaluating_cores - idle_cores(node)) * 1e6
        for node in nodes
        if node.load is not None
    )
    loads = [replica.load for node in nodes for replica in node.replicas.values()]
    made_s = sum(load.evaluations_s for load in loads if load is not None)
    if not made_s:
        return {"speed": speed}
    return {"speed": speed, "evaluations_s": made_s, "overhead_us_made": spent_us / made_s}


def _stretch(
    store: Store, begins_s: float, lasts_s: float, progress: Callable[[str, str], None]
) -> tuple[Rates, tuple[int, int]]:
    """Wait for a stretch of the recording; returns what it cost, and when it was measured."""
    start_us = _start_us(store)
    until_begin_s = (begins_s + EDGE_S - (now_us() - start_us) / 1e6) % ROUND_S
    progress("measure", f"a stretch of {lasts_s:g} s that begins in {until_begin_s:.0f} s")
    time.sleep(until_begin_s)
    before = Usage.read(store)
    time.sleep(lasts_s - EDGE_S)
    after = Usage.read(store)
    return after.since(before), (before.at_us, after.at_us)


def _start_us(store: Store) -> int:
    """When the recording starts: the leader says so once every fragment has been protected.

    Raises
    ------
    VivaceError
        It does not.
    """
    give_up = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up:
        start_us = read_view(store).entering[STREAM].running.start_at_us
        if start_us is not None:
            return start_us
        time.sleep(LOOK_S)
    raise VivaceError(f"the stream has not started within {START_TIMEOUT_S:.0f} s")


def _false_alarms(store: Store) -> dict[str, float]:
    """Suspicions, takeovers and demotions so far."""
    counted = Usage.read(store).counters
    return {name: float(counted[name]) for name in ("suspicions", "takeovers", "demotions")}


def _latencies(delivered: list[Delivered], since_us: int, until_us: int) -> dict[str, float]:
    """Of all timestamps that entered in a stretch, over all outputs."""
    within: list[FloatArray] = []
    for each in delivered:
        entered_us = each.completed_column("ingestion_time_us")
        within.append(each.latencies_ms[(entered_us >= since_us) & (entered_us < until_us)])
    latencies_ms = np.concatenate(within)
    if not len(latencies_ms):
        return {"miss_pct": 100.0}
    return {
        "p50_ms": float(np.percentile(latencies_ms, 50)),
        "p99_ms": float(np.percentile(latencies_ms, 99)),
        "miss_pct": 100.0 * float((latencies_ms > BOUND_MS).mean()),
        "silent_outputs": float(sum(not len(each) for each in within)),
    }


def _recovery(killed: Killed, delivered: Mapping[str, Delivered]) -> dict[str, float]:
    """Of the queries that lost a primary, and of all: those that lost nothing rest.

    Parameters
    ----------
    delivered
        Query → its output.
    """
    lost = {fragment.split(".")[0] for fragment in killed.target.fragments}
    of_lost = [one for query, one in delivered.items() if query in lost]
    return {
        "detection_ms": killed.detection_ms,
        "lost_outputs": float(len(of_lost)),
        "recovery_ms": outage(killed, of_lost).recovery_ms,
        "silence_ms": outage(killed, list(delivered.values())).recovery_ms,
        "restored_s": killed.redundancy_restored_s,
    }


def _processor_s(process: psutil.Process) -> float:
    """Processor time that a process has used; none if it has ended."""
    try:
        used = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system)
