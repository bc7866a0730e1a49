"""Benchmark `standby`: what standby schemes cost on links, and what they cost at recovery.

The product runs in the simulated world: a tree of reliable placement, §5 and a windowed aggregate
(`bench.standby_workload`) on 100 nodes, once with each scheme. Everything that hosts send each
other is counted in bytes of its frames; of it, what is sent because of secondaries: data to hosts
where only secondaries read the stream, and checkpoints. Then the primary of one fragment after the
other is killed. Recovery is from the kill until output has resumed, as a drill measures it;
promised is the bound of the query.

`deltas` is the windowed aggregate alone, without its input; its saving is against Active Standby.
`model` prices the paper's 100 queries on 100 nodes (`bench.standby_model`), and what it saves that
links carry a shared stream once (`bench.standby_shared`).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.registry import Settings, benchmark
from bench.standby_executors import measured
from bench.standby_model import NETWORKS, modelled
from bench.standby_workload import BOUND_MS, SUMS, TREE_OUTPUT, workload
from ha.messages import Checkpoint, Data, Message
from ha.roles import ReplicaRole
from orchestrator.drills.measurement import outage, sequence_faults
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.host.shell.wire import encode
from orchestrator.simulation.world.scenario import Scenario

NODES, QUICK_NODES = 95, 12
"""Executors, beside four sites of sources and one of the output: 100 hosts."""

SCHEMES = {
    "as": "active",
    "sas_5": "{batch: 5}",
    "sas_20": "{batch: 20}",
    "sas_50": "{batch: 50}",
    "asas_largest": "largest",
    "asas": "adaptive",
    "upstream": "upstream",
}
"""Key → `standby` of the manifest."""

TARGETS = ("selection0", "join0", "joined", "sums")
QUICK_TARGETS = ("selection0", "sums")
"""Fragments whose primaries are killed."""

REAL_TARGETS = ("selection0", "join0", "joined")
QUICK_REAL, QUICK_REAL_TARGETS = ("as", "asas"), ("joined",)
"""Schemes of the tree, on executors, and fragments whose primaries are killed there."""

SETTLE_S, MEASURED_S = 6.0, 10.0


@dataclass(slots=True)
class Traffic:
    """Bytes that hosts send each other, by what they are for.

    Attributes
    ----------
    all_bytes
        Everything.
    standby_bytes
        Fragment → what is sent because of its secondary.
    """

    scenario: Scenario
    all_bytes: int = 0
    standby_bytes: Counter[str] = field(default_factory=Counter[str])

    def watch(self, _sender: str, to: str, message: Message) -> None:
        """Count a message."""
        size = sum(map(len, encode(message)))
        self.all_bytes += size
        match message:
            case Checkpoint(fragment=fragment):
                self.standby_bytes[fragment] += size
            case Data(stream=stream):
                host = self.scenario.world.hosts.get(to)
                manager = None if host is None else host.core.replica_manager
                found = None if manager is None else manager.subscriptions.get(stream)
                if manager is None or found is None or stream in manager.sinks:
                    return
                readers = [manager.replicas[each] for each in found.readers]
                if all(each.replica.role is not ReplicaRole.PRIMARY for each in readers):
                    self.standby_bytes[readers[0].assignment.fragment] += size
            case _:
                pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One scheme.

    Attributes
    ----------
    all_bytes_s, tree_bytes_s, deltas_bytes_s
        Everything on links; because of the secondaries of the tree, and of the aggregate.
    recoveries_ms
        By fragment.
    """

    all_bytes_s: float
    tree_bytes_s: float
    deltas_bytes_s: float
    recoveries_ms: Mapping[str, float]
    lost: int
    repeated: int


@benchmark("standby", kinds=("sim", "model", "real"))
def standby(settings: Settings) -> Mapping[str, float]:
    """Bytes and recovery of standby schemes: in simulation, on six executors, and by the model."""
    flat: dict[str, float] = {}
    kinds = settings.only or ("model", "sim", "real")
    if "model" in kinds:
        flat |= modelled(1 if settings.quick else NETWORKS)
    if "sim" in kinds:
        flat |= figures(_all_simulated(settings))
    if "real" in kinds:
        chosen = {key: SCHEMES[key] for key in QUICK_REAL} if settings.quick else SCHEMES
        targets = QUICK_REAL_TARGETS if settings.quick else REAL_TARGETS
        flat |= measured(chosen, targets, settings.say)
    return flat


