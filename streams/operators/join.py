"""Theta join of two or more relations, by their changes.

    Δ(A ⋈ B) = ΔA ⋈ B_old  +  A_new ⋈ ΔB,

signed: when a row is removed, so are its combinations. With more sources, the change of source k
is combined with the new rows of the sources before k and the old rows of the sources after k.

A change is combined with one source after the other. A condition is applied as soon as all the
sources that it names are combined. The first condition is applied by broadcasting the change
against the relation, without making pairs. The others are applied to the remaining pairs, cheapest
first, and read only the columns they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streams.expressions import Evaluator, Typed, evaluator, fields, holds
from streams.operators.relation import Relation
from streams.vector import Delta, Frame, Positions, Vector
from topology.arrays import BoolArray

LARGEST_BLOCK = 1 << 20
"""The most pairs compared at once. It bounds the memory of a broadcast."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the columns of the sources lie, side by side."""

    source: tuple[int, ...]
    column: tuple[int, ...]


class _Combinations:
    """Rows of several sources side by side, each given by its position in its frame."""

    __slots__ = ("_frames", "_layout", "length", "positions")

    def __init__(
        self,
        layout: _Layout,
        frames: Sequence[Frame],
        positions: dict[int, Positions],
        length: int,
    ) -> None:
        self._layout = layout
        self._frames = frames
        self.positions = positions
        self.length = length

    def __getitem__(self, index: int, /) -> Vector:
        source = self._layout.source[index]
        column = self._frames[source].columns[self._layout.column[index]]
        return column.take(self.positions[source])

    def take(self, kept: Positions) -> _Combinations:
        """Some of the combinations."""
        positions = {source: where[kept] for source, where in self.positions.items()}
        return _Combinations(self._layout, self._frames, positions, len(kept))

    def slice(self, start: int, stop: int) -> _Combinations:
        """The combinations [start, stop)."""
        positions = {source: where[start:stop] for source, where in self.positions.items()}
        return _Combinations(self._layout, self._frames, positions, stop - start)

    def times(self, source: int, left: Positions, right: Positions) -> _Combinations:
        """Combinations with rows of one more source, given as pairs."""
        positions = {bound: where[left] for bound, where in self.positions.items()}
        positions[source] = right
        return _Combinations(self._layout, self._frames, positions, len(left))

    def with_positions(self, positions: dict[int, Positions]) -> _Combinations:
        """Other combinations of the same sources."""
        length = len(next(iter(positions.values())))
        return _Combinations(self._layout, self._frames, positions, length)

    def broadcast(self, source: int) -> _Broadcast:
        """Every combination against every row of one more source."""
        return _Broadcast(self, self._layout, self._frames[source], source)


class _Broadcast:
    """Columns as a table: combinations down, rows of the new source across."""

    __slots__ = ("_frame", "_layout", "_left", "_source")

    def __init__(self, left: _Combinations, layout: _Layout, frame: Frame, source: int) -> None:
        self._left = left
        self._layout = layout
        self._frame = frame
        self._source = source

    def __getitem__(self, index: int, /) -> Vector:
        if self._layout.source[index] == self._source:
            return self._frame.columns[self._layout.column[index]].take((None, slice(None)))
        return self._left[index].take((slice(None), None))


@dataclass(frozen=True, slots=True)
class _Stage:
    """One more source to combine with, and the conditions that can be applied then."""

    source: int
    conditions: tuple[Evaluator, ...]


class Join:
    """The join of relations. The caller steps the relations; the join itself has no state."""

    def __init__(self, widths: Sequence[int], conjuncts: Sequence[Typed]) -> None:
        """
        Parameters
        ----------
        widths
            Number of columns of each source.
        conjuncts
            Conditions over the sources' columns side by side, in the order to apply them.
        """
        self._layout = _Layout(
            tuple(source for source, width in enumerate(widths) for _ in range(width)),
            tuple(column for width in widths for column in range(width)),
        )
        self._stages = [self._order(first, len(widths), conjuncts) for first in range(len(widths))]

    def _order(self, first: int, count: int, conjuncts: Sequence[Typed]) -> tuple[_Stage, ...]:
        bound = {first}
        waiting = list(conjuncts)
        stages: list[_Stage] = []
        for source in range(count):
            if source == first:
                continue
            bound.add(source)
            ready = [one for one in waiting if self._sources(one) <= bound]
            waiting = [one for one in waiting if one not in ready]
            stages.append(_Stage(source, tuple(evaluator(one) for one in ready)))
        return tuple(stages)

    def _sources(self, condition: Typed) -> set[int]:
        return {self._layout.source[field.index] for field in fields(condition)}

    def step(self, deltas: Sequence[Delta], relations: Sequence[Relation]) -> list[Delta]:
        """The change of the join, in one part for each source that changed.

        One row may be both inserted and removed.
        """
        changes: list[Delta] = []
        for first, delta in enumerate(deltas):
            if not delta.rows.length:
                continue
            frames = [
                relation.new if source < first else relation.old
                for source, relation in enumerate(relations)
            ]
            assert isinstance(delta.rows, Frame)
            frames[first] = delta.rows
            everything = np.arange(delta.rows.length)
            rows = _Combinations(self._layout, frames, {first: everything}, len(everything))
            for stage in self._stages[first]:
                rows = _extend(rows, stage, frames[stage.source].length)
                if not rows.length:
                    break
            else:
                inserted: BoolArray = delta.inserted[rows.positions[first]]
                changes.append(Delta(rows, inserted))
        return changes


def _extend(rows: _Combinations, stage: _Stage, count: int) -> _Combinations:
    """Combine with the `count` rows of a stage's source, block by block."""
    if not count:
        return rows.slice(0, 0)
    step = max(1, LARGEST_BLOCK // count)
    if rows.length <= step:
        return _extend_block(rows, stage, count)
    blocks = [
        _extend_block(rows.slice(start, min(start + step, rows.length)), stage, count)
        for start in range(0, rows.length, step)
    ]
    sources = blocks[0].positions
    everything = {
        source: np.concatenate([block.positions[source] for block in blocks]) for source in sources
    }
    return rows.with_positions(everything)


def _extend_block(rows: _Combinations, stage: _Stage, count: int) -> _Combinations:
    shape = (rows.length, count)
    if not stage.conditions:
        pairs = np.arange(rows.length * count)
        return rows.times(stage.source, pairs // count, pairs % count)
    first, *others = stage.conditions
    left, right = np.nonzero(holds(first, rows.broadcast(stage.source), shape))
    combined = rows.times(stage.source, left, right)
    for condition in others:
        if not combined.length:
            break
        combined = combined.take(np.flatnonzero(holds(condition, combined, (combined.length,))))
    return combined
