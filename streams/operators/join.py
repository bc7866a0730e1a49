"""Theta join of two or more relations, by their changes.

    Δ(A ⋈ B) = ΔA ⋈ B_old  +  A_new ⋈ ΔB,

signed: when a row is removed, so are its combinations. With more sources, the change of source k
is combined with the new rows of the sources before k and the old rows of the sources after k.

The changes of many timestamps are combined at once. Old and new are those of each change's own
timestamp, and follow from the times for which the relations hold their rows.

A change is combined with one source after the other. A condition is applied as soon as all the
sources that it names are combined. If one of them allows it and there are many rows, an index finds
the pairs to look at (`streams.operators.join_index`). Otherwise the first condition is applied by
broadcasting the changes against the relation, without making pairs. The others are applied to the
remaining pairs, cheapest first, and read only the columns they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from streams.expressions import Evaluator, Typed, evaluator, fields, holds
from streams.operators.join_index import Band, band
from streams.operators.relation import Relation
from streams.vector import Delta, Frame, Positions, Vector
from topology.arrays import BoolArray, IntArray

LARGEST_BLOCK = 1 << 20
"""The most pairs compared at once. It bounds the memory of a broadcast."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the columns of the sources lie, side by side."""

    source: tuple[int, ...]
    column: tuple[int, ...]


class _Combinations:
    """Rows of several sources side by side, each given by its place in its relation.

    Attributes
    ----------
    changes
        The change, by its position, that each combination comes from.
    """

    __slots__ = ("_frames", "_layout", "changes", "length", "places")

    def __init__(
        self,
        layout: _Layout,
        frames: Sequence[Frame],
        places: dict[int, Positions],
        changes: Positions,
    ) -> None:
        self._layout = layout
        self._frames = frames
        self.places = places
        self.changes = changes
        self.length = len(changes)

    def __getitem__(self, index: int, /) -> Vector:
        source = self._layout.source[index]
        column = self._frames[source].columns[self._layout.column[index]]
        return column.take(self.places[source])

    def take(self, kept: Positions | slice) -> _Combinations:
        """Some of the combinations."""
        places = {source: where[kept] for source, where in self.places.items()}
        return _Combinations(self._layout, self._frames, places, self.changes[kept])

    def times(self, source: int, left: Positions, right: Positions) -> _Combinations:
        """Combinations with rows of one more source, given as pairs."""
        places = {bound: where[left] for bound, where in self.places.items()}
        places[source] = right
        return _Combinations(self._layout, self._frames, places, self.changes[left])

    def broadcast(self, source: int) -> _Broadcast:
        """Every combination against every row of one more source."""
        return _Broadcast(self, self._layout, self._frames[source], source)

    def alone(self, source: int) -> _Combinations:
        """All rows of one source."""
        everything = np.arange(self._frames[source].length)
        return _Combinations(self._layout, self._frames, {source: everything}, everything)

    def followed_by(self, others: Sequence[_Combinations]) -> _Combinations:
        """These and other combinations of the same sources."""
        if not others:
            return self
        parts = (self, *others)
        places = {
            source: np.concatenate([part.places[source] for part in parts])
            for source in self.places
        }
        changes = np.concatenate([part.changes for part in parts])
        return _Combinations(self._layout, self._frames, places, changes)


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
    """One more source to combine with, and the conditions that can be applied then.

    Attributes
    ----------
    back_ms
        How long before a change the source is looked at: 0 for its new rows, 1 for the old ones.
    band
        One of the conditions, if it allows to find pairs; the narrowest.
    """

    source: int
    back_ms: int
    conditions: tuple[Evaluator, ...]
    band: Band | None


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
        bound = frozenset({first})
        waiting = list(conjuncts)
        stages: list[_Stage] = []
        for source in range(count):
            if source == first:
                continue
            before, bound = bound, bound | {source}
            ready = [one for one in waiting if self._sources(one) <= bound]
            waiting = [one for one in waiting if one not in ready]
            of_before, of_source = self._names_only(before), self._names_only({source})
            bands = [found for one in ready if (found := band(one, of_before, of_source))]
            stages.append(
                _Stage(
                    source=source,
                    back_ms=0 if source < first else 1,
                    conditions=tuple(evaluator(one) for one in ready),
                    band=min(bands, key=lambda found: found.width, default=None),
                )
            )
        return tuple(stages)

    def _sources(self, expression: Typed) -> set[int]:
        return {self._layout.source[field.index] for field in fields(expression)}

    def _names_only(self, sources: Set[int]) -> Callable[[Typed], bool]:
        return lambda expression: self._sources(expression) <= sources

    def step(self, deltas: Sequence[Delta | None], relations: Sequence[Relation]) -> Delta | None:
        """The change of the join. One row may be both inserted and removed at a timestamp.

        Within a timestamp the changes of the first source come first.
        """
        parts: list[_Combinations] = []
        inserted: list[BoolArray] = []
        times_ms: list[IntArray] = []
        numbers: list[Positions] = []
        frames = [relation.rows for relation in relations]
        before = 0
        for first, delta in enumerate(deltas):
            if delta is None:
                continue
            changed = relations[first].changed
            rows = _Combinations(self._layout, frames, {first: changed}, np.arange(len(changed)))
            for stage in self._stages[first]:
                rows = _extend(rows, stage, relations[stage.source], delta.times_ms)
                if not rows.length:
                    break
            else:
                parts.append(rows)
                inserted.append(delta.inserted[rows.changes])
                times_ms.append(delta.times_ms[rows.changes])
                numbers.append(rows.changes + before)
            before += len(changed)
        if not parts:
            return None
        rows = parts[0].followed_by(parts[1:])
        times = np.concatenate(times_ms)
        # By time, by change, then as the rows lie in the relations.
        places = (rows.places[source] for source in reversed(range(len(relations))))
        order = np.lexsort((*places, np.concatenate(numbers), times))
        return Delta(rows.take(order), np.concatenate(inserted)[order], times[order])


