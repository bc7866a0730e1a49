"""Verification of a query: what was archived of it is computed again and compared, row for row.

The input is read again from where it comes from: a recording, or the journal of a live source. All
of it is used, from the stream's beginning, because windows reach back. Outputs are read from their
archives. Both must be on this machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.api.connection import Cluster
from orchestrator.control.view import ClusterView, read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.drivers import DriverError
from orchestrator.errors import InvalidInput, VivaceError
from orchestrator.folders import path_part
from orchestrator.host.events import SourceEmitted
from orchestrator.manifest.units import UnitError, timestamp_ms, timestamp_text
from orchestrator.progress import Progress, silent
from orchestrator.records import SourceAssignment, StreamRecord
from orchestrator.sinks import read_back
from orchestrator.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.sources import restore
from orchestrator.sources.driver import RecordedSource, ResumableSource, SourceContext
from orchestrator.sources.journal import Journal
from orchestrator.sources.live import JOURNALS
from orchestrator.sources.replay import Replay
from streams.chunk import TIMESTAMP, Chunk, Position, stream_schema
from streams.compiler import compile_statement
from streams.language import parse
from topology.suggestions import nearest

if TYPE_CHECKING:
    from orchestrator.spark.jobs.verification import OutputCheck

HEAP_MB = 1536
"""Of the Spark application that recomputes."""


class Unverifiable(VivaceError):
    """A query whose results cannot be computed again; says why."""


class OutputVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One output: rows archived and recomputed, within the span.

    `missing` rows were only recomputed, `unexpected` ones only archived; the first of each are
    shown.
    """

    output: str
    archived: int
    recomputed: int
    missing: int
    unexpected: int
    first_missing: tuple[dict[str, Any], ...]
    first_unexpected: tuple[dict[str, Any], ...]


class EvaluatedAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that was evaluated again by the engine.

    Attributes
    ----------
    why
        It was not computed in Spark SQL.
    by
        The columns that divided its input into parts, which were evaluated side by side; empty: it
        was evaluated in one piece.
    whole
        Why in one piece; None: it was not.
    """

    why: str
    by: tuple[str, ...] = ()
    whole: str | None = None


class VerifyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification found.

    Attributes
    ----------
    begin_ms, until_ms
        The span that was compared, both included.
    joined_ms
        Where the query joined its input, which had begun before; None: it has had all of it.
        Results are compared from where its windows hold nothing from before.
    inputs
        Stream → tuples that were read again.
    not_in_sql
        The statements that were not computed in Spark SQL, but evaluated again.
    """

    query: str
    begin_ms: int
    until_ms: int
    inputs: dict[str, int]
    outputs: tuple[OutputVerdict, ...]
    not_in_sql: dict[str, EvaluatedAgain]
    joined_ms: int | None = None

    @property
    def equal(self) -> bool:
        """Whether exactly the recomputed rows were archived."""
        return not any(each.missing or each.unexpected for each in self.outputs)


@dataclass(frozen=True, slots=True)
class Input:
    """A stream's tuples in order, and its first watermark, ms."""

    rows: pa.Table
    begin_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    begin_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sql:
    """Statements instead of the query's own, and the file that they come from."""

    file: str
    text: str


