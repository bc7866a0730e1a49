"""`TOP n BY x PARTITION BY c`: the first n rows of each partition, ranked by x.

The greatest value comes first, with ASC the least one, and NULL comes last. Rows with equal values
are ranked by the columns of the SELECT list, the least first. Rows that are equal in these too look
alike. Which rows are the first n is therefore a matter of the relation alone, not of how or when
its rows came.

All rows are kept in the order of their ranks, because those behind the n-th one move up when others
leave. If no row ever leaves, only n are kept. Few rows are kept in a list. A row that enters a list
moves all behind it, so that many are kept in a `SortedList`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from foundation.arrays import BoolArray
from streams.expressions.typed import evaluator, project
from streams.plan.program import TopPlan, Typed
from streams.vectors.order import float_order
from streams.vectors.state import Pieces, State, piece_rows, read_frame, row_slices, write_frame
from streams.vectors.vector import Delta, Frame, Vector, from_tuples, known_of

Key = tuple[Any, ...]
Row = tuple[Any, ...]
Rank = tuple[Row, Row]
"""What is compared, as values that are never NULL; then the row as it is kept: what its partition
and its rank depend on, and the SELECT list."""


MANY_ROWS = 4096
"""Moving more rows than that would take a good part of a row's time, and ever more of it."""

Ranks = list[Rank] | SortedList[Rank]


class TopRows:
    """Maintains the relation of the first rows of each partition, as the SELECT list shows them.

    Parameters
    ----------
    plan
        What ranks rows.
    outputs
        The SELECT list.
    stays
        No row ever leaves the relation below.
    """

    def __init__(self, plan: TopPlan, outputs: Sequence[Typed], *, stays: bool) -> None:
        self._most = plan.rows
        self._keys = len(plan.partition_by)
        self._ranked = len(plan.by)
        self._ascending = [*(one.ascending for one in plan.by), *(True for _ in outputs)]
        kept = (*plan.expressions(), *outputs)
        self._kept = tuple(evaluator(one) for one in kept)
        self._kinds = tuple(one.kind for one in kept)
        self._stays = stays
        self._partitions: dict[Key, Ranks] = {}
        """The rows of each partition in the order of their ranks; none is empty."""
        self._held = 0
        """Number of rows of all partitions."""

    def step(self, change: Delta) -> Delta | None:
        """Apply a change of the rows; return the change of the first rows."""
        rows: list[Row] = []
        inserted: list[bool] = []
        times_ms: list[int] = []
        before: dict[Key, list[Rank] | None] = {}
        now_ms = int(change.times_ms[0])

        def tell() -> None:
            gone, come = self._moved(before)
            rows.extend(chain(gone, come))
            inserted.extend([False] * len(gone) + [True] * len(come))
            times_ms.extend([now_ms] * (len(gone) + len(come)))
            before.clear()

        moves = zip(
            change.times_ms.tolist(),
            change.inserted.tolist(),
            self._ranks(project(self._kept, change.rows)),
            strict=True,
        )
        for at_ms, entering, rank in moves:
            if at_ms != now_ms:
                tell()
                now_ms = at_ms
            key = rank[1][: self._keys]
            before.setdefault(key, None)
            ranks = self._partitions.get(key)
            if ranks is None:
                ranks = self._partitions[key] = []
            place = _place(ranks, rank)
            if place < self._most:
                if before[key] is None:
                    before[key] = ranks[: self._most]
            elif self._stays:
                continue
            if not entering:
                del ranks[place]
                self._held -= 1
                continue
            if isinstance(ranks, SortedList):
                ranks.add(rank)
            else:
                ranks.insert(place, rank)
            self._held += 1
            if self._stays and len(ranks) > self._most:
                del ranks[-1]
                self._held -= 1
            elif len(ranks) > MANY_ROWS and isinstance(ranks, list):
                self._partitions[key] = SortedList(ranks)
        tell()
        if not rows:
            return None
        kinds = self._kinds[self._keys + self._ranked :]
        return Delta(from_tuples(rows, kinds), np.array(inserted), np.array(times_ms))

    def _moved(self, before: dict[Key, list[Rank] | None]) -> tuple[list[Row], list[Row]]:
        """The rows that are no longer among the first, and those that have become so."""
        shown = self._keys + self._ranked
        gone: list[Row] = []
        come: list[Row] = []
        for key, former in before.items():
            ranks = self._partitions[key]
            if former is not None:
                left, entered = _differences(former, ranks[: self._most])
                gone += [row[shown:] for _, row in left]
                come += [row[shown:] for _, row in entered]
            if not ranks:
                del self._partitions[key]
        return gone, come

    def _ranks(self, kept: Frame) -> Iterator[Rank]:
        """Rows with what they are compared by."""
        cells: list[list[Any]] = []
        compared = zip(
            kept.columns[self._keys :], self._kinds[self._keys :], self._ascending, strict=True
        )
        for column, kind, ascending in compared:
            known = known_of(column)
            if column.valid is not None:
                cells.append((~known).tolist())
            else:
                cells.append([False] * kept.length)
            cells.append(_ordered(column, known, kind, ascending=ascending))
        return zip(zip(*cells, strict=True), kept.tuples(), strict=True)

    def held(self) -> int:
        """Number of rows of all partitions."""
        return self._held

    def save(self) -> Pieces:
        """All rows, partition by partition, in the order of their ranks."""
        # The garbage collector would visit all of a new list, but no array.
        ranks = chain.from_iterable(self._partitions.values())
        rows = np.fromiter((row for _, row in ranks), dtype=np.object_, count=self._held)

        def pieces() -> Iterator[State]:
            if not len(rows):
                return
            most = piece_rows(from_tuples(rows[:1].tolist(), self._kinds))
            for piece in row_slices(len(rows), most):
                frame = from_tuples(rows[piece].tolist(), self._kinds)
                yield State(frames={"rows": write_frame(frame, self._kinds)})

        return pieces

    def load(self, state: State) -> None:
        """Add saved rows."""
        for rank in self._ranks(read_frame(state.frames["rows"], self._kinds)):
            ranks = self._partitions.setdefault(rank[1][: self._keys], [])
            # It is a list: SortedList comes with the next row.
            assert isinstance(ranks, list)
            insort(ranks, rank)
            self._held += 1

    def loaded(self) -> None:
        """Note that all rows have been added: nothing is left to do."""


