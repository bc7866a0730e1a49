"""Columns of values with NULLs, and the signed sets of rows that flow between operators.

Operators use numpy arrays rather than Arrow kernels for two reasons: a chunk touches tens of rows,
so the overhead of each call dominates; and a join broadcasts one array against another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrow_buffers import VALIDITY, VALUES, bits, fixed
from streams.vectors.chunk import type_names

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.intp]

storage: dict[str, type[Any]] = {
    "int": np.int64,
    "float": np.float64,
    "string": np.object_,
    "bool": np.bool_,
}
"""Type of the query language → element type of its arrays."""

fillers: dict[str, Any] = {"int": 0, "float": 0.0, "string": "", "bool": False}
"""The value that an array holds in the place of a NULL."""


_ZERO: Array = np.zeros(())
"""−0.0 + 0.0 is 0.0. In an array, because numpy would have to convert a number each time."""


def filler_of(values: Array) -> Any:
    """The value that an array like this one holds in the place of a NULL."""
    return "" if values.dtype == np.object_ else values.dtype.type(0)


class Vector(NamedTuple):
    """Values of one type.

    Attributes
    ----------
    values
        Any shape; the filler or anything else of the type where `valid` is false.
    valid
        False where NULL, of a shape that broadcasts with the values'; None: no NULL.
    """

    values: Array
    valid: BoolArray | None

    def take(self, where: Any) -> Vector:
        """The values that a numpy index selects: positions, a slice or a tuple of these."""
        return Vector(self.values[where], None if self.valid is None else self.valid[where])

    def filled_to(self, length: int) -> Vector:
        """A column of that length: a constant repeated, a column unchanged."""
        values, valid = self
        if values.shape != (length,):
            values = np.broadcast_to(values, (length,))
        if valid is not None and valid.shape != (length,):
            valid = np.broadcast_to(valid, (length,))
        return Vector(values, valid)

    def to_list(self) -> list[Any]:
        """Python values, None for NULL; one-dimensional vectors only."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        known: list[bool] = self.valid.tolist()
        return [value if is_known else None for value, is_known in zip(values, known, strict=True)]


class Columns(Protocol):
    """The input of an expression: a vector for every field that it names."""

    def __getitem__(self, index: int, /) -> Vector: ...


class Rows(Columns, Protocol):
    """Columns of one length."""

    @property
    def length(self) -> int: ...

    def take(self, positions: Positions, /) -> Rows:
        """The rows at some positions."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows held in memory, column by column."""

    columns: tuple[Vector, ...]
    length: int

    def __getitem__(self, index: int, /) -> Vector:
        return self.columns[index]

    def take(self, positions: Positions) -> Frame:
        """The rows at some positions."""
        taken = tuple(column.take(positions) for column in self.columns)
        return Frame(taken, len(positions))

    def slice(self, start: int, stop: int) -> Frame:
        """The rows [start, stop), without copying."""
        kept = slice(start, stop)
        return Frame(tuple(column.take(kept) for column in self.columns), stop - start)

    def tuples(self) -> list[tuple[Any, ...]]:
        """Rows as Python values, None for NULL."""
        if not self.columns:
            return [()] * self.length
        return list(zip(*(column.to_list() for column in self.columns), strict=True))


class RowsAt:
    """Rows at some positions of columns. A column is taken when it is read."""

    __slots__ = ("_columns", "_positions", "_taken", "length")

    def __init__(self, columns: Columns, positions: Positions) -> None:
        self._columns = columns
        self._positions = positions
        self._taken: dict[int, Vector] = {}
        self.length = len(positions)

    def __getitem__(self, index: int, /) -> Vector:
        taken = self._taken.get(index)
        if taken is None:
            taken = self._taken[index] = self._columns[index].take(self._positions)
        return taken

    def take(self, positions: Positions) -> RowsAt:
        """Some of the rows."""
        return RowsAt(self._columns, self._positions[positions])


class Delta(NamedTuple):
    """How a relation changed, at one or several event timestamps. There is at least one change.

    Attributes
    ----------
    rows
        The rows inserted and the rows removed, in the order of the timestamps.
    inserted
        True where the row was inserted, shape (rows.length,).
    times_ms
        The event timestamp of each change; never falls. Between two timestamps the relation does
        not change.
    ids
        Identity of each row; None for rows without one (after a join or an aggregate).
    """

    rows: Rows
    inserted: BoolArray
    times_ms: IntArray
    ids: IntArray | None = None


class Emitted(NamedTuple):
    """Rows of an output stream, with their event timestamps, which never fall."""

    rows: Frame
    times_ms: IntArray


