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
from functools import partial

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.joins.key_pairs import NOTHING, KeyJoin
from streams.evaluate.protocol import Pass
from streams.kernels import kernels
from streams.kernels.keys import Keys
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


class WindowJoin(KeyJoin):
    """Runs a program whose way is `EvaluationWay.JOIN`."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        super().__init__(program, schema)
        tumbling = program.windows[0].tumbling
        assert tumbling is not None
        self._length_ms, self._offset_ms = tumbling
        self._waiting = {stream: _Waiting(program, stream) for stream in program.inputs}

    def _blocks(self, given: Pass) -> Iterator[pa.RecordBatch]:
        """The rows of the output, block by block."""
        for stream, rows in given.taken.items():
            if rows is not None:
                self._waiting[stream].add(rows)
        boundary_ms = given.until_ms - (given.until_ms - self._offset_ms) % self._length_ms
        whole = {stream: one.until(boundary_ms) for stream, one in self._waiting.items()}
        left, right = whole[self.left.stream], whole[self.right.stream]
        if left is None or right is None:
            return
        times_ms = self._ends(right)
        parts = _parts(self._ends(left), times_ms)
        if not len(parts[0]):
            return
        keys = Keys([key.kind for key in self.left.keys])
        columns = (
            self.left.columns(left, range(1, self.left.width + 1)),
            self.right.columns(right, range(1, self.right.width + 1)),
        )
        left_codes = self.left.codes(keys, columns[0], left.num_rows)
        right_codes = self.right.codes(keys, columns[1], right.num_rows)
        heads, following, first = (
            np.full(length, NOTHING, dtype=np.int32)
            for length in (keys.count, left.num_rows, right.num_rows)
        )
        these = kernels.current()
        these.chain_rows(left_codes, *parts[:2], right_codes, *parts[2:], heads, following, first)
        fill = partial(these.fill_pairs, first, following)
        yield from self._pairs(columns, first, times_ms, fill)

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

    def held(self) -> int:
        """Number of tuples."""
        return sum(batch.num_rows for batch in self._batches)

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
