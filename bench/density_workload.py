"""The workload of benchmark `density`: many small queries on one stream, on six nodes.

Each query has two fragments: a selection on the stream, and a count over the last ten seconds of
what it selects. A round of the recording begins with a quiet stretch, in which time passes and no
tuple enters; the rest has a few hundred tuples a second.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import Manifests, load

NODES = 6
HOSTS = NODES + 2
"""With both sites."""
SIZES = (10, 40, 100, 300)
SHARED_SIZES = (100, 300)
"""Numbers of queries, and of those that may share what they compute."""
QUICK_SIZES = (10,)

FRAGMENTS_PER_QUERY = 2
REPLICAS_PER_QUERY = 2 * FRAGMENTS_PER_QUERY

BOUND_MS = 500
"""Deadline and recovery bound of each query."""

INTERVAL_MS = 50
TUPLES = 13
"""Tuples of an interval: 260 a second."""

QUIET_S = 10
BUSY_S = 20
ROUND_S = QUIET_S + BUSY_S

SELECT_US, COUNT_US = 2, 5
"""Stated cost of a tuple. In batches of a hundred the statements take 0.5 and 2 µs; a host that
evaluates many small batches of many statements takes about twice as long for each."""

LEVELS = 10
"""Tuples have values from 0 to `LEVELS` − 1; a query selects those above a limit of its own."""

STREAM = "readings"
EXIT = "exit"

LATENCIES = "region,here\nhere,1.0\n"
"""Round trips between any two hosts, ms."""

HEAD = """\
kind: Cluster
name: density
nodes: [{nodes}]
sites: [{{name: edge, region: here}}, {{name: {exit}, region: here}}]
latencies: latency.csv
executorMemory: 512m
---
kind: Stream
name: {stream}
site: edge
columns: {{key: int, value: int}}
rate: {rate} B/s
burst: {tuples}
from:
  replay:
    path: readings.parquet
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:00:{end:06.3f}Z"
    interval: {interval} ms
    repeat: true
"""

ESTIMATES = """\
estimates:
  selected_{number}: {{selectivity: 0.5, cost: {select_us} us}}
  count_{number}: {{selectivity: 1, cost: {count_us} us}}
"""

SHARE = "share: true\n"
"""Statements with estimates are not shared."""

QUERY = """\
---
kind: Query
name: query-{number}
deadline: {bound} ms
recovery: {bound} ms
outputs: {{count_{number}: {exit}}}
{stated}statements: |
  REGISTER QUERY selected_{number} RSTREAM(
    SELECT key, value FROM {stream} [NOW] WHERE value >= {limit});
  REGISTER QUERY count_{number} ISTREAM(
    SELECT count(*) AS readings FROM selected_{number} [RANGE 10 SECONDS]);
"""


def workload(folder: Path, queries: int, *, share: bool = False) -> Manifests:
    """Write the recording and the manifests, and read the manifests.

    Parameters
    ----------
    folder
        Keeps both, to be looked at or applied by hand.
    queries
        Number of queries.
    share
        Whether they may share what they compute; only `LEVELS` of their counts differ.
    """
    parquet.write_table(pa.Table.from_batches([recording()]), folder / "readings.parquet")
    (folder / "latency.csv").write_text(LATENCIES)
    head = HEAD.format(
        nodes=", ".join(f"{{name: node-{number}, region: here}}" for number in range(1, NODES + 1)),
        exit=EXIT,
        stream=STREAM,
        # Timestamp, key and value of 8 bytes each.
        rate=24 * TUPLES * 1000 // INTERVAL_MS,
        tuples=TUPLES,
        end=ROUND_S - INTERVAL_MS / 1000,
        interval=INTERVAL_MS,
    )
    bodies = [
        QUERY.format(
            number=number,
            bound=BOUND_MS,
            exit=EXIT,
            stream=STREAM,
            limit=number % LEVELS,
            stated=SHARE
            if share
            else ESTIMATES.format(number=number, select_us=SELECT_US, count_us=COUNT_US),
        )
        for number in range(queries)
    ]
    path = folder / f"density-{queries}{'-shared' if share else ''}.yaml"
    path.write_text(head + "".join(bodies))
    return load([path])


def output(number: int) -> str:
    """The output stream of a query."""
    return f"count_{number}"


def recording() -> pa.RecordBatch:
    """One round: nothing at first, then `TUPLES` with each timestamp."""
    count = BUSY_S * 1000 // INTERVAL_MS * TUPLES
    numbers = np.arange(count, dtype=np.int64)
    columns = {
        RECORDED_TIMESTAMP: QUIET_S * 1000 + numbers // TUPLES * INTERVAL_MS,
        "key": numbers % TUPLES,
        "value": numbers * 7 // TUPLES % LEVELS,
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(values) for values in columns.values()],
        schema=pa.schema([pa.field(name, pa.int64(), nullable=False) for name in columns]),
    )
