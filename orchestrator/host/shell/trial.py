"""A short trial of statements whose cost or selectivity nobody has stated.

Before a query is applied, its statements are compiled and run on what their streams will bring: on
the beginning of the recording that a stream is played from, if this process can read it, else on
rows of the stream's columns at its stated rate. The tuples come in the portions in which hosts get
them, since a portion costs something whatever its tuples. The trial takes a second or two, three at
most.

A statement may take longer in a trial than on another machine, or on the same a moment later,
because others use the processors, up to several times. So a piece of work that hosts time, too
(`host.shell.processor_speed`), is timed between the portions. Costs are told as those of processors
at speed 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.clock import thread_us
from orchestrator.edges import sources
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.host.shell.processor_speed import speed_ratio, timed_piece_us
from orchestrator.records import (
    SourceAssignment,
    StreamRecord,
    Trial,
    TrialResult,
    Tried,
    TriedFragment,
)
from streams.evaluate.engine import EvaluationError, FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.scheduling.cost_model import CostModel
from streams.vectors.chunk import Chunk, stream_schema
from streams.vectors.widths import STRING_BYTES, row_bytes

QUERY_US = 400_000
"""Processor time after which a trial ends, counted from when its statements have been compiled and
the first evaluations are done, which are not counted either, ..."""

MOST_US = 1_500_000
"""... or up to this much, while one of its statements has had too little to evaluate. The first
evaluations may take as much, too."""

PORTIONS = 2_000
"""Portions of input after which a trial ends."""

UNCOUNTED = 5
"""Evaluations of a statement that are not counted: the first ones load parts of libraries."""

LEAST_SAMPLES = 20
"""Evaluations with tuples without which a trial says nothing."""

MOST_RECORDED_BYTES = 256 * 2**20
"""Larger recordings are not read for a trial."""

KEYS = 10
"""Values of a generated column: many rows must meet in groups and joins."""

SEED = 1

PORTIONS_A_PIECE = 4
"""Portions between two pieces of work by which the speed of the processor is measured: so many that
these take little of the time, and so few that they meet what the evaluations meet."""

EVALUATED_TIMESTAMPS = 64

PRIOR_US = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What enters at once."""

    rows: pa.RecordBatch
    watermarks_ms: IntArray


@dataclass(slots=True)
class _Tried:
    """A fragment in a trial, and what it has taken so far."""

    fragment: TriedFragment
    engine: FragmentEngine
    cost: CostModel = field(default_factory=lambda: CostModel(PRIOR_US, PRIOR_US))
    evaluations: int = 0
    with_tuples: int = 0
    offered: dict[str, int] = field(default_factory=dict[str, int])
    """Stream → its tuples that have come, and wait perhaps for those of another stream."""
    tuples_in: int = 0
    """Tuples that have been evaluated."""
    next_seq: int = 0
    text_bytes: dict[str, int] = field(default_factory=dict[str, int])
    """Column of texts → bytes that it has emitted."""

    def offer(self, stream: str, chunk: Chunk) -> None:
        self.engine.offer(stream, chunk)
        self.offered[stream] = self.offered.get(stream, 0) + chunk.rows.num_rows

    def evaluate(self, processor_us: Callable[[], int]) -> Iterator[Chunk]:
        """Evaluate all that can be evaluated; chunks of the output."""
        while True:
            began_us = processor_us()
            evaluated = self.engine.advance(EVALUATED_TIMESTAMPS)
            took_us = processor_us() - began_us
            if evaluated is None:
                return
            self.evaluations += 1
            self.tuples_in += evaluated.tuples_in
            self.with_tuples += evaluated.tuples_in > 0
            if self.evaluations > UNCOUNTED:
                self.cost.observe(evaluated.tuples_in, took_us)
            yield Chunk(
                first_seq=self.next_seq,
                rows=evaluated.rows,
                watermarks_ms=evaluated.watermarks_ms,
                ingestion_times_us=evaluated.ingestion_times_us,
            )
            self.next_seq += evaluated.rows.num_rows
            for name, kind in self.fragment.columns.items():
                if kind == "string":
                    emitted = evaluated.rows.column(name).nbytes
                    self.text_bytes[name] = self.text_bytes.get(name, 0) + emitted

    @property
    def row_bytes(self) -> float:
        """Width of a row that it emits; texts are never taken to be shorter than in plans."""
        longer = (
            max(emitted / self.next_seq - STRING_BYTES, 0.0) if self.next_seq else 0.0
            for emitted in self.text_bytes.values()
        )
        return row_bytes(self.fragment.columns) + sum(longer)

    @property
    def enough(self) -> bool:
        """Whether there was enough to evaluate."""
        return self.with_tuples >= LEAST_SAMPLES

    def found(self, widths: Mapping[str, float], speed: float) -> Tried:
        """What the trial says, if there was `enough`.

        Parameters
        ----------
        widths
            How wide the rows of other fragments are.
        speed
            How fast processors were in the trial.
        """
        inputs = self.fragment.inputs
        offered = sum(
            count * widths.get(stream, row_bytes(inputs[stream]))
            for stream, count in self.offered.items()
        )
        taken = offered * self.tuples_in / sum(self.offered.values())
        width = self.row_bytes
        return Tried(
            selectivity=self.next_seq * width / taken,
            fixed_us=self.cost.fixed_us * speed,
            per_tuple_us=self.cost.per_tuple_us * speed,
            row_bytes=width if width > row_bytes(self.fragment.columns) else None,
        )


