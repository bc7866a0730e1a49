"""Trying a query on files and pipes, without a cluster, with the engine that hosts run.

Inputs are read side by side, always the one that is furthest behind in event time, so that few
tuples wait for others. What is compared, with expected rows or with Spark SQL, is held as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from foundation.suggestions import nearest
from orchestrator.api.tried_files import PIPE, AskedFile
from orchestrator.api.tried_inputs import OpenInput, open_input, stream_record
from orchestrator.api.tried_outputs import OpenOutput, open_output, printed_outputs
from orchestrator.api.tried_query import TriedQuery, asked_query
from orchestrator.api.tried_verdicts import checked_again, compared, expected_rows
from orchestrator.edges.sources.formats.form_options import TIME_FORMATS, time_format_problem
from orchestrator.edges.sources.formats.inference import TimeColumn
from orchestrator.edges.sources.live.orderer import LATEST_MS
from orchestrator.errors import InvalidInput
from orchestrator.progress import Progress, silent
from orchestrator.records import StreamRecord
from orchestrator.results.trying import TriedInput, TriedOutput, TryDocument
from orchestrator.results.verification import EvaluatedAgain, OutputVerdict
from streams.kernels import kernels
from streams.plan.choice import way_of
from streams.vectors.chunk import NO_WATERMARK, Chunk, stream_schema

MANY_TUPLES = 50_000
"""From so many on, compiled kernels save more time than loading them takes."""

SHORT_S = 2.0
"""What takes no longer tells no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTry:
    """What somebody wants tried.

    Attributes
    ----------
    query
        A file of CQL or manifests, the name of a query in `files`, or a statement; None: the only
        query in `files`.
    files
        Manifests.
    inputs, outputs, expected
        Files, `-` for a pipe, each with the name of its stream and `=` in front, unless there is
        but one stream. Outputs that no file is named for are written nowhere.
    input_format, output_format
        `csv`, `json` or `parquet`, where the names of files do not say it.
    timestamp, time_format
        The column with the timestamp, and how it is written, where no manifest says it.
    is_sorted
        Whether to sort the inputs by their timestamps.
    checks
        Whether to compare outputs with the same computed in Spark SQL.
    prints
        Whether all outputs go to standard output, with no file named for any.
    """

    query: str | None
    files: Sequence[Path] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    expected: Sequence[str] = ()
    input_format: str | None = None
    output_format: str | None = None
    timestamp: str | None = None
    time_format: str | None = None
    is_sorted: bool = False
    checks: bool = False
    prints: bool = False


def try_query(
    asked: AskedTry,
    stdin: BinaryIO,
    stdout: BinaryIO,
    *,
    on_input: Callable[[TriedInput], None] = lambda _: None,
    on_progress: Progress = silent,
) -> TryDocument:
    """Evaluate a query on files.

    Parameters
    ----------
    stdin, stdout
        What `-` stands for.
    on_input
        Told what each input is taken for, before it is read.

    Raises
    ------
    InvalidInput
        The query, a manifest or a row of an input is wrong; no file has been made.
    Unverifiable, Unreachable
        Spark cannot compute it again.
    """
    with ExitStack() as files:
        return _Try(asked, files, stdin, stdout, on_progress).run(on_input)


