"""Evaluation of groups over sessions, many timestamps in one pass of kernels.

A program that this evaluates is RSTREAM of one SELECT with groups over `[SESSION g PARTITION BY …]`
and by the same columns. So a group is a session, and has one row, at the timestamp at which the
session ends: g after its last tuple. No tuple is kept. An open session has the parts of its
aggregates (`streams.aggregates.parts`) and a place in a list of sessions in the order of their last
tuples, whose first ones are those that end next. A tuple costs a few steps, however many sessions
are open, and so does the end of a session.

The rows and their order are those of evaluation step by step: sessions that end at the same
timestamp follow each other as their first tuples do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.aggregates.arguments import Arguments
from streams.aggregates.pane_parts import Parts
from streams.aggregates.parts import FloatSum, read_spans, saved_spans, widen
from streams.evaluate.protocol import Evaluation, Pass
from streams.expressions.typed import evaluator, holds
from streams.kernels import kernels
from streams.kernels.keys import Keys, encode, every, key_column
from streams.kernels.session_loops import (
    AFTER,
    BEFORE,
    COLUMNS,
    FIRST_ID,
    KEY,
    LAST,
    LAST_ID,
    LAST_MS,
    ROWS,
)
from streams.operators.filter import Filter
from streams.operators.project import Project
from streams.plan.program import Program
from streams.vectors.arrays import Codes
from streams.vectors.batch_columns import BatchColumns
from streams.vectors.state import (
    PIECE_ROWS,
    Pieces,
    SnapshotError,
    State,
    Stateful,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import Array, Delta, Emitted, Frame, Vector, emitted_batch

FIRST_SESSIONS = 64

ADDED_AT_ONCE = 1 << 14
"""Tuples for each of which a session may begin: so many places are free before they are added."""

COMPACT_FROM = 4096
"""Codes of keys from which those without a session are given up."""

SETTLE_ROWS = 1 << 30
"""Tuples after which sums pass their carries on: a digit has room for twice as many."""

SAVED = (LAST_MS, LAST_ID, FIRST_ID, ROWS)
"""What a snapshot holds of a session beside its key and its parts."""


class Sessions(Evaluation):
    """Runs a program whose way is `EvaluationWay.SESSIONS`."""

    def __init__(self, program: Program, schema: pa.Schema) -> None:
        (select,), (window,) = program.selects, program.windows
        (source,), group = select.sources, select.group
        assert group is not None
        assert window.session_ms is not None
        kernels.want()
        self._stream = window.stream
        self._gap_ms = window.session_ms
        self.show(program, schema)
        self._places = program.read_places(window.stream)
        self._read_kinds = program.read_kinds(window.stream)
        self._condition = None if source.condition is None else evaluator(source.condition)
        self._key_plans = group.keys
        self._keys = Keys([key.kind for key in group.keys])
        self._parts = Parts(group.aggregates)
        self._arguments = Arguments(self._parts.parts)
        self._states = [part.empty(0) for part in self._parts.parts]
        """Of each part: place of a session → its state; empty where there is no session."""
        self._sessions: IntArray = np.zeros((0, COLUMNS), dtype=np.int64)
        self._ends: IntArray = np.full(2, -1, dtype=np.int64)
        self._open_of: Codes = np.empty(0, dtype=np.int32)
        self._free: Codes = np.empty(0, dtype=np.int32)
        self._free_count = 0
        self._unsettled = 0
        self._compact_at = COMPACT_FROM
        self._make_room(FIRST_SESSIONS)

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `Showing`."""
        (select,) = program.selects
        self._schema = schema
        self._kinds = tuple(program.columns.values())
        self._no_rows = emitted_batch([], self._kinds, schema)
        self._having = None if select.having is None else Filter(select.having)
        self._project = Project(select.outputs)

    def _make_room(self, begun: int) -> None:
        """Have room for the keys that have a code, and for so many more sessions."""
        if self._keys.count > len(self._open_of):
            added = max(self._keys.count - len(self._open_of), len(self._open_of))
            self._open_of = np.append(self._open_of, np.full(added, -1, dtype=np.int32))
        if self._free_count >= begun:
            return
        room = len(self._sessions)
        added = max(begun - self._free_count, room)
        self._sessions = np.append(self._sessions, np.zeros((added, COLUMNS), np.int64), axis=0)
        free: Codes = np.empty(room + added, dtype=np.int32)
        free[: self._free_count] = self._free[: self._free_count]
        free[self._free_count : self._free_count + added] = np.arange(room, room + added)
        self._free, self._free_count = free, self._free_count + added
        self._states = [
            np.concatenate([state, part.empty(added)])
            for part, state in zip(self._parts.parts, self._states, strict=True)
        ]

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        rows = given.taken[self._stream]
        if rows is not None:
            self._compact()
            self._add(rows, given.first_ids[self._stream])
        emitted = self._end(given.until_ms)
        return (
            self._no_rows
            if emitted is None
            else emitted_batch([emitted], self._kinds, self._schema)
        )

    def _add(self, batch: pa.RecordBatch, first_id: int) -> None:
        """Add tuples to their sessions."""
        length = batch.num_rows
        columns = BatchColumns(batch, self._places, self._read_kinds)
        wanted = every
        if self._condition is not None:
            wanted = np.ascontiguousarray(holds(self._condition, columns, (length,)))
        keys = self._keys.encode(
            [key_column(key, columns, length) for key in self._key_plans], length, every
        )
        timestamps: IntArray = batch.column(0).to_numpy(zero_copy_only=False)
        slots: Codes = np.empty(length, dtype=np.int32)
        for piece in row_slices(length, ADDED_AT_ONCE):
            self._make_room(piece.stop - piece.start)
            self._free_count = kernels.current().extend_sessions(
                keys[piece],
                timestamps[piece],
                wanted[piece],
                first_id + piece.start,
                self._gap_ms,
                self._sessions,
                self._open_of,
                self._ends,
                self._free,
                self._free_count,
                slots[piece],
            )
        self._unsettled += length
        if self._unsettled > SETTLE_ROWS:
            self._settle()
        arguments = self._arguments.of(batch, columns, self._places)
        for index, (part, column) in enumerate(zip(self._parts.parts, arguments, strict=True)):
            place = 0
            while (place := part.add(self._states[index], slots, column, place, length)) < length:
                assert isinstance(part, FloatSum)
                span = part.wider(column, place)
                (self._states[index],) = widen(part, span, [self._states[index]])

    def _settle(self) -> None:
        for part, state in zip(self._parts.parts, self._states, strict=True):
            state[:] = part.settled(state.copy())
        self._unsettled = 0

    def _end(self, until_ms: int) -> Emitted | None:
        """The rows of the sessions that end up to a timestamp."""
        ended: Codes = np.empty(len(self._sessions), dtype=np.int32)
        count = kernels.current().end_sessions(
            until_ms - self._gap_ms, self._sessions, self._open_of, self._ends, ended
        )
        if not count:
            return None
        slots = ended[:count]
        found = self._sessions[slots]
        order = np.lexsort((found[:, FIRST_ID], found[:, LAST_MS]))
        order = order[found[order, ROWS] > 0]
        emitted = self._rows_of(slots[order])
        for part, state in zip(self._parts.parts, self._states, strict=True):
            state[slots] = part.empty(count)
        self._free[self._free_count : self._free_count + count] = slots
        self._free_count += count
        return emitted

    def _rows_of(self, slots: Codes) -> Emitted | None:
        """The rows of the output for sessions that have ended."""
        count, numbers = len(slots), np.arange(len(slots), dtype=np.int32)
        if not count:
            return None
        for part, state in zip(self._parts.parts, self._states, strict=True):
            part.clear()
            part.allocate(count)
            part.enter(numbers, part.settled(state[slots]))
        found = self._sessions[slots]
        results = self._parts.results(numbers, np.ascontiguousarray(found[:, ROWS]))
        keys = self._keys.columns(found[:, KEY].astype(np.int32))
        rows = Frame((*keys, *results), count)
        times_ms = found[:, LAST_MS] + self._gap_ms
        delta: Delta | None = Delta(rows, np.ones(count, dtype=np.bool_), times_ms)
        if self._having is not None:
            delta = self._having.step(delta)
        if delta is None:
            return None
        delta = self._project.step(delta)
        assert isinstance(delta.rows, Frame)
        return Emitted(delta.rows, delta.times_ms)

    def _open(self) -> Codes:
        """The places of the open sessions, in the order of their last tuples."""
        slots = self._open_of[self._open_of >= 0]
        return slots[self._sessions[slots, LAST_ID].argsort()]

    def _compact(self) -> None:
        """Give up the codes of keys without a session, if there are many."""
        if self._keys.count < self._compact_at:
            return
        slots = self._open()
        if 2 * len(slots) > self._keys.count:
            self._compact_at = 2 * self._keys.count
            return
        columns = self._keys.columns(self._sessions[slots, KEY].astype(np.int32))
        self._keys = Keys(self._keys.kinds)
        self._open_of = self._open_of[:0]
        self._name(slots, encode(self._keys, columns, len(slots)))
        self._compact_at = max(COMPACT_FROM, 4 * len(slots))

    def _name(self, slots: Codes, keys: Codes) -> None:
        """Give sessions their keys."""
        self._make_room(0)
        self._sessions[slots, KEY] = keys
        self._open_of[keys] = slots

    # State

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        yield "sessions", self

    @property
    def _saved_kinds(self) -> tuple[str, ...]:
        """Types of the columns of a session in a snapshot, after those of its key."""
        return ("int",) * len(SAVED) + tuple(
            kind for part in self._parts.parts for kind in part.kinds
        )

    def held(self) -> int:
        """Number of open sessions."""
        return len(self._sessions) - self._free_count

    def save(self) -> Pieces:
        """The open sessions, in the order of their last tuples."""
        slots, keys = self._open(), self._keys
        found = self._sessions[slots]
        columns = [Vector(np.ascontiguousarray(found[:, place]), None) for place in SAVED]
        for part, state in zip(self._parts.parts, self._states, strict=True):
            columns += part.columns(part.settled(state[slots]))
        named = found[:, KEY].astype(np.int32)
        kinds, spans = self._saved_kinds, saved_spans(self._parts.parts)
        most = max(PIECE_ROWS // (len(kinds) + len(keys.kinds)), 1)

        def pieces() -> Iterator[State]:
            yield State(values={"spans": spans})
            for piece in row_slices(len(named), most):
                held = tuple(column.take(piece) for column in columns)
                rows = Frame((*keys.columns(named[piece]), *held), len(named[piece]))
                yield State(frames={"sessions": write_frame(rows, (*keys.kinds, *kinds))})

        return pieces

    def load(self, state: State) -> None:
        """Take the widths of sums, or more sessions."""
        if "spans" in state.values:
            read_spans(self._parts.parts, state.values["spans"])
            self._states = [part.empty(len(self._sessions)) for part in self._parts.parts]
            return
        width = len(self._keys.kinds)
        rows = read_frame(state.frames["sessions"], (*self._keys.kinds, *self._saved_kinds))
        keys = encode(self._keys, rows.columns[:width], rows.length)
        self._make_room(rows.length)
        if len(set(keys.tolist())) != len(keys) or np.any(self._open_of[keys] >= 0):
            raise SnapshotError("a key has two sessions")
        self._free_count -= rows.length
        slots = self._free[self._free_count : self._free_count + rows.length].copy()
        for place, column in zip(SAVED, rows.columns[width:], strict=False):
            self._sessions[slots, place] = column.values
        rest: list[Any] = list(rows.columns[width + len(SAVED) :])
        for part, states in zip(self._parts.parts, self._states, strict=True):
            taken = len(part.kinds)
            made: Array = part.read(rest[:taken], rows.length)
            states[slots] = made
            del rest[:taken]
        self._name(slots, keys)
        self._append(slots)

    def _append(self, slots: Codes) -> None:
        """Put sessions at the end of the list."""
        if not len(slots):
            return
        last = int(self._ends[LAST])
        self._sessions[slots, BEFORE] = [last, *slots[:-1]]
        self._sessions[slots, AFTER] = [*slots[1:], -1]
        if last >= 0:
            self._sessions[last, AFTER] = slots[0]
        else:
            self._ends[0] = slots[0]
        self._ends[LAST] = slots[-1]

    def loaded(self) -> None:
        """Note that all sessions have been taken."""
