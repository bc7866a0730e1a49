"""Verification of a query: what was archived of it is computed again and compared, row for row.

The input is read again from where it comes from: a recording, or the journal of a live source, as
far back as windows reach. Outputs are read from their archives. Both must be on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from foundation.suggestions import nearest
from orchestrator.api.connection import Cluster
from orchestrator.api.recomputing import compared_again, spark_session, telling, verdict
from orchestrator.api.verified_input import KeptInput, Unverifiable, kept_input
from orchestrator.api.verified_span import (
    AskedSpan,
    ChosenSpan,
    VerifiedSpan,
    archived_span,
    chosen_span,
)
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.edges.sources import restore
from orchestrator.edges.sources.replay import Replay
from orchestrator.errors import InvalidInput
from orchestrator.folders import path_part, scratch_folder
from orchestrator.operations.texts import NamedText
from orchestrator.progress import Progress, silent
from orchestrator.results.verification import EvaluatedAgain, OutputVerdict, VerifyDocument
from streams.vectors.chunk import TIMESTAMP

LAST_MINUTES = AskedSpan()
"""What is compared unless something else is asked for."""


def verify(
    cluster: Cluster,
    query: str,
    asked: AskedSpan = LAST_MINUTES,
    *,
    sql: NamedText | None = None,
    on_progress: Progress = silent,
) -> VerifyDocument:
    """Compute a query's archived results again, and compare.

    Parameters
    ----------
    asked
        The timestamps to compare; by default the last minutes.
    sql
        Statements of Spark SQL that leave a view for each output, instead of the translation of the
        query's own statements.

    Raises
    ------
    InvalidInput
        There is no such query, nothing is archived of that span, or the SQL does not fit the query.
    Unverifiable
        Its input or its output is not here any more.
    Unreachable
        Spark has ended before it had compared all.
    """
    asked.check()
    view = read_view(cluster.store)
    if query not in view.queries:
        raise InvalidInput("", "query", query, "is not a query here", nearest(query, view.queries))
    folder = _folder(cluster)
    on_progress("reading", "archives")
    delivered = _delivered(view, query, folder)
    entering = sorted(view.dataflow.entering_streams(query))
    kept = {stream: kept_input(view.stream_records[stream], folder) for stream in entering}
    chosen = chosen_span(view, query, asked, archived_span(delivered), [*kept.values()])
    inputs = {stream: _read(each, chosen, on_progress) for stream, each in kept.items()}
    outputs, not_in_sql = _compared(view, query, inputs, delivered, chosen.span, sql, on_progress)
    return VerifyDocument(
        query=query,
        begin_ms=chosen.span.begin_ms,
        until_ms=chosen.span.until_ms,
        archived_ms=(chosen.archived.begin_ms, chosen.archived.until_ms),
        last_ms=chosen.last_ms,
        inputs={stream: table.num_rows for stream, table in inputs.items()},
        read_from_ms=chosen.read_from_ms,
        endless=chosen.endless,
        outputs=outputs,
        not_in_sql=not_in_sql,
        joined_ms=chosen.joined_ms,
        kept_ms=chosen.kept_ms,
    )


def _read(kept: KeptInput, chosen: ChosenSpan, on_progress: Progress) -> pa.Table:
    from_ms, until_ms = chosen.read_from_ms, chosen.span.until_ms
    told = f"input {kept.stream}: {{:,}} of {kept.tuples(from_ms, until_ms):,} rows"
    return kept.read(from_ms, until_ms, lambda done: on_progress("reading", told.format(done)))


def _folder(cluster: Cluster) -> Path:
    folder = cluster.reach.archive
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
    if not found:
        raise Unverifiable(f"{query} has no outputs but rejected tuples, which SQL cannot tell")
    return found


def _compared(
    view: ClusterView,
    query: str,
    inputs: Mapping[str, pa.Table],
    delivered: Mapping[str, Delivered],
    span: VerifiedSpan,
    own: NamedText | None,
    on_progress: Progress,
) -> tuple[tuple[OutputVerdict, ...], dict[str, EvaluatedAgain]]:
    # Importing Spark takes a second, which nobody else should wait for.
    from orchestrator.spark.verify import verification

    rows = {
        stream: one.rows.drop_columns([GENERATION, SEQUENCE]) for stream, one in delivered.items()
    }
    late_spans_ms = {stream: one.late_spans_ms for stream, one in delivered.items()}
    with scratch_folder("vivace-verify-") as work:
        on_progress("starting", "Spark")
        with spark_session(work / "spark") as session:
            if own is not None:
                checks = verification.verify(
                    session,
                    own.text,
                    _files(view, inputs, work),
                    rows,
                    through_ms=dict.fromkeys(rows, span.until_ms),
                    begin_ms=span.begin_ms,
                    file=own.file,
                    late_spans_ms=late_spans_ms,
                    on_rows=telling(on_progress, "comparing"),
                )
                return tuple(verdict(each) for each in checks), {}
            statements = [each.statement for each in view.dataflow.upstream(query)]
            columns = {name: view.stream_records[name].columns for name in inputs}
            return compared_again(
                session, statements, columns, inputs, rows,
                begin_ms=span.begin_ms, until_ms=span.until_ms, on_progress=on_progress,
                late_spans_ms=late_spans_ms,
            )  # fmt: skip


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