@dataclass(slots=True)
class _Try:
    """One run.

    Attributes
    ----------
    kept
        Input → its tuples, if they are to be computed again.
    """

    asked: AskedTry
    files: ExitStack
    stdin: BinaryIO
    stdout: BinaryIO
    on_progress: Progress
    loading_s: float = 0.0
    began_s: float = field(default_factory=time.perf_counter)
    kept: dict[str, list[pa.RecordBatch]] = field(default_factory=dict[str, list[pa.RecordBatch]])

    def run(self, on_input: Callable[[TriedInput], None]) -> TryDocument:
        """Find out what is meant, evaluate, compare."""
        asked = asked_query(self.asked.query, self.asked.files)
        described = {each.record.name: each.record for each in asked.manifests.streams}
        if not (entering := asked.entering()):
            # Its statements feed each other: that is what is wrong, whatever is given as input.
            asked.compiled(described)
        inputs = self._inputs(entering, described)
        streams = described | {
            name: stream_record(name, one.told.columns)
            for name, one in inputs.items()
            if name not in described
        }
        try:
            query = asked.compiled(streams)
        except InvalidInput as error:
            raise _doubting(error, inputs.values()) from None
        expected = {
            name: expected_rows(name, query.programs[name].columns, file, self.stdin)
            for name, file in self._named("--expect", self.asked.expected, query.outputs).items()
        }
        outputs = self._outputs(query, expected)
        for one in inputs.values():
            on_input(one.told)
        self.began_s = time.perf_counter()
        self._evaluate(query, inputs, outputs)
        for output in outputs.values():
            output.finish()
        seconds = time.perf_counter() - self.began_s - self.loading_s
        checked, not_in_sql = self._checked(query, inputs, outputs)
        return TryDocument(
            query=query.name,
            inputs=tuple(
                msgspec.structs.replace(one.told, tuples=one.tuples) for one in inputs.values()
            ),
            outputs=tuple(_told(name, query, output) for name, output in outputs.items()),
            evaluations={name: way_of(one).value for name, one in query.programs.items()},
            seconds=seconds,
            expected=tuple(
                compared(name, outputs[name].table(), rows) for name, rows in expected.items()
            ),
            checked=checked,
            not_in_sql=not_in_sql,
        )

    def _named(
        self, option: str, texts: Sequence[str], streams: Sequence[str], written: str | None = None
    ) -> dict[str, AskedFile]:
        """The files behind an option by stream."""
        found: dict[str, AskedFile] = {}
        for text in texts:
            name, has_name, path = text.partition("=")
            if not has_name or (name not in streams and len(streams) == 1 and "/" in name):
                if len(streams) != 1:
                    raise InvalidInput(
                        "command line", option, text,
                        f"does not say which of {', '.join(streams)} it is",
                        f"Write {option} STREAM={text}.",
                    )  # fmt: skip
                name, path = streams[0], text
            if name not in streams:
                problem = "is no stream that the query reads from outside"
                if option != "--input":
                    problem = "is no output of the query"
                raise InvalidInput("command line", option, name, problem, nearest(name, streams))
            if name in found:
                raise InvalidInput(
                    "command line", option, name, "is named twice", "Name one file for it."
                )
            found[name] = AskedFile.of(option, path, written)
        pipes = [name for name, each in found.items() if each.path == PIPE]
        if len(pipes) > 1:
            raise InvalidInput(
                "command line", option, PIPE, f"is the pipe of {' and '.join(pipes)}",
                "Name files for all but one of them.",
            )  # fmt: skip
        return found

    def _inputs(
        self, entering: Sequence[str], described: Mapping[str, StreamRecord]
    ) -> dict[str, OpenInput]:
        asked = self._named("--input", self.asked.inputs, entering, self.asked.input_format)
        written = self.asked.time_format
        if written is not None and (problem := time_format_problem(written)) is not None:
            raise InvalidInput("command line", "--time-format", written, problem, TIME_FORMATS)
        time = TimeColumn(name=self.asked.timestamp, written=written)
        return {
            name: open_input(
                name, asked.get(name), described.get(name), time, self.files, self.stdin,
                is_sorted=self.asked.is_sorted,
            )
            for name in entering
        }  # fmt: skip

    def _outputs(self, query: TriedQuery, expected: Collection[str]) -> dict[str, OpenOutput]:
        asked = self._named("--output", self.asked.outputs, query.outputs, self.asked.output_format)
        schemas = {name: stream_schema(query.programs[name].columns) for name in query.outputs}
        found = {
            name: open_output(schema, asked[name], self.files, self.stdout)
            if name in asked
            else OpenOutput(schema)
            for name, schema in schemas.items()
        }
        if self.asked.prints:
            printed = printed_outputs(schemas, self.stdout, self.asked.output_format)
            for name, writer in printed.items():
                found[name].file, found[name].writer = PIPE, writer
        for name, output in found.items():
            output.is_held = self.asked.checks or name in expected
        return found

    def _evaluate(
        self,
        query: TriedQuery,
        inputs: Mapping[str, OpenInput],
        outputs: Mapping[str, OpenOutput],
    ) -> None:
        # Only now: who has made a mistake in a statement need not wait for the engine.
        from streams.evaluate.chain import FragmentChain
        from streams.evaluate.engine import EvaluationError

        chain = FragmentChain(query.programs)
        for stream, chunk in side_by_side(inputs, query.rest_ms):
            if self.asked.checks:
                self.kept.setdefault(stream, []).append(chunk.rows)
            self._tell(inputs)
            chain.offer(stream, chunk)
            try:
                for name, made in chain.advance():
                    if name in outputs:
                        outputs[name].add(made.rows)
                        outputs[name].rejected += sum(
                            rows.num_rows for one in made.rejected for rows in one.tuples.values()
                        )
            except EvaluationError as error:
                raise InvalidInput(
                    f"query {query.name}", "", None, str(error),
                    "Correct the statement or the input; `onError: skip` of a Query manifest "
                    "leaves such tuples out.",
                ) from None  # fmt: skip

    def _tell(self, inputs: Mapping[str, OpenInput]) -> None:
        """Tell how far the inputs are, and load compiled kernels when it pays."""
        if time.perf_counter() - self.began_s > SHORT_S:
            told = (f"{name} {one.tuples:,} tuples{one.so_far}" for name, one in inputs.items())
            self.on_progress("evaluating", ", ".join(told))
        if kernels.missing() and sum(one.tuples for one in inputs.values()) >= MANY_TUPLES:
            began_s = time.perf_counter()
            kernels.load()
            self.loading_s += time.perf_counter() - began_s

    def _checked(
        self,
        query: TriedQuery,
        inputs: Mapping[str, OpenInput],
        outputs: Mapping[str, OpenOutput],
    ) -> tuple[tuple[OutputVerdict, ...] | None, dict[str, EvaluatedAgain]]:
        if not self.asked.checks:
            return None, {}
        tables = {
            name: pa.Table.from_batches(self.kept.get(name, ()), schema=one.schema)
            for name, one in inputs.items()
        }
        end_ms = min(one.end_ms for one in inputs.values())
        until_ms = max(one.last_ms for one in inputs.values())
        until_ms += query.reach_ms if query.rest_ms is None else query.rest_ms
        # Of a statement's rejected tuples, SQL knows nothing.
        rows = {
            name: one.table() for name, one in outputs.items() if query.programs[name].of is None
        }
        return checked_again(query, tables, rows, min(until_ms, end_ms), self.on_progress)


