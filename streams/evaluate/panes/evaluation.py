"""Evaluation of many timestamps in one pass, by panes (see the package's page).

A program that this evaluates has one SELECT with groups over one window that slides. The output is
that of evaluation step by step, row for row and in the same order. A group's row is removed and
inserted again if it changed at a boundary; groups follow each other as their first tuples do, those
whose tuples leave the window before those whose tuples enter it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import gcd

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray, IntArray
from streams.aggregates.arguments import Arguments
from streams.evaluate.panes.results import Results
from streams.evaluate.panes.saved_window import WindowLoader, save_window
from streams.evaluate.panes.window import Pane, PaneWindow, Tuples, no_codes, no_tuples
from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import InputColumn, evaluator, holds
from streams.kernels import kernels
from streams.kernels.keys import Keys, every, key_column
from streams.language.ast import ToStream
from streams.operators.changes_to_stream import ChangesToStream
from streams.operators.filter import Filter
from streams.operators.project import Project
from streams.operators.relation_to_stream import RelationToStream
from streams.operators.releases import SILENT_PERIODS
from streams.operators.top import TopRows
from streams.plan.program import Program
from streams.vectors.arrays import Codes, sound
from streams.vectors.arrow_buffers import fixed
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.chunk import FOREVER_MS
from streams.vectors.state import Pieces, SnapshotError, State, Stateful, row_slices
from streams.vectors.vector import Delta, Emitted, Frame, concat_frames, emitted_batch

ROWS_AT_ONCE = 1 << 16
"""Rows of a batch that kernels take at once: what they make of them stays in the processor's cache,
and in memory that the process has had before."""

PACKED_FROM = 512
"""Rows of which those that a condition leaves out are taken out before kernels run. Whether the
next row counts is a branch that processors cannot foretell, in each kernel; of fewer rows, taking
them out takes longer."""


class Panes(Evaluation):
    """Runs a program whose way is `EvaluationWay.PANES`."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        (select,), (window,) = program.selects, program.windows
        (source,), group = select.sources, select.group
        assert group is not None
        assert window.slide_ms is not None
        assert window.range_ms is not None
        kernels.want()
        self._stream = window.stream
        self._range_ms, self._slide_ms = window.range_ms, window.slide_ms
        self._offset_ms = window.offset_ms
        self._pane_ms = gcd(window.range_ms, window.slide_ms)
        self._places = program.read_places(window.stream)
        self._read_kinds = program.read_kinds(window.stream)
        self._condition = None if source.condition is None else evaluator(source.condition)
        self._key_plans = group.keys
        self._group_kinds = [one.kind for one in (*group.keys, *group.aggregates)]
        self._window = PaneWindow(Keys([key.kind for key in group.keys]), group.aggregates)
        self._arguments = Arguments(self._window.parts.parts)
        self._boundary_ms = -FOREVER_MS
        """The last boundary at which the window was evaluated."""
        self._started = False
        """Whether it has been evaluated."""
        self._repeats = program.releases is not None and not group.keys
        """Whether the only group is shown at every release, also when the window is empty."""
        self._shows_until_ms = -FOREVER_MS
        """The last of these releases, if no more tuples arrive."""
        self._shown: Codes = no_codes
        """The groups of the relation, in the order in which their rows were inserted."""
        self._results = Results([one.kind for one in group.aggregates])
        """The aggregates of groups as of the last boundary."""
        self._results.allocate(self._window.room)
        self._relation: RelationToStream | None = None
        self._last_rows: Frame | None = None
        """What the last boundary emitted, if the next may emit the same."""
        self._use(program, schema)
        self._loader = WindowLoader(self._window)

    def _use(self, program: Program, schema: pa.Schema) -> None:
        """Have the output show of the groups what a program says."""
        (select,) = program.selects
        group = select.group
        assert group is not None
        self._schema = schema
        self._kinds = tuple(program.columns.values())
        self._no_rows = emitted_batch([], self._kinds, schema)
        self._having = None if select.having is None else Filter(select.having)
        self._project = Project(select.outputs)
        self._top = None if select.top is None else TopRows(select.top, select.outputs, stays=False)
        self._to_stream = program.to_stream
        fields = {one.index for one in select.outputs if isinstance(one, InputColumn)}
        shows_all = self._top is None
        self._keyed = shows_all and fields.issuperset(range(len(group.keys)))
        """Whether all groups have rows in the output, which differ."""
        self._whole = shows_all and fields.issuperset(range(len(self._group_kinds)))
        """Whether different rows of a group differ in the output too."""
        self._relation = None
        if self._to_stream is ToStream.RSTREAM and not self._keyed:
            self._relation = RelationToStream(self._kinds)
        self._changes = ChangesToStream(inserted=self._to_stream is ToStream.ISTREAM)
        self._last_rows = None

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `Showing`."""
        in_order = self._to_stream is ToStream.RSTREAM and self._relation is None
        codes = self._shown if in_order else self._held()
        self._use(program, schema)
        keeps_order = self._to_stream is ToStream.RSTREAM and self._relation is None
        self._shown = codes if keeps_order else no_codes
        if self._top is None and self._relation is None:
            return
        rows = self._rows_of(codes)
        entering = np.ones(rows.length, dtype=np.bool_)
        delta = self._selected(rows, entering, self._boundary_ms)
        if self._relation is not None and delta is not None:
            self._relation.step(delta)

    def _held(self) -> Codes:
        """The groups that had a row at the last boundary, in the order of their first tuples."""
        if not self._key_plans:
            return np.zeros(1 if self._started else 0, dtype=np.int32)
        return self._window.in_order(list(self._window.held))

    # Tuples

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        emitted: list[Emitted] = []
        rows = given.taken[self._stream]
        if rows is not None:
            self._compact()
            if rows.num_rows <= ROWS_AT_ONCE:
                self._add(rows, emitted)
            else:
                for piece in row_slices(rows.num_rows, ROWS_AT_ONCE):
                    self._add(rows.slice(piece.start, piece.stop - piece.start), emitted)
        self._evaluate_until(given.until_ms, emitted)
        return emitted_batch(emitted, self._kinds, self._schema) if emitted else self._no_rows

    def _add(self, batch: pa.RecordBatch, emitted: list[Emitted]) -> None:
        """Add tuples to their panes; evaluate the boundaries between them."""
        window, length = self._window, batch.num_rows
        columns = BatchColumns(batch, self._places, self._read_kinds)
        wanted, packs, some = every, False, True
        if self._condition is not None:
            wanted = sound(holds(self._condition, columns, (length,)))
            some = bool(np.count_nonzero(wanted))
            packs = not some or (length >= PACKED_FROM and not window.distincts)
        tuples = self._tuples(batch, columns, wanted, packs=packs) if some else no_tuples
        timestamps = fixed(batch.column(0), np.int64)
        last_ms, begin, first = int(timestamps[-1]), 0, 0
        while begin < length:
            first_ms = int(timestamps[begin])
            end_ms = first_ms + (self._offset_ms - first_ms) % self._pane_ms
            stop = length
            if end_ms < last_ms:
                stop = int(timestamps.searchsorted(end_ms, side="right"))
            if end_ms != window.open_ms:
                # Else boundaries before this pane were evaluated before its first tuples came.
                self._evaluate_until(end_ms - self._pane_ms, emitted)
            end = first + int(np.count_nonzero(wanted[begin:stop])) if packs else stop
            window.add(tuples, first, end, end_ms)
            if self._repeats:
                self._go_on_showing(self._boundary_from(end_ms))
            begin, first = stop, end

    def _tuples(
        self, batch: pa.RecordBatch, columns: BatchColumns, wanted: BoolArray, *, packs: bool
    ) -> Tuples:
        """The groups and arguments of a batch's rows, or of the rows that count alone."""
        window, length = self._window, batch.num_rows
        keys = [key_column(key, columns, length) for key in self._key_plans]
        codes = window.keys.encode(keys, length, wanted, packs=packs)
        window.make_room()
        return Tuples(
            codes,
            self._arguments.of(batch, columns, self._places, wanted if packs else None),
            [one.encode(columns, codes) for one in window.distincts],
            np.empty(len(codes), dtype=np.int32),
        )

    def _go_on_showing(self, release_ms: int) -> None:
        """Show the only group at every release from a tuple's first one on."""
        if self._boundary_ms >= self._shows_until_ms:
            # After a silence, those up to it are left out.
            self._boundary_ms = release_ms - self._slide_ms
        self._shows_until_ms = release_ms + SILENT_PERIODS * self._slide_ms

    def _compact(self) -> None:
        made = self._window.compact()
        if made is None:
            return
        self._results.renumber(made, self._window.room)
        self._shown = made[self._shown]

    # Boundaries

    def _boundary_from(self, at_ms: int) -> int:
        """The first boundary at or past a timestamp."""
        return at_ms + (self._offset_ms - at_ms) % self._slide_ms

    def _next_boundary_ms(self) -> int:
        """The next boundary at which anything may be emitted, if no more tuples arrive."""
        window, next_ms = self._window, FOREVER_MS
        if window.pending:
            next_ms = self._boundary_from(window.pending[0].end_ms)
        elif window.open_ms is not None:
            next_ms = self._boundary_from(window.open_ms)
        if window.held:
            # Only RSTREAM emits at a boundary at which nothing changes.
            held_ms = self._boundary_ms + self._slide_ms
            if self._to_stream is not ToStream.RSTREAM:
                held_ms = self._boundary_from(window.held[0].end_ms + self._range_ms)
            next_ms = min(next_ms, held_ms)
        elif self._started and self._boundary_ms < self._shows_until_ms:
            next_ms = min(next_ms, self._boundary_ms + self._slide_ms)
        return next_ms

    def _evaluate_until(self, until_ms: int, emitted: list[Emitted]) -> None:
        """Evaluate the boundaries up to a timestamp; all tuples up to it have been added."""
        window = self._window
        while (boundary_ms := self._next_boundary_ms()) <= until_ms:
            if window.open_ms is not None and window.open_ms <= boundary_ms:
                window.close()
            rows = self._evaluate(boundary_ms)
            if rows is not None and rows.rows.length:
                emitted.append(rows)

    def _evaluate(self, boundary_ms: int) -> Emitted | None:
        window = self._window
        self._boundary_ms = boundary_ms
        begin_ms = boundary_ms - self._range_ms
        leaving = list(takewhile(lambda pane: pane.end_ms <= begin_ms, window.held))
        entering: list[Pane] = []
        while window.pending and window.pending[0].end_ms <= boundary_ms:
            pane = window.pending.popleft()
            if self._boundary_from(pane.end_ms + self._range_ms) > boundary_ms:
                entering.append(pane)
        if not leaving and not entering and not window.held and not self._repeats:
            # Tuples between two windows: nothing to see.
            return None
        touched = window.in_order([*leaving, *entering])
        if not self._key_plans and not self._started:
            touched = np.zeros(1, dtype=np.int32)
        alive_before = self._alive(touched, window.rows(touched))
        self._started = True
        for _ in leaving:
            window.leave()
        for pane in entering:
            window.enter(pane)
        if not len(touched):
            return self._unchanged(boundary_ms)
        return self._changed(boundary_ms, touched, alive_before)

    def _alive(self, codes: Codes, rows: IntArray) -> BoolArray:
        """Whether groups of so many tuples have a row in the relation."""
        if self._key_plans:
            return rows > 0
        return np.full(len(codes), self._started)

    def _unchanged(self, boundary_ms: int) -> Emitted | None:
        """What to emit where no group has changed."""
        if self._to_stream is not ToStream.RSTREAM:
            return None
        if self._relation is not None:
            return self._relation.emitted(None, np.array([boundary_ms]))
        return self._everything(boundary_ms)

    def _changed(self, boundary_ms: int, touched: Codes, alive_before: BoolArray) -> Emitted | None:
        """What to emit where groups may have changed."""
        rows = self._window.rows(touched)
        alive = self._alive(touched, rows)
        results = self._window.results(touched, rows)
        self._results.allocate(self._window.room)
        changed = self._results.differ(touched, results, alive_before != alive)
        changed &= alive_before | alive
        (come,) = (changed & alive).nonzero()
        inserted = touched[come]
        emits_inserted = self._whole and self._to_stream is not ToStream.DSTREAM
        before = None if emits_inserted else self._rows_of(touched[changed & alive_before])
        self._results.put(inserted, results, come)
        if self._to_stream is ToStream.RSTREAM and self._relation is None:
            if changed.any():
                self._move(touched[changed & alive_before], inserted)
            return self._everything(boundary_ms)
        after = self._rows_of(inserted)
        if before is None:
            return self._shown_rows(after, boundary_ms)
        if self._whole and self._relation is None:
            return self._shown_rows(before, boundary_ms)
        delta = self._delta(before, after, boundary_ms)
        if self._relation is not None:
            return self._relation.emitted(delta, np.array([boundary_ms]))
        return self._changes.step(delta)

    def _delta(self, removed: Frame, inserted: Frame, boundary_ms: int) -> Delta | None:
        """The change of the projected relation."""
        rows = concat_frames([removed, inserted])
        return self._selected(rows, np.arange(rows.length) >= removed.length, boundary_ms)

    def _selected(self, rows: Frame, entering: BoolArray, boundary_ms: int) -> Delta | None:
        """The change of the projected relation by rows that enter or leave."""
        if not rows.length:
            return None
        delta: Delta | None = Delta(rows, entering, np.full(rows.length, boundary_ms))
        if self._having is not None:
            delta = self._having.step(delta)
        if delta is None:
            return None
        return self._project.step(delta) if self._top is None else self._top.step(delta)

    def _shown_rows(self, rows: Frame, boundary_ms: int) -> Emitted | None:
        """Rows of groups as rows of the output."""
        delta = self._selected(rows, np.ones(rows.length, dtype=np.bool_), boundary_ms)
        if delta is None:
            return None
        assert isinstance(delta.rows, Frame)
        return Emitted(delta.rows, delta.times_ms)

    def _everything(self, boundary_ms: int) -> Emitted | None:
        """The whole relation."""
        if self._last_rows is None:
            shown = self._shown_rows(self._rows_of(self._shown), boundary_ms)
            if shown is None:
                return None
            self._last_rows = shown.rows
        rows = self._last_rows
        return Emitted(rows, np.full(rows.length, boundary_ms))

    def _move(self, removed: Codes, inserted: Codes) -> None:
        """Take groups out of the relation; put those that have a row at its end."""
        self._last_rows = None
        if len(removed) == len(self._shown):
            self._shown = inserted
            return
        stays = np.ones(self._window.room, dtype=np.bool_)
        stays[removed] = False
        self._shown = np.concatenate([self._shown[stays[self._shown]], inserted])

    def _rows_of(self, codes: Codes) -> Frame:
        """The rows of groups as of the last boundary: keys, then aggregates."""
        columns = (*self._window.keys.columns(codes), *self._results.of(codes))
        return Frame(columns, len(codes))

    # State

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        yield "panes", self
        if self._top is not None:
            yield "top", self._top
        if self._relation is not None:
            yield "to-stream", self._relation

    def held(self) -> int:
        """Number of groups and of different values in all panes."""
        return self._window.saved_rows

    def save(self) -> Pieces:
        """The panes with their groups, and the order of the relation."""
        window = self._window
        values = {
            "boundary_ms": self._boundary_ms if window.held or self._repeats else None,
            "started": self._started,
        }
        if self._repeats:
            values["shows_until_ms"] = self._shows_until_ms
        # Without keys the order is that of one row.
        return save_window(window, values, self._shown if self._key_plans else no_codes)

    def load(self, state: State) -> None:
        """Take the next piece."""
        loader = self._loader
        if "boundary_ms" in state.values:
            boundary_ms = state.values["boundary_ms"]
            self._boundary_ms = -FOREVER_MS if boundary_ms is None else int(boundary_ms)
            self._started = bool(state.values["started"])
            self._shows_until_ms = int(state.values.get("shows_until_ms", -FOREVER_MS))
        shown = loader.load(state)
        if shown is not None:
            self._shown = np.concatenate([self._shown, shown])

    def loaded(self) -> None:
        """Put the panes into the window."""
        window = self._window
        self._loader.loaded()
        last_ms, first_ms = self._boundary_ms, self._boundary_ms - self._range_ms
        if any(not first_ms < pane.end_ms <= last_ms for pane in window.held):
            # It would be evaluated at every boundary since.
            raise SnapshotError("a window holds panes that its last boundary has not let enter")
        self._results.allocate(window.room)
        alive = window.in_order(list(window.held))
        if not self._key_plans and self._started:
            self._shown = alive = np.zeros(1, dtype=np.int32)
        results = window.results(alive, window.rows(alive))
        self._results.put(alive, results, np.arange(len(alive)))
