"""A checksum of rows: by it replicas notice that they differ, and sources that a batch does."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa

from streams.vectors.arrow_buffers import VALIDITY, VALUES, bits, fixed, offsets


class RowDigest:
    """A running checksum of rows, column by column.

    It depends on the values and their order alone: not on how the rows are cut into batches, nor on
    what the buffers hold in the place of NULLs. Rows of fixed width are read where they lie.
    """

    __slots__ = ("_columns", "_rows")

    def __init__(self) -> None:
        self._rows = 0
        self._columns: list[_Column] = []

    def update(self, rows: pa.RecordBatch) -> None:
        """Continue with these rows; all batches have the same schema."""
        if not rows.num_rows:
            return
        if not self._columns:
            self._columns = [_Column(kind) for kind in rows.schema.types]
        for place, column in enumerate(self._columns):
            column.update(rows.column(place), self._rows)
        self._rows += rows.num_rows

    @property
    def value(self) -> int:
        """The checksum, below 2⁶³: that of the values, and the number of rows modulo 2³¹."""
        together = np.array([column.checksums for column in self._columns], dtype="<u4")
        return (self._rows % 2**31) << 32 | zlib.crc32(together.tobytes())


def digest_of(rows: pa.RecordBatch) -> int:
    """The checksum of a batch."""
    digest = RowDigest()
    digest.update(rows)
    return digest.value


class _Column:
    """The checksums of a column: of values, lengths of strings, positions of NULLs."""

    __slots__ = ("_kind", "_string", "checksums")

    def __init__(self, kind: pa.DataType) -> None:
        self._string = kind == pa.string()
        self._kind = _elements.get(kind)
        self.checksums = [0, 0, 0]

    def update(self, array: pa.Array, before: int) -> None:
        """Continue with an array, which `before` values came before."""
        checksums = self.checksums
        valid = None
        if array.null_count:
            valid = bits(array, VALIDITY)
            nulls = (~valid).nonzero()[0] + before
            checksums[2] = zlib.crc32(nulls.data, checksums[2])
        if self._string:
            places = offsets(array)
            lengths = places[1:] - places[:-1]
            if valid is not None and lengths[~valid].any():
                # Texts lie in the place of NULLs.
                array = array.fill_null("")
                places = offsets(array)
                lengths = places[1:] - places[:-1]
            checksums[1] = zlib.crc32(lengths.data, checksums[1])
            texts = array.buffers()[2]
            if texts is not None:
                read = memoryview(texts)[int(places[0]) : int(places[-1])]
                checksums[0] = zlib.crc32(read, checksums[0])
            return
        values = bits(array, VALUES) if self._kind is None else fixed(array, self._kind)
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(0))
        checksums[0] = zlib.crc32(values.data, checksums[0])


_elements: dict[pa.DataType, type[np.int64] | type[np.float64]] = {
    pa.int64(): np.int64,
    pa.float64(): np.float64,
}
