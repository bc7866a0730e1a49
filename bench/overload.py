"""Benchmark `overload`: twice a host's capacity for half a minute, on Spark executors.

A host evaluates two streams at 1 ms a tuple (emulated): *alarms*, whose output has a deadline of
100 ms, and *readings*. Together they are twice the host's capacity. The load shedder of the
readings admits the most valuable tuples of each interval, so many that a tenth of the host stays
free. Every tuple must be accounted for: tuples of the recording = shed + delivered.

Kind `unshed` has no load shedder (`bench.overload_unshed`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import await_end, running
from bench.overload_unshed import unshed
from bench.registry import Settings, benchmark
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.manifest import load

DURATION_S = 30
QUICK_S = 5

INTERVAL_MS = 20
ALARMS, READINGS = 4, 36
"""Tuples of an interval: together twice as many as fit into it at 1 ms a tuple."""

KEPT_READINGS = 14
"""Readings admitted in each interval: with the alarms they take nine tenths of the host."""

DEADLINE_MS = 100

MANIFESTS = """\
kind: Cluster
name: overload
nodes:
  - {{name: worker, region: here, domain: a}}
  - {{name: spare, region: here, domain: b}}
sites: [{{name: edge, region: here}}]
batch: 5 ms
emulateCosts: true
---
kind: Stream
name: alarms
site: edge
columns: {{number: int, value: int}}
rate: {alarms_rate} B/s
burst: {alarms}
from:
  replay: {{path: alarms.parquet, begin: "{begin}", end: "{end}", interval: {interval} ms}}
---
kind: Stream
name: readings
site: edge
columns: {{number: int, value: int}}
rate: {readings_rate} B/s
burst: {kept}
shed: {{tuples: {kept}, per: {interval} ms, value: value}}
from:
  replay: {{path: readings.parquet, begin: "{begin}", end: "{end}", interval: {interval} ms}}
---
kind: Query
name: load
deadline: 2 s
recovery: 500 ms
outputs:
  urgent: {{site: edge, deadline: {deadline} ms}}
  archived: edge
primaries: {{urgent: [worker], archived: [worker]}}
estimates: {{urgent: {{cost: 1 ms}}, archived: {{cost: 1 ms}}}}
statements: |
  REGISTER QUERY urgent RSTREAM(SELECT number, value FROM alarms [NOW]);
  REGISTER QUERY archived RSTREAM(SELECT number, value FROM readings [NOW]);
"""


@benchmark("overload", kinds=("shed", "unshed"))
def overload(settings: Settings) -> Mapping[str, float]:
    """Twice the capacity of a host: deadline misses with a load shedder, back-pressure without."""
    runs = {"shed": _shed, "unshed": unshed}
    found: dict[str, float] = {}
    for kind in settings.only or runs:
        found |= runs[kind](settings)
    return found


def _shed(settings: Settings) -> dict[str, float]:
    seconds = QUICK_S if settings.quick else DURATION_S
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        manifests = load([write_input(Path(folder), seconds)])

        def progress(step: str, detail: str) -> None:
            settings.say(f"{step}: {detail}")

        with running(manifests, Path(folder) / "work", progress) as cluster:
            await_end(cluster.store, manifests, progress)
            sources = read_view(cluster.store).hosts["edge"].sources
        # The site has ended: its archive is complete.
        return figures(
            seconds,
            {name: source.shed for name, source in sources.items()},
            {s: read_back(cluster.archive, s) for s in ("urgent", "archived")},
        )


def figures(
    seconds: float, shed: Mapping[str, int], delivered: Mapping[str, Delivered]
) -> dict[str, float]:
    """Flat figures; `unaccounted` is 0 if every tuple is accounted for."""
    intervals = round(seconds * 1000 / INTERVAL_MS)
    entered = {"urgent": ALARMS * intervals, "archived": READINGS * intervals}
    dropped = {"urgent": shed.get("alarms", 0), "archived": shed.get("readings", 0)}
    flat: dict[str, float] = {
        "overload.capacity_ratio": (ALARMS + READINGS) / INTERVAL_MS,
        "overload.entered": sum(entered.values()),
        "overload.shed": sum(dropped.values()),
        "overload.delivered": sum(each.rows.num_rows for each in delivered.values()),
        "overload.lost": sum(sequence_faults(each).lost for each in delivered.values()),
    }
    flat["overload.unaccounted"] = sum(
        abs(entered[stream] - dropped[stream] - each.rows.num_rows)
        for stream, each in delivered.items()
    )
    late = delivered["urgent"].row_latencies_ms > DEADLINE_MS
    flat["overload.miss_pct_tight"] = 100.0 * float(late.mean())
    flat["overload.latency_ms_p99_tight"] = float(
        np.percentile(delivered["urgent"].row_latencies_ms, 99)
    )
    values = np.asarray(delivered["archived"].rows["value"].to_numpy(), dtype=np.int64)
    flat["overload.value_kept_pct"] = (
        100.0 * float(values.sum()) / (intervals * READINGS * (READINGS - 1) / 2)
    )
    return flat


def write_input(folder: Path, seconds: float) -> Path:
    """Write the recordings and the manifests; returns the path of the manifests."""
    intervals = round(seconds * 1000 / INTERVAL_MS)
    for stream, count in (("alarms", ALARMS), ("readings", READINGS)):
        numbers = np.arange(count * intervals, dtype=np.int64)
        columns = {
            # All of an interval come at its end.
            "timestamp": (numbers // count + 1) * INTERVAL_MS,
            "number": numbers,
            "value": numbers % count,
        }
        parquet.write_table(pa.Table.from_pydict(columns), folder / f"{stream}.parquet")
    per_second = 1000 / INTERVAL_MS
    row_bytes = 24
    end_s = intervals * INTERVAL_MS / 1000
    manifests = folder / "overload.yaml"
    manifests.write_text(
        MANIFESTS.format(
            alarms=ALARMS,
            kept=KEPT_READINGS,
            alarms_rate=round(ALARMS * per_second * row_bytes),
            readings_rate=round(KEPT_READINGS * per_second * row_bytes),
            begin="1970-01-01T00:00:00Z",
            end=f"1970-01-01T00:00:{end_s:06.3f}Z",
            interval=INTERVAL_MS,
            deadline=DEADLINE_MS,
        )
    )
    return manifests
