"""Evaluation of many timestamps in one pass, for statements without state.

A statement has no state if the output of each timestamp group follows from its tuples alone: an
RSTREAM of selections and projections over `[NOW]`, or a union of these. Columns that the statement
only passes on stay Arrow arrays; numpy computes the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import Evaluator, InputColumn, evaluator, holds
from streams.plan.program import Program, SelectPlan
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.state import Stateful
from streams.vectors.vector import Positions, RowsAt, to_arrow

MOST_RUNS = 16
"""So many slices of rows are put together in less time than Arrow begins to take rows."""


class _Branch:
    """One SELECT of the union."""

    def __init__(self, program: Program, plan: SelectPlan) -> None:
        (source,) = plan.sources
        self.stream = program.windows[source.window].stream
        self._places = program.read_places(self.stream)
        self._kinds = program.read_kinds(self.stream)
        self._condition = None if source.condition is None else evaluator(source.condition)
        self._outputs: list[tuple[str, int | Evaluator]] = [
            (output.kind, output.index if isinstance(output, InputColumn) else evaluator(output))
            for output in plan.outputs
        ]

    def run(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Timestamps, then the SELECT list, of the rows that are selected."""
        columns = BatchColumns(batch, self._places, self._kinds)
        if self._condition is not None:
            (kept,) = holds(self._condition, columns, (batch.num_rows,)).nonzero()
            if len(kept) < batch.num_rows:
                return self._some(batch, columns, kept)
        arrays = [batch.column(0)]
        for kind, output in self._outputs:
            if not isinstance(output, int):
                arrays.append(to_arrow(output(columns).filled_to(batch.num_rows), kind))
            elif kind == "float":
                arrays.append(to_arrow(columns[output], kind))
            else:
                arrays.append(columns.arrow(output))
        return arrays

    def _some(
        self, batch: pa.RecordBatch, columns: BatchColumns, kept: Positions
    ) -> list[pa.Array]:
        """As `run`, of some rows."""
        rows = RowsAt(columns, kept)
        arrays = [pa.array(batch.column(0).to_numpy()[kept])]
        for kind, output in self._outputs:
            if not isinstance(output, int):
                arrays.append(to_arrow(output(rows).filled_to(len(kept)), kind))
            elif kind == "string":
                column = batch.column(self._places[output])
                # Not `column.take`, which takes twice as long for few rows.
                arrays.append(pc.call_function("array_take", [column, pa.array(kept)]))
            else:
                arrays.append(to_arrow(rows[output], kind))
        return arrays


class Stateless(Evaluation):
    """Runs a program whose way is `EvaluationWay.STATELESS`."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        self._schema = schema
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._branches = [_Branch(program, plan) for plan in program.selects]

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        parts: list[pa.RecordBatch] = []
        for branch in self._branches:
            batch = given.taken[branch.stream]
            if batch is not None:
                arrays = branch.run(batch)
                parts.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        if not parts:
            return self._no_rows
        return parts[0] if len(parts) == 1 else _merged(parts)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """No operator has state."""
        return iter(())


def _merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Rows in the order of their timestamps, within one in the order of the parts."""
    timestamps = np.concatenate([part.column(0).to_numpy() for part in parts])
    order: Positions = timestamps.argsort(kind="stable")
    (breaks,) = (order[1:] != order[:-1] + 1).nonzero()
    rows = pa.concat_batches(parts)
    if not len(breaks):
        return rows
    if len(breaks) > MOST_RUNS:
        return rows.take(order)
    ends = [*(breaks + 1).tolist(), len(order)]
    runs = zip(order[[0, *ends[:-1]]].tolist(), np.diff(ends, prepend=0).tolist(), strict=True)
    return pa.concat_batches([rows.slice(start, length) for start, length in runs])
