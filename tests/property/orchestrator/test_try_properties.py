"""`vivace try` gives the same whatever its files are written in, and what the engine gives.

The files are written here by other means than those of the product; results are read back.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from orchestrator.edges.sources.formats.files import read_file
from orchestrator.edges.sources.formats.row_form import RowForm
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk, stream_schema
from tests.tried import tried

COLUMNS = {"k": "string", "i": "int", "x": "float", "b": "bool"}
FORMATS = ("csv", "jsonl", "parquet")
STATEMENTS = (
    "RSTREAM(SELECT k, i, x, b FROM s [NOW])",
    "RSTREAM(SELECT k, count(*) AS n, sum(x) AS t, min(i) AS least FROM s "
    "[RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k)",
    "ISTREAM(SELECT b, count(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY b)",
    "ISTREAM(SELECT k, i, x FROM s [PARTITION BY k ROWS 1 RANGE 3 SECONDS])",
    "RSTREAM(SELECT k, max(x) AS top FROM s [SESSION 1 SECOND PARTITION BY k] GROUP BY k)",
    "RSTREAM(SELECT a.k AS k, b.i AS i FROM s [NOW] AS a, s [RANGE 1 SECOND] AS b WHERE a.k = b.k)",
)
STREAM = f"""\
kind: Stream
name: s
site: here
columns: {json.dumps(COLUMNS)}
rate: 1 KB/s
from: {{http: {{timestamp: {{column: at, format: ms}}}}}}
"""

FAR_MS = 10**9
"""After all windows."""

texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=5)
keys = st.sampled_from(["a", "", "NULL", " b", '"', "1"]) | texts
floats = st.floats(allow_nan=False, allow_infinity=False)
rows = st.lists(
    st.tuples(
        st.integers(0, 900),
        st.none() | keys,
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | floats,
        st.none() | st.booleans(),
    ),
    max_size=40,
)


def records(drawn: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Rows with timestamps that do not fall: the first value is the time since the last one."""
    at = np.cumsum([row[0] for row in drawn]).tolist()
    return [
        {"at": when, **dict(zip(COLUMNS, row[1:], strict=True))}
        for when, row in zip(at, drawn, strict=True)
    ]


def write(path: Path, records: list[dict[str, Any]]) -> None:
    """A file of rows."""
    if path.suffix == ".parquet":
        schema = pa.schema([pa.field("at", pa.int64()), *list(stream_schema(COLUMNS))[1:]])
        parquet.write_table(pa.Table.from_pylist(records, schema=schema), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    else:
        lines = [["at", *COLUMNS], *([_text(value) for value in row.values()] for row in records)]
        path.write_bytes("".join(",".join(line) + "\n" for line in lines).encode())


def _text(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def evaluated(statement: str, records: list[dict[str, Any]]) -> pa.Table:
    """What the engine gives that is fed directly."""
    program = compile_statement(parse(f"REGISTER QUERY query {statement};")[0], {"s": COLUMNS})
    engine = FragmentEngine(program)
    schema = stream_schema(COLUMNS)
    given = [{"_ts": row["at"], **row} for row in records]
    batch = pa.RecordBatch.from_pylist(given, schema=schema)
    watermarks_ms = np.union1d([row["at"] for row in records], [FAR_MS]).astype(np.int64)
    engine.offer(
        "s",
        Chunk(
            first_seq=0, rows=batch, watermarks_ms=watermarks_ms, ingestion_times_us=watermarks_ms
        ),
    )
    made = engine.advance(10**9)
    assert made is not None
    return pa.Table.from_batches([made.rows])


@pytest.mark.parametrize("statement", STATEMENTS)
@settings(deadline=None, max_examples=30)
@given(drawn=rows)
def test_all_formats_give_what_the_engine_gives(
    statement: str, drawn: list[tuple[Any, ...]]
) -> None:
    given = records(drawn)
    direct = evaluated(statement, given)
    columns = dict(
        compile_statement(parse(f"REGISTER QUERY q {statement};")[0], {"s": COLUMNS}).columns
    )
    form = RowForm(columns=columns, time_column="_ts", time_format="ms")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stream = folder / "s.yaml"
        stream.write_text(STREAM, encoding="utf-8")
        for place, written in enumerate(FORMATS):
            source = folder / f"in.{written}"
            # Each is read with another one to write.
            result = folder / f"out.{FORMATS[place - 1]}"
            write(source, given)
            tried(statement, str(source), outputs=[str(result)], files=[stream])
            found = pa.Table.from_batches([read_file(result, form)])
            assert found.equals(direct), written