def run_trial(trial: Trial, processor_us: Callable[[], int] = thread_us) -> TrialResult:
    """Run statements for a while.

    A statement that fails ends the trial, without a result: hosts report failures.
    """
    entering = [stream.name for stream in trial.streams]
    recordings = {stream.name: _recorded(stream, trial.batch_ms) for stream in trial.streams}
    portions = _portions(trial.streams, recordings, trial.batch_ms)
    recorded = tuple(name for name, found in recordings.items() if found is not None)
    next_seq = dict.fromkeys(entering, 0)
    most_us = min(max(trial.patience_us, QUERY_US), MOST_US)
    started_us = began_us = processor_us()
    pieces = pieces_us = 0
    try:
        tried = [_begin(fragment) for fragment in trial.fragments]
        asked = [each for each in tried if each.fragment.asked]
        for number in range(PORTIONS):
            if number == UNCOUNTED + 1:
                began_us = processor_us()
            # The first evaluations load libraries, however many queries wait.
            limit_us = MOST_US if number <= UNCOUNTED else most_us
            if all(each.enough for each in asked):
                limit_us = QUERY_US
            if processor_us() - began_us > limit_us:
                break
            for name in entering:
                portion = next(portions[name], None)
                if portion is not None and len(portion.watermarks_ms):
                    _pass_on(name, _chunk(portion, next_seq[name]), tried)
                    next_seq[name] += portion.rows.num_rows
            for each in tried:
                for chunk in each.evaluate(processor_us):
                    _pass_on(each.fragment.name, chunk, tried)
            if number > UNCOUNTED and number % PORTIONS_A_PIECE == 0:
                pieces += 1
                pieces_us += timed_piece_us(processor_us)
    except (EvaluationError, RecursionError):
        return TrialResult(tried={}, recorded=recorded, took_us=processor_us() - started_us)
    widths = {each.fragment.name: each.row_bytes for each in tried}
    speed = speed_ratio(pieces_us, pieces)
    return TrialResult(
        tried={each.fragment.name: each.found(widths, speed) for each in asked if each.enough},
        recorded=recorded,
        took_us=processor_us() - started_us,
    )


def _begin(fragment: TriedFragment) -> _Tried:
    (statement,) = parse(fragment.statement)
    program = compile_statement(statement, fragment.inputs)
    return _Tried(fragment, FragmentEngine(program.rejections if fragment.rejected else program))


