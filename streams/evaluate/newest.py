"""Evaluation of many timestamps in one pass, for the newest rows of each key.

A program that this evaluates is an ISTREAM or DSTREAM of selections and projections over
`[PARTITION BY c,… ROWS n]`, with a small n. Every key has n *slots*, used in turn, each with a row
of the output. A pass finds out which rows of the batch take a slot and are still there at the end
of their timestamp, and which rows they push out. A row that replaces an equal one at a timestamp is
no change. The output is that of evaluation step by step, row for row and in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation.arrays import BoolArray, IntArray
from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import Evaluator, InputColumn, evaluator, holds
from streams.kernels import kernels
from streams.kernels.keys import Keys, encode, every, key_column
from streams.language.ast import ToStream
from streams.operators.changes_to_stream import cancelled
from streams.plan.program import Program
from streams.vectors.arrays import Codes, resized
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.state import (
    SAMPLED_ROWS,
    Pieces,
    SnapshotError,
    State,
    Stateful,
    piece_rows,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import (
    Array,
    Delta,
    Frame,
    Positions,
    RowsAt,
    Vector,
    concat_frames,
    emitted_batch,
    fillers,
    known_of,
    storage,
    to_arrow,
)

FIRST_KEYS = 64

NOTHING = -1
"""No row."""


class _Slots:
    """A column of the output for the row in each slot."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.values: Array = np.empty(0, dtype=storage[kind])
        self.valid: BoolArray = np.empty(0, dtype=np.bool_)

    def allocate(self, count: int) -> None:
        """Make room for so many slots."""
        self.values = resized(self.values, count, fillers[self._kind])
        self.valid = resized(self.valid, count)

    def put(self, slots: IntArray, column: Vector) -> None:
        """Fill slots."""
        known = known_of(column)
        self.valid[slots] = known
        self.values[slots] = np.where(known, column.values, fillers[self._kind])

    def with_batch(self, slots: IntArray, places: Positions, column: Vector) -> Vector:
        """Rows of slots, or, where a place is given, of a batch."""
        if not column.values.size:
            return Vector(self.values[slots], self.valid[slots])
        from_batch = places >= 0
        values = np.where(from_batch, column.values[places], self.values[slots])
        valid = self.valid[slots] | from_batch
        if column.valid is not None:
            valid = np.where(from_batch, column.valid[places], valid)
        return Vector(values, valid)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moves:
    """Which rows of a batch entered, and which rows left.

    Attributes
    ----------
    kept, times_ms
        Places in the batch of the rows that entered, and when.
    place_of
        Place in the batch → place among those that entered.
    codes
        The key of each row of the batch.
    before
        The row that each of them replaces (`row_loops.newest_rows`).
    removed, removed_ms
        The rows that left, and when.
    first_id
        Identity of the first row of the batch.
    """

    kept: Positions
    times_ms: IntArray
    place_of: Positions
    codes: Codes
    before: IntArray
    removed: IntArray
    removed_ms: IntArray
    first_id: int

    def located(self, named: IntArray) -> tuple[IntArray, Positions]:
        """Of rows that are named: the slot of those before the batch, else 0; the place among
        those that entered, else -1."""
        slots = np.where(named <= -2, -2 - named, 0)
        return slots, np.where(named >= 0, self.place_of[np.maximum(named, 0)], -1)


