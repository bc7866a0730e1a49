"""The columns of a record batch as vectors."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streams.vectors.vector import Vector, from_arrow


class BatchColumns:
    """Columns of a record batch, converted when an expression asks for them."""

    def __init__(self, batch: pa.RecordBatch, places: Sequence[int], kinds: Sequence[str]):
        self._batch = batch
        self._places = places
        self._kinds = kinds
        self._converted: dict[int, Vector] = {}

    def arrow(self, index: int) -> pa.Array:
        """A column as it is."""
        return self._batch.column(self._places[index])

    def __getitem__(self, index: int, /) -> Vector:
        converted = self._converted.get(index)
        if converted is None:
            converted = from_arrow(self.arrow(index), self._kinds[index])
            self._converted[index] = converted
        return converted
