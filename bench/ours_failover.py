"""Vivace's half of benchmark `failover`: its silence when the executor of a primary is killed.

A `LocalCluster`, as `vivace up` starts it, runs as many executors as the Spark half. Links are not
delayed, because Spark's are not. One site both feeds the query and takes its output, as Spark's
driver does, and is never killed.

The query is that of the Spark half as a partition window: the newest tuple of each key, whenever it
changes. It differs in two ways, so that every tuple that enters leaves, as often as it enters: it
keeps two tuples of each key, so that a second one of the same timestamp does not replace the first,
and it selects their timestamps, so that one that comes again later is no equal one. (ISTREAM emits
what a relation gains: an equal tuple in place of a former one is no gain.)

Every interval of the replay is completed, and every tuple leaves with the number it entered with.
Lost and repeated tuples, of the input as of the output, therefore show in the numbers themselves,
independently of the system's own sequence numbers.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import running
from bench.silence import KEYS, STEADY_S, TUPLES_PER_S, Measurement, longest_silence_ms
from orchestrator.api.demo import input_waited_ms
from orchestrator.clock import now_us
from orchestrator.drills.disturbances import fail_primary
from orchestrator.drills.kill_executor import Killed
from orchestrator.drills.measurement import SequenceFaults, outage, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import load
from orchestrator.store.protocol import Store
from streams.vectors.chunk import TIMESTAMP

INTERVAL_MS = 10
"""Tuples enter in bursts this far apart, as the Spark half's do."""

RECORDING_S = 20
"""Length of the recording, which is repeated."""

ROUND_MS = RECORDING_S * 1000
ROUND_TUPLES = RECORDING_S * TUPLES_PER_S
BURST_TUPLES = TUPLES_PER_S * INTERVAL_MS // 1000

QUERY, FRAGMENT = "newest-by-key", "newest"
CHECKPOINT_EVERY_S = 2

MANIFESTS = """\
kind: Cluster
name: bench-failover
nodes: [{nodes}]
sites: [{sites}]
{state}
---
kind: Stream
name: numbers
site: edge
columns: {{key: int, number: int}}
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
name: {query}
deadline: 300 ms
recovery: 300 ms
outputs: {{{fragment}: {exit}}}
statements: |
  REGISTER QUERY {fragment} ISTREAM(
    SELECT key, number, _ts AS at FROM numbers [PARTITION BY key ROWS 2]);
"""

Say = Callable[[str], None]


def measure_vivace(
    folder: Path, executors: int, runs: int, say: Say, *, checkpoints: bool = False
) -> Measurement:
    """Kill the executor that runs the primary, `runs` times, and measure the silences.

    Parameters
    ----------
    folder
        Keeps the recording and the manifests, to be looked at or applied by hand.
    executors
        Number of executors.
    runs
        Number of kills.
    say
        Told what is being done.
    checkpoints
        Whether the fragment writes checkpoints, `CHECKPOINT_EVERY_S` apart.

    Raises
    ------
    VivaceError
        If the cluster does not start, or does not recover.
    """
    state = folder / "state" if checkpoints else None
    manifests = load([write_input(folder, executors, state=state)])
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:

        def progress(step: str, detail: str) -> None:
            say(f"ours: {step}: {detail}")

        with running(manifests, Path(work), progress) as cluster:
            series = _kill_again_and_again(cluster.store, runs, say)
            waited_ms = input_waited_ms(cluster.store)
        # The site has ended: its archive is complete.
        found = judge(read_back(cluster.archive, FRAGMENT), *series)
        return replace(found, counts={**found.counts, "input_waited_ms": waited_ms})


def recording() -> pa.RecordBatch:
    """Numbered tuples, one key after the other, `BURST_TUPLES` of them with each timestamp."""
    numbers = np.arange(ROUND_TUPLES, dtype=np.int64)
    columns = {
        RECORDED_TIMESTAMP: numbers // BURST_TUPLES * INTERVAL_MS,
        "key": numbers % KEYS,
        "number": numbers,
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(values) for values in columns.values()],
        schema=pa.schema([pa.field(name, pa.int64(), nullable=False) for name in columns]),
    )


