"""Benchmark `engine`: time of evaluating fragments, in small chunks as hosts get them.

The fragments of the aircraft example evaluate their recorded input, and two statements evaluate
generated input: a filter with a keyed window aggregate, and the newest tuple of each key. The
recording has a timestamp every second; played as in the example, one comes every 5.6 ms. A source
sends a chunk for each timestamp. A host evaluates the chunks of about 30 ms together, which are
five, and sends the output on as one chunk.

`one_by_one` evaluates each timestamp by itself: what a host does that has nothing else to do.
`ratio` is its time for a timestamp over that of a timestamp among five. The time covers offering
the chunks and evaluating them, without transport, output logs and digests.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.registry import Settings, benchmark
from examples import fetch
from foundation.arrays import FloatArray
from orchestrator.manifest import load
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

TOGETHER = 5
"""Timestamps that a host evaluates together: `batch` of the example's cluster is 30 ms."""

FIRST_SECOND, SECONDS, QUICK_SECONDS = 3_000, 1_000, 100
"""The part of the recording that is evaluated, s: the sky is busy."""

ROUNDS, QUICK_ROUNDS = 10, 5
"""Each evaluation is repeated. Of each call the least time counts: whatever else the machine does
only adds to it."""

MOST_WATERMARKS = 64
"""As in the host's dispatcher."""

KEYS, CHUNK_TUPLES = 200, 20

GENERATED = {
    "keyed_window": (
        "ISTREAM(SELECT k, count(*) AS n, sum(x) AS total, max(x) AS top "
        "FROM readings [RANGE 1 SECOND] WHERE x > 20 GROUP BY k)"
    ),
    "newest_per_key": "ISTREAM(SELECT * FROM readings [PARTITION BY k ROWS 1])",
}
readings = {"k": "string", "x": "float", "i": "int"}