class Newest(Evaluation):
    """Runs a program whose way is `EvaluationWay.NEWEST`."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        (select,), (window,) = program.selects, program.windows
        (source,) = select.sources
        assert window.rows is not None
        kernels.want()
        self._stream = window.stream
        self._most = window.rows
        self._schema = schema
        self._kinds = tuple(program.columns.values())
        self._no_rows = emitted_batch([], self._kinds, schema)
        self._places = program.read_places(window.stream)
        self._read_kinds = program.read_kinds(window.stream)
        self._inserted = program.to_stream is ToStream.ISTREAM
        self._condition = None if source.condition is None else evaluator(source.condition)
        self._outputs = select.outputs
        self._evaluators: tuple[Evaluator, ...] = tuple(map(evaluator, select.outputs))
        self._key_of = [
            window.partition_by.index(output.index)
            if isinstance(output, InputColumn) and output.index in window.partition_by
            else None
            for output in select.outputs
        ]
        """Output → which key it is; None: another column, which the slots hold."""
        self._held_kinds = tuple(
            kind for kind, key in zip(self._kinds, self._key_of, strict=True) if key is None
        )
        self._key_plans = [
            InputColumn(place, self._read_kinds[place], "") for place in window.partition_by
        ]
        shown = {output.index for output in select.outputs if isinstance(output, InputColumn)}
        self._paired = self._most == 1 and shown.issuperset(window.partition_by)
        """Whether a row can only equal the one that it replaces."""
        self._allocated = 0
        self._renew()

    def _renew(self) -> None:
        """Begin without keys."""
        self._keys = Keys([key.kind for key in self._key_plans])
        self._entered: IntArray = np.zeros(0, dtype=np.int64)
        """Key → number of rows that it has had."""
        self._held = 0
        """Number of rows that are kept."""
        self._row_of: IntArray = np.zeros(0, dtype=np.int64)
        self._ids: IntArray = np.zeros(0, dtype=np.int64)
        """Slot → identity of its row."""
        self._passes: BoolArray = np.zeros(0, dtype=np.bool_)
        """Slot → whether the condition is true of its row."""
        self._columns = [_Slots(kind) for kind in self._held_kinds]
        self._allocated = 0
        self._make_room(FIRST_KEYS)

    def _make_room(self, keys: int) -> None:
        if keys <= self._allocated:
            return
        self._allocated = max(keys, 2 * self._allocated)
        slots = self._allocated * self._most
        self._entered = resized(self._entered, self._allocated)
        self._row_of = resized(self._row_of, slots, NOTHING)
        self._ids = resized(self._ids, slots)
        self._passes = resized(self._passes, slots)
        for column in self._columns:
            column.allocate(slots)

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        batch = given.taken[self._stream]
        if batch is None:
            return self._no_rows
        length = batch.num_rows
        columns = BatchColumns(batch, self._places, self._read_kinds)
        keys = [key_column(key, columns, length) for key in self._key_plans]
        codes = self._keys.encode(keys, length, every)
        self._make_room(self._keys.count)
        times_ms: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
        touched, before, removed, removed_by = (np.empty(length, dtype=np.int64) for _ in range(4))
        shown = np.empty(length, dtype=np.bool_)
        gone, changed = kernels.current().newest_rows(
            codes,
            times_ms,
            self._most,
            self._entered,
            self._row_of,
            touched,
            shown,
            before,
            removed,
            removed_by,
        )
        (kept,) = shown.nonzero()
        self._held += len(kept) - gone
        moves = _Moves(
            kept=kept,
            times_ms=times_ms[kept],
            place_of=shown.cumsum() - 1,
            codes=codes,
            before=before[kept],
            removed=removed[:gone],
            removed_ms=times_ms[removed_by[:gone]],
            first_id=given.first_ids[self._stream],
        )
        rows = RowsAt(columns, kept)
        passing = None
        if self._condition is not None:
            passing = np.ascontiguousarray(holds(self._condition, rows, (len(kept),)))
        made = [
            evaluate(rows).filled_to(len(kept))
            for evaluate, key in zip(self._evaluators, self._key_of, strict=True)
            if key is None
        ]
        emitted = self._emitted(batch, moves, made, passing)
        self._store(touched[:changed], moves, made, passing)
        return emitted

    def _emitted(
        self, batch: pa.RecordBatch, moves: _Moves, made: list[Vector], passing: BoolArray | None
    ) -> pa.RecordBatch:
        if self._inserted and self._paired:
            fresh = self._differ(moves, made, passing)
            if passing is not None:
                fresh &= passing
            (wanted,) = fresh.nonzero()
            return self._from_batch(batch, moves, made, wanted)
        wanted = np.arange(len(moves.kept)) if passing is None else passing.nonzero()[0]
        gone = self._gone(moves, made, passing)
        inserted = self._frame(
            moves.codes[moves.kept[wanted]], [column.take(wanted) for column in made]
        )
        inserted_ms = moves.times_ms[wanted]
        if not gone.rows.length:
            return self._from_batch(batch, moves, made, wanted if self._inserted else wanted[:0])
        assert isinstance(gone.rows, Frame)
        both = concat_frames([gone.rows, inserted])
        both_ms = np.concatenate([gone.times_ms, inserted_ms])
        first, second = np.arange(gone.rows.length), np.arange(gone.rows.length, both.length)
        if self._inserted:
            same = cancelled(both, both_ms, second, first)
            return self._from_batch(batch, moves, made, np.delete(wanted, np.array(same, np.intp)))
        same = cancelled(both, both_ms, first, second)
        shown = np.delete(first, np.array(same, np.intp))
        arrays = [pa.array(both_ms[shown], pa.int64())]
        for column, kind in zip(both.columns, self._kinds, strict=True):
            arrays.append(to_arrow(column.take(shown), kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _from_batch(
        self, batch: pa.RecordBatch, moves: _Moves, made: list[Vector], wanted: Positions
    ) -> pa.RecordBatch:
        """Some of the rows that entered, as rows of the output."""
        if not len(wanted):
            return self._no_rows
        whole = len(wanted) == batch.num_rows
        rows = None if whole else pa.array(moves.kept[wanted])
        arrays = [pa.array(moves.times_ms[wanted], pa.int64())]
        held = iter(made)
        for output, key in zip(self._outputs, self._key_of, strict=True):
            values = next(held) if key is None else None
            if values is None or (isinstance(output, InputColumn) and output.kind == "string"):
                assert isinstance(output, InputColumn)
                column = batch.column(self._places[output.index])
                arrays.append(
                    column if rows is None else pc.call_function("array_take", [column, rows])
                )
            else:
                arrays.append(to_arrow(values if whole else values.take(wanted), output.kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _differ(self, moves: _Moves, made: list[Vector], passing: BoolArray | None) -> BoolArray:
        """Whether each row that entered differs from the one that it replaces."""
        differ: BoolArray = moves.before == NOTHING
        slots, places = moves.located(moves.before)
        if passing is not None:
            differ |= ~np.where(places >= 0, passing[places], self._passes[slots])
        for held, column in zip(self._columns, made, strict=True):
            (open_,) = (~differ).nonzero()
            if not len(open_):
                break
            was = held.with_batch(slots[open_], places[open_], column)
            now = column.take(open_)
            was_known, known = known_of(was), known_of(now)
            differ[open_] = (was_known != known) | (known & (was.values != now.values))
        return differ

    def _frame(self, codes: Codes, held: Sequence[Vector]) -> Frame:
        """Rows of the output, from their keys and the other columns."""
        keys, others = self._keys.columns(codes), iter(held)
        columns = tuple(next(others) if key is None else keys[key] for key in self._key_of)
        return Frame(columns, len(codes))

    def _gone(self, moves: _Moves, made: list[Vector], passing: BoolArray | None) -> Delta:
        """The rows that left, by time, then in the order in which they had come."""
        slots, places = moves.located(moves.removed)
        ids = np.where(places >= 0, moves.first_id + moves.removed, self._ids[slots])
        order = np.lexsort((ids, moves.removed_ms))
        if passing is not None:
            passed = np.where(places >= 0, passing[places], self._passes[slots])
            order = order[passed[order]]
        slots, places = slots[order], places[order]
        columns = [
            held.with_batch(slots, places, column)
            for held, column in zip(self._columns, made, strict=True)
        ]
        of_batch = moves.codes[np.maximum(moves.removed[order], 0)]
        codes = np.where(places >= 0, of_batch, slots // self._most)
        rows = self._frame(codes.astype(np.int32), columns)
        return Delta(rows, np.zeros(len(order), dtype=np.bool_), moves.removed_ms[order])

    def _store(
        self, touched: IntArray, moves: _Moves, made: list[Vector], passing: BoolArray | None
    ) -> None:
        """Put the rows that are still there into their slots."""
        rows = self._row_of[touched]
        self._row_of[touched] = NOTHING
        places = moves.place_of[rows]
        self._ids[touched] = moves.first_id + rows
        self._passes[touched] = True if passing is None else passing[places]
        for held, column in zip(self._columns, made, strict=True):
            held.put(touched, column.take(places))

    # State

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        yield "newest", self

    def held(self) -> int:
        """Number of rows that are kept."""
        return self._held

    def save(self) -> Pieces:
        """The rows of each key, oldest first; keys in the order of their first appearance."""
        keys, most, kinds = self._keys, self._most, self._held_kinds
        entered = self._entered[: keys.count].copy()
        used = keys.count * most
        slots = Frame(
            (
                Vector(self._ids[:used].copy(), None),
                Vector(self._passes[:used].copy(), None),
                *(
                    Vector(column.values[:used].copy(), column.valid[:used].copy())
                    for column in self._columns
                ),
            ),
            used,
        )

        def rows_of(codes: Positions) -> tuple[IntArray, Frame]:
            """How many rows keys have, and the rows."""
            counts = np.minimum(entered[codes], most)
            oldest = np.where(entered[codes] > most, entered[codes] % most, 0)
            turns = np.arange(int(counts.sum())) - np.repeat(counts.cumsum() - counts, counts)
            turns = (np.repeat(oldest, counts) + turns) % most
            return counts, slots.take(np.repeat(codes * most, counts) + turns)

        def pieces() -> Iterator[State]:
            (codes,) = entered.nonzero()
            if not len(codes):
                return
            fitting = piece_rows(rows_of(codes[:SAMPLED_ROWS])[1])
            for piece in row_slices(len(codes), max(fitting // most, 1)):
                counts, rows = rows_of(codes[piece])
                of_keys = keys.columns(codes[piece].astype(np.int32))
                held = Frame((*of_keys, Vector(counts, None)), len(counts))
                yield State(
                    frames={
                        "keys": write_frame(held, (*keys.kinds, "int")),
                        "rows": write_frame(rows, ("int", "bool", *kinds)),
                    }
                )

        return pieces

    def load(self, state: State) -> None:
        """Take the rows of some more keys."""
        held = read_frame(state.frames["keys"], (*self._keys.kinds, "int"))
        rows = read_frame(state.frames["rows"], ("int", "bool", *self._held_kinds))
        counts = held.columns[-1].values
        if counts.min() < 1 or counts.max() > self._most or counts.sum() != rows.length:
            raise SnapshotError("not the newest rows of keys")
        codes = encode(self._keys, held.columns[:-1], held.length)
        self._make_room(self._keys.count)
        if np.any(self._entered[codes]) or len(set(codes.tolist())) != len(codes):
            raise SnapshotError("a key comes twice")
        self._entered[codes] = counts
        self._held += rows.length
        turns = np.arange(rows.length) - np.repeat(counts.cumsum() - counts, counts)
        slots = np.repeat(codes.astype(np.int64) * self._most, counts) + turns
        self._ids[slots], self._passes[slots] = rows[0].values, rows[1].values
        for column, values in zip(self._columns, rows.columns[2:], strict=True):
            column.put(slots, values)

    def loaded(self) -> None:
        """Note that all keys have been taken."""
