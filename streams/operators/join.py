"""Theta join of two or more relations, by their changes.

    Δ(A ⋈ B) = ΔA ⋈ B_old  +  A_new ⋈ ΔB,

signed: when a row is removed, so are its combinations. With more sources, the change of source k
is combined with the new rows of the sources before k and the old rows of the sources after k.

The changes of many timestamps are combined at once. Old and new are those of each change's own
timestamp, and follow from the times for which the relations hold their rows.

A change is combined with one source after the other. A condition is applied as soon as all the
sources that it names are combined. One of them finds the pairs: by an index, if it has the shape
for it and there are many rows (`streams.operators.join_index`), or else by broadcasting the changes
against the relation. The others are applied to the pairs that were found, cheapest first, and read
only the columns they need. The last ones are applied to the changes of all sources together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from foundation.arrays import IntArray
from streams.expressions.typed import Evaluator, Typed, evaluator, fields, holds
from streams.operators.join_index import Band, band
from streams.operators.relation import Relation
from streams.vectors.vector import Delta, Frame, Positions, Vector

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

    def alone(self, source: int, places: Positions) -> _Combinations:
        """Rows of one more source by themselves."""
        return _Combinations(self._layout, self._frames, {source: places}, places)

    def broadcast(self, others: _Combinations) -> _Broadcast:
        """Every combination against every row of another source."""
        return _Broadcast(self, others)

    def has(self, index: int) -> bool:
        """Whether a column is one of these sources'."""
        return self._layout.source[index] in self.places

    @staticmethod
    def together(parts: Sequence[_Combinations]) -> _Combinations:
        """Combinations of the same sources, at least one, one after the other."""
        one = parts[0]
        if len(parts) == 1:
            return one
        places = {
            source: np.concatenate([part.places[source] for part in parts]) for source in one.places
        }
        changes = np.concatenate([part.changes for part in parts])
        return _Combinations(one._layout, one._frames, places, changes)


class _Broadcast:
    """Columns as a table: combinations down, rows of another source across."""

    __slots__ = ("_left", "_right")

    def __init__(self, left: _Combinations, right: _Combinations) -> None:
        self._left = left
        self._right = right

    def __getitem__(self, index: int, /) -> Vector:
        if self._left.has(index):
            return self._left[index].take((slice(None), None))
        return self._right[index].take((None, slice(None)))


@dataclass(frozen=True, slots=True)
class _Stage:
    """One more source to combine with, and the conditions that can be applied then.

    Attributes
    ----------
    back_ms
        How long before a change the source is looked at: 0 for its new rows, 1 for the old ones.
    finder
        The condition that finds pairs; None: all pairs.
    band
        The same condition, if it has the shape for an index.
    others
        The other conditions.
    """

    source: int
    back_ms: int
    finder: Evaluator | None
    band: Band | None
    others: tuple[Evaluator, ...]


class JoinTooLarge(Exception):
    """A join has more rows than it may."""


class Join:
    """The join of relations. The caller steps the relations; the join itself has no state."""

    def __init__(
        self, widths: Sequence[int], conjuncts: Sequence[Typed], most: int | None = None
    ) -> None:
        """
        Parameters
        ----------
        widths
            Number of columns of each source.
        conjuncts
            Conditions over the sources' columns side by side, in the order to apply them.
        most
            Rows that a change may have; None: any number.
        """
        self._most = most
        self._layout = _Layout(
            tuple(source for source, width in enumerate(widths) for _ in range(width)),
            tuple(column for width in widths for column in range(width)),
        )
        conditions = [(one, evaluator(one)) for one in conjuncts]
        self._stages = [self._order(first, len(widths), conditions) for first in range(len(widths))]
        last = {one for *_, stage in self._stages for one in stage.others}
        self._last = tuple(condition for _, condition in conditions if condition in last)
        """Conditions to apply when all sources are combined. For some changes a few of them have
        been applied before."""

    def _order(
        self, first: int, count: int, conditions: Sequence[tuple[Typed, Evaluator]]
    ) -> tuple[_Stage, ...]:
        bound = frozenset({first})
        waiting = list(conditions)
        stages: list[_Stage] = []
        for source in range(count):
            if source == first:
                continue
            before, bound = bound, bound | {source}
            ready = [one for one in waiting if self._sources(one[0]) <= bound]
            waiting = [one for one in waiting if one not in ready]
            of_before, of_source = self._names_only(before), self._names_only({source})
            bands = [
                (found.width, place, found)
                for place, (one, _) in enumerate(ready)
                if (found := band(one, of_before, of_source)) is not None
            ]
            _, place, narrowest = min(bands, default=(0, 0, None))
            stages.append(
                _Stage(
                    source=source,
                    back_ms=0 if source < first else 1,
                    finder=ready[place][1] if ready else None,
                    band=narrowest,
                    others=tuple(one for _, one in ready[:place] + ready[place + 1 :]),
                )
            )
        return tuple(stages)

    def _sources(self, expression: Typed) -> set[int]:
        return {self._layout.source[field.index] for field in fields(expression)}

    def _names_only(self, sources: Set[int]) -> Callable[[Typed], bool]:
        return lambda expression: self._sources(expression) <= sources

    @staticmethod
    def places(change: Delta, source: int) -> Positions:
        """Where the rows of one source lie in its relation, for a change that `step` gave."""
        assert isinstance(change.rows, _Combinations)
        return change.rows.places[source]

    def step(self, deltas: Sequence[Delta | None], relations: Sequence[Relation]) -> Delta | None:
        """The change of the join. One row may be both inserted and removed at a timestamp.

        Within a timestamp the changes of the first source come first.

        Raises
        ------
        JoinTooLarge
            It has more rows than it may.
        """
        changes = [(first, delta) for first, delta in enumerate(deltas) if delta is not None]
        if not changes:
            return None
        times_ms = np.concatenate([delta.times_ms for _, delta in changes])
        rows = _passing(self._combined(changes, relations, times_ms), self._last, self._most)
        if rows is None:
            return None
        # By time, by change, then as the rows lie in the relations.
        places = (rows.places[source] for source in reversed(range(len(relations))))
        rows = rows.take(np.lexsort((*places, rows.changes, times_ms[rows.changes])))
        inserted = np.concatenate([delta.inserted for _, delta in changes])
        return Delta(rows, inserted[rows.changes], times_ms[rows.changes])

    def _combined(
        self,
        changes: Sequence[tuple[int, Delta]],
        relations: Sequence[Relation],
        times_ms: IntArray,
    ) -> Iterator[_Combinations]:
        """The changes combined with all sources; the last conditions remain to be applied."""
        frames = [relation.rows for relation in relations]
        begin = 0
        for first, delta in changes:
            end = begin + len(delta.times_ms)
            places = {first: relations[first].changed}
            rows = _Combinations(self._layout, frames, places, np.arange(begin, end))
            *inner, last = self._stages[first]
            for stage in inner:
                extended = _extended(rows, stage, relations[stage.source], times_ms)
                found = _passing(extended, stage.others)
                if found is None:
                    break
                rows = found
            else:
                yield from _extended(rows, last, relations[last.source], times_ms)
            begin = end


