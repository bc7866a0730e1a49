"""Benchmark `faults`: one fault after another on real processes, while a replay goes on.

The workload is that of `failover`, with the output at a site of its own. Each fault strikes a
cluster in which every fragment has a warm secondary; the next one waits until that is so again.
Lost and repeated tuples are counted from the content of the archive, whose tuples carry the number
that they entered with. The last kind of fault, `large_state`, has a cluster and a workload of its
own (`bench.large_state`).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
import psutil

from bench.cluster import running
from bench.large_state import measure_large_state
from bench.ours_failover import FRAGMENT, ROUND_MS, Say, faults, write_input
from bench.registry import Settings, benchmark
from bench.silence import STEADY_S, longest_silence_ms
from orchestrator.clock import OFFSET_FILE
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.acting import HEAL_TIMEOUT_S
from orchestrator.drills.processes import host_process, zookeeper_processes
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.process_faults import FULL_DISK, STOPPED, imposed
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from orchestrator.records import FragmentRecord
from orchestrator.store.protocol import Store, StoreError

EXECUTORS = 4
EXIT = "exit"
ROUNDS_BEFORE = 2
"""Rounds of the replay before the first fault: what a source repeats must not be taken for new."""

RUNS = 10
QUICK_RUNS = 1
CLOCK_RUNS = 3
DISK_RUNS = 3

PAUSE_S = 5.0
BETWEEN_KILLS_S = 2.0
STORE_AWAY_S = 30.0
DISK_FULL_S = 10.0
HOUR_S = 3600
ELSEWHERE = "elsewhere"
LOOK_S = 0.2


@dataclass(slots=True)
class Faults:
    """The faults, and the processes that they end.

    Attributes
    ----------
    ended
        Nodes whose host the present fault has ended; no other host may end.
    clock_file
        Holds the seconds by which processes that start take the machine's wall clock to be ahead.
    """

    store: Store
    ended: set[str]
    clock_file: Path

    def kill(self, node: str) -> None:
        """SIGKILL to a node's host; an executor dies with it."""
        self.ended.add(node)
        self._process(node).kill()

    def source_site(self) -> None:
        """The site where the stream enters is killed."""
        self.kill("edge")

    def sink_site(self) -> None:
        """The site where the output leaves is killed."""
        self.kill(EXIT)

    def both_sites(self) -> None:
        """Both sites are killed at the same time."""
        self.kill("edge")
        self.kill(EXIT)

    def primary_paused(self) -> None:
        """The host of the primary is stopped for 5 s, and goes on."""
        primary = host_process(read_view(self.store), self.fragment().primary.node)
        with imposed(STOPPED, [primary], PAUSE_S):
            time.sleep(PAUSE_S)

    def two_executors(self) -> None:
        """The executor of the secondary is killed, and 2 s later that of the primary."""
        record = self.fragment()
        assert record.secondary is not None, "a fault strikes a protected fragment"
        self.kill(record.secondary.node)
        time.sleep(BETWEEN_KILLS_S)
        self.kill(record.primary.node)

    def store_away(self) -> None:
        """ZooKeeper does not answer for 30 s; meanwhile the executor of the primary is killed."""
        primary = self.fragment().primary.node
        executor = self._process(primary)
        with imposed(STOPPED, zookeeper_processes(os.getpid())[:1], STORE_AWAY_S):
            time.sleep(STEADY_S)
            self.ended.add(primary)
            executor.kill()
            time.sleep(STORE_AWAY_S - STEADY_S)

    def disk_full(self) -> None:
        """The process of the output's site can write nothing to its files for 10 s."""
        with imposed(FULL_DISK, [host_process(read_view(self.store), EXIT)], DISK_FULL_S):
            time.sleep(DISK_FULL_S)

    def clock_ahead(self) -> None:
        """The wall clock is set an hour ahead, and both sites are killed."""
        self.clock_file.write_text(f"{HOUR_S}")
        self.both_sites()

    def clock_behind(self) -> None:
        """The wall clock is set an hour back; the source's site and the primary are killed."""
        self.clock_file.write_text(f"{-HOUR_S}")
        self.kill(self.fragment().primary.node)
        self.kill("edge")

    def other_machine(self) -> None:
        """The source's site is killed, and starts again as on a machine an hour ahead."""
        self.clock_file.write_text(f"{HOUR_S} {ELSEWHERE}")
        self.kill("edge")

    def _process(self, node: str) -> psutil.Process:
        """A site's host, or the Java process of an executor, with which its host ends."""
        view = read_view(self.store)
        host = host_process(view, node)
        if node not in view.executors:
            return host
        # The host is a child of a Python daemon, whose parent is the executor's Java process.
        return next(each for each in host.parents() if "java" in each.name())

    def fragment(self) -> FragmentRecord:
        """The record of the only fragment."""
        (found,) = read_view(self.store).fragments.values()
        return found.record


