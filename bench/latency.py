"""Benchmark `latency`: from a tuple's arrival to its result, through two fragments on two hosts.

Tuples enter at a site, pass a filter on one executor and an aggregate by key on another, and leave
at the site. Links are not delayed. Each fragment has its standby on the other executor. Latencies
count from when tuples were due to enter until their timestamp was complete at the sink, tuple by
tuple; the first seconds are left out. Every tuple has to come out, once.

Spark Structured Streaming runs the same question on as many executors of the same machine, in the
same run: its socket source, micro-batches without a pause (the next one starts when the last one
has ended), and a sink in the driver's memory (`bench/spark_latency.py`).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import await_end, running
from bench.registry import Settings, benchmark
from bench.spark_latency import SparkSettings, measure_spark
from foundation.arrays import FloatArray, IntArray
from orchestrator.api.demo import input_waited_ms
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from streams.vectors.chunk import TIMESTAMP

RATES = (5_000, 50_000)
DURATION_S, QUICK_S = 30, 8

SETTLE_S = 3
"""Time from the beginning that is left out: code is compiled, and costs are learnt."""

INTERVAL_MS = 5
"""Tuples enter in bursts this far apart."""

KEYS = 100

# Without admission: on a slow machine results are late, which is what is to be measured.
MANIFESTS = """\
kind: Cluster
name: bench-latency
nodes: [first, second]
sites: [edge]
batch: {batch} ms
admission: off
---
kind: Stream
name: numbers
site: edge
columns: {{key: int, number: int}}
rate: {bytes_s} B/s
from:
  replay:
    path: numbers-{rate}.parquet
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:00:{seconds:06.3f}Z"
    interval: {interval} ms
---
kind: Query
name: latency
deadline: 200 ms
recovery: 500 ms
outputs: {{counted: edge}}
primaries: {{kept: [first], counted: [second]}}
statements: |
  REGISTER QUERY kept RSTREAM(SELECT key, number FROM numbers [NOW] WHERE number % 10 <> 0);
  REGISTER QUERY counted RSTREAM(
    SELECT key, count(*) AS tuples, max(number) AS newest
    FROM kept [RANGE {interval} MILLISECONDS SLIDE {interval} MILLISECONDS] GROUP BY key);
"""

BATCH_MS = 0
"""Least time between two batches of a fragment: tuples wait for nothing but processors."""


@benchmark("latency", kinds=("ours", "spark"))
def latency(settings: Settings) -> Mapping[str, float]:
    """Latency through two fragments on two hosts at 5,000 and 50,000 tuples a second."""
    seconds = QUICK_S if settings.quick else DURATION_S
    flat: dict[str, float] = {}
    for rate in RATES:
        with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
            if not settings.only or "ours" in settings.only:
                latencies_ms, waited_ms = _ours(Path(folder), rate, seconds, settings)
                flat |= figures(f"{rate}.ours", latencies_ms)
                flat[f"{rate}.ours.input_waited_ms"] = waited_ms
            if not settings.only or "spark" in settings.only:
                spark = SparkSettings(rate=rate, seconds=seconds, settle_s=SETTLE_S, keys=KEYS)
                measured = measure_spark(Path(folder), spark, settings.say)
                flat |= figures(f"{rate}.spark", measured.latencies_ms)
                flat[f"{rate}.spark.arrived_pct"] = 100 * measured.arrived_share
    return flat


def figures(prefix: str, latencies_ms: FloatArray) -> dict[str, float]:
    """Flat figures of the latencies of tuples."""
    p50, p99 = np.percentile(latencies_ms, [50, 99]).tolist()
    return {f"{prefix}.p50_ms": p50, f"{prefix}.p99_ms": p99}


def _ours(folder: Path, rate: int, seconds: int, settings: Settings) -> tuple[FloatArray, float]:
    """Latencies of tuples through a cluster of its own, and how long its input was held up, ms."""
    manifests = load([write_input(folder, rate, seconds)])

    def progress(step: str, detail: str) -> None:
        settings.say(f"{rate} tuples/s: {step}: {detail}")

    with running(manifests, folder / "work", progress) as cluster:
        await_end(cluster.store, manifests, progress)
        waited_ms = input_waited_ms(cluster.store)
    # The site has ended: its archive is complete.
    delivered = read_back(cluster.archive, "counted")
    return latencies_of(delivered, passing(recording(rate, seconds))), waited_ms


def passing(entered: pa.Table) -> Counter[int]:
    """Of each timestamp, how many tuples of a recording pass the filter."""
    passes = entered["number"].to_numpy() % 10 != 0
    return _counts(entered["timestamp"].to_numpy(), passes)


def latencies_of(delivered: Delivered, expected: Counter[int]) -> FloatArray:
    """The latency of each tuple that was counted, after the first seconds.

    Parameters
    ----------
    delivered
        What came out.
    expected
        Of each timestamp, how many tuples have to be counted.

    Raises
    ------
    VivaceError
        Tuples are missing, or were counted more than once.
    """
    times_ms: IntArray = delivered.rows[TIMESTAMP].to_numpy()
    tuples: IntArray = delivered.rows["tuples"].to_numpy()
    come = _counts(times_ms, tuples)
    if missing := (expected - come).total():
        raise VivaceError(f"{missing} of {expected.total()} tuples have not come out")
    if repeated := (come - expected).total():
        raise VivaceError(f"{repeated} more tuples have come out than entered")
    settled = times_ms >= SETTLE_S * 1000
    if not settled.any():
        raise VivaceError(f"nothing was delivered after the first {SETTLE_S} s")
    return np.repeat(delivered.row_latencies_ms[settled], tuples[settled])


def _counts(times_ms: IntArray, tuples: IntArray) -> Counter[int]:
    """Numbers of tuples, added up by timestamp."""
    distinct_ms, places = np.unique(times_ms, return_inverse=True)
    totals = np.bincount(places, weights=tuples).astype(np.int64)
    return Counter(dict(zip(distinct_ms.tolist(), totals.tolist(), strict=True)))


def recording(rate: int, seconds: int) -> pa.Table:
    """Numbered tuples of keys in turn, those of an interval at its end."""
    numbers = np.arange(rate * seconds, dtype=np.int64)
    burst = rate * INTERVAL_MS // 1000
    return pa.Table.from_pydict(
        {
            "timestamp": (numbers // burst + 1) * INTERVAL_MS,
            "key": numbers % KEYS,
            "number": numbers,
        }
    )


def write_input(folder: Path, rate: int, seconds: int) -> Path:
    """Write the recording and the manifests; returns the path of the manifests."""
    parquet.write_table(recording(rate, seconds), folder / f"numbers-{rate}.parquet")
    manifests = folder / f"latency-{rate}.yaml"
    manifests.write_text(
        MANIFESTS.format(
            rate=rate,
            # Timestamp, key and number of 8 bytes each.
            bytes_s=24 * rate,
            seconds=seconds,
            interval=INTERVAL_MS,
            batch=BATCH_MS,
        )
    )
    return manifests
