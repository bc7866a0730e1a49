"""Evaluation of many timestamps in one pass, for tuples that are looked up in a growing relation.

A program that this evaluates is an RSTREAM of a first source with `[UNBOUNDED]` and a second one
with `[NOW]`, joined by keys that are equal. The rows of the first are kept, each linked to the next
one with its key. Each tuple of the second meets those that have come until its timestamp, those of
that timestamp included. As in evaluation step by step, pairs of a timestamp follow each other as
the tuples do, and those of a tuple as the rows do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.joins.key_pairs import NOTHING, JoinSide, KeyJoin
from streams.evaluate.protocol import Pass
from streams.expressions.typed import evaluator
from streams.kernels import kernels
from streams.kernels.keys import Keys, encode
from streams.operators.relation import Relation
from streams.plan.program import Program
from streams.vectors.arrays import Codes, resized
from streams.vectors.state import Pieces, State, Stateful
from streams.vectors.vector import Delta, Frame, RowsAt

FIRST_ROOM = 64

UNUSED_KEYS = 1 << 16
"""Keys that no row has, from which they are given up."""


class LookupJoin(KeyJoin):
    """Runs a program whose way is `EvaluationWay.LOOKUP`: what is on the left is kept."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        super().__init__(program, schema)
        self._places = {stream: program.read_places(stream) for stream in program.inputs}
        self._rows = _IndexedRows(self.left)

    def _blocks(self, given: Pass) -> Iterator[pa.RecordBatch]:
        """The rows of the output, block by block."""
        rows = self._rows
        arrived = given.taken[self.left.stream]
        if arrived is not None:
            places = self._places[self.left.stream]
            rows.append(arrived, places, given.first_ids[self.left.stream])
        sought = given.taken[self.right.stream]
        if sought is None or not rows.count:
            return
        columns = self.right.columns(sought, self._places[self.right.stream])
        first = rows.first_of(self.right.codes(rows.keys, columns, sought.num_rows))
        at_ms: IntArray = sought.column(0).to_numpy(zero_copy_only=False)
        fill = partial(
            kernels.current().fill_pairs_until, first, rows.following, rows.entered_ms, at_ms
        )
        yield from self._pairs((rows.frame, columns), first, at_ms, fill)
        rows.give_up_keys()

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        yield "rows", self._rows


class _IndexedRows:
    """The rows of a source, each linked to the next one with its key."""

    def __init__(self, side: JoinSide) -> None:
        self._side = side
        self._relation = Relation(side.kinds)
        self._renew()

    def _renew(self) -> None:
        self.keys = Keys([key.kind for key in self._side.keys])
        self.following: Codes = np.full(FIRST_ROOM, NOTHING, dtype=np.int32)
        """Row → the next one with its key."""
        self._heads: Codes = np.full(FIRST_ROOM, NOTHING, dtype=np.int32)
        self._tails: Codes = np.full(FIRST_ROOM, NOTHING, dtype=np.int32)
        """Key → its first and its last row."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return self._relation.count

    @property
    def frame(self) -> Frame:
        """The rows."""
        return self._relation.rows

    @property
    def entered_ms(self) -> IntArray:
        """When each row came."""
        return self._relation.entered_ms

    def append(self, batch: pa.RecordBatch, places: tuple[int, ...], first_id: int) -> None:
        """Add the tuples of a batch, but those that match none."""
        columns = self._side.columns(batch, places)
        codes = self._side.codes(self.keys, columns, batch.num_rows)
        (kept,) = (codes >= 0).nonzero()
        if not len(kept):
            return
        times_ms: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
        inserted = np.ones(len(kept), dtype=np.bool_)
        rows = RowsAt(columns, kept)
        self._relation.step(Delta(rows, inserted, times_ms[kept], first_id + kept))
        self._link(np.ascontiguousarray(codes[kept]))

    def _link(self, codes: Codes) -> None:
        """Link the newest rows, whose keys are given."""
        self._make_room()
        kernels.current().link_rows(
            codes, self.count - len(codes), self._heads, self._tails, self.following
        )

    def _make_room(self) -> None:
        self.following = _grown(self.following, self.count)
        self._heads = _grown(self._heads, self.keys.count)
        self._tails = _grown(self._tails, self.keys.count)

    def first_of(self, codes: Codes) -> Codes:
        """The first row with each key; -1 for none."""
        self._make_room()
        return np.where(codes >= 0, self._heads[np.maximum(codes, 0)], NOTHING).astype(np.int32)

    def give_up_keys(self) -> None:
        """Number keys anew if most of them are of no row."""
        if self.keys.count > 2 * self.count + UNUSED_KEYS:
            self._renew()
            self._index()

    def _index(self) -> None:
        rows = self.frame
        found = [evaluator(key)(rows).filled_to(rows.length) for key in self._side.keys]
        if rows.length:
            self._link(encode(self.keys, found, rows.length))

    def held(self) -> int:
        """Number of rows."""
        return self._relation.held()

    def save(self) -> Pieces:
        """The rows; links follow from them."""
        return self._relation.save()

    def load(self, state: State) -> None:
        """Append saved rows."""
        self._relation.load(state)

    def loaded(self) -> None:
        """Link the rows."""
        self._relation.loaded()
        self._index()


def _grown(old: Codes, needed: int) -> Codes:
    if needed <= len(old):
        return old
    return resized(old, max(needed, 2 * len(old)), NOTHING)
