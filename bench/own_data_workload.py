"""A query on data of one's own: stock ticks, as somebody would write it who knows no costs.

Twenty thousand ticks of five symbols, recorded over half an hour, are replayed sixty times as fast:
667 a second. For each tick, the volume-weighted mean price of its symbol over the last minute;
ticks that deviate from it by one per cent; and their number in five minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.control.planning.costs import cost_line
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import Manifests, load

TICKS = 20_000
SYMBOLS = ("ABC", "DEF", "GHI", "JKL", "MNO")
RECORDED_S = 1800
SPEED = 60
SEED = 1

NODES = 6
DEADLINE_MS = 300

ROW_BYTES = 40
"""Timestamp, price and volume of 8 bytes each; a symbol counts 16."""

CLUSTER = """\
kind: Cluster
name: own-data
nodes: [{nodes}]
sites: [{{name: exchange, region: here}}, {{name: desk, region: here}}]
latencies: latency.csv
executorMemory: 512m
admission: {admission}
"""

QUERY = """\
kind: Stream
name: ticks
site: exchange
columns: {{symbol: string, price: float, volume: int}}
rate: {rate} B/s
from:
  replay:
    path: ticks.parquet
    speed: {speed}
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:29:59.999Z"
    repeat: true
---
kind: Query
name: deviations
deadline: {deadline} ms
recovery: {deadline} ms
outputs: {{deviations: desk}}
{estimates}statements: |
  REGISTER QUERY weighted RSTREAM(
    SELECT symbol, sum(price * volume) / sum(volume) AS mean
    FROM ticks [RANGE 1 MINUTE] GROUP BY symbol);
  REGISTER QUERY deviating RSTREAM(
    SELECT t.symbol AS symbol, t.price AS price, w.mean AS mean
    FROM ticks [NOW] AS t, weighted [NOW] AS w
    WHERE t.symbol = w.symbol AND abs(t.price - w.mean) > 0.01 * w.mean);
  REGISTER QUERY deviations ISTREAM(
    SELECT count(*) AS number FROM deviating [RANGE 5 MINUTES]);
"""


def workload(
    folder: Path, *, admission: bool, costs_us: Mapping[str, float] | None = None
) -> tuple[Manifests, Manifests]:
    """Write the recording and the manifests; read those of the cluster and those of the query.

    Parameters
    ----------
    admission
        Whether the cluster refuses what would overload it.
    costs_us
        Costs to state, by fragment; none are stated without.
    """
    parquet.write_table(pa.Table.from_batches([recording()]), folder / "ticks.parquet")
    (folder / "latency.csv").write_text("region,here\nhere,1.0\n")
    nodes = ", ".join(f"{{name: node-{number}, region: here}}" for number in range(1, NODES + 1))
    switch = "on" if admission else "off"
    (folder / "cluster.yaml").write_text(CLUSTER.format(nodes=nodes, admission=switch))
    lines = [f"  {cost_line(name, cost_us)}\n" for name, cost_us in (costs_us or {}).items()]
    query = QUERY.format(
        rate=round(ROW_BYTES * TICKS * SPEED / RECORDED_S),
        speed=SPEED,
        deadline=DEADLINE_MS,
        estimates="".join(["estimates:\n", *lines]) if lines else "",
    )
    (folder / "query.yaml").write_text(query)
    return load([folder / "cluster.yaml"]), load([folder / "query.yaml"])


def recording() -> pa.RecordBatch:
    """Prices that walk at random, with a jump now and then."""
    rng = np.random.default_rng(SEED)
    symbols = rng.integers(0, len(SYMBOLS), size=TICKS)
    steps = rng.normal(0.0, 0.0005, size=TICKS)
    prices = np.zeros(TICKS)
    for number in range(len(SYMBOLS)):
        own = symbols == number
        prices[own] = 100.0 * np.exp(np.cumsum(steps[own]))
    jumps = rng.random(TICKS) < 0.01
    prices[jumps] *= 1.02
    columns = {
        RECORDED_TIMESTAMP: pa.array(np.arange(TICKS, dtype=np.int64) * RECORDED_S * 1000 // TICKS),
        "symbol": pa.array([SYMBOLS[symbol] for symbol in symbols], type=pa.string()),
        "price": pa.array(prices),
        "volume": pa.array(rng.integers(1, 1000, size=TICKS)),
    }
    schema = pa.schema(
        [pa.field(name, each.type, nullable=False) for name, each in columns.items()]
    )
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
