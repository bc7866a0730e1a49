"""The `real` kind of benchmark `standby`: the same queries on six executors of this machine.

One cluster runs all schemes, one after the other: a query is deleted and applied again with the
next one. Traffic because of secondaries is what hosts count as they put frames on links: data for
hosts where only secondaries read the stream, and checkpoints.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench.cluster import running
from bench.standby_workload import BOUND_MS, SUMS, TREE_OUTPUT, workload
from orchestrator.api import Cluster, apply, delete
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.drills.disturbances import fail_primary
from orchestrator.drills.measurement import outage, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.manifest import Manifests
from orchestrator.store.protocol import Store

EXECUTORS = 6

COUNTED = ("standby_bytes_sent", "checkpoint_bytes_sent")
"""Counters of hosts (`orchestrator/host/shell/process.py`)."""

SETTLE_S, MEASURED_S = 6.0, 10.0

DELTAS = {"as": "active", "deltas": "adaptive"}
"""Key → scheme of the aggregate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One scheme of one query.

    Attributes
    ----------
    bytes_s
        What is sent because of secondaries.
    link_bytes_s
        Everything that hosts send each other.
    recoveries_ms
        After each kill of a primary.
    lost, repeated
        By the sequence numbers at the sink.
    """

    key: str
    bytes_s: float
    link_bytes_s: float
    recoveries_ms: Sequence[float]
    lost: int
    repeated: int


def measured(
    schemes: Mapping[str, str], targets: Sequence[str], say: Callable[[str], None]
) -> dict[str, float]:
    """Flat figures of the tree under each scheme, and of the aggregate with and without deltas.

    Parameters
    ----------
    schemes
        Key → `standby` of the tree.
    targets
        Fragments of the tree whose primaries are killed, under each scheme.
    """
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        inputs, work = Path(folder, "input"), Path(folder, "cluster")
        inputs.mkdir()

        steps = [
            ("aggregate", DELTAS, SUMS, (SUMS,)),
            ("tree", schemes, TREE_OUTPUT, targets),
        ]
        # Recordings are written once: sites read them later.
        asked = {
            (query, scheme): _only(
                workload(inputs, scheme, EXECUTORS, seed=1, emulated=False), query
            )
            for query, chosen, *_ in steps
            for scheme in chosen.values()
        }

        def progress(step: str, detail: str) -> None:
            say(f"real: {step}: {detail}")

        phases: list[Phase] = []
        with running(asked["aggregate", "active"], work, progress) as cluster:
            connected = Cluster(cluster.config, cluster.store)
            for query, chosen, output, killed in steps:
                for key, scheme in chosen.items():
                    say(f"real: {query}: {scheme}")
                    made = msgspec.structs.replace(asked[query, scheme], cluster=None)
                    apply(connected, made, on_progress=progress)
                    phases.append(_phase(cluster, f"{query}.{key}", output, killed, say))
                    say(f"real: {phases[-1]}")
                    delete(connected, query)
    return figures(phases)


def figures(phases: Sequence[Phase]) -> dict[str, float]:
    """Flat figures of all phases."""
    flat: dict[str, float] = {}
    for phase in phases:
        found_ms = np.array(phase.recoveries_ms)
        query, _, key = phase.key.partition(".")
        name = f"deltas.{key}" if query == "aggregate" and key != "deltas" else key
        flat |= {
            f"real.{name}.bytes_s": phase.bytes_s,
            f"real.{name}.link_bytes_s": phase.link_bytes_s,
            f"real.{name}.recovery_ms_mean": float(found_ms.mean()),
            f"real.{name}.recovery_ms_max": float(found_ms.max()),
            f"real.{name}.bound_kept_pct": 100 * float((found_ms <= BOUND_MS).mean()),
        }
    active = flat["real.deltas.as.bytes_s"]
    flat["real.deltas.saved_pct"] = 100 * (1 - flat["real.deltas.bytes_s"] / active)
    flat["real.lost"] = sum(each.lost for each in phases)
    flat["real.repeated"] = sum(each.repeated for each in phases)
    return flat


def _phase(
    cluster: LocalCluster,
    key: str,
    output: str,
    targets: Sequence[str],
    say: Callable[[str], None],
) -> Phase:
    """Quiet traffic first, then kills."""
    store = cluster.store
    time.sleep(SETTLE_S)
    before, began_s = _counted(store), time.monotonic()
    time.sleep(MEASURED_S)
    after, took_s = _counted(store), time.monotonic() - began_s
    sent = {name: (after[name] - before[name]) / took_s for name in after}

    def progress(step: str, detail: str) -> None:
        say(f"real: {step} {detail}")

    kills = [fail_primary(store, target, progress) for target in targets]
    time.sleep(SETTLE_S)
    delivered = read_back(cluster.archive, output)
    faults = sequence_faults(delivered)
    return Phase(
        key=key,
        bytes_s=sum(sent[name] for name in COUNTED),
        link_bytes_s=sent["link_bytes_sent"],
        recoveries_ms=[outage(each, [delivered]).recovery_ms for each in kills],
        lost=faults.lost,
        repeated=faults.repeated,
    )


def _counted(store: Store) -> Counter[str]:
    """The counters of all hosts together, which live as long as their hosts."""
    total = Counter[str](dict.fromkeys((*COUNTED, "link_bytes_sent"), 0))
    for found in read_view(store).nodes.values():
        for name, count in found.record.counters.items():
            if name in total:
                total[name] += count
    return total


def _only(manifests: Manifests, query: str) -> Manifests:
    """One of the queries, with the streams that it reads."""
    is_tree = query == "tree"
    return msgspec.structs.replace(
        manifests,
        streams=tuple(s for s in manifests.streams if (s.record.name != "many") == is_tree),
        queries=tuple(q for q in manifests.queries if q.record.name == query),
    )