def timestamp_groups(times_ms: IntArray) -> Iterator[tuple[int, int]]:
    """Beginning and end of each run of equal timestamps."""
    ends = [*(np.flatnonzero(times_ms[1:] != times_ms[:-1]) + 1).tolist(), len(times_ms)]
    return zip([0, *ends], ends, strict=False)


def empty_frame(kinds: Sequence[str]) -> Frame:
    """No rows, with columns of these types."""
    return Frame(tuple(Vector(np.empty(0, dtype=storage[kind]), None) for kind in kinds), 0)


def concat_frames(frames: Sequence[Frame]) -> Frame:
    """Frames one after the other; at least one, all with columns of the same types."""
    if len(frames) == 1:
        return frames[0]
    length = sum(frame.length for frame in frames)
    columns: list[Vector] = []
    for parts in zip(*(frame.columns for frame in frames), strict=True):
        valid: BoolArray | None = None
        if any(part.valid is not None for part in parts):
            valid = np.concatenate([known_of(part) for part in parts])
        columns.append(Vector(np.concatenate([part.values for part in parts]), valid))
    return Frame(tuple(columns), length)


def known_of(vector: Vector) -> BoolArray:
    """True where the value is not NULL."""
    if vector.valid is None:
        return np.ones(vector.values.shape, dtype=np.bool_)
    return vector.valid


def holds_everywhere(flags: BoolArray) -> bool:
    """Whether all are true. `flags.all()` takes ten times as long for a few."""
    return np.count_nonzero(flags) == flags.size


def from_list(values: Sequence[Any], kind: str) -> Vector:
    """Python values, None for NULL, as a vector."""
    if None not in values:
        return Vector(np.array(values, dtype=storage[kind]), None)
    filler = fillers[kind]
    known = [value is not None for value in values]
    filled = [filler if value is None else value for value in values]
    return Vector(np.array(filled, dtype=storage[kind]), np.array(known, dtype=np.bool_))


def from_tuples(rows: Sequence[tuple[Any, ...]], kinds: Sequence[str]) -> Frame:
    """Rows of Python values as a frame."""
    if not rows:
        return empty_frame(kinds)
    columns = zip(*rows, strict=True) if kinds else repeat((), 0)
    vectors = tuple(from_list(column, kind) for column, kind in zip(columns, kinds, strict=True))
    return Frame(vectors, len(rows))


def from_arrow(array: pa.Array, kind: str) -> Vector:
    """A column of a record batch; floats are `normalised`, as everywhere."""
    valid: BoolArray | None = None
    if array.null_count:
        valid = bits(array, VALIDITY)
    if kind in ("int", "float"):
        values = fixed(array, storage[kind])
    elif kind == "bool":
        values = bits(array, VALUES)
    else:
        values = array.to_numpy(zero_copy_only=False)
    if valid is not None:
        values = np.where(valid, values, fillers[kind])
    vector = Vector(values, valid)
    return normalised(vector) if kind == "float" else vector


def to_arrow(vector: Vector, kind: str) -> pa.Array:
    """A one-dimensional vector as Arrow; NULL where it is not valid."""
    mask = None if vector.valid is None else ~vector.valid
    return pa.array(vector.values, type_names[kind], mask=mask)


def emitted_batch(
    emitted: Sequence[Emitted], kinds: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Rows of an output stream, one part after the other, as a record batch."""
    if not emitted:
        return pa.RecordBatch.from_pylist([], schema=schema)
    timestamps = pa.array(np.concatenate([one.times_ms for one in emitted]), pa.int64())
    rows = concat_frames([one.rows for one in emitted])
    outputs = zip(rows.columns, kinds, strict=True)
    columns = [to_arrow(column, kind) for column, kind in outputs]
    return pa.RecordBatch.from_arrays([timestamps, *columns], schema=schema)


def normalised(vector: Vector) -> Vector:
    """The same floats with one zero, 0.0, and NULL where they are infinite or not a number.

    All floats that operators see are such. Zeros are equal, and a relation takes one of two equal
    rows for the other: if they looked different, its output would depend on the way of evaluation.
    """
    values: Array = vector.values + _ZERO
    good: BoolArray = np.isfinite(values)
    if holds_everywhere(good):
        return Vector(values, vector.valid)
    values = np.where(good, values, 0.0)
    return Vector(values, good if vector.valid is None else good & vector.valid)


def truth(vector: Vector) -> BoolArray:
    """True where a condition is true, neither false nor NULL."""
    if vector.valid is None:
        return vector.values
    return vector.values & vector.valid
