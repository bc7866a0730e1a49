"""Arguments of aggregates, read from a record batch as parts need them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streams.arrow_buffers import VALIDITY, bits
from streams.expressions import Evaluator, Field, evaluator
from streams.panes.parts import Part
from streams.vector import Vector
from streams.vectorised import BatchColumns


class Argument:
    """The argument of a part of an aggregate, read from a batch."""

    def __init__(self, part: Part) -> None:
        argument = part.argument
        self._evaluate: Evaluator = evaluator(argument)
        only_nulls = argument.kind == "string" and not part.reads_texts
        self._text = argument.index if isinstance(argument, Field) and only_nulls else None

    def of(self, batch: pa.RecordBatch, columns: BatchColumns, places: Sequence[int]) -> Vector:
        """Its values as parts read them; of most texts only which are NULL."""
        if self._text is not None:
            column = batch.column(places[self._text])
            valid = bits(column, VALIDITY) if column.null_count else None
            return Vector(np.empty(0, dtype=np.int64), valid)
        values, valid = self._evaluate(columns).filled_to(batch.num_rows)
        values = np.require(values, requirements=["C", "A"])
        return Vector(values, None if valid is None else np.require(valid, requirements=["C", "A"]))
