"""INTERSECT and EXCEPT, by how often each row occurs on either side.

Of a row that occurs l times on the left and r times on the right there are

    INTERSECT ALL: min(l, r),    EXCEPT ALL: max(l - r, 0),
    INTERSECT: 1 if l and r are positive,    EXCEPT: 1 if l is positive and r is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from streams.language.ast import SetOperator
from streams.vectors.state import (
    SAMPLED_ROWS,
    Pieces,
    State,
    piece_rows,
    read_frame,
    row_slices,
    write_frame,
)
from streams.vectors.vector import Delta, Frame, from_tuples, timestamp_groups

Row = tuple[Any, ...]


class SetRows:
    """Maintains the result of an operation on two relations.

    Parameters
    ----------
    every
        A row counts as often as it occurs (ALL).
    kinds
        Types of the columns.
    """

    def __init__(self, operator: SetOperator, kinds: Sequence[str], *, every: bool) -> None:
        self._intersects = operator is SetOperator.INTERSECT
        self._every = every
        self._kinds = tuple(kinds)
        self._counts: dict[Row, list[int]] = {}
        """Row → how often it occurs on the left and on the right, in order of appearance."""

    def step(self, sides: Sequence[Delta | None]) -> Delta | None:
        """The change that those of both sides make. Rows are removed before others enter."""
        events: list[tuple[int, int, Row, bool]] = []
        for side, delta in enumerate(sides):
            if delta is not None:
                assert isinstance(delta.rows, Frame)
                events += zip(
                    delta.times_ms.tolist(),
                    [side] * len(delta.times_ms),
                    delta.rows.tuples(),
                    delta.inserted.tolist(),
                    strict=True,
                )
        if not events:
            return None
        events.sort(key=lambda event: event[0])
        times = np.array([event[0] for event in events], dtype=np.int64)
        rows: list[Row] = []
        inserted: list[bool] = []
        times_ms: list[int] = []
        for start, stop in timestamp_groups(times):
            gone, come = self._moved(events[start:stop])
            rows += chain(gone, come)
            inserted += [False] * len(gone) + [True] * len(come)
            times_ms += [events[start][0]] * (len(gone) + len(come))
        if not rows:
            return None
        return Delta(
            from_tuples(rows, self._kinds), np.array(inserted), np.array(times_ms, dtype=np.int64)
        )

    def _moved(self, events: Sequence[tuple[int, int, Row, bool]]) -> tuple[list[Row], list[Row]]:
        """The rows that leave the result at a timestamp, and those that enter it."""
        before: dict[Row, int] = {}
        for _, side, row, entering in events:
            counts = self._counts.setdefault(row, [0, 0])
            before.setdefault(row, self._occurrences(counts))
            counts[side] += 1 if entering else -1
        gone: list[Row] = []
        come: list[Row] = []
        for row, was in before.items():
            counts = self._counts[row]
            more = self._occurrences(counts) - was
            gone += [row] * -more
            come += [row] * more
            if counts == [0, 0]:
                del self._counts[row]
        return gone, come

    def _occurrences(self, counts: Sequence[int]) -> int:
        left, right = counts
        found = min(left, right) if self._intersects else max(left - right, 0)
        if self._every:
            return found
        return int(left > 0 and (right > 0) is self._intersects)

    def held(self) -> int:
        """Number of different rows."""
        return len(self._counts)

    def save(self) -> Pieces:
        """Every row with its numbers."""
        kinds = (*self._kinds, "int", "int")
        # The garbage collector would visit all of a new list, but no array.
        rows = np.fromiter(self._counts, dtype=np.object_, count=len(self._counts))
        numbers = chain.from_iterable(self._counts.values())
        counts = np.fromiter(numbers, dtype=np.int64, count=2 * len(rows)).reshape(-1, 2)

        def frame(some: slice) -> Frame:
            both = zip(rows[some].tolist(), counts[some].tolist(), strict=True)
            return from_tuples([(*row, *numbers) for row, numbers in both], kinds)

        def pieces() -> Iterator[State]:
            if not len(rows):
                return
            for piece in row_slices(len(rows), piece_rows(frame(slice(SAMPLED_ROWS)))):
                yield State(frames={"rows": write_frame(frame(piece), kinds)})

        return pieces

    def load(self, state: State) -> None:
        """Add saved rows."""
        saved = read_frame(state.frames["rows"], (*self._kinds, "int", "int"))
        for *row, left, right in saved.tuples():
            self._counts[tuple(row)] = [left, right]

    def loaded(self) -> None:
        """Note that all rows have been added: nothing is left to do."""
