"""A fault of benchmark `faults`: the secondary of a fragment with a large state is killed.

The query keeps the newest tuples of each of many keys: so many that whole tuples are kept, not only
their results. It selects their timestamps, so that a tuple that enters twice leaves twice, whether
at once or later (`bench.ours_failover` says why). Tuples enter at a steady rate, and bring one key
after the other. The state is complete when every key has been brought as often as tuples of it are
kept. Then the executor of the secondary is killed. A node that had no part in the fragment becomes
the new secondary: it fetches the state of the primary while both go on, and nobody may take either
of them for dead meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import counters, grown, running
from bench.ours_failover import faults
from bench.silence import STEADY_S
from orchestrator.clock import now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.embedded.spark_processes import executor_pids, kill_executor
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from orchestrator.store.protocol import Store, StoreError

EXECUTORS = 3
"""The two replicas, and one that takes the place of a secondary."""

TUPLES_PER_S = 1_500
INTERVAL_MS = 10
PAYLOAD_BYTES = 2048
ROW_BYTES = PAYLOAD_BYTES + 32
"""Of a row of the state: payload, key, number, timestamp and identity."""

ROWS_KEPT = 17
"""Of each key. Of fewer, the engine keeps results only (`streams.evaluate.newest`)."""

PLANNED_ROW_BYTES = 40
"""Of a row as rates in manifests count it: a text has 16 bytes, however long it is."""

STATE_MB = 200
QUICK_STATE_MB = 20
RUNS = 3
QUICK_RUNS = 1

WARM_TIMEOUT_S = 180.0
LOOK_S = 0.05

FRAGMENT = "newest"

MANIFESTS = """\
kind: Cluster
name: bench-large-state
nodes: [{nodes}]
sites: [edge]
---
kind: Stream
name: numbers
site: edge
columns: {{key: int, number: int, payload: string}}
rate: {rate} KB/s
from:
  replay:
    path: {recording}
    begin: "1970-01-01T00:00:00Z"
    end: "{end}"
    interval: {interval} ms
    repeat: true
---
kind: Query
name: newest-by-key
deadline: 10 s
recovery: 10 s
outputs: {{{fragment}: edge}}
statements: |
  REGISTER QUERY {fragment} ISTREAM(
    SELECT key, number, _ts AS at FROM numbers [PARTITION BY key ROWS {kept}] WHERE payload <> '');
