"""Numbers for groups: each value of the GROUP BY columns has a *code*.

Codes are whole numbers from 0, given in the order of first appearance. They never leave a process.
Code 0 of a column is NULL. Groups by several columns are coded pair by pair: the codes of the first
two columns together are an integer, which has a code, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray, IntArray
from streams.expressions.typed import InputColumn, Typed, evaluator
from streams.kernels import kernels
from streams.vectors.arrays import Bits, Bytes, Codes, home_shift, resized, sound
from streams.vectors.arrow_buffers import VALIDITY, bits, offsets, text_bytes
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.vector import Array, Vector, holds_everywhere, to_arrow

FIRST_CODES = 64
FIRST_TEXT_BYTES = 1024
WORD_BITS = 32
WORD_MASK = 0xFFFFFFFF
WORD_BYTES = 8

every: BoolArray = np.empty(0, dtype=np.bool_)
"""Which rows count, if all do."""

Column = Vector | pa.Array
"""Integers or booleans; or an Arrow array of strings."""


class Ints:
    """Codes of integers."""

    def __init__(self) -> None:
        self._known: IntArray = np.zeros(FIRST_CODES, dtype=np.int64)
        self._table: Codes = np.full(2 * FIRST_CODES, -1, dtype=np.int32)
        self.count = 1

    def encode(self, values: IntArray, valid: BoolArray | None, wanted: BoolArray) -> Codes:
        """The codes of some values; -1 for those that do not count."""
        out: Codes = np.empty(len(values), dtype=np.int32)
        known = wanted if valid is None else (wanted & valid if len(wanted) else valid)
        code = kernels.current().code_ints
        begin, self.count = code(values, known, self._table, self._known, out, 0, self.count)
        while begin < len(values):
            self._grow()
            begin, self.count = code(
                values, known, self._table, self._known, out, begin, self.count
            )
        if valid is not None:
            out[(~valid & wanted) if len(wanted) else ~valid] = 0
        return out

    def _grow(self) -> None:
        values = self._known[1 : self.count]
        known: IntArray = np.zeros(2 * len(self._known), dtype=np.int64)
        table: Codes = np.full(2 * len(self._table), -1, dtype=np.int32)
        out: Codes = np.empty(len(values), dtype=np.int32)
        kernels.current().code_ints(values, every, table, known, out, 0, 1)
        # Only now: the other thread may read them at any moment.
        self._known, self._table = known, table

    def values(self, codes: Codes) -> IntArray:
        """The integers that have these codes; 0 for NULL."""
        return self._known[codes]


class _Texts:
    """Codes of strings."""

    def __init__(self) -> None:
        self._hashes: Bits = np.zeros(FIRST_CODES, dtype=np.uint64)
        self._ends: IntArray = np.zeros(FIRST_CODES + 1, dtype=np.int64)
        self._texts: Bytes = np.empty(FIRST_TEXT_BYTES, dtype=np.uint8)
        self._table: Codes = np.full(2 * FIRST_CODES, -1, dtype=np.int32)
        self._decoded: tuple[Array, int] = np.full(FIRST_CODES, "", dtype=np.object_), 1
        """Texts by their codes, and below which code they are decoded: a pair, because the other
        thread decodes, too."""
        self.count = 1

    def encode(self, array: pa.Array, wanted: BoolArray) -> Codes:
        """The codes of some texts; -1 for those that do not count."""
        out: Codes = np.empty(len(array), dtype=np.int32)
        valid = bits(array, VALIDITY) if array.null_count else None
        known = wanted if valid is None else (wanted & valid if len(wanted) else valid)
        places, texts = offsets(array), text_bytes(array)
        code = kernels.current().code_texts
        begin = 0
        while True:
            begin, self.count, needed = code(
                places,
                texts,
                known,
                self._table,
                self._hashes,
                self._ends,
                self._texts,
                out,
                begin,
                self.count,
            )
            if begin == len(array):
                break
            self._grow(needed)
        if valid is not None:
            out[(~valid & wanted) if len(wanted) else ~valid] = 0
        return out

    def _grow(self, text_bytes: int) -> None:
        used = int(self._ends[self.count])
        if used + text_bytes > len(self._texts):
            texts: Bytes = np.empty(2 * (used + text_bytes), dtype=np.uint8)
            texts[:used] = self._texts[:used]
            self._texts = texts
        if self.count < min(len(self._table) // 2, len(self._hashes)):
            return
        self._hashes = np.append(self._hashes, np.zeros_like(self._hashes))
        self._ends = np.append(self._ends, np.zeros(len(self._hashes) // 2, dtype=np.int64))
        self._table = np.full(2 * len(self._table), -1, dtype=np.int32)
        mask = len(self._table) - 1
        # All different: each goes to the first free place from its own on.
        home = self._hashes[1 : self.count] >> np.uint64(home_shift(len(self._table)))
        for code, at in enumerate(home.tolist(), 1):
            while self._table[at] >= 0:
                at = (at + 1) & mask
            self._table[at] = code

    def values(self, codes: Codes) -> Array:
        """The texts that have these codes; empty for NULL."""
        decoded, begin = self._decoded
        # No more than these: a checkpoint asks for some thousands at a time.
        end = int(codes.max(initial=0)) + 1
        if begin < end:
            if len(decoded) < end:
                decoded = resized(decoded, len(self._hashes), "")
            ends: list[int] = self._ends[begin : end + 1].tolist()
            for code, (start, stop) in enumerate(pairwise(ends), begin):
                decoded[code] = self._texts[start:stop].tobytes().decode()
            self._decoded = decoded, end
        return decoded[codes]


class Keys:
    """Codes of groups.

    Parameters
    ----------
    kinds
        Types of the columns: int, bool or string. Without columns there is one group, of code 0.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self._columns = [_Texts() if kind == "string" else Ints() for kind in kinds]
        self._pairs = [Ints() for _ in kinds[1:]]

    @property
    def count(self) -> int:
        """Every code is below."""
        if not self._columns:
            return 1
        return (self._pairs or self._columns)[-1].count

    def encode(
        self,
        columns: Sequence[Column],
        length: int,
        wanted: BoolArray,
        *,
        packs: bool = False,
    ) -> Codes:
        """The codes of rows; -1 for those that do not count.

        Parameters
        ----------
        columns
            Of the keys.
        length
            Number of rows.
        wanted
            Which rows count; empty: all.
        packs
            Give the codes of the rows that count alone, one after the other.
        """
        if packs:
            return self._packed(columns, length, wanted)
        if not columns:
            return np.where(wanted if len(wanted) else np.ones(length, np.bool_), 0, -1).astype(
                np.int32
            )
        parts = [
            _encoded(coder, column, length, wanted)
            for coder, column in zip(self._columns, columns, strict=True)
        ]
        return self._paired(parts, wanted)

    def _paired(self, parts: Sequence[Codes], wanted: BoolArray) -> Codes:
        codes = parts[0]
        for pair, part in zip(self._pairs, parts[1:], strict=True):
            codes = pair.encode(codes.astype(np.int64) << WORD_BITS | part, None, wanted)
        return codes

    def _packed(self, columns: Sequence[Column], length: int, wanted: BoolArray) -> Codes:
        """The codes of rows that count. Numbers are packed before they are coded, texts after."""
        parts: list[Codes] = []
        for coder, column in zip(self._columns, columns, strict=True):
            if isinstance(column, Vector):
                vector = packed(_as_ints(column, length), wanted)
                parts.append(_encoded(coder, vector, len(vector.values), every))
            else:
                parts.append(_encoded(coder, column, length, wanted)[wanted])
        if not parts:
            return np.zeros(np.count_nonzero(wanted), dtype=np.int32)
        return self._paired(parts, every)

    def columns(self, codes: Codes) -> tuple[Vector, ...]:
        """The keys of groups."""
        parts: list[Codes] = []
        for pair in reversed(self._pairs):
            both = pair.values(codes)
            parts.append((both & WORD_MASK).astype(np.int32))
            codes = (both >> WORD_BITS).astype(np.int32)
        parts = [codes, *reversed(parts)][: len(self._columns)]
        return tuple(
            _decoded(coder.values(part), part, kind)
            for coder, part, kind in zip(self._columns, parts, self.kinds, strict=True)
        )


