"""The memory of the loop machine as Python sees it (`streams.kernels.loops.layout`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray, FloatArray, IntArray
from streams.kernels import kernels
from streams.kernels.keys import Keys, every
from streams.kernels.loops.layout import (
    BASE,
    BEGIN_OF_TABLES,
    CAPACITY,
    DESCRIPTOR,
    FREE,
    HASH,
    HEAD,
    KEY_COUNT,
    LIVE,
    NULLS,
    STALE,
    TAIL,
    VALUES,
    WIDTH,
)
from streams.vectors.vector import Array, Frame, Vector, holds_everywhere, to_arrow

FIRST_ROWS = 16
FIRST_WORDS = 1 << 13


class Texts:
    """Codes of texts; 0 is that of NULL. Codes never change their meaning."""

    def __init__(self) -> None:
        self._keys = Keys(["string"])

    @property
    def count(self) -> int:
        """Every code is below."""
        return self._keys.count

    def encode(self, texts: pa.Array) -> IntArray:
        """The codes of some texts."""
        return self._keys.encode([texts], len(texts), every).astype(np.int64)

    def decode(self, codes: IntArray) -> Array:
        """The texts that have these codes."""
        (column,) = self._keys.columns(codes.astype(np.int32))
        return column.values


class Memory:
    """Words, and the tables in them.

    Programs and descriptors come first; the tables follow them (`lay_out`).

    Attributes
    ----------
    words, floats
        The same memory, as integers and as floats.
    texts
        The texts whose codes are in it.
    kernels
        The compiled kernels.
    """

    def __init__(self) -> None:
        self.kernels: ModuleType = kernels.loops()
        self.words: IntArray = np.zeros(FIRST_WORDS, dtype=np.int64)
        self.floats: FloatArray = self.words.view(np.float64)
        self.texts = Texts()
        self._used = self._begin = BEGIN_OF_TABLES
        self._tables: list[int] = []
        self._abandoned = 0

    def put(self, words: Sequence[int]) -> int:
        """Append words of a program; their address."""
        at = self._allocate(len(words))
        self.words[at : at + len(words)] = words
        return at

    def table(self, columns: int, *, header: int = VALUES, rows: int = FIRST_ROWS) -> int:
        """A new table, whose rows have as many words behind a header."""
        table = self._allocate(DESCRIPTOR)
        self._tables.append(table)
        self.words[table + CAPACITY], self.words[table + WIDTH] = rows, header + columns
        self.words[table + FREE] = -1
        return table

    def found_by(self, table: int, keys: int) -> None:
        """Have the rows of a table be found by their first columns."""
        hashes = self.table(1, header=0, rows=2 * int(self.words[table + CAPACITY]))
        self.words[table + HASH], self.words[hashes + KEY_COUNT] = hashes, keys

    def lay_out(self) -> None:
        """Give all tables their places, behind all programs."""
        self._begin = self._used
        for table in self._tables:
            base = self._allocate(int(self.words[table + CAPACITY] * self.words[table + WIDTH]))
            self.words[table + BASE] = base

    def grow(self, table: int, rows: int) -> None:
        """Have a table, or hashes of one, hold so many rows.

        Where it was, its rows still lie: what points to them may do so until the next pass.
        """
        size, base = self._size(table), int(self.words[table + BASE])
        capacity = max(2 * int(self.words[table + CAPACITY]), 1 << (rows - 1).bit_length())
        at = self._allocate(capacity * int(self.words[table + WIDTH]))
        words = self.words
        words[at : at + size] = words[base : base + size]
        words[table + BASE], words[table + CAPACITY], words[table + STALE] = at, capacity, 1
        self._abandoned += size

    def have(self, table: int, rows: int) -> None:
        """As `grow`, if it has to."""
        if rows > self.words[table + CAPACITY]:
            self.grow(table, rows)

    def tidy(self) -> None:
        """Give up the memory where tables were before they moved, if it is much."""
        if 2 * self._abandoned < self._used:
            return
        before = self.words
        sizes = [self._size(table) for table in self._tables]
        self._used, self._abandoned = self._begin + sum(sizes), 0
        self.words = np.zeros(max(2 * self._used, FIRST_WORDS), dtype=np.int64)
        self.floats = self.words.view(np.float64)
        self.words[: self._begin] = before[: self._begin]
        at = self._begin
        for table, size in zip(self._tables, sizes, strict=True):
            base = int(before[table + BASE])
            self.words[at : at + size] = before[base : base + size]
            self.words[table + BASE] = at
            at += size

    def capacity(self, table: int) -> int:
        """For how many rows a table has room."""
        return int(self.words[table + CAPACITY])

    def _size(self, table: int) -> int:
        return int(self.words[table + CAPACITY] * self.words[table + WIDTH])

    def _allocate(self, words: int) -> int:
        at = self._used
        self._used += words
        if self._used > len(self.words):
            grown: IntArray = np.zeros(max(2 * len(self.words), self._used), dtype=np.int64)
            grown[:at] = self.words[:at]
            self.words, self.floats = grown, grown.view(np.float64)
        return at

    def rows(self, table: int) -> IntArray:
        """The rows of a table, from the first that it may hold on; shape (rows, words)."""
        words = self.words
        base, width = int(words[table + BASE]), int(words[table + WIDTH])
        head, tail = int(words[table + HEAD]), int(words[table + TAIL])
        return words[base + head * width : base + tail * width].reshape(tail - head, width)

    def begin(self, table: int, rows: int) -> IntArray:
        """Have a table hold so many new rows alone; shape (rows, words), all 0."""
        self.have(table, rows)
        words = self.words
        words[table + HEAD], words[table + TAIL], words[table + LIVE] = 0, rows, rows
        if hashes := int(words[table + HASH]):
            words[hashes + STALE] = 1
        found = self.rows(table)
        found[:] = 0
        return found

    def write(self, rows: IntArray, columns: Sequence[Vector]) -> None:
        """Write columns into rows that are 0."""
        for place, column in enumerate(columns):
            values, valid = column
            if values.dtype == np.object_:
                texts = to_arrow(column, "string")
                rows[:, VALUES + place] = self.texts.encode(texts)
            elif values.dtype == np.float64:
                rows[:, VALUES + place] = np.ascontiguousarray(values).view(np.int64)
            else:
                rows[:, VALUES + place] = values
            if valid is not None:
                rows[~valid, VALUES + place] = 0
                rows[:, NULLS] |= (~valid).astype(np.int64) << place

    def read(self, rows: IntArray, kinds: Sequence[str]) -> Frame:
        """The columns of rows."""
        return read_rows(rows, kinds, self.texts)


def read_rows(rows: IntArray, kinds: Sequence[str], texts: Texts) -> Frame:
    """The columns of rows, none of which are the memory's."""
    columns: list[Vector] = []
    for place, kind in enumerate(kinds):
        words = np.ascontiguousarray(rows[:, VALUES + place])
        known: BoolArray = (rows[:, NULLS] >> place) & 1 == 0
        values: Array = words
        if kind == "string":
            values = texts.decode(words)
        elif kind == "float":
            values = words.view(np.float64)
        elif kind == "bool":
            values = words != 0
        columns.append(Vector(values, None if holds_everywhere(known) else known))
    return Frame(tuple(columns), len(rows))
