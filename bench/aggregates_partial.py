"""Partial aggregation at the producer: bytes over a link with and without it.

A stream of 10,000 tuples a second is counted, summed and its greatest value taken by key, over
windows of ten seconds that slide by one. Of ints (`partial`) that takes three columns of ints for
each group; of floats (`floats`) the unrounded sum is a text, and the standard deviation is taken
too, which needs another one. Between the stream's source and the reader of the result
there is a wide link, and something has to cross it:

- `rows`: the stream's tuples, if the statement is evaluated beyond the link,
- `result`: its output, if it is evaluated before the link,
- `partial`: the aggregates of panes, if the statement is split (`streams.plan.partial`) and its
  parts are evaluated before and beyond.

Keys either last (`lasting`), so that a window has hardly more groups than a pane, or half of them
are replaced every second (`passing`), as identifiers of sessions, orders or vehicles in sight are.

With a union (`measured_union`) there are two such streams of half the rate, each at a site of its
own, and the result is read at a third place. What crosses links is then

- `rows`: both streams, if the union and the statement are evaluated at the reader,
- `beside_one`: one stream and the result, if they are evaluated beside the other stream,
- `partial`: the aggregates of panes of both, if the statement is split below the union
  (`streams.plan.partial_union`).

Each is counted as hosts send it: frames of what enters or is evaluated in intervals of 10 ms,
watermarks included, once the window is full. The rows of both ways are compared with each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from bench.registry import Settings
from bench.throughput import DifferentResults
from ha.messages import Data
from orchestrator.host.shell.wire import encode
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.plan.partial import split
from streams.plan.partial_union import split_below
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

GROUPS = (10, 100, 1_000, 10_000)
QUICK_GROUPS = (10, 1_000)
"""Keys at any time."""

TUPLES_S = 10_000
TOGETHER_MS = 10
"""What enters in so long travels together, as the default of a cluster's `batch` has it."""

RANGE_S, SLIDE_S = 10, 1
SECONDS, QUICK_SECONDS = 20, 12
"""Length of the stream; the first ten seconds fill the window and are not counted."""

columns = {"k": "string", "i": "int"}
float_columns = {"k": "string", "x": "float"}

WINDOW = f"FROM s [RANGE {RANGE_S} SECONDS SLIDE {SLIDE_S} SECOND] GROUP BY k);"

STATEMENT = (
    "REGISTER QUERY q RSTREAM(SELECT k, count(*) AS n, sum(i) AS total, max(i) AS most " + WINDOW
)
OF_FLOATS = (
    "REGISTER QUERY q RSTREAM(SELECT k, avg(x) AS mean, stddev(x) AS deviation, max(x) AS most "
    + WINDOW
)


@dataclass(slots=True)
class Producer:
    """A fragment, what it has emitted, and what that is on a link."""

    program: Program
    engine: FragmentEngine = field(init=False)
    rows: Counter[tuple[object, ...]] = field(default_factory=Counter[tuple[object, ...]])
    bytes: int = 0
    seconds: float = 0.0
    seq: int = 0

    def __post_init__(self) -> None:
        self.engine = FragmentEngine(self.program)

    def take(self, *chunks: Chunk, counted: bool) -> Iterator[Chunk]:
        """Evaluate a chunk of each input; chunks of the output."""
        begun = time.process_time()
        for stream, chunk in zip(self.program.inputs, chunks, strict=True):
            self.engine.offer(stream, chunk)
        evaluated = self.engine.advance(1 << 20)
        self.seconds += time.process_time() - begun if counted else 0.0
        if evaluated is None:
            return
        made = Chunk(
            first_seq=self.seq,
            rows=evaluated.rows,
            watermarks_ms=evaluated.watermarks_ms,
            ingestion_times_us=evaluated.ingestion_times_us,
        )
        self.seq += evaluated.rows.num_rows
        self.rows.update(tuple(row.values()) for row in evaluated.rows.to_pylist())
        self.bytes += sent_bytes(self.program.name, made) if counted else 0
        yield made


