"""Engines that feed each other in one process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streams.evaluate.chain import FragmentChain
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

TEXT = """
REGISTER QUERY odd RSTREAM(SELECT i FROM s [NOW] WHERE i % 2 = 1);
REGISTER QUERY both RSTREAM(SELECT i FROM odd [NOW] UNION ALL SELECT i FROM s [NOW]);
"""


def programs() -> dict[str, Program]:
    catalogue = {"s": {"i": "int"}}
    found: dict[str, Program] = {}
    for statement in parse(TEXT):
        found[statement.name] = compile_statement(statement, catalogue)
        catalogue[statement.name] = dict(found[statement.name].columns)
    return found


def chunk(first_seq: int, *rows: tuple[int, int]) -> Chunk:
    schema = stream_schema({"i": "int"})
    batch = pa.RecordBatch.from_pylist([{"_ts": at, "i": i} for at, i in rows], schema=schema)
    return Chunk(
        first_seq=first_seq,
        rows=batch,
        watermarks_ms=np.array([rows[-1][0]]),
        ingestion_times_us=np.array([0]),
    )


def test_each_fragment_gets_what_its_producers_give() -> None:
    chain = FragmentChain(programs())
    found: dict[str, list[int]] = {"odd": [], "both": []}
    for each in (chunk(0, (1, 1), (2, 2)), chunk(2, (3, 3))):
        chain.offer("s", each)
        for name, made in chain.advance():
            found[name] += made.rows.column(1).to_pylist()
    assert found == {"odd": [1, 3], "both": [1, 1, 2, 3, 3]}


def test_a_stream_that_nobody_reads_is_no_fault() -> None:
    chain = FragmentChain(programs())
    chain.offer("other", chunk(0, (1, 1)))
    assert not list(chain.advance())
