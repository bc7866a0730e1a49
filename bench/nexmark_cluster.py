"""Kind `cluster` of benchmark `nexmark`: four of its queries on executors, one of which is killed.

The manifests are those of `examples/nexmark`, with recordings that are replayed faster. One site
feeds the query and takes its output, three executors evaluate it, and every fragment has a warm
standby. Each query runs twice, on a cluster of its own. At `FULL_SPEED`, of which admission is not
told, consumers have the source wait: that tells how many events a second get through. At
`STEADY_SPEED` it need not, and the executor of the primary of the output is killed while the
recording plays. All rows of both runs are compared with DuckDB's.
"""

from __future__ import annotations

import os
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import parquet

from bench.cluster import await_end, running
from bench.nexmark_events import BEGIN_MS, EVENTS_MS
from bench.nexmark_results import FOLDER, STREAMS, answer, compare, connected
from bench.registry import Settings
from orchestrator.api.demo import input_waited_ms
from orchestrator.api.validation import check
from orchestrator.drills.disturbances import fail_primary
from orchestrator.drills.kill_executor import Killed
from orchestrator.drills.measurement import outage, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.edges.sources import played
from orchestrator.manifest import Manifests, load
from streams.vectors.chunk import TIMESTAMP

QUERIES = ("q1", "q5", "q7", "q8")

CORES = len(os.sched_getaffinity(0))

FULL_SPEED = 1000
STEADY_SPEED = 5
"""50,000 events a second."""

UNDISTURBED_S = 3.0
"""How long the recording plays before the kill."""


def clustered(settings: Settings, name: str, recordings: Path, events: int) -> dict[str, float]:
    """Run one query twice; flat figures.

    Parameters
    ----------
    recordings
        Folder with `<stream>.parquet`.
    events
        Of all streams.

    Raises
    ------
    DifferentResults
        Rows differ from DuckDB's.
    VivaceError
        A cluster does not start, or does not recover.
    """
    full = _run(FULL_SPEED, settings, name, recordings, events, kills=False)
    steady = _run(STEADY_SPEED, settings, name, recordings, events, kills=not settings.quick)
    figures = {
        "events_s": events / full["seconds"],
        "events_s_core": events / full["seconds"] / CORES,
        "read_s_core": _read(name, recordings) / full["seconds"] / CORES,
        "waited_s": full["waited_s"],
        **{key: steady[key] for key in steady if key not in full},
        **{key: full[key] + steady[key] for key in ("lost", "repeated")},
    }
    if find_spec("duckdb") is not None:
        figures["correct"] = 1
    return {f"{name}.cluster.{key}": value for key, value in figures.items()}


def _run(
    speed: float, settings: Settings, name: str, recordings: Path, events: int, *, kills: bool
) -> dict[str, float]:
    end_ms = BEGIN_MS + events // EVENTS_MS - 1
    manifests = played_at(name, recordings, end_ms, speed)

    def progress(step: str, detail: str) -> None:
        settings.say(f"{name}, {speed:g} times as fast: {step}: {detail}")

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        with running(manifests, Path(folder), progress) as cluster:
            killed = None
            if kills:
                time.sleep(UNDISTURBED_S)
                killed = fail_primary(cluster.store, name, progress)
            await_end(cluster.store, manifests, progress)
            waited_s = input_waited_ms(cluster.store) / 1000
        # The site has ended: its archive is complete.
        delivered = read_back(cluster.archive, name)
    if find_spec("duckdb") is not None:
        compared(delivered.rows, name, recordings, end_ms)
    return {"waited_s": waited_s, **_figures(delivered, killed)}


def _read(name: str, recordings: Path) -> int:
    """How many events are in the streams that a query reads."""
    fragments = check(load([FOLDER / "streams.yaml", FOLDER / f"{name}.yaml"])).of(name)
    read = {stream for fragment in fragments for stream in fragment.inputs}
    paths = [str(recordings / f"{stream}.parquet") for stream in STREAMS if stream in read]
    return sum(parquet.read_table(path, columns=["timestamp"]).num_rows for path in paths)


def played_at(name: str, recordings: Path, end_ms: int, speed: float) -> Manifests:
    """The example's manifests, with recordings up to `end_ms` that play faster."""
    paths = [FOLDER / f"{each}.yaml" for each in ("cluster", "streams", name)]
    manifests = load(paths)
    assert manifests.cluster is not None, "the example has a cluster"
    streams = tuple(
        msgspec.structs.replace(
            each,
            record=msgspec.structs.replace(
                played(
                    each.record,
                    path=str(recordings / f"{each.record.name}.parquet"),
                    end_ms=end_ms,
                    speed=speed,
                ),
                rate_bytes_s=each.record.rate_bytes_s * min(speed, STEADY_SPEED),
            ),
        )
        for each in manifests.streams
    )
    record = msgspec.structs.replace(manifests.cluster.record, admission=speed != FULL_SPEED)
    cluster = msgspec.structs.replace(manifests.cluster, record=record)
    return msgspec.structs.replace(manifests, cluster=cluster, streams=streams)


def _figures(delivered: Delivered, killed: Killed | None) -> dict[str, float]:
    """Of one run; `seconds` from the first event's entry until the last result had come."""
    entered_us = delivered.completed_column("ingestion_time_us")
    arrived_us = delivered.completed_column("arrived_us")
    faults = sequence_faults(delivered)
    figures = {
        "seconds": float(arrived_us.max() - entered_us.min()) / 1e6,
        "lost": float(faults.lost),
        "repeated": float(faults.repeated),
    }
    if killed is not None:
        figures["recovery_ms"] = outage(killed, [delivered]).recovery_ms
    return figures


def compared(rows: pa.Table, name: str, recordings: Path, end_ms: int) -> None:
    """Compare the rows that came with those of DuckDB up to a timestamp.

    Raises
    ------
    DifferentResults
        They differ.
    """
    theirs = answer(name, connected(recordings))
    ended = theirs.filter(theirs[TIMESTAMP].to_numpy() <= end_ms)
    compare(rows.drop_columns([GENERATION, SEQUENCE]), ended)