def partials(settings: Settings) -> dict[str, float]:
    """Bytes a second over the link each way, and time of a tuple at the producer."""
    return _of_each(settings, "partial", measured)


def float_partials(settings: Settings) -> dict[str, float]:
    """The same of a statement with sums of floats and of their squares."""
    return _of_each(settings, "floats", measured_floats)


def unions(settings: Settings) -> dict[str, float]:
    """Bytes a second over links each way, of a statement over a union of two sites."""
    return _of_each(settings, "union", measured_union)


class _Measure(Protocol):
    def __call__(self, groups: int, seconds: int, *, passing: bool) -> dict[str, float]: ...


def _of_each(settings: Settings, kind: str, measure: _Measure) -> dict[str, float]:
    """The figures of each number of keys, lasting and passing ones."""
    flat: dict[str, float] = {}
    for passing in (False, True):
        for groups in QUICK_GROUPS if settings.quick else GROUPS:
            settings.say(f"{kind}: {groups} {'passing' if passing else 'lasting'} groups")
            seconds = QUICK_SECONDS if settings.quick else SECONDS
            flat |= measure(groups, seconds, passing=passing)
    return flat


def measured(
    groups: int, seconds: int, tuples_s: int = TUPLES_S, *, passing: bool
) -> dict[str, float]:
    """The figures of a stream of ints with so many keys at any time.

    Raises
    ------
    DifferentResults
        The statement in two gives other rows than the whole one.
    """
    stream = chunks(groups, seconds, tuples_s, passing=passing)
    key = f"partial.{'passing' if passing else 'lasting'}.{groups}"
    return _compared(key, STATEMENT, columns, stream, tuples_s, seconds - RANGE_S)


def measured_floats(
    groups: int, seconds: int, tuples_s: int = TUPLES_S, *, passing: bool
) -> dict[str, float]:
    """The figures of a stream of floats; parameters and errors as of `measured`."""
    stream = chunks(groups, seconds, tuples_s, passing=passing, floats=True)
    key = f"floats.{'passing' if passing else 'lasting'}.{groups}"
    return _compared(key, OF_FLOATS, float_columns, stream, tuples_s, seconds - RANGE_S)


def _compared(
    key: str,
    text: str,
    columns: dict[str, str],
    stream: Iterator[Chunk],
    tuples_s: int,
    counted_s: int,
) -> dict[str, float]:
    """The figures of a statement over a stream, of which the last seconds are counted."""
    (statement,) = parse(text)
    parts = split(statement, {"s": columns})
    assert parts is not None
    whole = Producer(compile_statement(statement, {"s": columns}))
    first = Producer(compile_statement(parts[0], {"s": columns}))
    final = Producer(compile_statement(parts[1], {first.program.name: first.program.columns}))
    tuple_bytes = 0
    for chunk in stream:
        counted = int(chunk.watermarks_ms[-1]) > RANGE_S * 1000
        tuple_bytes += sent_bytes("s", chunk) if counted else 0
        for _ in whole.take(chunk, counted=counted):
            pass
        for partial in first.take(chunk, counted=counted):
            for _ in final.take(partial, counted=counted):
                pass
    if whole.rows != final.rows:
        raise DifferentResults(f"{key}: {whole.rows.total()} and {final.rows.total()}")
    timed = counted_s * tuples_s
    before = min(tuple_bytes, whole.bytes)
    return {
        f"{key}.rows.bytes_s": tuple_bytes / counted_s,
        f"{key}.result.bytes_s": whole.bytes / counted_s,
        f"{key}.partial.bytes_s": first.bytes / counted_s,
        f"{key}.saved_percent": 100 * (1 - first.bytes / before),
        f"{key}.whole.us_tuple": whole.seconds / timed * 1e6,
        f"{key}.first.us_tuple": first.seconds / timed * 1e6,
        f"{key}.final.us_tuple": final.seconds / timed * 1e6,
    }


UNION = (
    "REGISTER QUERY u RSTREAM(SELECT k, i FROM north [NOW] UNION ALL SELECT k, i FROM south [NOW]);"
)