def verify(
    cluster: Cluster,
    query: str,
    *,
    begin_ms: int | None = None,
    until_ms: int | None = None,
    sql: Path | None = None,
    on_progress: Progress = silent,
) -> VerifyDocument:
    """Compute a query's archived results again, and compare.

    Parameters
    ----------
    begin_ms, until_ms
        First and last timestamp to compare; None: of what is archived of all outputs.
    sql
        Statements of Spark SQL that leave a view for each output, instead of the translation of the
        query's own statements.

    Raises
    ------
    InvalidInput
        There is no such query, nothing is archived of that span, or the SQL does not fit the query.
    Unverifiable
        Its input or its output is not here any more.
    """
    if begin_ms is not None and until_ms is not None and until_ms < begin_ms:
        problem = f"is before --from {timestamp_text(begin_ms)}"
        raise InvalidInput("command line", "--to", timestamp_text(until_ms), problem, "Swap them.")
    own = None if sql is None else _read_sql(sql)
    view = read_view(cluster.store)
    if query not in view.queries:
        raise InvalidInput(
            "command line", "QUERY", query, "is not a query here", nearest(query, view.queries)
        )
    folder = _folder(cluster)
    on_progress("reading", "archives")
    delivered = _delivered(view, query, folder)
    span = _span(delivered, begin_ms, until_ms)
    read: dict[str, Input] = {}
    for stream in sorted(view.dataflow.entering_streams(query)):
        on_progress("reading", f"input {stream}")
        read[stream] = read_input(view.stream_records[stream], folder, span.until_ms)
    archived_ms = _span(delivered, None, None).begin_ms
    joined_ms = archived_ms if archived_ms > min(each.begin_ms for each in read.values()) else None
    if joined_ms is not None and begin_ms is None:
        span = replace(span, begin_ms=_whole_from(view, query, joined_ms, span.until_ms))
    inputs = {stream: each.rows for stream, each in read.items()}
    outputs, not_in_sql = _compared(view, query, inputs, delivered, span, own, on_progress)
    return VerifyDocument(
        query=query,
        begin_ms=span.begin_ms,
        until_ms=span.until_ms,
        inputs={stream: table.num_rows for stream, table in inputs.items()},
        outputs=outputs,
        not_in_sql=not_in_sql,
        joined_ms=joined_ms,
    )


def _whole_from(view: ClusterView, query: str, joined_ms: int, until_ms: int) -> int:
    """From where on the windows of a query hold nothing from before it joined its input, ms.

    Of queries that it reads from, what they may have missed counts as far as it is bounded.
    """
    reach_ms: dict[str, int] = {}
    for fragment in view.dataflow.upstream(query):
        (statement,) = parse(fragment.statement)
        own_ms = compile_statement(statement, fragment.inputs).reach_ms
        if own_ms is None and fragment.query == query:
            raise Unverifiable(
                f"{query} was applied when its input had begun, and joined it at "
                f"{timestamp_text(joined_ms)}: windows of {fragment.name} may lack tuples from "
                "before that at any later time. Compare with --from from where that does not matter"
            )
        before_ms = max((reach_ms.get(stream, 0) for stream in fragment.inputs), default=0)
        reach_ms[fragment.name] = before_ms + (own_ms or 0)
    from_ms = joined_ms + max(reach_ms[output] for output in view.query_records[query].outputs)
    if from_ms > until_ms:
        raise Unverifiable(
            f"{query} was applied when its input had begun, and joined it at "
            f"{timestamp_text(joined_ms)}: its windows hold nothing from before from "
            f"{timestamp_text(from_ms)} on, which is not archived yet"
        )
    return from_ms


def moment(field: str, text: str | None) -> int | None:
    """A timestamp that a person writes, ms; None if none is written.

    Raises
    ------
    InvalidInput
        It is no time.
    """
    if text is None:
        return None
    try:
        return timestamp_ms(text)
    except UnitError as error:
        raise InvalidInput("command line", field, text, error.problem, error.remedy) from None


def read_input(stream: StreamRecord, folder: Path, until_ms: int) -> Input:
    """All of a stream from outside up to a timestamp.

    Parameters
    ----------
    folder
        Of the cluster's archives, where sites have their journals.

    Raises
    ------
    Unverifiable
        They cannot be read again.
    """
    why = None
    if stream.source is None:
        why = "nothing ever enters it"
    elif not stream.resumes:
        why = f"what has entered is not kept: it has {_unkept(stream)}"
    if why is not None:
        raise Unverifiable(f"the input {stream.name} cannot be read again: {why}")
    assert stream.source is not None
    schema = stream_schema(stream.columns)
    driver = restore(stream.source)
    try:
        if isinstance(driver, RecordedSource):
            assignment = SourceAssignment(
                stream=stream.name,
                columns=stream.columns,
                fields=stream.fields,
                source=stream.source,
                start_at_us=0,
            )
            opened = driver.open(assignment, SourceContext())
            assert isinstance(opened, ResumableSource)
            parts = _recorded(opened, until_ms)
        else:
            parts = _journaled(stream, schema, folder, until_ms)
    except (DriverError, OSError) as error:
        raise Unverifiable(f"the input {stream.name} cannot be read again: {error}") from None
    table = pa.Table.from_batches([part.rows for part in parts], schema=schema).combine_chunks()
    within = int(np.searchsorted(table[TIMESTAMP].to_numpy(), until_ms, side="right"))
    begin_ms = int(parts[0].watermarks_ms[0]) if parts else until_ms
    return Input(table.slice(0, within).combine_chunks(), begin_ms)