"""

Say = Callable[[str], None]

WATCHED = {
    "suspicions": "false_suspicions",
    "takeovers": "takeovers_unbidden",
    "long_turns": "long_turns",
    "long_silences": "long_silences",
}
"""Counter of the hosts → figure. None of these is due to the kill: it breaks a connection."""


def measure_large_state(folder: Path, say: Say, *, quick: bool) -> Mapping[str, float]:
    """Kill the secondary's executor again and again; returns the figures.

    Parameters
    ----------
    folder
        Keeps the recording and the manifests.
    quick
        One kill, and a tenth of the state.

    Raises
    ------
    VivaceError
        The cluster does not start, or no secondary gets warm.
    """
    rows = (QUICK_STATE_MB if quick else STATE_MB) * 1_000_000 // ROW_BYTES
    rows -= rows % (ROWS_KEPT * TUPLES_PER_S * INTERVAL_MS // 1000)
    # A round is twice the state: a tuple that comes again is no longer in it.
    tuples = 2 * rows
    round_ms = tuples * 1000 // TUPLES_PER_S
    manifests = load([write_input(folder, rows // ROWS_KEPT, tuples)])
    warm_s: list[float] = []
    sizes_mb: list[float] = []
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:

        def progress(step: str, detail: str) -> None:
            say(f"large_state: {step}: {detail}")

        with running(manifests, Path(work), progress) as cluster:
            say(f"large_state: {rows / TUPLES_PER_S:.0f} s until the state is complete")
            time.sleep(rows / TUPLES_PER_S + STEADY_S)
            for run in range(QUICK_RUNS if quick else RUNS):
                say(f"large_state: kill {run + 1}")
                before = counters(cluster.store)
                warm_s.append(_kill_secondary(cluster.store))
                time.sleep(STEADY_S)
                counted = grown(before, counters(cluster.store))
                sizes_mb.append(counted["bulk_bytes_sent"] / 1e6)
                totals += counted
            events = Counter(entry.event.kind for entry in cluster.store.history())
        delivered = read_back(cluster.archive, FRAGMENT)
    found = faults(delivered, round_ms, tuples)
    return {
        "times": len(warm_s),
        # A transfer that had to be repeated counts twice.
        "state_mb": min(sizes_mb),
        "warm_s_median": float(np.median(warm_s)),
        "warm_s_max": max(warm_s),
        **{figure: totals[counter] for counter, figure in WATCHED.items()},
        "states_lost": events["state lost"],
        "lost": found.lost,
        "repeated": found.repeated,
        "tuples": delivered.rows.num_rows,
    }


def write_input(folder: Path, keys: int, tuples: int) -> Path:
    """Write the recording and the manifests; returns the path of the manifests."""
    numbers = np.arange(tuples, dtype=np.int64)
    columns: dict[str, pa.Array] = {
        RECORDED_TIMESTAMP: pa.array(numbers * 1000 // TUPLES_PER_S // INTERVAL_MS * INTERVAL_MS),
        "key": pa.array(numbers % keys),
        "number": pa.array(numbers),
        "payload": pa.array([f"{number:0{PAYLOAD_BYTES}}" for number in numbers.tolist()]),
    }
    path = folder / "large-state.parquet"
    batch = pa.RecordBatch.from_arrays(
        list(columns.values()),
        schema=pa.schema([(name, column.type) for name, column in columns.items()]),
    )
    parquet.write_table(pa.Table.from_batches([batch]), path)
    end_s = tuples / TUPLES_PER_S - INTERVAL_MS / 1000
    manifests = folder / "large-state.yaml"
    manifests.write_text(
        MANIFESTS.format(
            nodes=", ".join(f"node-{number}" for number in range(1, EXECUTORS + 1)),
            rate=PLANNED_ROW_BYTES * TUPLES_PER_S // 1000,
            recording=path.name,
            end=f"1970-01-01T00:{int(end_s // 60):02}:{end_s % 60:06.3f}Z",
            interval=INTERVAL_MS,
            fragment=FRAGMENT,
            kept=ROWS_KEPT,
        )
    )
    return manifests


def _kill_secondary(store: Store) -> float:
    """Kill the secondary's executor; returns the time until another secondary is warm, s."""
    view = _await(store, _protected)
    (found,) = view.fragments.values()
    killed = found.record.secondary
    assert killed is not None, "a protected fragment has a secondary"
    executors = set(view.executors)
    began_us = now_us()
    kill_executor(executor_pids(view.nodes[killed.node].record.pid))

    def is_replaced(view: ClusterView) -> bool:
        (found,) = view.fragments.values()
        return found.record.secondary != killed and _protected(view)

    _await(store, is_replaced)
    warm_s = (now_us() - began_us) / 1e6

    def is_back(view: ClusterView) -> bool:
        return is_replaced(view) and executors <= {
            node for node in view.executors if view.replica(node) != killed
        }

    _await(store, is_back)
    return warm_s


def _protected(view: ClusterView) -> bool:
    return all(view.protected(found.record) for found in view.fragments.values())


def _await(store: Store, reached: Callable[[ClusterView], bool]) -> ClusterView:
    give_up = time.monotonic() + WARM_TIMEOUT_S
    said = "the store does not answer"
    while time.monotonic() < give_up:
        try:
            view = read_view(store)
        except StoreError:
            continue
        if reached(view):
            return view
        said = _described(view)
        time.sleep(LOOK_S)
    raise VivaceError(f"no secondary is warm after {WARM_TIMEOUT_S:.0f} s: {said}")


def _described(view: ClusterView) -> str:
    """Who runs the replicas, and what the hosts say about them."""
    said = [f"{name}: {found.record}" for name, found in view.fragments.items()]
    for name, node in view.executors.items():
        said += [f"{name}: {node.replicas}, {node.counters}, {', '.join(node.problems)}"]
    return "; ".join(said)
