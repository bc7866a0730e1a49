"""Benchmark `large_groups`: a million tuples with one timestamp, as fast as the hosts can.

A timestamp's tuples are evaluated together. While that lasts, the host must go on to say that it
lives. A query counts, adds and compares tuples by key in windows of a second, and twenty times a
second a million of them enter: more than this machine evaluates, so that the source waits for
credit and the hosts are always busy. No host fails meanwhile, so every suspicion is a false one.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import counters, grown, running
from bench.registry import Settings, benchmark
from orchestrator.api.demo import input_waited_ms
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import load

TUPLES = 1_000_000
"""With one timestamp."""

INTERVAL_MS = 50
GROUPS = 10
KEYS = 1_000
ROW_BYTES = 16
REPLICAS = 2

DURATION_S = 60
QUICK_S = 10

FRAGMENT = "totals"

MANIFESTS = """\
kind: Cluster
name: bench-large-groups
nodes: [one, two]
sites: [edge]
admission: off
---
kind: Stream
name: numbers
site: edge
columns: {{key: int, value: int}}
rate: {rate} KB/s
from:
  replay:
    path: {recording}
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:00:00.{last:03}Z"
    interval: {interval} ms
    repeat: true
---
kind: Query
name: by-key
deadline: 60 s
recovery: 60 s
outputs: {{{fragment}: edge}}
statements: |
  REGISTER QUERY {fragment} RSTREAM(
    SELECT key, count(*) AS tuples, sum(value) AS total, max(value) AS largest
    FROM numbers [RANGE 1 SECONDS SLIDE 1 SECONDS] GROUP BY key);
"""

WATCHED = ("suspicions", "takeovers", "long_turns", "long_silences")
"""Counters of the hosts. There is no cause for the first two."""


@benchmark("large_groups")
def large_groups(settings: Settings) -> Mapping[str, float]:
    """False suspicions while hosts evaluate a million tuples of one timestamp at a time."""
    duration_s = QUICK_S if settings.quick else DURATION_S

    def progress(step: str, detail: str) -> None:
        settings.say(f"{step}: {detail}")

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        folder = Path(work)
        manifests = load([write_input(folder)])
        with running(manifests, folder, progress) as cluster:
            before = counters(cluster.store)
            began_s = time.monotonic()
            settings.say(f"{duration_s} s at full load")
            time.sleep(duration_s)
            counted = grown(before, counters(cluster.store))
            passed_s = time.monotonic() - began_s
            waited_ms = input_waited_ms(cluster.store)
        rows = read_back(cluster.archive, FRAGMENT).rows
    totals = Counter[int]()
    for row in rows.to_pylist():
        totals[row["_ts"]] += row["tuples"]
    # The first and the last window may not be whole.
    whole = [totals[ts_ms] for ts_ms in sorted(totals)][1:-1]
    return {
        "seconds": passed_s,
        "windows": len(whole),
        "tuples_s": counted["tuples_in"] / REPLICAS / passed_s,
        "input_waited_ms": waited_ms,
        "windows_wrong": sum(tuples != TUPLES * 1000 // INTERVAL_MS for tuples in whole),
        **{counter: counted[counter] for counter in WATCHED},
    }


def write_input(folder: Path) -> Path:
    """Write the recording and the manifests; returns the path of the manifests."""
    random = np.random.default_rng(1)
    count = GROUPS * TUPLES
    columns: dict[str, pa.Array] = {
        RECORDED_TIMESTAMP: pa.array(np.repeat(np.arange(GROUPS) * INTERVAL_MS, TUPLES)),
        "key": pa.array(random.integers(0, KEYS, count)),
        "value": pa.array(random.integers(0, 1_000_000, count)),
    }
    path = folder / "large-groups.parquet"
    batch = pa.RecordBatch.from_arrays(
        list(columns.values()),
        schema=pa.schema([(name, column.type) for name, column in columns.items()]),
    )
    parquet.write_table(pa.Table.from_batches([batch]), path)
    manifests = folder / "large-groups.yaml"
    manifests.write_text(
        MANIFESTS.format(
            rate=ROW_BYTES * TUPLES * 1000 // INTERVAL_MS // 1000,
            recording=path.name,
            last=(GROUPS - 1) * INTERVAL_MS,
            interval=INTERVAL_MS,
            fragment=FRAGMENT,
        )
    )
    return manifests
