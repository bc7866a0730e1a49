"""Evaluation of many windows in one pass, for joins of two windows that tumble together.

A program that this evaluates is an RSTREAM of two sources with equal windows `[RANGE t SLIDE t]` or
`[NOW]`, joined by keys that are equal. Each tuple belongs to one *part*: the stretch of event time
up to the boundary at which it is seen. The pairs of a part follow from its tuples alone, so tuples
wait for the end of their part, and are forgotten after it.

Evaluation step by step gives the rows of a part in the order of the second source's tuples, then of
the first's: rows of the part before are taken out, and the pairs that remain were made when the
second source's tuples entered. This gives the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.joins.key_pairs import NOTHING, JoinSide, RowPairs, room_for
from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import Evaluator, Typed, evaluator
from streams.kernels import kernels
from streams.kernels.keys import Keys
from streams.plan.choice import join_conditions
from streams.plan.program import Program
from streams.vectors.chunk import stream_schema
from streams.vectors.state import (
    Pieces,
    SnapshotError,
    State,
    Stateful,
    piece_rows,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import Frame, from_arrow, to_arrow


class WindowJoin(Evaluation):
    """Runs a program whose way is `EvaluationWay.JOIN`."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        (select,) = program.selects
        kernels.want()
        tumbling = program.windows[0].tumbling
        assert tumbling is not None
        self._length_ms, self._offset_ms = tumbling
        self._schema = schema
        self._no_rows = pa.RecordBatch.from_pylist([], schema=schema)
        self._waiting = {stream: _Waiting(program, stream) for stream in program.inputs}
        keys, conditions = join_conditions(program)
        self._sides = [
            JoinSide(program, source, of_side)
            for source, of_side in zip(select.sources, zip(*keys, strict=True), strict=True)
        ]
        self._key_kinds = [left.kind for left, _ in keys]
        self._conditions = tuple(map(evaluator, conditions))
        self._outputs: list[tuple[Typed, Evaluator]] = [
            (output, evaluator(output)) for output in select.outputs
        ]

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        for stream, rows in given.taken.items():
            if rows is not None:
                self._waiting[stream].add(rows)
        boundary_ms = given.until_ms - (given.until_ms - self._offset_ms) % self._length_ms
        whole = {stream: one.until(boundary_ms) for stream, one in self._waiting.items()}
        batches = [whole[side.stream] for side in self._sides]
        left, right = batches
        if left is None or right is None:
            return self._no_rows
        parts = list(self._pairs(left, right))
        if not parts:
            return self._no_rows
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _pairs(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the output, block by block."""
        ends_ms = [self._ends(batch) for batch in (left, right)]
        parts = _parts(*ends_ms)
        if not len(parts[0]):
            return
        keys = Keys(self._key_kinds)
        columns = [
            side.columns(batch, range(1, side.width + 1))
            for side, batch in zip(self._sides, (left, right), strict=True)
        ]
        codes = [
            side.codes(keys, of_side, batch.num_rows)
            for side, of_side, batch in zip(self._sides, columns, (left, right), strict=True)
        ]
        these = kernels.current()
        heads, following, first = (
            np.full(length, NOTHING, dtype=np.int32)
            for length in (keys.count, left.num_rows, right.num_rows)
        )
        these.chain_rows(codes[0], *parts[:2], codes[1], *parts[2:], heads, following, first)
        room = room_for(right.num_rows)
        row, other = 0, int(first[0])
        while row < right.num_rows:
            places = [np.empty(room, dtype=np.int64) for _ in range(2)]
            count, row, other = these.fill_pairs(first, following, row, other, *places)
            if count:
                of_left, of_right = (each[:count] for each in places)
                rows = RowPairs(columns, (of_left, of_right), self._sides[0].width)
                made = rows.selected(self._conditions, self._outputs, ends_ms[1], self._schema)
                if made is not None:
                    yield made

    def _ends(self, batch: pa.RecordBatch) -> IntArray:
        """The boundary at which each tuple is seen."""
        times_ms: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
        return times_ms + (self._offset_ms - times_ms) % self._length_ms

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        for number, waiting in enumerate(self._waiting.values()):
            yield f"waiting-{number}", waiting


class _Waiting:
    """Tuples of an input that wait for the end of their part: what the program reads of them."""

    def __init__(self, program: Program, stream: str) -> None:
        self._places = program.read_places(stream)
        self._kinds = program.read_kinds(stream)
        names = [f"c{place}" for place in range(len(self._kinds))]
        self._schema = stream_schema(dict(zip(names, self._kinds, strict=True)))
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Let tuples wait."""
        columns = [batch.column(0), *(batch.column(place) for place in self._places)]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def until(self, end_ms: int) -> pa.RecordBatch | None:
        """The tuples up to a timestamp, which wait no more; None if there are none."""
        done: list[pa.RecordBatch] = []
        for batch in self._batches:
            times_ms: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
            if times_ms[0] > end_ms:
                break
            done.append(batch)
        if not done:
            return None
        last = done[-1]
        count = int(last.column(0).to_numpy(zero_copy_only=False).searchsorted(end_ms, "right"))
        del self._batches[: len(done)]
        if count < last.num_rows:
            self._batches.insert(0, last.slice(count))
            done[-1] = last.slice(0, count)
        return done[0] if len(done) == 1 else pa.concat_batches(done)

    def save(self) -> Pieces:
        """The tuples."""
        batches = list(self._batches)
        kinds = ("int", *self._kinds)

        def pieces() -> Iterator[State]:
            if not batches:
                return
            whole = pa.concat_batches(batches)
            columns = zip(whole.columns, kinds, strict=True)
            rows = Frame(tuple(from_arrow(*each) for each in columns), whole.num_rows)
            for piece in row_slices(rows.length, piece_rows(rows)):
                part = rows.slice(piece.start, piece.stop)
                yield State(frames={"rows": write_frame(part, kinds)})

        return pieces

    def load(self, state: State) -> None:
        """Append saved tuples."""
        kinds = ("int", *self._kinds)
        rows = read_frame(state.frames["rows"], kinds)
        times_ms = rows[0].values
        before = self._batches[-1].column(0)[-1].as_py() if self._batches else times_ms[0]
        if rows[0].valid is not None or np.any(np.diff(times_ms, prepend=before) < 0):
            raise SnapshotError("tuples that wait for the end of a window are not in order")
        arrays = [to_arrow(*each) for each in zip(rows.columns, kinds, strict=True)]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def loaded(self) -> None:
        """Note that all tuples have been appended."""


def _parts(left_ms: IntArray, right_ms: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Beginnings and ends, on the left and on the right, of the parts that both have tuples in."""
    ends_ms, others_ms = (
        times_ms[np.append(True, times_ms[1:] != times_ms[:-1])] for times_ms in (left_ms, right_ms)
    )
    shared = ends_ms[np.isin(ends_ms, others_ms, assume_unique=True)]
    return (
        left_ms.searchsorted(shared),
        left_ms.searchsorted(shared, side="right"),
        right_ms.searchsorted(shared),
        right_ms.searchsorted(shared, side="right"),
    )
