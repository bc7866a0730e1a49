"""Overload without a load shedder: a minute at twice a host's capacity, with admission off.

A host evaluates one stream at 1 ms a tuple (emulated) and is sent twice as many as it can evaluate.
Nothing may be dropped, so the source has to wait: the recording's `OVERLOAD_S` take about twice as
long. Afterwards a fifth of the host's capacity enters, and latencies must be what they were before
any overload.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import await_end, running
from bench.registry import Settings
from foundation.arrays import BoolArray, IntArray
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.measurement import sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.manifest import load
from orchestrator.store.protocol import Store, StoreError

OVERLOAD_S, QUICK_S = 60.0, 10.0
"""How long twice the capacity is asked for, of real time."""

REST_S = 15.0
"""What follows, and what comes before: a fifth of the capacity."""

INTERVAL_MS = 20
TUPLES, REST_TUPLES = 40, 4
"""Of an interval, at 1 ms each."""

DEADLINE_MS = 500
MEMORY = "16 MiB"
"""Budget of each host's queues: the least that there is."""

LOOK_S = 0.5

STREAM, OUTPUT = "readings", "archived"

MANIFESTS = """\
kind: Cluster
name: unshed
nodes:
  - {{name: worker, region: here, domain: a}}
  - {{name: spare, region: here, domain: b}}
sites: [{{name: edge, region: here}}]
batch: 5 ms
memory: {memory}
emulateCosts: true
admission: off
---
kind: Stream
name: {stream}
site: edge
columns: {{number: int, value: int}}
rate: {rate} B/s
burst: {tuples}
from:
  replay:
    path: readings.parquet
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:{minutes:02d}:{seconds:06.3f}Z"
    interval: {interval} ms
---
kind: Query
name: load
deadline: {deadline} ms
recovery: {deadline} ms
outputs: {{{output}: edge}}
primaries: {{{output}: [worker]}}
estimates: {{{output}: {{cost: 1 ms}}}}
statements: |
  REGISTER QUERY {output} RSTREAM(SELECT number, value FROM {stream} [NOW]);
"""


@dataclass
class Watched:
    """What was seen of a cluster.

    Attributes
    ----------
    memory_share
        The greatest part of its budget that any host's queues took.
    slipped_ms
        By how much the source has waited.
    throttled
        Whether it was seen waiting.
    counters
        Sums of what hosts count, as last seen.
    """

    memory_share: float = 0.0
    slipped_ms: float = 0.0
    throttled: bool = False
    counters: dict[str, int] = field(default_factory=dict[str, int])

    def see(self, view: ClusterView) -> None:
        """Take one reading in."""
        for host in view.hosts.values():
            if host.memory is not None:
                share = host.memory.used / host.memory.budget
                self.memory_share = max(self.memory_share, share)
            if (source := host.sources.get(STREAM)) is not None:
                self.slipped_ms = max(self.slipped_ms, source.slipped_ms)
                self.throttled |= source.throttled
        self.counters = {
            name: sum(host.counters.get(name, 0) for host in view.hosts.values())
            for name in ("takeovers", "suspicions", "demotions", "tuples_overflowed")
        }


def unshed(settings: Settings) -> dict[str, float]:
    """Run it; flat figures."""
    # What enters at half the rate takes twice as long.
    overload_s = (QUICK_S if settings.quick else OVERLOAD_S) / 2
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        manifests = load([write_input(Path(folder), overload_s)])

        def progress(step: str, detail: str) -> None:
            settings.say(f"unshed: {step}: {detail}")

        with (
            running(manifests, Path(folder) / "work", progress) as cluster,
            _watching(cluster.store) as watched,
        ):
            await_end(cluster.store, manifests, progress)
        return figures(overload_s, watched, read_back(cluster.archive, OUTPUT))


@contextmanager
def _watching(store: Store) -> Generator[Watched]:
    """Look at the cluster again and again meanwhile."""
    watched, ended = Watched(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            with suppress(StoreError):
                watched.see(read_view(store))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()


def figures(overload_s: float, watched: Watched, delivered: Delivered) -> dict[str, float]:
    """Flat figures; `lost` and `unaccounted` are 0 if every tuple was delivered."""
    entered_us: IntArray = delivered.completed_column("ingestion_time_us")
    at_ms: IntArray = delivered.completed_column("watermark_ms")
    begins_ms, ends_ms = REST_S * 1000, (REST_S + overload_s) * 1000
    within: BoolArray = (at_ms > begins_ms) & (at_ms <= ends_ms)
    after: BoolArray = at_ms > ends_ms
    latencies_ms = delivered.latencies_ms
    late_us = entered_us[after & (latencies_ms > DEADLINE_MS)]
    over_us = int(entered_us[within].max())
    lasted_s = (over_us - int(entered_us[within].min())) / 1e6
    return {
        "unshed.capacity_ratio": TUPLES / INTERVAL_MS,
        "unshed.overload_s": lasted_s,
        "unshed.entered": float(_entered(overload_s)),
        "unshed.unaccounted": abs(_entered(overload_s) - delivered.rows.num_rows),
        "unshed.lost": sequence_faults(delivered).lost,
        "unshed.memory_pct": 100.0 * watched.memory_share,
        "unshed.throttled": float(watched.throttled),
        "unshed.slipped_s": watched.slipped_ms / 1000,
        **{f"unshed.{name}": float(count) for name, count in watched.counters.items()},
        "unshed.latency_ms_p99_before": float(np.percentile(latencies_ms[at_ms <= begins_ms], 99)),
        "unshed.latency_ms_p99_overload": float(np.percentile(latencies_ms[within], 99)),
        "unshed.recovered_s": (int(late_us.max()) - over_us) / 1e6 if len(late_us) else 0.0,
    }


def _entered(overload_s: float) -> int:
    rest, overload = (round(s * 1000 / INTERVAL_MS) for s in (2 * REST_S, overload_s))
    return rest * REST_TUPLES + overload * TUPLES


def write_input(folder: Path, overload_s: float) -> Path:
    """Write the recording and the manifests; returns the path of the manifests."""
    rest, overload = (round(s * 1000 / INTERVAL_MS) for s in (REST_S, overload_s))
    counts = np.repeat([REST_TUPLES, TUPLES, REST_TUPLES], [rest, overload, rest])
    # All of an interval come at its end.
    timestamps = np.repeat(np.arange(1, len(counts) + 1, dtype=np.int64) * INTERVAL_MS, counts)
    numbers = np.arange(len(timestamps), dtype=np.int64)
    columns: Mapping[str, IntArray] = {
        "timestamp": timestamps,
        "number": numbers,
        "value": numbers % TUPLES,
    }
    parquet.write_table(pa.Table.from_pydict(dict(columns)), folder / "readings.parquet")
    end_s = len(counts) * INTERVAL_MS / 1000
    path = folder / "unshed.yaml"
    path.write_text(
        MANIFESTS.format(
            memory=MEMORY,
            stream=STREAM,
            output=OUTPUT,
            tuples=TUPLES,
            rate=24 * TUPLES * 1000 // INTERVAL_MS,
            minutes=int(end_s // 60),
            seconds=end_s % 60,
            interval=INTERVAL_MS,
            deadline=DEADLINE_MS,
        )
    )
    return path