def _extend(
    rows: _Combinations, stage: _Stage, relation: Relation, times_ms: IntArray
) -> _Combinations:
    """Combine with the rows of a stage's source that the relation holds at each change's time."""
    extended: list[_Combinations] = []
    for left, right, conditions in _pairs(rows, stage, relation.count):
        at_ms = times_ms[rows.changes[left]] - stage.back_ms
        held = (relation.entered_ms[right] <= at_ms) & (at_ms < relation.left_ms[right])
        combined = rows.times(stage.source, left[held], right[held])
        for condition in conditions:
            if not combined.length:
                break
            passing = holds(condition, combined, (combined.length,))
            combined = combined.take(np.flatnonzero(passing))
        extended.append(combined)
    return extended[0].followed_by(extended[1:]) if extended else rows.take(slice(0))


Pairs = tuple[Positions, Positions, Sequence[Evaluator]]
"""Combinations, rows to combine them with, and the conditions that remain to be applied."""


def _pairs(rows: _Combinations, stage: _Stage, count: int) -> Iterator[Pairs]:
    """The pairs that are worth looking at, block by block, in any order."""
    if stage.band is not None and stage.band.is_worth_it(rows.length, count):
        candidates = stage.band.candidates(rows, rows.alone(stage.source))
        if candidates is not None:
            for left, right in candidates.blocks(LARGEST_BLOCK):
                yield left, right, stage.conditions
            return
    step = max(1, LARGEST_BLOCK // max(count, 1))
    for start in range(0, rows.length, step):
        stop = min(start + step, rows.length)
        if not stage.conditions:
            pairs = np.arange(start * count, stop * count)
            yield pairs // count, pairs % count, ()
            continue
        first, *others = stage.conditions
        block = rows if stop - start == rows.length else rows.take(slice(start, stop))
        matching = holds(first, block.broadcast(stage.source), (stop - start, count))
        left, right = matching.nonzero()
        yield left + start, right, others
