"""The state of the compiled loop core, as the operators of stepwise evaluation save and read it.

A snapshot does not tell which core it is of. Tables are copied when a state is saved; what writes
and reads the pieces are the operators' own parts, which are made for that alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from foundation.arrays import IntArray
from streams.aggregates.aggregate import saved_pieces
from streams.aggregates.contenders import checked
from streams.aggregates.saved_groups import SavedGroup
from streams.arithmetic.exact_sums import DIGIT_BITS, DIGIT_MASK
from streams.evaluate.loops.memory import Memory, Texts, read_rows
from streams.evaluate.loops.stepwise import DelayedTuples
from streams.kernels.loops.layout import (
    AT,
    AVG_INT,
    BEST,
    COUNT,
    COUNT_ALL,
    FIRST_ID,
    FOREVER,
    FREE,
    HEAD,
    ID,
    LEFT,
    LIVE,
    MOVED,
    NODE_AFTER,
    NODE_BEFORE,
    NODE_ID,
    NODE_RANK,
    NODE_VALUE,
    SUM_DIGITS,
    SUM_HIGH,
    SUM_LOW,
    TAIL,
)
from streams.operators.relation import Relation
from streams.operators.row_log import RowLog
from streams.plan.program import MemberPlan
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK
from streams.vectors.state import Pieces, SnapshotError, State, in_bytes, no_pieces
from streams.vectors.vector import Delta, Vector, from_tuples


class NoState:
    """Of a window that keeps nothing."""

    def held(self) -> int:
        """None."""
        return 0

    def save(self) -> Pieces:
        """Nothing."""
        return no_pieces

    def load(self, state: State) -> None:
        """Nothing can be taken."""
        raise SnapshotError("the snapshot has rows of a window that keeps none")

    def loaded(self) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The keys of a window with PARTITION BY.

    Attributes
    ----------
    by, count
        Where the list of its columns is, and how many they are.
    keys, hashes
        The table of its keys, and that of their hashes.
    """

    by: int
    count: int
    keys: int
    hashes: int


class LogState:
    """The rows of a window."""

    def __init__(
        self, memory: Memory, log: int, kinds: Sequence[str], partitioned: Partitioned | None
    ) -> None:
        self._memory, self._table, self._kinds = memory, log, tuple(kinds)
        self._partitioned = partitioned
        self._read = RowLog(self._kinds)

    def held(self) -> int:
        """Number of rows."""
        words = self._memory.words
        if self._partitioned is not None:
            return int(words[self._table + LIVE])
        return int(words[self._table + TAIL] - words[self._table + HEAD])

    def save(self) -> Pieces:
        """The rows, as `RowLog` saves them."""
        rows, texts = self._memory.rows(self._table), self._memory.texts
        alive = rows[rows[:, LEFT] == 1]

        def pieces() -> Iterator[State]:
            log = RowLog(self._kinds)
            frame = read_rows(alive, self._kinds, texts)
            log.append(alive[:, ID].copy(), alive[:, AT].copy(), frame)
            yield from log.save()()

        return pieces

    def load(self, state: State) -> None:
        """Append saved rows."""
        self._read.load(state)

    def loaded(self) -> None:
        """Have the machine hold the rows."""
        log, self._read = self._read, RowLog(self._kinds)
        places = log.until(FOREVER_MS)
        rows = self._memory.begin(self._table, len(places))
        rows[:, ID], rows[:, AT], rows[:, LEFT] = log.ids(places), log.timestamps(places), 1
        self._memory.write(rows, log.take(places).columns)
        if self._partitioned is not None and len(places):
            found = self._partitioned
            keys, hashes = found.keys, found.hashes
            self._memory.have(keys, len(places))
            self._memory.have(hashes, 2 * len(places))
            self._memory.have(hashes, 2 * self._memory.capacity(keys))
            self._memory.kernels.link_anew(
                self._memory.words, self._table, found.by, found.count, keys
            )