def _place(ranks: Ranks, rank: Rank) -> int:
    return bisect_left(ranks, rank) if isinstance(ranks, list) else ranks.bisect_left(rank)


def _differences(before: list[Rank], after: list[Rank]) -> tuple[list[Rank], list[Rank]]:
    """What only the former and what only the latter of two ranked lists has."""
    gone: list[Rank] = []
    come: list[Rank] = []
    one = other = 0
    while one < len(before) and other < len(after):
        if before[one] == after[other]:
            one, other = one + 1, other + 1
        elif before[one] < after[other]:
            gone.append(before[one])
            one += 1
        else:
            come.append(after[other])
            other += 1
    return gone + before[one:], come + after[other:]


def _ordered(column: Vector, known: BoolArray, kind: str, *, ascending: bool) -> list[Any]:
    """Values that are less where the column's come first; equal ones for all NULLs."""
    if kind == "string":
        texts: list[str] = np.where(known, column.values, "").tolist()
        return texts if ascending else [_reversed(text) for text in texts]
    if kind == "float":
        values = float_order(np.ascontiguousarray(column.values).view(np.int64))
    else:
        values = column.values.astype(np.int64)
    values = np.where(known, values if ascending else ~values, 0)
    return values.tolist()


def _reversed(text: str) -> tuple[int, ...]:
    """Less than that of another text if the text is greater."""
    # The end of a text comes after all characters that may follow.
    return (*(-ord(character) for character in text), 1)
