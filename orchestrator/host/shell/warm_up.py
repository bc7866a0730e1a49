"""Runs each step of a host's work once, before the host joins its cluster.

Libraries load parts of themselves at their first use. The first statement that a process compiles,
the first chunk that it reads and the first batch that it evaluates therefore take far longer than
the next. Together they would silence a host for so long that its peers would suspect it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ha.messages import Data
from ha.output_log import OutputLog
from orchestrator.host.shell.garbage import collect_young_only
from orchestrator.host.shell.wire import decode, encode
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import TIMESTAMP, Chunk, stream_schema

STATEMENTS = """
REGISTER QUERY passing RSTREAM(SELECT key, sqrt(value) AS value FROM heard [NOW] WHERE value > 0);
REGISTER QUERY counted ISTREAM(
  SELECT a.key AS key, count(*) AS number, max(b.value) AS most
  FROM heard [PARTITION BY key ROWS 1] AS a, heard [RANGE 1 SECOND] AS b
  WHERE a.key = b.key GROUP BY a.key);
"""

COLUMNS = {"key": "string", "value": "float"}


def warm_up() -> None:
    """Compile, read, evaluate, log and encode; then have full garbage collections cost little."""
    for statement in parse(STATEMENTS):
        engine = FragmentEngine(compile_statement(statement, {"heard": COLUMNS}))
        log = OutputLog(engine.schema)
        for number in range(2):
            engine.offer("heard", _received(number))
            evaluated = engine.advance(1, 1)
            assert evaluated is not None, "the chunk completes a timestamp group"
            log.append(evaluated.rows, evaluated.watermarks_ms, evaluated.ingestion_times_us)
        FragmentEngine(compile_statement(statement, {"heard": COLUMNS})).restore(engine.snapshot())
    collect_young_only()


def _received(number: int) -> Chunk:
    """A chunk as it arrives over a link."""
    schema = stream_schema(COLUMNS)
    row = {TIMESTAMP: number, "key": "a", "value": 1.0}
    chunk = Chunk(
        first_seq=number,
        rows=pa.RecordBatch.from_pylist([row], schema=schema),
        watermarks_ms=np.asarray([number]),
        ingestion_times_us=np.asarray([number]),
    )
    sent = Data(stream="heard", epoch=1, generation=1, chunk=chunk)
    message = decode(encode(sent), lambda _: schema)
    assert isinstance(message, Data), "encoding and decoding yields the same message"
    return message.chunk
