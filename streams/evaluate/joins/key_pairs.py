"""Parts of joins by equal keys: the keys of a source, and pairs of rows as rows of the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation.arrays import BoolArray, IntArray
from streams.expressions.typed import Evaluator, InputColumn, Typed, evaluator, holds
from streams.kernels.keys import Keys, every, key_column
from streams.plan.program import Program, SourcePlan
from streams.vectors.arrays import Codes
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.vector import Columns, Positions, RowsAt, Vector, to_arrow

MOST_PAIRS = 1 << 20
"""Most pairs that are looked at at once. It bounds the memory of a pass."""

FEW_PAIRS = 1024

NOTHING = -1
"""No row."""


def room_for(rows: int) -> int:
    """For how many pairs to make room, if so many rows look for others."""
    return min(MOST_PAIRS, max(4 * rows, FEW_PAIRS))


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
