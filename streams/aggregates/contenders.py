"""First, last, least and greatest values of rows that leave in the order in which they came.

A value that is no better than one which came after it leaves before that one, and is never the best
again. The others are *contenders*: in the order in which they came, each is better than those after
it. So the best value is the first contender, and each value is added and given up once.

`Contenders` does that value by value for one group, `ContenderLists` for many changes of many
groups in one pass over arrays. Both save the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.kernels import kernels
from streams.kernels.contender_loops import (
    AFTER,
    BEFORE,
    COLUMNS,
    IDENTITY,
    OWNER,
    RANK,
    VALUE,
)
from streams.kernels.keys import every
from streams.plan.program import ENDS, AggregatePlan
from streams.vectors.arrays import Codes, resized
from streams.vectors.order import float_order
from streams.vectors.state import SnapshotError
from streams.vectors.vector import Array, Vector

FIRST_PLACES = 64

Contender = tuple[int, Any]
"""Identity of the row, value."""

_better: Mapping[str, Callable[[Contender, Contender], bool]] = {
    "first": lambda one, other: one[0] < other[0],
    "last": lambda one, other: one[0] > other[0],
    "min": lambda one, other: one[1] < other[1],
    "max": lambda one, other: one[1] > other[1],
}


class Contenders:
    """The contenders of a group; if no value leaves, the best one is all that is kept."""

    __slots__ = ("_better", "_function", "_held", "_stays")

    def __init__(self, function: str, *, stays: bool) -> None:
        self._function = function
        self._better = _better[function]
        self._stays = stays
        self._held: deque[Contender] = deque()

    def enter(self, value: Contender) -> None:
        """Add a value with its identity."""
        held = self._held
        if self._stays:
            if held and not self._better(value, held[0]):
                return
            held.clear()
        while held and not self._better(held[-1], value):
            held.pop()
        held.append(value)

    def leave(self, value: Contender) -> None:
        """Take the value of an identity out."""
        if self._held and self._held[0][0] == value[0]:
            self._held.popleft()

    def result(self) -> Any:
        """The best value; NULL for no values."""
        return self._held[0][1] if self._held else None

    def copy(self) -> Contenders:
        """Another with the same contenders."""
        made = Contenders(self._function, stays=self._stays)
        made._held = self._held.copy()
        return made

    def save(self) -> Any:
        """Identities and values in order."""
        return [[identity for identity, _ in self._held], [value for _, value in self._held]]

    def load(self, saved: Any) -> None:
        """Identities and values in order."""
        self._held = deque(zip(*checked(saved, self._function), strict=True))


def checked(saved: Any, function: str) -> tuple[list[int], list[Any]]:
    """Identities and values that were saved."""
    match saved:
        case [[*identities], [*values]] if len(identities) == len(values):
            return list(map(int, identities)), list(values)
        case _:
            raise SnapshotError(f"not the values of {function}: {saved!r}")


class ContenderLists:
    """The contenders of many groups, of one aggregate over numbers or bools.

    Parameters
    ----------
    plan
        The aggregate.
    stays
        No row ever leaves.
    """

    def __init__(self, plan: AggregatePlan, *, stays: bool) -> None:
        self._function = plan.function
        self._kind = plan.kind
        self._stays = stays
        self.clear()

    def clear(self) -> None:
        """Forget all groups."""
        self._ends: IntArray = np.empty((0, 2), dtype=np.int64)
        self._contenders: IntArray = np.empty((0, COLUMNS), dtype=np.int64)
        self._free: IntArray = np.empty(0, dtype=np.int64)
        self._count = 0
        """The number of free places."""

    def allocate(self, groups: int) -> None:
        """Make room for so many groups."""
        self._ends = resized(self._ends, groups, -1)

    def _make_room(self, added: int) -> None:
        """Have so many free places."""
        if self._count >= added:
            return
        places = len(self._contenders)
        room = max(2 * places, places + added, FIRST_PLACES)
        contenders = np.full((room, COLUMNS), -1, dtype=np.int64)
        contenders[:places] = self._contenders
        free: IntArray = np.empty(room, dtype=np.int64)
        free[: self._count] = self._free[: self._count]
        free[self._count : self._count + room - places] = np.arange(places, room)
        self._contenders, self._free = contenders, free
        self._count += room - places

    def step(
        self,
        argument: Vector,
        steps: IntArray,
        codes: Codes,
        inserted: BoolArray,
        ids: IntArray,
    ) -> Vector:
        """Apply changes in the order of their steps; returns the values after each step.

        Parameters
        ----------
        argument, inserted, ids
            Of each change: the value, whether the row enters, its identity.
        steps, codes
            Change → its step; step → its group.
        """
        self._make_room(int(np.count_nonzero(inserted)))
        values = self._numbers(argument.values)
        valid = every if argument.valid is None else np.ascontiguousarray(argument.valid)
        out: IntArray = np.empty(len(codes), dtype=np.int64)
        known = np.empty(len(codes), dtype=np.bool_)
        self._count = kernels.current().keep_contenders(
            *(steps, codes, inserted, ids, self._ranks(values, ids), values, valid, self._stays),
            *(self._contenders, self._ends, self._free, self._count, out, known),
        )
        return Vector(self._values(out), known)

    def _numbers(self, values: Array) -> IntArray:
        """Values in 64 bits."""
        if self._kind != "float":
            return values.astype(np.int64)
        return np.ascontiguousarray(values).view(np.int64)

    def _ranks(self, numbers: IntArray, ids: IntArray) -> IntArray:
        """Less for the better value."""
        if self._function in ENDS:
            numbers = ids
        elif self._kind == "float":
            numbers = float_order(numbers)
        return ~numbers if self._function in ("last", "max") else numbers

    def _values(self, numbers: IntArray) -> Array:
        if self._kind == "float":
            return numbers.view(np.float64)
        return numbers != 0 if self._kind == "bool" else numbers

    def result(self, codes: Codes) -> Vector:
        """The values of groups."""
        best = self._ends[codes, 0]
        known: BoolArray = best >= 0
        numbers: IntArray = np.zeros(len(codes), dtype=np.int64)
        numbers[known] = self._contenders[best[known], VALUE]
        return Vector(self._values(numbers), known)

    def saved(self, codes: Codes) -> Callable[[slice], list[Any]]:
        """Gives what `Contenders` of some of the groups save, as they are now."""
        contenders = self._contenders.copy()
        lists = cache(lambda: _lists(contenders, codes))

        def of(some: slice) -> list[Any]:
            rows, begins, lengths = lists()
            places, ends = _places(begins[some], lengths[some])
            ids: list[int] = rows[places, IDENTITY].tolist()
            values: list[Any] = self._values(rows[places, VALUE]).tolist()
            return [[ids[begin:end], values[begin:end]] for begin, end in pairwise([0, *ends])]

        return of

    def take(self, codes: Codes, saved: Sequence[Any]) -> None:
        """Give groups that have no contenders what was saved of them."""
        given = [checked(one, self._function) for one in saved]
        ids: IntArray = np.array(list(chain.from_iterable(one for one, _ in given)), dtype=np.int64)
        values = list(chain.from_iterable(one for _, one in given))
        element = np.float64 if self._kind == "float" else np.int64
        lengths = np.array([len(one) for one, _ in given])
        self._append(codes, lengths, ids, self._numbers(np.array(values, dtype=element)))

    def _append(self, codes: Codes, lengths: IntArray, ids: IntArray, numbers: IntArray) -> None:
        """Give groups so many contenders each."""
        self._make_room(len(ids))
        self._count -= len(ids)
        places = self._free[self._count : self._count + len(ids)]
        made: IntArray = np.empty((len(ids), COLUMNS), dtype=np.int64)
        made[:, IDENTITY], made[:, VALUE] = ids, numbers
        made[:, RANK] = self._ranks(numbers, ids)
        made[:, OWNER] = np.repeat(codes, lengths)
        some = lengths > 0
        ends = np.cumsum(lengths)[some]
        begins = ends - lengths[some]
        made[1:, BEFORE], made[:-1, AFTER] = places[:-1], places[1:]
        made[begins, BEFORE], made[ends - 1, AFTER] = -1, -1
        self._contenders[places] = made
        self._ends[codes[some], 0], self._ends[codes[some], 1] = places[begins], places[ends - 1]

    def renumbered(self, live: Codes) -> Callable[[Codes], None]:
        """Forget all groups; returns what gives those in `live` back under other codes."""
        lists, begins, lengths = _lists(self._contenders, live)
        places, _ = _places(begins, lengths)
        ids, numbers = lists[places, IDENTITY], lists[places, VALUE]
        self.clear()
        return lambda codes: self._append(codes, lengths, ids, numbers)


def _lists(contenders: IntArray, codes: Codes) -> tuple[IntArray, IntArray, IntArray]:
    """All contenders, list by list; where those of groups begin, and how many they are."""
    lists = contenders[contenders[:, OWNER] >= 0]
    lists = lists[np.lexsort((lists[:, IDENTITY], lists[:, OWNER]))]
    owners = np.ascontiguousarray(lists[:, OWNER])
    begins = owners.searchsorted(codes, side="left")
    return lists, begins, owners.searchsorted(codes, side="right") - begins


def _places(begins: IntArray, lengths: IntArray) -> tuple[IntArray, list[int]]:
    """The places in some parts of a list, part by part; where each part ends among them."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) + np.repeat(
        begins - ends + lengths, lengths
    ), ends.tolist()