def key_column(key: Typed, columns: BatchColumns, length: int) -> Column:
    """A key of the rows of a record batch; texts stay as Arrow holds them."""
    if isinstance(key, InputColumn):
        return columns.arrow(key.index) if key.kind == "string" else columns[key.index]
    column = evaluator(key)(columns).filled_to(length)
    return to_arrow(column, key.kind) if key.kind == "string" else column


def encode(keys: Keys, columns: Sequence[Vector], length: int) -> Codes:
    """Codes of keys that are given as vectors."""
    given = [
        to_arrow(column, kind) if kind == "string" else column
        for column, kind in zip(columns, keys.kinds, strict=True)
    ]
    return keys.encode(given, length, every)


def _encoded(coder: Ints | _Texts, column: Column, length: int, wanted: BoolArray) -> Codes:
    if isinstance(coder, _Texts):
        assert not isinstance(column, Vector), "texts come as Arrow holds them"
        return coder.encode(column, wanted)
    assert isinstance(column, Vector), "numbers come as vectors"
    return coder.encode(*_as_ints(column, length), wanted)


def _as_ints(column: Vector, length: int) -> Vector:
    values, valid = column.filled_to(length)
    if values.dtype != np.int64:
        values = values.astype(np.int64)
    return Vector(sound(values), None if valid is None else sound(valid))


def packed(vector: Vector, wanted: BoolArray) -> Vector:
    """The values of rows that count, one after the other."""
    values, valid = vector
    if values.itemsize == WORD_BYTES and values.dtype != np.object_:
        out = np.empty(len(values), dtype=np.uint64)
        words = np.ascontiguousarray(values).view(np.uint64)
        kept = out[: kernels.current().pack(words, wanted, out)].view(values.dtype)
    else:
        kept = values[wanted]
    return Vector(kept, None if valid is None else valid[wanted])


def _decoded(values: Array, codes: Codes, kind: str) -> Vector:
    known: BoolArray = codes != 0
    if kind == "bool":
        values = values != 0
    return Vector(values, None if holds_everywhere(known) else known)