def measured_union(
    groups: int, seconds: int, tuples_s: int = TUPLES_S, *, passing: bool
) -> dict[str, float]:
    """The figures of two streams, with so many keys at any time, that a statement unites.

    Raises
    ------
    DifferentResults
        The statement split below the union gives other rows than the whole one.
    """
    catalogue = {"north": columns, "south": columns, "u": columns}
    (union,) = parse(UNION)
    (statement,) = parse(STATEMENT.replace("FROM s ", "FROM u "))
    parts = split_below(statement, union, catalogue)
    assert parts is not None
    producers: list[Producer] = []
    for one in (union, statement, *parts):
        producers.append(Producer(compile_statement(one, catalogue)))
        catalogue[one.name] = producers[-1].program.columns
    united, whole, north, south, merged, final = producers
    sent = [0, 0]
    pairs = zip(
        chunks(groups, seconds, tuples_s // 2, seed=1, passing=passing),
        chunks(groups, seconds, tuples_s // 2, seed=2, passing=passing),
        strict=True,
    )
    for pair in pairs:
        counted = int(pair[0].watermarks_ms[-1]) > RANGE_S * 1000
        for site, (stream, chunk) in enumerate(zip(("north", "south"), pair, strict=True)):
            sent[site] += sent_bytes(stream, chunk) if counted else 0
        for chunk in united.take(*pair, counted=counted):
            for _ in whole.take(chunk, counted=counted):
                pass
        firsts = zip(
            north.take(pair[0], counted=counted),
            south.take(pair[1], counted=counted),
            strict=True,
        )
        for first in firsts:
            for chunk in merged.take(*first, counted=counted):
                for _ in final.take(chunk, counted=counted):
                    pass
    if whole.rows != final.rows:
        raise DifferentResults(f"{groups} groups: {whole.rows.total()} and {final.rows.total()}")
    counted_s = seconds - RANGE_S
    ways = {
        "rows": sum(sent),
        "beside_one": min(sent) + whole.bytes,
        "partial": north.bytes + south.bytes,
    }
    key = f"union.{'passing' if passing else 'lasting'}.{groups}"
    flat = {f"{key}.{way}.bytes_s": crossed / counted_s for way, crossed in ways.items()}
    before = min(ways["rows"], ways["beside_one"])
    return flat | {f"{key}.saved_percent": 100 * (1 - ways["partial"] / before)}


def sent_bytes(stream: str, chunk: Chunk) -> int:
    """What a chunk is on a link."""
    return sum(map(len, encode(Data(stream=stream, epoch=0, generation=0, chunk=chunk))))


def chunks(
    groups: int,
    seconds: int,
    tuples_s: int,
    seed: int = 1,
    *,
    passing: bool,
    floats: bool = False,
) -> Iterator[Chunk]:
    """A stream, in portions of 10 ms with a watermark at each timestamp and at their end."""
    rng = np.random.default_rng(seed)
    count = tuples_s * TOGETHER_MS // 1000
    for number in range(seconds * 1000 // TOGETHER_MS):
        begin_ms = number * TOGETHER_MS
        times_ms = np.sort(rng.integers(begin_ms + 1, begin_ms + TOGETHER_MS + 1, count))
        first = begin_ms // 1000 * (groups // 2) if passing else 0
        keys = [f"key-{first + key}" for key in rng.integers(0, groups, count).tolist()]
        values = pa.array(
            rng.uniform(0, 1_000, count) if floats else rng.integers(0, 1_000_000, count)
        )
        watermarks_ms = np.unique([*times_ms.tolist(), begin_ms + TOGETHER_MS])
        yield Chunk(
            first_seq=number * count,
            rows=pa.RecordBatch.from_arrays(
                [pa.array(times_ms), pa.array(keys), values],
                schema=stream_schema(float_columns if floats else columns),
            ),
            watermarks_ms=watermarks_ms.astype(np.int64),
            ingestion_times_us=watermarks_ms.astype(np.int64) * 1000,
        )
