"""Results of the queries of NEXMark, compared with what DuckDB gives for the same questions.

The SQL lies beside the manifests in `examples/nexmark`. Of three queries that tell of changes, it
gives what holds in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.report import ROOT
from bench.throughput import DifferentResults

FOLDER = ROOT / "examples" / "nexmark"
STREAMS = ("persons", "auctions", "bids")

newest_by: Mapping[str, tuple[str, ...]] = {
    "q4": ("category",),
    "q9": ("id",),
    "q18": ("bidder", "auction"),
}
"""Queries whose output tells of changes: the newest row of each of these columns' values holds."""

TOLERANCE = 1e-12
"""Means may differ by so much, relatively: DuckDB rounds on the way."""


def newest(name: str, ours: pa.Table) -> pa.Table:
    """The rows of an output that hold in the end."""
    keys = newest_by.get(name)
    if keys is None:
        return ours
    values = list(zip(*(ours.column(key).to_pylist() for key in keys), strict=True))
    times_ms = ours.column("_ts").to_pylist()
    # Timestamps never fall.
    last = dict(zip(values, times_ms, strict=True))
    kept = [last[row] == at_ms for row, at_ms in zip(values, times_ms, strict=True)]
    return ours.filter(pa.array(kept)).drop_columns(["_ts"])


def connected(folder: Path) -> Any:
    """DuckDB with the streams of a folder; `seq` numbers the rows of each."""
    connection = import_module("duckdb").connect(config={"threads": 1})
    for stream in STREAMS:
        connection.execute(
            f"CREATE VIEW {stream} AS SELECT timestamp AS _ts, row_number() OVER () AS seq, "
            f"* EXCLUDE (timestamp) FROM '{folder / stream}.parquet'"
        )
    return connection


def answer(name: str, connection: Any) -> pa.Table:
    """What DuckDB gives for the same question."""
    sql = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    return connection.sql(sql).to_arrow_table()


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """Check that two results have the same rows, in any order.

    Raises
    ------
    DifferentResults
        They do not; the message says where.
    """
    if set(ours.column_names) != set(theirs.column_names) or ours.num_rows != theirs.num_rows:
        raise DifferentResults(
            f"{ours.num_rows} rows of {ours.column_names}, "
            f"{theirs.num_rows} of {theirs.column_names}"
        )
    theirs = theirs.select(ours.column_names).cast(ours.schema)
    floats = [field.name for field in ours.schema if field.type == pa.float64()]
    order = [(name, "ascending") for name in ours.column_names if name not in floats]
    order += [(name, "ascending") for name in floats]
    one, other = ours.sort_by(order), theirs.sort_by(order)
    for name in ours.column_names:
        if name in floats:
            mine, yours = one.column(name).to_numpy(), other.column(name).to_numpy()
            same = np.allclose(mine, yours, rtol=TOLERANCE, atol=0)
        else:
            same = one.select([name]).equals(other.select([name]))
        if not same:
            raise DifferentResults(f"column {name} differs")