def _chunk(portion: Portion, first_seq: int) -> Chunk:
    return Chunk(
        first_seq=first_seq,
        rows=portion.rows,
        watermarks_ms=portion.watermarks_ms,
        ingestion_times_us=np.zeros(len(portion.watermarks_ms), dtype=np.int64),
    )


def _pass_on(stream: str, chunk: Chunk, tried: Sequence[_Tried]) -> None:
    for each in tried:
        if stream in each.fragment.inputs:
            each.offer(stream, chunk)


def _portions(
    streams: Sequence[StreamRecord],
    recordings: Mapping[str, Iterator[Portion] | None],
    batch_ms: float,
) -> dict[str, Iterator[Portion]]:
    """What each stream brings, portion by portion; made up rows are as old as recorded ones."""
    found: dict[str, Iterator[Portion]] = {}
    begins_ms: list[int] = []
    for name, recorded in recordings.items():
        if recorded is not None:
            first = next((each for each in recorded if len(each.watermarks_ms)), None)
            found[name] = recorded if first is None else chain([first], recorded)
            begins_ms += [] if first is None else [int(first.watermarks_ms[0])]
    for stream in streams:
        if stream.name not in found:
            begin_ms = min(begins_ms, default=0)
            found[stream.name] = generated(stream, _every_ms(stream, batch_ms), begin_ms)
    return found


def _every_ms(stream: StreamRecord, batch_ms: float) -> float:
    """Between two portions of a stream."""
    together_ms = stream.source.together_ms if stream.source else 0.0
    return max(together_ms, batch_ms, 1.0)


def _recorded(stream: StreamRecord, batch_ms: float) -> Iterator[Portion] | None:
    """The beginning of a stream's recording; None if it cannot be read here."""
    every_ms = _every_ms(stream, batch_ms)
    try:
        driver = sources.recorded(stream)
        if driver is None or os.path.getsize(driver.recording) > MOST_RECORDED_BYTES:
            return None
        opened = driver.open(
            SourceAssignment(
                stream=stream.name,
                columns=stream.columns,
                fields=stream.fields,
                source=stream.source,
                start_at_us=0,
            ),
            SourceContext(),
        )
    except (DriverError, OSError):
        return None

    def portions() -> Iterator[Portion]:
        for number in range(1, PORTIONS + 1):
            now_us = round(number * every_ms * 1000)
            while (emitted := opened.emit(0, now_us)) is not None:
                yield Portion(rows=emitted.rows, watermarks_ms=emitted.watermarks_ms)

    return portions()


def generated(
    stream: StreamRecord, every_ms: float, since_ms: int, portions: int = PORTIONS
) -> Iterator[Portion]:
    """Rows of the stream's columns at its rate, each with a timestamp of its own if time allows."""
    rng = np.random.default_rng(SEED)
    schema = stream_schema(stream.columns)
    tuples_s = stream.rate_bytes_s / row_bytes(stream.columns)
    emitted = 0
    for number in range(portions):
        begin_ms, end_ms = (since_ms + round(n * every_ms) for n in (number, number + 1))
        count = int((number + 1) * every_ms * tuples_s / 1e3) - emitted
        emitted += count
        timestamps = np.sort(rng.integers(begin_ms + 1, end_ms + 1, size=count))
        columns = [pa.array(timestamps)]
        columns += [_values(kind, count, rng) for kind in stream.columns.values()]
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        yield Portion(
            rows=rows, watermarks_ms=np.unique(np.append(timestamps, end_ms)).astype(np.int64)
        )


def _values(kind: str, count: int, rng: np.random.Generator) -> pa.Array:
    keys = rng.integers(0, KEYS, size=count)
    if kind == "float":
        return pa.array(rng.uniform(0.0, 100.0, size=count))
    if kind == "string":
        return pa.array([f"key-{key}" for key in keys], type=pa.string())
    return pa.array(keys % 2 == 0) if kind == "bool" else pa.array(keys)