def faults(
    delivered: Delivered, round_ms: int = ROUND_MS, round_tuples: int = ROUND_TUPLES
) -> SequenceFaults:
    """Lost and repeated tuples by sequence numbers and by the tuples' own numbers; the greater.

    Parameters
    ----------
    round_ms, round_tuples
        Length of a round of the replay, and its tuples, which are numbered from 0.
    """
    told = sequence_faults(delivered)
    rounds, numbers = (
        np.asarray(delivered.rows[name].to_numpy(), dtype=np.int64)
        for name in (TIMESTAMP, "number")
    )
    went_in = rounds // round_ms * round_tuples + numbers
    distinct = len(np.unique(went_in))
    due = int(went_in.max()) + 1 if distinct else 0
    return SequenceFaults(
        lost=max(told.lost, due - distinct),
        repeated=max(told.repeated, len(went_in) - distinct + len(delivered.superseded_ms)),
    )


def write_input(
    folder: Path, executors: int, exit_site: str = "edge", state: Path | None = None
) -> Path:
    """Write the recording and the manifests; returns the path of the manifests.

    Parameters
    ----------
    exit_site
        Where the output is delivered; the input enters at `edge`.
    state
        Where checkpoints are kept; None: there are none.
    """
    path = folder / "ours.parquet"
    parquet.write_table(pa.Table.from_batches([recording()]), path)
    manifests = folder / "ours.yaml"
    manifests.write_text(
        MANIFESTS.format(
            sites=", ".join(dict.fromkeys(["edge", exit_site])),
            exit=exit_site,
            state=""
            if state is None
            else f"state: {{folder: {state}, every: {CHECKPOINT_EVERY_S} s}}",
            nodes=", ".join(f"node-{number}" for number in range(1, executors + 1)),
            # Timestamp, key and number of 8 bytes each.
            rate=24 * TUPLES_PER_S // 1000,
            recording=path.name,
            end=f"1970-01-01T00:00:{(ROUND_MS - INTERVAL_MS) / 1000:06.3f}Z",
            interval=INTERVAL_MS,
            query=QUERY,
            fragment=FRAGMENT,
        )
    )
    return manifests


def _kill_again_and_again(
    store: Store, runs: int, say: Say
) -> tuple[Sequence[int], Sequence[Killed]]:
    """Kill `runs` times; returns the starts of all steady stretches (one more), and the kills.

    A stretch of `STEADY_S` follows each restoration of redundancy; the next kill ends it.
    """
    steady_us = [now_us()]
    kills: list[Killed] = []
    time.sleep(STEADY_S)
    for run in range(1, runs + 1):
        kills.append(
            fail_primary(
                store,
                FRAGMENT,
                lambda step, what, at=run: say(f"ours: {at} of {runs}: {step} {what}"),
            )
        )
        steady_us.append(kills[-1].restored_us)
        time.sleep(STEADY_S)
    return steady_us, kills


def judge(delivered: Delivered, steady_us: Sequence[int], kills: Sequence[Killed]) -> Measurement:
    """Measure a series of kills by the output that was delivered."""
    arrivals_s = np.sort(delivered.completed_column("arrived_us")) / 1e6

    def silence_ms(since_us: int, until_us: float) -> float:
        return longest_silence_ms(arrivals_s, since_us / 1e6, until_us / 1e6)

    found = faults(delivered)
    # Each kill is watched until the stretch that follows it has ended, as in the Spark half.
    gaps_ms = [
        silence_ms(kill.killed_us, restored_us + STEADY_S * 1e6)
        for kill, restored_us in zip(kills, steady_us[1:], strict=True)
    ]
    undisturbed_ms = [
        silence_ms(begin_us, kill.killed_us)
        for begin_us, kill in zip(steady_us, kills, strict=False)
    ]
    span_s = float(arrivals_s[-1] - arrivals_s[0])
    return Measurement(
        gaps_ms=gaps_ms,
        counts={
            "lost": found.lost,
            "repeated": found.repeated,
            "detection_ms_median": statistics.median(kill.detection_ms for kill in kills),
            "recovery_ms_median": statistics.median(
                outage(kill, [delivered]).recovery_ms for kill in kills
            ),
            "restored_s_median": statistics.median(kill.redundancy_restored_s for kill in kills),
            "unprotected_s_max": max((kill.unprotected_s or 0.0) for kill in kills),
            "undisturbed_ms_median": statistics.median(undisturbed_ms),
            "latency_ms_p50": float(np.percentile(delivered.latencies_ms, 50)),
            "latency_ms_p99": float(np.percentile(delivered.latencies_ms, 99)),
            "tuples_s": delivered.rows.num_rows / span_s,
        },
    )