def _unkept(stream: StreamRecord) -> str:
    """What a stream that cannot resume has in its manifest, so that no journal keeps its input."""
    if stream.shed is not None:
        return "a load shedder (`shed`)"
    durable = None if stream.source is None else stream.source.options.get("durable")
    return "a source that cannot be read again" if durable is None else f"`durable: {durable}`"


def _recorded(opened: ResumableSource, until_ms: int) -> list[SourceEmitted]:
    parts: list[SourceEmitted] = []
    after, until = Position(), Position(next_seq=0, watermark_ms=until_ms)
    while (piece := opened.read(0, after, until)) is not None:
        parts.append(piece)
        after = Position(
            next_seq=after.next_seq + piece.rows.num_rows,
            watermark_ms=int(piece.watermarks_ms[-1]),
        )
    return parts


def _journaled(stream: StreamRecord, schema: pa.Schema, folder: Path, until_ms: int) -> list[Chunk]:
    lives = folder / JOURNALS / path_part(stream.name)
    numbers = sorted(int(each.name) for each in lives.glob("*") if each.name.isdigit())
    if not numbers:
        raise DriverError(f"there is no journal in {lives}")
    journal = Journal(lives / str(numbers[-1]), schema, read_only=True)
    if journal.retained != Position():
        raise DriverError("its journal no longer has the beginning: raise `retain`")
    if journal.end.watermark_ms < until_ms:
        raise DriverError("its journal does not go as far as the results")
    parts: list[Chunk] = []
    while (part := journal.read(parts[-1].end if parts else Position(), journal.end)) is not None:
        parts.append(part)
    return parts


def _folder(cluster: Cluster) -> Path:
    reach = cluster.reach
    folder = reach.archive if isinstance(reach, ClusterContext) else None
    if folder is None or not folder.is_dir():
        raise Unverifiable("the archives of the cluster's sites are not on this machine")
    return folder


def _delivered(view: ClusterView, query: str, folder: Path) -> dict[str, Delivered]:
    record = view.query_records[query]
    found: dict[str, Delivered] = {}
    for stream in record.outputs:
        if view.dataflow.fragments[stream].rejected:
            # No statement of SQL tells on which tuples another one fails.
            continue
        try:
            one = read_back(folder, stream, record.sinks.get(stream))
        except FileNotFoundError:
            raise Unverifiable(f"nothing is archived of {stream} yet") from None
        except DriverError:
            raise Unverifiable(f"the sink of {stream} keeps nothing that could be read") from None
        generations = np.unique(one.completed_column("generation"))
        if len(generations) > 1:
            raise Unverifiable(
                f"{stream} has begun anew, because its state or its input was lost: what came "
                "before cannot be computed from the input that there is"
            )
        found[stream] = one
    return found


def _span(delivered: Mapping[str, Delivered], begin_ms: int | None, until_ms: int | None) -> _Span:
    ends = [int(one.completed_column("watermark_ms").max()) for one in delivered.values()]
    begins = [int(one.completed_column("watermark_ms").min()) for one in delivered.values()]
    archived = _Span(begin_ms=min(begins), until_ms=min(ends))
    for option, given_ms in (("--from", begin_ms), ("--to", until_ms)):
        # With --from, results of before the first watermark may be asked for.
        early = begin_ms is None and given_ms is not None and given_ms < archived.begin_ms
        if given_ms is not None and (early or given_ms > archived.until_ms):
            begin, until = map(timestamp_text, (archived.begin_ms, archived.until_ms))
            raise InvalidInput(
                "command line", option, timestamp_text(given_ms), "is outside of what is archived",
                f"That is from {begin} to {until}.",
            )  # fmt: skip
    return _Span(
        begin_ms=archived.begin_ms if begin_ms is None else begin_ms,
        until_ms=archived.until_ms if until_ms is None else until_ms,
    )