KINDS: Mapping[str, tuple[Callable[[Faults], None], int]] = {
    "source_site": (Faults.source_site, RUNS),
    "sink_site": (Faults.sink_site, RUNS),
    "both_sites": (Faults.both_sites, RUNS),
    "primary_paused": (Faults.primary_paused, RUNS),
    "two_executors": (Faults.two_executors, RUNS),
    "store_away": (Faults.store_away, 1),
    "disk_full": (Faults.disk_full, DISK_RUNS),
    "clock_ahead": (Faults.clock_ahead, CLOCK_RUNS),
    "clock_behind": (Faults.clock_behind, CLOCK_RUNS),
    "other_machine": (Faults.other_machine, 1),
}
"""Name → the fault, and how often it strikes."""


@dataclass(slots=True)
class HostEnds:
    """The ends of hosts, as the incarnations of their nodes tell, and how many no fault asked for.

    A fault asks for one end of each host that it kills. The end of any other host, and a second end
    of one that was killed, is unbidden.

    Attributes
    ----------
    known
        Node → the incarnation that was seen last.
    unbidden
        Ends that no fault has asked for, so far.
    """

    known: dict[str, str]
    unbidden: int = 0
    _bidden: set[str] = field(default_factory=set[str])

    def ask_for(self, nodes: Iterable[str]) -> None:
        """A fault ends these nodes' hosts; what former faults asked for no longer counts."""
        self._bidden = set(nodes)

    def look(self, incarnations: Mapping[str, str]) -> None:
        """Count the nodes that are under other incarnations than when they were seen last."""
        for node, incarnation in incarnations.items():
            if self.known.setdefault(node, incarnation) != incarnation:
                self.known[node] = incarnation
                self._count(node)

    def close(self, incarnations: Mapping[str, str]) -> None:
        """Look for the last time: a node that is away now counts as well."""
        self.look(incarnations)
        for node in self.known.keys() - incarnations.keys():
            self._count(node)

    def _count(self, node: str) -> None:
        if node in self._bidden:
            self._bidden.remove(node)
        else:
            self.unbidden += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault, and when it struck and was healed, cluster clock."""

    kind: str
    began_us: int
    healed_us: int


LARGE_STATE = "large_state"


@benchmark("faults", kinds=(*KINDS, LARGE_STATE))
def measure_faults(settings: Settings) -> Mapping[str, float]:
    """Sites and executors killed, hosts stopped, ZooKeeper away, clocks set: silence and losses."""
    wanted = settings.only or (*KINDS, LARGE_STATE)
    figures: dict[str, float] = {}
    if any(kind in wanted for kind in KINDS):
        figures |= _measure_small_state(settings, [kind for kind in KINDS if kind in wanted])
    if LARGE_STATE in wanted:
        found = measure_large_state(settings.folder, settings.say, quick=settings.quick)
        figures |= {f"{LARGE_STATE}.{key}": value for key, value in found.items()}
    return figures


def _measure_small_state(settings: Settings, kinds: Sequence[str]) -> Mapping[str, float]:
    """Let some kinds of faults strike one after the other."""
    manifests = load([write_input(settings.folder, EXECUTORS, EXIT)])

    def progress(step: str, detail: str) -> None:
        settings.say(f"{step}: {detail}")

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        clock_file = Path(work) / "clock"
        clock_file.write_text("0")
        # Sites and executors inherit it, and read the file when they start.
        with (
            patch.dict(os.environ, {OFFSET_FILE: str(clock_file)}),
            running(manifests, Path(work), progress) as cluster,
        ):
            acting = Faults(cluster.store, set(), clock_file)
            hosts = HostEnds(_incarnations(read_view(cluster.store)))
            time.sleep(ROUNDS_BEFORE * ROUND_MS / 1000)
            struck = [
                strike(acting, kind, hosts, f"{kind} {run + 1} of {runs}", settings.say)
                for kind in kinds
                for most in [KINDS[kind][1]]
                for runs in [min(most, QUICK_RUNS) if settings.quick else most]
                for run in range(runs)
            ]
            time.sleep(STEADY_S)
            view = read_view(cluster.store)
            hosts.close(_incarnations(view))
            clocks = view.cluster_clocks
        delivered = read_back(cluster.archive, FRAGMENT)
    arrivals_s = np.sort(delivered.completed_column("arrived_us")) / 1e6
    found = faults(delivered)
    silences: dict[str, list[float]] = defaultdict(list)
    healed: dict[str, list[float]] = defaultdict(list)
    for each in struck:
        began_s, healed_s = each.began_us / 1e6, each.healed_us / 1e6
        silences[each.kind].append(longest_silence_ms(arrivals_s, began_s, healed_s))
        healed[each.kind].append(healed_s - began_s)
    figures: dict[str, float] = {
        "lost": found.lost,
        "repeated": found.repeated,
        "hosts_ended_unbidden": hosts.unbidden,
        "tuples": delivered.rows.num_rows,
    }
    for kind in silences:
        figures[f"{kind}.times"] = len(silences[kind])
        figures[f"{kind}.silence_ms_median"] = float(np.median(silences[kind]))
        figures[f"{kind}.silence_ms_max"] = max(silences[kind])
        figures[f"{kind}.healed_s_max"] = max(healed[kind])
    if ELSEWHERE in clocks.machines:
        # It is the same machine in truth.
        known = {name: offset for name, offset in clocks.machines.items() if name != ELSEWHERE}
        (here,), there = known.values(), clocks.machines[ELSEWHERE]
        figures["other_machine.error_ms"] = abs(here.ahead_us - there.ahead_us) / 1000
        figures["other_machine.uncertainty_ms"] = (
            here.uncertainty_us + there.uncertainty_us
        ) / 1000
    if {"clock_ahead", "clock_behind", "other_machine"} & silences.keys():
        figures["latency_ms_min"] = float(delivered.latencies_ms.min())
        figures["latency_ms_max"] = float(delivered.latencies_ms.max())
    return figures


def strike(acting: Faults, kind: str, hosts: HostEnds, said: str, say: Say) -> Struck:
    """One fault, and the time until everything is as it was.

    Parameters
    ----------
    hosts
        Told which hosts the fault ends, and what is seen of all of them until then.
    """
    _await_healed(acting.store, hosts, None)
    before = dict(hosts.known)
    acting.ended.clear()
    say(said)
    began_us = _now_us(acting.store)
    KINDS[kind][0](acting)
    hosts.ask_for(acting.ended)
    _await_healed(acting.store, hosts, {node: before[node] for node in acting.ended})
    healed_us = _now_us(acting.store)
    time.sleep(STEADY_S)
    return Struck(kind=kind, began_us=began_us, healed_us=healed_us)


def _now_us(store: Store) -> int:
    return cluster_now_us(read_view(store).cluster_clocks)


def _incarnations(view: ClusterView) -> dict[str, str]:
    return {node: found.record.incarnation for node, found in view.nodes.items()}


def _await_healed(store: Store, hosts: HostEnds, former: Mapping[str, str] | None) -> None:
    """Wait until every fragment is protected, and output has come that entered since.

    Parameters
    ----------
    hosts
        Told what is seen of hosts meanwhile.
    former
        Incarnations that have ended: their nodes must be back under others.

    Raises
    ------
    VivaceError
        It takes too long.
    """
    give_up = time.monotonic() + HEAL_TIMEOUT_S
    started_ms: int | None = None
    awaited = "ZooKeeper does not answer"
    while time.monotonic() < give_up:
        time.sleep(LOOK_S)
        try:
            view = read_view(store)
        except StoreError:
            continue
        hosts.look(_incarnations(view))
        away = [
            node
            for node, incarnation in (former or {}).items()
            if node not in view.nodes or view.nodes[node].record.incarnation == incarnation
        ]
        bare = view.unprotected
        if away or bare:
            awaited = f"{', '.join(away) or 'no node'} is away, {bare or 'nothing'} unprotected"
            continue
        reached_ms = _reached_ms(view)
        awaited = f"the output has come up to {reached_ms} ms, and no further"
        if started_ms is None or reached_ms is None:
            started_ms = reached_ms
        elif reached_ms > started_ms:
            return
    raise VivaceError(f"the cluster has not healed within {HEAL_TIMEOUT_S:.0f} s: {awaited}")


def _reached_ms(view: ClusterView) -> int | None:
    """Watermark up to which the output has arrived, as its site last reported."""
    if EXIT not in view.nodes or FRAGMENT not in view.nodes[EXIT].record.sinks:
        return None
    return view.nodes[EXIT].record.sinks[FRAGMENT].watermark_ms
