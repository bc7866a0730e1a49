"""The aggregates of groups as of the last boundary, which the next one is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foundation.arrays import BoolArray
from streams.vectors.arrays import Codes, resized
from streams.vectors.vector import (
    Array,
    Positions,
    Vector,
    fillers,
    holds_everywhere,
    known_of,
    storage,
)


class _Column:
    """One aggregate.

    Attributes
    ----------
    values
        Group → value.
    valid
        Group → whether it is not NULL; None: no group's ever was.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.values: Array = np.empty(0, dtype=storage[kind])
        self.valid: BoolArray | None = None

    def allocate(self, room: int) -> None:
        values = resized(self.values, room, fillers[self._kind])
        if self.valid is not None:
            self.valid = np.append(self.valid, np.ones(room - len(self.valid), dtype=np.bool_))
        self.values = values

    def differs(self, codes: Codes, now: Vector) -> BoolArray:
        """Whether the values of groups are others now."""
        unequal: BoolArray = now.values != self.values[codes]
        if self.valid is None and now.valid is None:
            return unequal
        known, was_known = known_of(now), self.of(codes).valid
        if was_known is None:
            was_known = np.ones(len(codes), dtype=np.bool_)
        return (known != was_known) | (known & unequal)

    def put(self, codes: Codes, now: Vector) -> None:
        self.values[codes] = now.values
        if now.valid is None and self.valid is None:
            return
        if self.valid is None:
            self.valid = np.ones(len(self.values), dtype=np.bool_)
        self.valid[codes] = known_of(now)

    def of(self, codes: Codes) -> Vector:
        values, valid = self.values[codes], None if self.valid is None else self.valid[codes]
        return Vector(values, None if valid is None or holds_everywhere(valid) else valid)


class Results:
    """The aggregates of groups.

    Parameters
    ----------
    kinds
        Types of the aggregates.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = tuple(kinds)
        self._columns = [_Column(kind) for kind in kinds]
        self._room = 0

    def allocate(self, room: int) -> None:
        """Have room for so many groups; no fewer than before."""
        if room > self._room:
            self._room = room
            for column in self._columns:
                column.allocate(room)

    def differ(self, codes: Codes, now: Sequence[Vector], differs: BoolArray) -> BoolArray:
        """Whether groups have other aggregates now, or differ anyway, as is said in place."""
        for column, vector in zip(self._columns, now, strict=True):
            differs |= column.differs(codes, vector)
        return differs

    def put(self, codes: Codes, now: Sequence[Vector], kept: Positions) -> None:
        """Keep the aggregates of groups, which are at some places of those given."""
        for column, vector in zip(self._columns, now, strict=True):
            column.put(codes, vector if len(kept) == len(vector.values) else vector.take(kept))

    def of(self, codes: Codes) -> list[Vector]:
        """The aggregates of groups."""
        return [column.of(codes) for column in self._columns]

    def renumber(self, made: Codes, room: int) -> None:
        """Give groups new codes; -1 for those given up."""
        former = self._columns
        self._columns = [_Column(kind) for kind in self._kinds]
        self._room = 0
        self.allocate(room)
        for old, column in zip(former, self._columns, strict=True):
            # Groups that came later have no results yet.
            kept = np.flatnonzero(made[: len(old.values)] >= 0).astype(np.int32)
            column.put(made[kept], old.of(kept))
