"""Outputs of `vivace try` compared: with a file of expected rows, and with Spark SQL's.

Rows are compared as multisets, exactly: only the order within a timestamp may differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.api.recomputing import compared_again, spark_session
from orchestrator.api.tried_files import AskedFile
from orchestrator.api.tried_inputs import open_input, stream_record
from orchestrator.api.tried_outputs import STREAM
from orchestrator.api.tried_query import TriedQuery
from orchestrator.edges.sources.formats.inference import TimeColumn
from orchestrator.errors import InvalidInput
from orchestrator.folders import scratch_folder
from orchestrator.progress import Progress
from orchestrator.results.verification import EvaluatedAgain, OutputVerdict
from streams.vectors.chunk import TIMESTAMP

SHOWN_DIFFERENCES = 10
"""Differing rows that are shown of an output and side."""

_SIDE = "_side"
"""No column of a stream is called that: 1 for each time that a row is expected, -1 if it came."""


def expected_rows(
    output: str, columns: Mapping[str, str], asked: AskedFile, stdin: BinaryIO
) -> pa.Table:
    """The rows of a file, with the columns of an output and `_ts`, in the order of time.

    Raises
    ------
    InvalidInput
        It does not hold such rows.
    """
    with ExitStack() as files:
        opened = open_input(
            output,
            asked,
            stream_record(output, columns),
            TimeColumn(name=TIMESTAMP),
            files,
            stdin,
            is_sorted=True,
        )
        if more := sorted(opened.told.left_out.keys() - {STREAM}):
            problem = f"the result has no column {more[0]}"
            remedy = f"Expect {', '.join((TIMESTAMP, *columns))}."
            raise InvalidInput(asked.path, output, None, problem, remedy)
        return pa.Table.from_batches([one.rows for one in opened.chunks()], schema=opened.schema)


def compared(output: str, rows: pa.Table, expected: pa.Table) -> OutputVerdict:
    """How the rows of an output differ from what is expected."""
    sides = [_with_side(expected, 1), _with_side(rows, -1)]
    names = rows.column_names
    grouped = pa.concat_tables(sides).group_by(names).aggregate([(_SIDE, "sum")])
    sums = grouped.column(f"{_SIDE}_sum")
    differing = grouped.filter(pc.not_equal(sums, 0)).sort_by(TIMESTAMP)
    counts = differing.column(f"{_SIDE}_sum").to_numpy()
    found = {sign: differing.select(names).filter(pa.array(counts * sign > 0)) for sign in (1, -1)}
    return OutputVerdict(
        output=output,
        archived=rows.num_rows,
        recomputed=expected.num_rows,
        missing=int(counts[counts > 0].sum()),
        unexpected=int(-counts[counts < 0].sum()),
        first_missing=_first(found[1]),
        first_unexpected=_first(found[-1]),
    )


def _with_side(rows: pa.Table, side: int) -> pa.Table:
    return rows.append_column(_SIDE, pa.array(np.full(rows.num_rows, side)))


def _first(rows: pa.Table) -> tuple[dict[str, Any], ...]:
    return tuple(rows.slice(0, SHOWN_DIFFERENCES).to_pylist())


def checked_again(
    query: TriedQuery,
    inputs: Mapping[str, pa.Table],
    rows: Mapping[str, pa.Table],
    until_ms: int,
    on_progress: Progress,
) -> tuple[tuple[OutputVerdict, ...], dict[str, EvaluatedAgain]]:
    """How outputs differ from the same computed in Spark SQL; which statements were not in SQL.

    Parameters
    ----------
    until_ms
        The last timestamp that is compared.

    Raises
    ------
    Unverifiable, Unreachable
        Spark cannot compute them.
    """
    columns = {
        stream: program.input_columns[stream]
        for program in query.programs.values()
        for stream in program.inputs
        if stream in inputs
    }
    on_progress("starting", "Spark")
    with (
        scratch_folder("vivace-try-") as work,
        spark_session(work) as session,
    ):
        return compared_again(
            session, query.statements, columns, inputs, rows,
            begin_ms=None, until_ms=until_ms, on_progress=on_progress,
        )  # fmt: skip
