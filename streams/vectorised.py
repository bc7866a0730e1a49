"""Evaluation of many timestamps in one pass, for statements without state.

A statement has no state if the output of each timestamp group follows from its tuples alone: an
RSTREAM of selections and projections over `[NOW]`, or a union of these. Columns that the statement
only passes on stay Arrow arrays; numpy computes the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from streams.expressions import Evaluator, Field, evaluator, holds
from streams.program import Program, SelectPlan
from streams.state import Stateful
from streams.vector import Positions, Vector, finite_column, from_arrow, to_arrow


class _LazyColumns:
    """Columns of a record batch, converted when an expression asks for them."""

    def __init__(self, batch: pa.RecordBatch, names: tuple[str, ...], kinds: tuple[str, ...]):
        self._batch = batch
        self._names = names
        self._kinds = kinds
        self._converted: dict[int, Vector] = {}

    def __getitem__(self, index: int, /) -> Vector:
        if index not in self._converted:
            column = self._batch.column(self._names[index])
            self._converted[index] = from_arrow(column, self._kinds[index])
        return self._converted[index]


class _Branch:
    """One SELECT of the union."""

    def __init__(self, program: Program, plan: SelectPlan) -> None:
        (source,) = plan.sources
        self.stream = program.windows[source.window].stream
        self._names = program.reads[self.stream]
        self._kinds = program.read_kinds(self.stream)
        self._condition = None if source.condition is None else evaluator(source.condition)
        self._outputs: list[tuple[str, int | Evaluator]] = [
            (output.kind, output.index if isinstance(output, Field) else evaluator(output))
            for output in plan.outputs
        ]

    def run(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Timestamps, then the SELECT list, of the rows that are selected."""
        if self._condition is not None:
            columns = _LazyColumns(batch, self._names, self._kinds)
            selected = holds(self._condition, columns, (batch.num_rows,))
            if not selected.all():
                batch = batch.take(np.flatnonzero(selected))
        columns = _LazyColumns(batch, self._names, self._kinds)
        arrays = [batch.column(0)]
        for kind, output in self._outputs:
            if isinstance(output, int):
                column = batch.column(self._names[output])
                arrays.append(finite_column(column) if kind == "float" else column)
            else:
                arrays.append(to_arrow(output(columns).filled_to(batch.num_rows), kind))
        return arrays


class Vectorised:
    """Runs a stateless program."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        self._schema = schema
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._branches = [_Branch(program, plan) for plan in program.selects]

    def run(
        self,
        taken: Mapping[str, pa.RecordBatch | None],
        first_ids: Mapping[str, int],
        until_ms: int,
    ) -> pa.RecordBatch:
        """Evaluate all tuples up to a watermark; parameters as in `Incremental.run`."""
        parts: list[pa.RecordBatch] = []
        for branch in self._branches:
            batch = taken[branch.stream]
            if batch is not None:
                arrays = branch.run(batch)
                parts.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        if not parts:
            return self._no_rows
        if len(parts) == 1:
            return parts[0]
        rows = pa.concat_batches(parts)
        timestamps = rows.column(0).to_numpy(zero_copy_only=False)
        # Stable: within a timestamp group the parts stay in the order of the union.
        order: Positions = np.argsort(timestamps, kind="stable")
        return rows.take(order)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """No operator has state."""
        return iter(())