def _all_simulated(settings: Settings) -> dict[str, Measured]:
    """Every scheme. Each world has a clock of its own, so one is played on each processor."""
    nodes, targets = (QUICK_NODES, QUICK_TARGETS) if settings.quick else (NODES, TARGETS)
    found: dict[str, Measured] = {}
    processes = min(os.cpu_count() or 1, len(SCHEMES))
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        played = {pool.submit(simulated, SCHEMES[key], nodes, targets): key for key in SCHEMES}
        for future in as_completed(played):
            found[played[future]] = future.result()
            settings.say(f"simulated: {len(found)} of {len(SCHEMES)} schemes")
    return {key: found[key] for key in SCHEMES}


def figures(found: Mapping[str, Measured]) -> dict[str, float]:
    """Flat figures of all schemes, and the savings against Active Standby."""
    flat: dict[str, float] = {}
    active = found["as"]
    for key, one in found.items():
        recoveries = [ms for name, ms in one.recoveries_ms.items() if name != SUMS]
        flat |= {
            f"sim.{key}.bytes_s": one.tree_bytes_s,
            f"sim.{key}.link_bytes_s": one.all_bytes_s,
            f"sim.{key}.recovery_ms_mean": float(np.mean(recoveries)),
            f"sim.{key}.recovery_ms_max": max(recoveries),
            f"sim.{key}.bound_kept_pct": 100 * float(np.mean(np.array(recoveries) <= BOUND_MS)),
            f"sim.{key}.lost": one.lost,
            f"sim.{key}.repeated": one.repeated,
        }
    deltas = found["upstream"]
    flat |= {
        "sim.deltas.bytes_s": deltas.deltas_bytes_s,
        "sim.deltas.as_bytes_s": active.deltas_bytes_s,
        "sim.deltas.saved_pct": 100 * (1 - deltas.deltas_bytes_s / active.deltas_bytes_s),
        "sim.deltas.recovery_ms_mean": deltas.recoveries_ms[SUMS],
        "sim.deltas.recovery_ms_max": deltas.recoveries_ms[SUMS],
        "sim.deltas.bound_kept_pct": 100.0 * (deltas.recoveries_ms[SUMS] <= BOUND_MS),
    }
    return flat


def simulated(scheme: str, nodes: int, targets: Sequence[str]) -> Measured:
    """Play one scheme: quiet traffic first, then kills."""
    with tempfile.TemporaryDirectory() as folder:
        manifests = workload(Path(folder), scheme, nodes, seed=1, emulated=True)
        scenario = Scenario(manifests, seed=1)
        scenario.begin()
        scenario.run_for(SETTLE_S)
        traffic = Traffic(scenario)
        scenario.world.watch = traffic.watch
        scenario.run_for(MEASURED_S)
        scenario.world.watch = None
        recoveries_ms: dict[str, float] = {}
        for target in targets:
            killed = scenario.drill(target)
            scenario.run_for(SETTLE_S)
            output = SUMS if target == SUMS else TREE_OUTPUT
            recoveries_ms[target] = outage(killed, [_delivered(scenario, output)]).recovery_ms
        faults = [sequence_faults(_delivered(scenario, each)) for each in (TREE_OUTPUT, SUMS)]
    by_fragment = traffic.standby_bytes
    return Measured(
        all_bytes_s=traffic.all_bytes / MEASURED_S,
        tree_bytes_s=(by_fragment.total() - by_fragment[SUMS]) / MEASURED_S,
        deltas_bytes_s=by_fragment[SUMS] / MEASURED_S,
        recoveries_ms=recoveries_ms,
        lost=sum(each.lost for each in faults),
        repeated=sum(each.repeated for each in faults),
    )


def _delivered(scenario: Scenario, stream: str) -> Delivered:
    kept = scenario.deliveries[stream]
    return Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