def _extended(
    rows: _Combinations, stage: _Stage, relation: Relation, times_ms: IntArray
) -> Iterator[_Combinations]:
    """Combine with the rows of a stage's source that the relation holds at each change's time."""
    at_ms = times_ms[rows.changes] - stage.back_ms
    places = relation.held_since(int(at_ms.min()) + 1)
    entered_ms, left_ms = relation.entered_ms[places], relation.left_ms[places]
    for left, right in _pairs(rows, stage, rows.alone(stage.source, places)):
        now_ms = at_ms[left]
        held = (entered_ms[right] <= now_ms) & (now_ms < left_ms[right])
        (kept,) = held.nonzero()
        yield rows.times(stage.source, left[kept], places[right[kept]])


def _pairs(
    rows: _Combinations, stage: _Stage, others: _Combinations
) -> Iterator[tuple[Positions, Positions]]:
    """The pairs for which a stage's first condition holds, block by block, in any order."""
    count = others.length
    if stage.finder is None:
        for start, stop in _blocks(rows.length, count):
            pairs = np.arange(start * count, stop * count)
            yield pairs // count, pairs % count
        return
    if stage.band is not None and stage.band.is_worth_it(rows.length, count):
        candidates = stage.band.candidates(rows, others)
        if candidates is not None:
            for left, right in candidates.blocks(LARGEST_BLOCK):
                if stage.band.exact:
                    yield left, right
                    continue
                pairs = rows.times(stage.source, left, others.places[stage.source][right])
                (kept,) = holds(stage.finder, pairs, (pairs.length,)).nonzero()
                yield left[kept], right[kept]
            return
    for start, stop in _blocks(rows.length, count):
        block = rows if stop - start == rows.length else rows.take(slice(start, stop))
        table = holds(stage.finder, block.broadcast(others), (block.length, count))
        left, right = table.nonzero()
        yield left + start, right


def _blocks(rows: int, count: int) -> Iterator[tuple[int, int]]:
    """Parts of some rows that have few enough pairs with `count` others."""
    step = max(1, LARGEST_BLOCK // max(count, 1))
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


def _passing(
    blocks: Iterable[_Combinations], conditions: Sequence[Evaluator], most: int | None = None
) -> _Combinations | None:
    """The combinations for which all conditions hold; None for none. Small blocks are joined."""
    left = math.inf if most is None else most
    passed: list[_Combinations] = []
    waiting: list[_Combinations] = []
    for block in blocks:
        waiting.append(block)
        if sum(one.length for one in waiting) >= LARGEST_BLOCK:
            passed.append(_passing_all(_Combinations.together(waiting), conditions))
            waiting = []
            left -= passed[-1].length
            if left < 0:
                break
    if waiting:
        passed.append(_passing_all(_Combinations.together(waiting), conditions))
        left -= passed[-1].length
    if left < 0:
        raise JoinTooLarge
    found = [one for one in passed if one.length]
    return _Combinations.together(found) if found else None


def _passing_all(rows: _Combinations, conditions: Sequence[Evaluator]) -> _Combinations:
    for condition in conditions:
        if not rows.length:
            break
        (kept,) = holds(condition, rows, (rows.length,)).nonzero()
        if len(kept) < rows.length:
            rows = rows.take(kept)
    return rows
