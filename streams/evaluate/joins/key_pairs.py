"""What joins by equal keys share: the keys of a source, and pairs of rows as rows of the output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation.arrays import BoolArray, IntArray
from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import Evaluator, InputColumn, Typed, evaluator, holds
from streams.kernels import kernels
from streams.kernels.keys import Keys, every, key_column
from streams.plan.choice import join_conditions
from streams.plan.program import Program, SourcePlan
from streams.vectors.arrays import Codes
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.vector import Columns, Positions, RowsAt, Vector, to_arrow

MOST_PAIRS = 1 << 20
"""Most pairs that are looked at at once. It bounds the memory of a pass."""

FEW_PAIRS = 1024

NOTHING = -1
"""No row."""


Fill = Callable[[int, int, IntArray, IntArray], tuple[int, int, int]]
"""Writes pairs down, from one of them on, as `streams.kernels.row_loops.fill_pairs` does."""


class KeyJoin(Evaluation, ABC):
    """Runs a program that joins two sources by equal keys."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        (select,) = program.selects
        kernels.want()
        self.show(program, schema)
        keys, conditions = join_conditions(program)
        self.left, self.right = (
            JoinSide(program, source, of_side)
            for source, of_side in zip(select.sources, zip(*keys, strict=True), strict=True)
        )
        self._conditions = tuple(map(evaluator, conditions))

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `Showing`."""
        (select,) = program.selects
        self._schema = schema
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._outputs: list[tuple[Typed, Evaluator]] = [
            (output, evaluator(output)) for output in select.outputs
        ]

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        blocks = list(self._blocks(given))
        if not blocks:
            return self._no_rows
        return blocks[0] if len(blocks) == 1 else pa.concat_batches(blocks)

    @abstractmethod
    def _blocks(self, given: Pass) -> Iterator[pa.RecordBatch]:
        """The rows of the output, block by block."""

    def _pairs(
        self, columns: tuple[Columns, Columns], first: Codes, times_ms: IntArray, fill: Fill
    ) -> Iterator[pa.RecordBatch]:
        """Pairs of rows as rows of the output.

        Parameters
        ----------
        columns
            Of the left and of the right.
        first, times_ms
            Row of the right → the first row of the left with its key, and the timestamp of its
            pairs.
        fill
            Writes the pairs down.
        """
        room = min(MOST_PAIRS, max(4 * len(first), FEW_PAIRS))
        row, other = 0, int(first[0])
        while row < len(first):
            places = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            count, row, other = fill(row, other, *places)
            if count:
                of_left, of_right = (each[:count] for each in places)
                pairs = RowPairs(columns, (of_left, of_right), self.left.width)
                made = pairs.selected(self._conditions, self._outputs, times_ms, self._schema)
                if made is not None:
                    yield made


class JoinSide:
    """One source of the join."""

    def __init__(self, program: Program, plan: SourcePlan, keys: tuple[Typed, ...]) -> None:
        self.stream = program.windows[plan.window].stream
        self.kinds = program.read_kinds(self.stream)
        self.keys = keys
        self._condition = None if plan.condition is None else evaluator(plan.condition)
        self.width = len(self.kinds)

    def columns(self, batch: pa.RecordBatch, places: Sequence[int]) -> BatchColumns:
        """The columns that the program reads, which lie at some places of a batch."""
        return BatchColumns(batch, places, self.kinds)

    def codes(self, coder: Keys, columns: BatchColumns, length: int) -> Codes:
        """The keys of tuples; -1 for those that match none: NULL equals nothing."""
        wanted = every
        if self._condition is not None:
            wanted = np.ascontiguousarray(holds(self._condition, columns, (length,)))
        keys = [key_column(key, columns, length) for key in self.keys]
        codes = coder.encode(keys, length, wanted)
        for key in keys:
            known = _known(key, length)
            if known is not None:
                codes[~known] = NOTHING
        return codes


def _known(key: Vector | pa.Array, length: int) -> BoolArray | None:
    """Which keys are not NULL; None for all."""
    if isinstance(key, Vector):
        return key.filled_to(length).valid
    return key.is_valid().to_numpy(zero_copy_only=False) if key.null_count else None


class RowPairs:
    """Pairs of rows side by side. A column is taken when it is read."""

    def __init__(
        self,
        columns: Sequence[Columns],
        places: tuple[Positions, Positions],
        width: int,
    ) -> None:
        self._columns = columns
        self._width = width
        self._sides = [RowsAt(*side) for side in zip(columns, places, strict=True)]
        self.places = places
        self.length = len(places[0])

    def __getitem__(self, index: int, /) -> Vector:
        side = 0 if index < self._width else 1
        return self._sides[side][index - side * self._width]

    def arrow(self, index: int) -> pa.Array:
        """A column of strings."""
        side = 0 if index < self._width else 1
        columns = self._columns[side]
        if not isinstance(columns, BatchColumns):
            return to_arrow(self[index], "string")
        column = columns.arrow(index - side * self._width)
        return pc.call_function("array_take", [column, pa.array(self.places[side])])

    def selected(
        self,
        conditions: Sequence[Evaluator],
        outputs: Sequence[tuple[Typed, Evaluator]],
        times_ms: IntArray,
        schema: pa.Schema,
    ) -> pa.RecordBatch | None:
        """The pairs for which all conditions hold, as rows of the output; None for none.

        Parameters
        ----------
        conditions, outputs
            Over the columns of both sides.
        times_ms
            Row of the right → timestamp of its pairs.
        """
        rows = self
        for condition in conditions:
            (kept,) = holds(condition, rows, (rows.length,)).nonzero()
            if len(kept) < rows.length:
                rows = rows.take(kept)
            if not rows.length:
                return None
        arrays = [pa.array(times_ms[rows.places[1]], pa.int64())]
        for output, evaluate in outputs:
            if isinstance(output, InputColumn) and output.kind == "string":
                arrays.append(rows.arrow(output.index))
            else:
                arrays.append(to_arrow(evaluate(rows).filled_to(rows.length), output.kind))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def take(self, kept: Positions) -> RowPairs:
        """Some of the pairs."""
        left, right = (places[kept] for places in self.places)
        return RowPairs(self._columns, (left, right), self._width)