def _compared(
    view: ClusterView,
    query: str,
    inputs: Mapping[str, pa.Table],
    delivered: Mapping[str, Delivered],
    span: _Span,
    own: _Sql | None,
    on_progress: Progress,
) -> tuple[tuple[OutputVerdict, ...], dict[str, EvaluatedAgain]]:
    # Importing Spark takes a second, which nobody else should wait for.
    from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session
    from orchestrator.spark.jobs import verification
    from orchestrator.spark.jobs.recomputation import Unordered, recompute

    rows = {
        stream: one.rows.drop_columns([GENERATION, SEQUENCE]) for stream, one in delivered.items()
    }
    not_in_sql: dict[str, EvaluatedAgain] = {}
    with tempfile.TemporaryDirectory(prefix="vivace-verify-") as made:
        work = Path(made)
        on_progress("starting", "Spark")
        session = start_session(
            SessionSettings(
                name="vivace-verify",
                work_dir=work / "spark",
                executors=1,
                driver_memory_mb=HEAP_MB,
                master="local[*]",
                # The cluster may run on this machine.
                yields=True,
            )
        )
        try:
            if own is None:
                statements = [each.statement for each in view.dataflow.upstream(query)]
                columns = {name: view.stream_records[name].columns for name in inputs}
                again = recompute(
                    session, statements, columns, inputs, span.until_ms,
                    lambda name: on_progress("recomputing", name),
                )  # fmt: skip
                not_in_sql = {
                    name: msgspec.convert(one, EvaluatedAgain, from_attributes=True)
                    for name, one in again.not_in_sql.items()
                }
                checks: list[verification.OutputCheck] = []
                for stream, table in rows.items():
                    on_progress("comparing", stream)
                    checks.append(
                        verification.check(
                            stream,
                            again.frames[stream],
                            verification.frame(again.session, table),
                            span.begin_ms,
                            span.until_ms,
                        )
                    )
            else:
                on_progress("recomputing", own.file)
                checks = [
                    *verification.verify(
                        session,
                        own.text,
                        _files(view, inputs, work),
                        rows,
                        through_ms=dict.fromkeys(rows, span.until_ms),
                        begin_ms=span.begin_ms,
                        file=own.file,
                    )
                ]
        except Unordered as error:
            raise Unverifiable(
                f"{error}: write its results in SQL, and name it with --sql"
            ) from None
        finally:
            stop_session(session)
    return tuple(_verdict(each) for each in checks), not_in_sql


def _files(view: ClusterView, inputs: Mapping[str, pa.Table], work: Path) -> dict[str, Path]:
    """The input as files; a recording's with the column that it calls its timestamp."""
    found: dict[str, Path] = {}
    for stream, table in inputs.items():
        source = view.stream_records[stream].source
        driver = None if source is None else restore(source)
        if isinstance(driver, Replay) and driver.time_column not in table.column_names:
            table = table.append_column(driver.time_column, table[TIMESTAMP])
        found[stream] = work / f"{path_part(stream)}.parquet"
        parquet.write_table(table, found[stream])
    return found


def _read_sql(sql: Path) -> _Sql:
    try:
        return _Sql(file=str(sql), text=sql.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        problem = "is not text in UTF-8"
    raise InvalidInput("command line", "--sql", str(sql), problem, "Check the path.")


def _verdict(check: OutputCheck) -> OutputVerdict:
    return OutputVerdict(
        output=check.output,
        archived=check.delivered,
        recomputed=check.expected,
        missing=check.missing,
        unexpected=check.unexpected,
        first_missing=check.first_missing,
        first_unexpected=check.first_unexpected,
    )