class RelationState:
    """The rows of a relation; of one whose rows are given identities, the next one before them."""

    def __init__(
        self, memory: Memory, relation: int, kinds: Sequence[str], *, identified: bool
    ) -> None:
        self._memory, self._table, self._kinds = memory, relation, tuple(kinds)
        self._identified = identified
        self._read = Relation(self._kinds)
        self._next_id = 0

    def held(self) -> int:
        """Number of rows."""
        return int(self._memory.words[self._table + LIVE])

    def save(self) -> Pieces:
        """The rows, as `Relation` saves them."""
        rows, texts = self._memory.rows(self._table), self._memory.texts
        alive = rows[rows[:, LEFT] == FOREVER]
        next_id = int(self._memory.words[self._table + FIRST_ID])

        def pieces() -> Iterator[State]:
            if self._identified:
                yield State(values={"next_id": next_id})
            if not len(alive):
                return
            relation = Relation(self._kinds)
            frame = read_rows(alive, self._kinds, texts)
            inserted = np.ones(len(alive), dtype=np.bool_)
            relation.step(Delta(frame, inserted, alive[:, AT].copy(), alive[:, ID].copy()))
            yield from relation.save()()

        return pieces

    def load(self, state: State) -> None:
        """Take the next identity, or append rows."""
        if self._identified and "next_id" in state.values:
            self._next_id = int(state.values["next_id"])
            return
        self._read.load(state)

    def loaded(self) -> None:
        """Have the machine hold the rows."""
        relation, self._read = self._read, Relation(self._kinds)
        rows = self._memory.begin(self._table, relation.count)
        rows[:, ID], rows[:, AT], rows[:, LEFT] = relation.ids, NO_WATERMARK, FOREVER
        self._memory.write(rows, relation.rows.columns)
        self._memory.words[self._table + FIRST_ID] = self._next_id
        self._memory.words[self._table + MOVED] += 1


class AggregateState(NamedTuple):
    """An aggregate in the rows of groups.

    Attributes
    ----------
    what
        As in the layout: the function.
    at
        The word of a group's row where its state begins.
    ranked
        What contenders are ranked by.
    pool
        The table of the contenders.
    kind
        Type of the result.
    """

    what: int
    at: int
    ranked: int
    pool: int
    kind: str


class GroupState:
    """Groups with their aggregates."""

    def __init__(
        self,
        memory: Memory,
        plan: int,
        table: int,
        keys: Sequence[str],
        aggregates: Sequence[AggregateState],
    ) -> None:
        self._memory, self._plan, self._table = memory, plan, table
        self._keys, self._aggregates = tuple(keys), tuple(aggregates)
        self._read: list[SavedGroup] = []

    def held(self) -> int:
        """Number of groups."""
        return int(self._memory.words[self._table + LIVE])

    def save(self) -> Pieces:
        """The groups, as `Aggregate` saves them."""
        rows, texts = self._memory.rows(self._table), self._memory.texts
        alive = rows[rows[:, ID] == 1]
        pools = {
            one.pool: self._memory.rows(one.pool).copy()
            for one in self._aggregates
            if one.what == BEST
        }
        return lambda: saved_pieces(self._saved(alive, pools, texts))

    def _saved(
        self, alive: IntArray, pools: dict[int, IntArray], texts: Texts
    ) -> Iterator[SavedGroup]:
        keys = read_rows(alive, self._keys, texts).tuples()
        for key, row in zip(keys, alive, strict=True):
            values = [_saved_value(one, row, pools.get(one.pool)) for one in self._aggregates]
            yield [list(key), int(row[AT]), values]

    def load(self, state: State) -> None:
        """Add saved groups."""
        self._read += state.values["groups"]

    def loaded(self) -> None:
        """Have the machine hold the groups."""
        groups, self._read = self._read, []
        rows = self._memory.begin(self._table, len(groups))
        for each in groups:
            match each:
                case [[*_], int(), [*values]] if len(values) == len(self._aggregates):
                    pass
                case _:
                    raise SnapshotError(f"not a group: {each!r}")
        keys = from_tuples([tuple(key) for key, _, _ in groups], self._keys)
        self._memory.write(rows, keys.columns)
        rows[:, ID] = 1
        rows[:, AT] = [count for _, count, _ in groups]
        for place, one in enumerate(self._aggregates):
            saved = [values[place] for _, _, values in groups]
            if one.what == BEST:
                self._take_contenders(one, saved)
            else:
                for row, value in zip(rows, saved, strict=True):
                    _read_value(one, row, value)
        self._memory.kernels.show_all(self._memory.words, self._memory.floats, self._plan)

    def _take_contenders(self, one: AggregateState, saved: Sequence[Any]) -> None:
        lists = [checked(each, "contenders") for each in saved]
        ids = np.array(list(chain.from_iterable(ids for ids, _ in lists)), dtype=np.int64)
        values = list(chain.from_iterable(values for _, values in lists))
        nodes = self._memory.begin(one.pool, len(ids))
        self._memory.words[one.pool + FREE] = -1
        words = np.array(values, dtype=np.float64 if one.kind == "float" else np.int64)
        nodes[:, NODE_ID], nodes[:, NODE_VALUE] = ids, words.view(np.int64)
        rank_of = self._memory.kernels.rank_of
        for node in nodes:
            node[NODE_RANK] = rank_of(int(node[NODE_VALUE]), int(node[NODE_ID]), one.ranked)
        places: IntArray = np.arange(len(ids))
        nodes[:, NODE_BEFORE], nodes[:, NODE_AFTER] = places - 1, places + 1
        begin = 0
        for row, (of_group, _) in zip(self._memory.rows(self._table), lists, strict=True):
            end = begin + len(of_group)
            row[one.at], row[one.at + 1] = (begin, end - 1) if of_group else (-1, -1)
            if of_group:
                nodes[begin, NODE_BEFORE] = nodes[end - 1, NODE_AFTER] = -1
            begin = end


