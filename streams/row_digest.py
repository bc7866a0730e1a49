"""A digest of rows that does not depend on how they are cut into batches."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyarrow import compute


class RowDigest:
    """A running checksum (CRC-32) of each column's values, lengths and gaps.

    Parameters
    ----------
    seed
        A number that the digest also depends on, such as that of the first row.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._sums: list[int] = []

    def update(self, rows: pa.RecordBatch) -> None:
        """Take in the next rows; all of them have the same columns."""
        parts = [part for column in rows.columns for part in _parts(column)]
        sums = self._sums or [0] * len(parts)
        self._sums = [zlib.crc32(part, known) for part, known in zip(parts, sums, strict=True)]

    @property
    def value(self) -> int:
        """The digest of all rows so far."""
        return zlib.crc32(np.array([self._seed, *self._sums], dtype="<i8").tobytes())


def _parts(column: pa.Array) -> Iterator[bytes]:
    """A column's content as two or three runs of bytes, each the concatenation of its rows' own."""
    yield column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8).tobytes()
    if column.type == pa.string():
        filled = column.fill_null("")
        yield compute.binary_length(filled).to_numpy(zero_copy_only=False).tobytes()
        yield "".join(filled.to_pylist()).encode()
    else:
        yield (
            column.fill_null(False if column.type == pa.bool_() else 0)
            .to_numpy(zero_copy_only=False)
            .tobytes()
        )
