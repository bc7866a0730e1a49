"""The query of Fig. 7 of *Recursive streams*, its data, and the same without recursion.

    uni_input    = input ∪ all_avg_delay
    avg_i        = rows of uni_input with id % k = i  ∪  means by id of avg_delay_i [… ROWS 1]
    avg_delay_i  = ISTREAM(avg_i)<NOW>
    all_avg_delay = ISTREAM(avg_0 ∪ … ∪ avg_{k−1})<NOW>

as its listing has it, for k = 1, 2, 4; `val` is a float, because means are. Ids go from 0 to 3 in
turns, values count up. A timestamp has one tuple (a), or four (b).

The *open query* reads from outside what the delays give back: streams of dummies. Its instants
must be timestamps: so here is the query a third time, *spread*, with delays and windows of a
millisecond in the place of instants, and with timestamps of input that lie `SPREAD` apart. What its
delayed streams give are the dummies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from streams.language import parse
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import stream_schema

SPREAD = 8
"""Milliseconds between two timestamps of input of the open query: more than one has instants."""

COLUMNS = {"id": "int", "val": "float"}
IDS = 4

JOINED = (
    "REGISTER QUERY found ISTREAM(SELECT CAST(i.id AS int) AS id, CAST(i.val AS float) AS val "
    "FROM input [NOW] AS i, input [ROWS {rows}] AS r WHERE i.val = r.val UNION ALL "
    "SELECT id, val + 0.5 AS val FROM found [NOW] WHERE floor(val) = val)<NOW>"
)
"""A loop that looks each tuple up among the newest ones, and gives it back once."""

Batches = Mapping[str, pa.RecordBatch]


def _statements(parts: int, window: str, delay: str, fed_back: str) -> dict[str, str]:
    """Name → text. `fed_back` begins the names of the streams that are given back."""
    uni_input = f"SELECT * FROM input [{window}] UNION ALL "
    uni_input += f"SELECT * FROM {fed_back}all_avg_delay [{window}]"
    found: dict[str, str] = {"uni_input": uni_input}
    for part in range(parts):
        found[f"avg_{part}"] = (
            f"SELECT id, val FROM uni_input WHERE id % {parts} = {part} UNION ALL "
            f"SELECT id, avg(val) AS val FROM {fed_back}avg_delay_{part} "
            "[PARTITION BY id ROWS 1] GROUP BY id"
        )
        cast = "CAST(id AS int) AS id, CAST(val AS float) AS val"
        found[f"avg_delay_{part}"] = f"ISTREAM(SELECT {cast} FROM avg_{part}){delay}"
    union = " UNION ALL ".join(
        f"SELECT CAST(id AS int) AS id, CAST(val AS float) AS val FROM avg_{part}"
        for part in range(parts)
    )
    return found | {"all_avg_delay": f"ISTREAM({union}){delay}"}


def _text(statements: Mapping[str, str]) -> str:
    return "; ".join(f"REGISTER QUERY {name} {body}" for name, body in statements.items())


def recursive(parts: int, *, spread: bool = False) -> Program:
    """The query. Spread, all its streams are exported, else `all_avg_delay` alone."""
    delay = "<1 MILLISECOND>" if spread else "<NOW>"
    window = "RANGE 1 MILLISECOND" if spread else "NOW"
    written = with_relations(parse(_text(_statements(parts, window, delay, ""))))
    outputs = ["all_avg_delay"]
    if spread:
        outputs += [f"avg_delay_{part}" for part in range(parts)]
    loops = with_loops(written, outputs)
    (loop,) = (each for each in loops if each.loop is not None)
    return compile_statement(loop, {"input": COLUMNS})


def joined(rows: int) -> Program:
    """A loop that joins its input with a relation of so many rows."""
    loops = with_loops(with_relations(parse(JOINED.format(rows=rows))), ["found"])
    (loop,) = (each for each in loops if each.loop is not None)
    return compile_statement(loop, {"input": COLUMNS})


def open_query(parts: int) -> Program:
    """The open query as one program whose instants are evaluated one after the other (DTS)."""
    statements = with_relations(parse(_text(_open_statements(parts))))
    names = [each.name for each in statements if not each.is_relation]
    inner = " ".join(each.text for each in statements if not each.is_relation).removesuffix(";")
    (loop,) = parse(f"REGISTER LOOP opened OF {', '.join(names)} STEPS 9 ERROR ({inner});")
    return compile_statement(loop, open_catalogue(parts))


def open_fragments(parts: int) -> list[Program]:
    """The statements of the open query as fragments of their own."""
    statements = with_relations(parse(_text(_open_statements(parts))))
    return [
        compile_statement(each, open_catalogue(parts))
        for each in statements
        if not each.is_relation
    ]


def _open_statements(parts: int) -> dict[str, str]:
    return _statements(parts, "RANGE 1 MILLISECOND", "", "dummy_")


def open_catalogue(parts: int) -> dict[str, dict[str, str]]:
    """The streams that the open query reads."""
    dummies = ["dummy_all_avg_delay", *(f"dummy_avg_delay_{part}" for part in range(parts))]
    return dict.fromkeys(("input", *dummies), COLUMNS)


def batch(times_ms: Any, ids: Any, values: Any) -> pa.RecordBatch:
    """Tuples of a stream."""
    columns = [
        pa.array(np.asarray(times_ms, dtype=np.int64)),
        pa.array(np.asarray(ids, dtype=np.int64)),
        pa.array(np.asarray(values, dtype=np.float64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=stream_schema(COLUMNS))


def input_tuples(count: int, together: int, *, spread: bool = False) -> pa.RecordBatch:
    """Tuples of input, so many of each timestamp."""
    places = np.arange(count)
    times_ms = places // together * (SPREAD if spread else 1)
    return batch(times_ms, places % IDS, places // IDS + 1)


def dummies_of(program: Program, rows: pa.Table) -> dict[str, pa.RecordBatch]:
    """What the streams of the spread query have given, as streams of dummies."""
    assert program.loop is not None
    names = [program.loop.members[place].program.name for place in program.loop.exported]
    given = rows.combine_chunks().to_batches()
    tags, times_ms = (_numbers(given, name) for name in ("__stream", "_ts"))
    found: dict[str, pa.RecordBatch] = {}
    for tag, name in enumerate(names):
        there = tags == tag
        ids, values = (_numbers(given, f"__{tag}_{place}")[there] for place in range(2))
        found[f"dummy_{name}"] = batch(times_ms[there], ids, values)
    return found


def _numbers(rows: list[pa.RecordBatch], name: str) -> Any:
    """A column; floats where it has NULLs."""
    parts = [each.column(each.schema.names.index(name)) for each in rows]
    return np.concatenate([part.to_numpy(zero_copy_only=False) for part in parts])