def _told(name: str, query: TriedQuery, output: OpenOutput) -> TriedOutput:
    return TriedOutput(
        stream=name,
        columns=dict(query.programs[name].columns),
        rows=output.rows,
        rejected=output.rejected,
        file=output.file,
        first_rows=tuple(output.first_rows),
    )


def _doubting(error: InvalidInput, inputs: Iterable[OpenInput]) -> InvalidInput:
    """A problem of a query, with what may be wrong in its inputs instead."""
    doubtful = [
        f"{one.told.source}: {name} is taken for text because of {value}"
        for one in inputs
        for name, value in one.told.doubtful.items()
    ]
    if not doubtful:
        return error
    told = f"{'; '.join(doubtful)}. Correct that, if it should be a number."
    return replace(error, remedy=f"{error.remedy} {told}".strip())


def side_by_side(
    inputs: Mapping[str, OpenInput], rest_ms: int | None = None
) -> Iterator[tuple[str, Chunk]]:
    """The chunks of all inputs; of several, the next one of that which is furthest behind.

    Parameters
    ----------
    rest_ms
        How long event time goes on after the last tuple of all; None: until all is done.
    """
    left = {name: one.chunks() for name, one in inputs.items()}
    while left:
        name = min(left, key=lambda name: inputs[name].watermark_ms)
        chunk = next(left[name], None)
        if chunk is not None:
            yield name, chunk
        else:
            del left[name]
        least_ms = min((inputs[name].watermark_ms for name in left), default=NO_WATERMARK)
        yield from _all_until(least_ms, inputs, inputs.keys() - left.keys())
    last_ms = max((one.last_ms for one in inputs.values()), default=NO_WATERMARK)
    end_ms = LATEST_MS if rest_ms is None or last_ms == NO_WATERMARK else last_ms + rest_ms
    yield from _all_until(end_ms, inputs, inputs)


def _all_until(
    until_ms: int, inputs: Mapping[str, OpenInput], names: Collection[str]
) -> Iterator[tuple[str, Chunk]]:
    """What inputs say about the time up to a watermark."""
    for name in inputs:
        if name in names:
            for chunk in inputs[name].until(until_ms):
                yield name, chunk
