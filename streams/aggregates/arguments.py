"""Arguments of aggregates, read from a record batch as parts need them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray
from streams.aggregates.parts import Part
from streams.expressions.typed import Evaluator, InputColumn, evaluator
from streams.kernels.keys import packed
from streams.vectors.arrays import sound
from streams.vectors.arrow_buffers import VALIDITY, bits
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.vector import Vector


class Arguments:
    """The arguments of parts, read from a batch: each once, though several parts have it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        # Only texts are read in two ways: as they are, or which are NULL.
        needs = [
            (part.argument, part.reads_texts and part.argument.kind == "string") for part in parts
        ]
        different = dict(zip(needs, parts, strict=True))
        self._arguments = [_Argument(part) for part in different.values()]
        self._order = [list(different).index(need) for need in needs]

    def of(
        self,
        batch: pa.RecordBatch,
        columns: BatchColumns,
        places: Sequence[int],
        wanted: BoolArray | None = None,
    ) -> list[Vector]:
        """The values of each part's argument, as parts read them.

        Parameters
        ----------
        batch, columns, places
            The rows, their columns, and where the batch has these.
        wanted
            Which rows to read, one after the other; None: all.
        """
        found = [one.of(batch, columns, places, wanted) for one in self._arguments]
        return [found[place] for place in self._order]


class _Argument:
    """The argument of a part of an aggregate, read from a batch."""

    def __init__(self, part: Part) -> None:
        argument = part.argument
        self._evaluate: Evaluator = evaluator(argument)
        only_nulls = argument.kind == "string" and not part.reads_texts
        self._text = argument.index if isinstance(argument, InputColumn) and only_nulls else None

    def of(
        self,
        batch: pa.RecordBatch,
        columns: BatchColumns,
        places: Sequence[int],
        wanted: BoolArray | None,
    ) -> Vector:
        """Its values; of most texts only which are NULL."""
        if self._text is not None:
            column = batch.column(places[self._text])
            valid = bits(column, VALIDITY) if column.null_count else None
            if valid is not None and wanted is not None:
                valid = valid[wanted]
            return Vector(np.empty(0, dtype=np.int64), valid)
        if wanted is not None:
            return packed(self._evaluate(columns).filled_to(batch.num_rows), wanted)
        values, valid = self._evaluate(columns).filled_to(batch.num_rows)
        return Vector(sound(values), None if valid is None else sound(valid))
