"""The workload of benchmark `standby`: trees as in reliable placement, §5, and an aggregate.

A tree has four sources, a selection on each, two joins of two selections, a join of both, and one
destination. A source gives 2 KB/s in tuples of 24 bytes; an operator takes 1.2 ms for a tuple, as
in the model of benchmark `reliable_placement`. Joins are of tuples with equal timestamps. The
aggregate is a sum for each of 20 keys over ten seconds of one stream of 12 KB/s, every second.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import Manifests, load

BOUND_MS = 600
SOURCES = 4
INTERVAL_MS = 100
TUPLES_S = 80
"""Of a source: 2 KB/s."""
AGGREGATED_TUPLES_S = 500
KEYS = 20
ROUND_S = 60
COST = "1.2 ms"
EXIT = "exit"
TREE_OUTPUT, SUMS = "joined", "sums"

CLUSTER = """\
kind: Cluster
name: standby
ackInterval: {ack} ms
nodes: [{nodes}]
sites: [{sites}]
latencies: latency.csv
executorMemory: 512m
admission: off
{emulate}
"""

STREAM = """\
---
kind: Stream
name: {name}
site: {site}
columns: {{key: int, value: int}}
rate: {rate} B/s
burst: {burst}
from:
  replay:
    path: {name}.parquet
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:00:{end:06.3f}Z"
    interval: {interval} ms
    repeat: true
"""

TREE = """\
---
kind: Query
name: tree
deadline: 5 s
recovery: {bound} ms
standby: {standby}
outputs: {{joined: exit}}
estimates: {{{estimates}}}
statements: |
{statements}
"""

AGGREGATE = """\
---
kind: Query
name: aggregate
deadline: 5 s
recovery: {bound} ms
standby: {standby}
outputs: {{sums: exit}}
estimates: {{sums: {{selectivity: 0.04, cost: 20 us}}}}
statements: |
  REGISTER QUERY sums RSTREAM(
    SELECT key, sum(value) AS total FROM many [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY key);
"""


def workload(folder: Path, standby: str, nodes: int, seed: int, *, emulated: bool) -> Manifests:
    """Write recordings, latencies and manifests, and read the manifests.

    Parameters
    ----------
    standby
        The scheme of the tree and of the aggregate, as a manifest says it.
    emulated
        Whether an evaluation takes as long as it is said to. If not, what the tree costs is not
        said.
    """
    rng = np.random.default_rng(seed)
    sites = [f"edge-{number}" for number in range(SOURCES)]
    executors = [f"node-{number}" for number in range(nodes)]
    (folder / "latency.csv").write_text(_latencies([*executors, *sites, EXIT], rng))
    streams: list[str] = []
    for number, site in enumerate(sites):
        streams.append(_stream(folder, f"source{number}", site, TUPLES_S, rng))
    streams.append(_stream(folder, "many", sites[0], AGGREGATED_TUPLES_S, rng))
    places = {"nodes": executors, "sites": [*sites, EXIT]}
    named = {
        kind: ", ".join(f"{{name: {name}, region: {name}}}" for name in names)
        for kind, names in places.items()
    }
    cluster = CLUSTER.format(ack=50, emulate="emulateCosts: true" if emulated else "", **named)
    cost = f", cost: {COST}" if emulated else ""
    tree = TREE.format(
        bound=BOUND_MS,
        standby=standby,
        estimates=", ".join(
            f"{name}: {{selectivity: {share}{cost}}}" for name, share in _estimates()
        ),
        statements="\n".join(f"  {line}" for line in _statements()),
    )
    path = folder / "standby.yaml"
    path.write_text(
        "".join([cluster, *streams, tree, AGGREGATE.format(bound=BOUND_MS, standby=standby)])
    )
    return load([path])


def _estimates() -> list[tuple[str, float]]:
    selections = [(f"selection{number}", 1.0) for number in range(SOURCES)]
    return [*selections, ("join0", 0.375), ("join1", 0.375), ("joined", 0.375)]


def _statements() -> list[str]:
    lines = [
        f"REGISTER QUERY selection{n} RSTREAM(SELECT key, value FROM source{n} [NOW] "
        "WHERE value >= 0);"
        for n in range(SOURCES)
    ]
    joins = [
        ("join0", "selection0", "selection1"),
        ("join1", "selection2", "selection3"),
        ("joined", "join0", "join1"),
    ]
    lines += [
        f"REGISTER QUERY {name} RSTREAM(SELECT l.key AS key, l.value + r.value AS value "
        f"FROM {left} [NOW] AS l, {right} [NOW] AS r WHERE l.key = r.key);"
        for name, left, right in joins
    ]
    return lines


def _stream(folder: Path, name: str, site: str, tuples_s: int, rng: np.random.Generator) -> str:
    count = ROUND_S * tuples_s
    times = np.arange(count, dtype=np.int64) * 1000 // tuples_s
    keys = np.arange(count, dtype=np.int64) % KEYS
    # A quarter of the tuples of a source finds no partner.
    keys = np.where(rng.random(count) < 1 / 8, keys + KEYS, keys) if name != "many" else keys
    columns = {RECORDED_TIMESTAMP: times, "key": keys, "value": rng.integers(0, 10**6, count)}
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values) for values in columns.values()],
        schema=pa.schema([pa.field(column, pa.int64(), nullable=False) for column in columns]),
    )
    parquet.write_table(pa.Table.from_batches([batch]), folder / f"{name}.parquet")
    return STREAM.format(
        name=name,
        site=site,
        rate=24 * tuples_s,
        burst=max(tuples_s * INTERVAL_MS // 1000, 1),
        end=ROUND_S - INTERVAL_MS / 1000,
        interval=INTERVAL_MS,
    )


def _latencies(places: list[str], rng: np.random.Generator) -> str:
    """Round trips, ms: places in a square, up to about 60 ms apart."""
    at = rng.uniform(0, 40, (len(places), 2))
    rows = [
        ",".join(
            [
                a,
                *(
                    "" if i == j else f"{4 + np.linalg.norm(at[i] - at[j]):.2f}"
                    for j in range(len(at))
                ),
            ]
        )
        for i, a in enumerate(places)
    ]
    return "\n".join([",".join(["", *places]), *rows]) + "\n"