Streams = Mapping[str, Sequence[Chunk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Evaluation of a fragment's whole input.

    Attributes
    ----------
    seconds
        Time of each call.
    tuples, timestamps
        Number of input tuples, of input watermarks.
    output
        One chunk for each evaluation.
    """

    seconds: FloatArray
    tuples: int
    timestamps: int
    output: list[Chunk]


@benchmark("engine")
def engine(settings: Settings) -> Mapping[str, float]:
    """Time of evaluating fragments in small chunks, per tuple and per timestamp."""
    rounds = QUICK_ROUNDS if settings.quick else ROUNDS
    seconds = QUICK_SECONDS if settings.quick else SECONDS
    flat: dict[str, float] = {}
    for programs, streams in (aircraft(seconds), generated(seconds)):
        together, alone = dict(streams), dict(streams)
        for program in programs:
            settings.say(program.name)
            best = _best(program, together, TOGETHER, rounds)
            single = _best(program, alone, 1, rounds)
            together[program.name], alone[program.name] = best.output, single.output
            flat |= {f"{program.name}.{key}": value for key, value in _figures(best).items()}
            figures = _figures(single)
            flat |= {f"{program.name}.one_by_one.{key}": v for key, v in figures.items()}
            flat[f"{program.name}.ratio"] = (
                figures["us_per_timestamp"] / flat[f"{program.name}.us_per_timestamp"]
            )
    return flat


def _figures(evaluation: Evaluation) -> dict[str, float]:
    total_us = float(evaluation.seconds.sum()) * 1e6
    figures = {
        "us_per_timestamp": total_us / evaluation.timestamps,
        "us_per_call": total_us / len(evaluation.seconds),
    }
    if evaluation.tuples:
        figures["us_per_tuple"] = total_us / evaluation.tuples
    return figures


def _best(program: Program, streams: Streams, together: int, rounds: int) -> Evaluation:
    evaluations = [evaluate(program, streams, together) for _ in range(rounds)]
    least = np.minimum.reduce([one.seconds for one in evaluations])
    return replace(evaluations[0], seconds=least)


def evaluate(program: Program, streams: Streams, together: int) -> Evaluation:
    """Evaluate a fragment's input, some timestamps at a time.

    Parameters
    ----------
    program
        The fragment.
    streams
        Input → chunks. A chunk is of one timestamp, or of as many as are evaluated together.
    together
        Number of timestamps.
    """
    runner = FragmentEngine(program)
    chunks = [streams[stream] for stream in program.inputs]
    timestamps = sum(len(chunk.watermarks_ms) for chunk in chunks[0])
    output: list[Chunk] = []
    seconds: list[float] = []
    tuples, next_seq = 0, 0
    size = max(together // len(chunks[0][0].watermarks_ms), 1)
    for start in range(0, len(chunks[0]), size):
        given = [
            # A chunk remembers that it was checked. Hosts check each.
            (stream, replace(chunk))
            for stream, of_stream in zip(program.inputs, chunks, strict=True)
            for chunk in of_stream[start : start + size]
        ]
        begun = time.process_time()
        for stream, chunk in given:
            runner.offer(stream, chunk)
        evaluated = runner.advance(MOST_WATERMARKS)
        seconds.append(time.process_time() - begun)
        assert evaluated is not None, "every chunk has a watermark"
        tuples += evaluated.tuples_in
        output.append(
            Chunk(
                first_seq=next_seq,
                rows=evaluated.rows,
                watermarks_ms=evaluated.watermarks_ms,
                ingestion_times_us=evaluated.ingestion_times_us,
            )
        )
        next_seq += evaluated.rows.num_rows
    return Evaluation(
        seconds=np.array(seconds), tuples=tuples, timestamps=timestamps, output=output
    )


def aircraft(seconds: int) -> tuple[list[Program], Streams]:
    """The aircraft example's fragments, and its recorded streams in chunks of a timestamp."""
    manifests = load([fetch.EXAMPLES / "aircraft"])
    catalogue = {stream.record.name: stream.record.columns for stream in manifests.streams}
    streams = {
        name: _recorded(fetch.DATA / f"aircraft-{name}.parquet", columns, seconds)
        for name, columns in catalogue.items()
    }
    (query,) = manifests.queries
    return _programs(query.record.statements, catalogue), streams


def _programs(text: str, catalogue: Mapping[str, Mapping[str, str]]) -> list[Program]:
    known = dict(catalogue)
    programs: list[Program] = []
    for statement in parse(text):
        program = compile_statement(statement, known)
        known[program.name] = program.columns
        programs.append(program)
    return programs


def _recorded(path: object, columns: Mapping[str, str], seconds: int) -> list[Chunk]:
    table = parquet.read_table(str(path))
    begin_ms = int(table.column("timestamp")[0].as_py()) + FIRST_SECOND * 1000
    arrays = [table.column(name).combine_chunks() for name in ("timestamp", *columns)]
    rows = pa.RecordBatch.from_arrays(arrays, schema=stream_schema(columns))
    return _by_timestamp(rows, range(begin_ms, begin_ms + seconds * 1000, 1000))


def generated(seconds: int) -> tuple[list[Program], Streams]:
    """Statements on readings, which come twenty at a time, 10 ms apart."""
    rng = np.random.default_rng(11)
    count = seconds * CHUNK_TUPLES
    timestamps = np.arange(count) // CHUNK_TUPLES * 10
    rows = pa.RecordBatch.from_pydict(
        {
            "_ts": timestamps,
            "k": [f"k{key}" for key in rng.integers(KEYS, size=count).tolist()],
            "x": rng.normal(25, 5, count),
            "i": np.arange(count),
        },
        schema=stream_schema(readings),
    )
    text = "\n".join(f"REGISTER QUERY {name} {query};" for name, query in GENERATED.items())
    chunks = _by_timestamp(rows, range(0, seconds * 10, 10))
    return _programs(text, {"readings": readings}), {"readings": chunks}


def _by_timestamp(rows: pa.RecordBatch, watermarks_ms: range) -> list[Chunk]:
    """A chunk for each watermark."""
    timestamps = rows.column(0).to_numpy()
    ends = np.searchsorted(timestamps, np.array(watermarks_ms), side="right").tolist()
    begins = [int(np.searchsorted(timestamps, watermarks_ms[0])), *ends]
    return [
        Chunk(
            first_seq=begin - begins[0],
            rows=rows.slice(begin, end - begin),
            watermarks_ms=np.array([watermark_ms]),
            ingestion_times_us=np.array([watermark_ms * 1000]),
        )
        for begin, end, watermark_ms in zip(begins, ends, watermarks_ms, strict=False)
    ]