def _saved_value(one: AggregateState, row: IntArray, pool: IntArray | None) -> Any:
    if one.what == COUNT_ALL:
        return int(row[AT])
    count = int(row[one.at])
    if one.what == COUNT:
        return count
    if one.what == BEST:
        assert pool is not None
        return _saved_contenders(one, count, pool)
    if one.what <= AVG_INT:
        return [count, in_bytes(int(row[one.at + 1]) + (int(row[one.at + 2]) << DIGIT_BITS))]
    digits: list[int] = row[
        one.at + SUM_DIGITS : one.at + SUM_DIGITS + int(row[one.at + SUM_HIGH])
    ].tolist()
    total = 0
    for digit in reversed(digits):
        total = (total << DIGIT_BITS) + digit
    return [count, in_bytes(total)]


def _saved_contenders(one: AggregateState, first: int, pool: IntArray) -> Any:
    places: list[int] = []
    while first >= 0:
        places.append(first)
        first = int(pool[first, NODE_AFTER])
    words = pool[places, NODE_VALUE]
    values = Vector(words, None).to_list()
    if one.kind == "float":
        values = words.view(np.float64).tolist()
    elif one.kind == "bool":
        values = [bool(each) for each in values]
    return [pool[places, NODE_ID].tolist(), values]


def _read_value(one: AggregateState, row: IntArray, saved: Any) -> None:
    match saved:
        case int(count) if one.what == COUNT:
            row[one.at] = count
        case int() if one.what == COUNT_ALL:
            pass
        case [int(count), bytes(total)] if one.what not in (COUNT, COUNT_ALL):
            whole = int.from_bytes(total, "big", signed=True)
            row[one.at] = count
            if one.what <= AVG_INT:
                row[one.at + 1], row[one.at + 2] = whole & DIGIT_MASK, whole >> DIGIT_BITS
            elif whole:
                _read_digits(row[one.at :], whole)
        case _:
            raise SnapshotError(f"not an aggregate: {saved!r}")


def _read_digits(state: IntArray, whole: int) -> None:
    low = ((whole & -whole).bit_length() - 1) // DIGIT_BITS
    high = whole.bit_length() // DIGIT_BITS + 2
    state[SUM_LOW], state[SUM_HIGH] = low, high
    whole >>= low * DIGIT_BITS
    for place in range(low, high - 1):
        state[SUM_DIGITS + place] = whole & DIGIT_MASK
        whole >>= DIGIT_BITS
    state[SUM_DIGITS + high - 1] = whole


class DelayedState:
    """The tuples of a stream that are not due, and how many have been."""

    def __init__(self, memory: Memory, plan: MemberPlan, given: int, queue: int | None) -> None:
        self._memory, self._plan, self._given, self._queue = memory, plan, given, queue
        self._kinds = tuple(plan.program.columns.values())
        self._read = DelayedTuples(plan)

    def held(self) -> int:
        """Number of tuples that are not due."""
        if self._queue is None:
            return 0
        words = self._memory.words
        return int(words[self._queue + TAIL] - words[self._queue + HEAD])

    def save(self) -> Pieces:
        """As `DelayedTuples` saves them."""
        given = int(self._memory.words[self._given + FIRST_ID])
        rows, texts = None, self._memory.texts
        if self._queue is not None:
            rows = self._memory.rows(self._queue).copy()

        def pieces() -> Iterator[State]:
            waiting = DelayedTuples(self._plan)
            waiting.given = given
            if rows is not None:
                for due in np.unique(rows[:, AT]).tolist():
                    frame = read_rows(rows[rows[:, AT] == due], self._kinds, texts)
                    waiting.frames.append((due, frame))
            yield from waiting.save()()

        return pieces

    def load(self, state: State) -> None:
        """Take the counts, or append tuples."""
        self._read.load(state)

    def loaded(self) -> None:
        """Have the machine hold the tuples."""
        waiting, self._read = self._read, DelayedTuples(self._plan)
        self._memory.words[self._given + FIRST_ID] = waiting.given
        if self._queue is None:
            if waiting.frames:
                raise SnapshotError("the snapshot has delayed tuples of a stream without delay")
            return
        rows = self._memory.begin(self._queue, waiting.held())
        begin = 0
        for due, frame in waiting.frames:
            some = rows[begin : begin + frame.length]
            some[:, AT] = due
            self._memory.write(some, frame.columns)
            begin += frame.length
