"""Rows of a stream in order of arrival; any of them may be discarded.

The rows are stored in *segments*: arrays with spare room at the end. A discarded row is flagged
dead, and its place is reclaimed later. The last segment takes new rows. When its room is used up,
it is made anew without its dead rows; if few of its rows are dead, another segment begins. Older
segments that have become half empty are joined, a few each time. Appending and discarding therefore
cost O(1) per row on average, and no single call moves more than some ten thousand rows, however
many are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.vectors.state import (
    SAMPLED_ROWS,
    Pieces,
    SnapshotError,
    State,
    piece_rows,
    read_frame,
    write_frame,
)
from streams.vectors.vector import (
    Array,
    Frame,
    Positions,
    Rows,
    RowsAt,
    Vector,
    concat_frames,
    storage,
)

FIRST_CAPACITY = 64

SEGMENT_ROWS = 1 << 16
"""Most rows of a segment, a power of two."""

JOINS = 2
"""Most joins when a segment begins: each makes one segment fewer, so two keep up and catch up."""

_no_places: Positions = np.empty(0, dtype=np.intp)


class _Segment:
    """Rows that follow each other.

    Attributes
    ----------
    head, tail
        Every row before `head` is dead; the spare room begins at `tail`.
    kept
        Number of living rows.
    """

    __slots__ = ("alive", "head", "ids", "kept", "tail", "timestamps", "valid", "values")

    def __init__(self, kinds: Sequence[str], capacity: int) -> None:
        self.head = self.tail = self.kept = 0
        self.ids: IntArray = np.empty(capacity, dtype=np.int64)
        self.timestamps: IntArray = np.empty(capacity, dtype=np.int64)
        self.alive: BoolArray = np.zeros(capacity, dtype=np.bool_)
        self.values: list[Array] = [np.empty(capacity, storage[kind]) for kind in kinds]
        self.valid: list[BoolArray | None] = [None for _ in kinds]

    @property
    def capacity(self) -> int:
        return len(self.ids)

    def append(self, ids: IntArray, timestamps: IntArray, rows: Frame) -> None:
        """Append rows, for which there is room."""
        start, stop = self.tail, self.tail + rows.length
        self.ids[start:stop] = ids
        self.timestamps[start:stop] = timestamps
        self.alive[start:stop] = True
        for index, (values, valid) in enumerate(rows.columns):
            self.values[index][start:stop] = values
            kept = self.valid[index]
            if valid is not None and kept is None:
                kept = self.valid[index] = np.ones(len(self.ids), dtype=np.bool_)
            if kept is not None:
                kept[start:stop] = True if valid is None else valid
        self.tail = stop
        self.kept += rows.length

    def take_from(self, other: _Segment) -> None:
        """Append the living rows of another segment."""
        where: slice | Positions = slice(other.head, other.tail)
        if other.kept < other.tail - other.head:
            where = other.head + np.flatnonzero(other.alive[where])
        rows = other.rows(where, other.kept)
        self.append(other.ids[where], other.timestamps[where], rows)

    def rows(self, where: slice | Positions, length: int) -> Frame:
        """The rows at some places."""
        columns = zip(self.values, self.valid, strict=True)
        return Frame(tuple(Vector(values, valid).take(where) for values, valid in columns), length)

    def until(self, timestamp_ms: int) -> Positions:
        """Places of the living rows with that timestamp or an earlier one."""
        timestamps = self.timestamps[self.head : self.tail]
        count = int(np.searchsorted(timestamps, timestamp_ms, side="right"))
        return self.head + np.flatnonzero(self.alive[self.head : self.head + count])

    def oldest(self, count: int) -> Positions:
        """Places of the `count` oldest living rows, or of all."""
        first = (self.alive[self.head : self.head + count]).nonzero()[0]
        if len(first) == count:
            # Always true of a log that loses only its oldest rows: no need to look further.
            return self.head + first
        return self.head + np.flatnonzero(self.alive[self.head : self.tail])[:count]

    def discard(self, places: Positions) -> None:
        """Flag rows dead."""
        self.alive[places] = False
        self.kept -= len(places)
        if not self.kept:
            self.head = self.tail
        while self.head < self.tail and not self.alive[self.head]:
            self.head += 1


def _in_order(positions: Positions) -> tuple[Positions, Positions | None]:
    """Positions in order, and where each given one is among them; None: they were in order."""
    if (positions[1:] >= positions[:-1]).all():
        return positions, None
    order = positions.argsort(kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return positions[order], places


class RowLog:
    """Rows with an identity that rises and a timestamp that never falls.

    Positions of rows are valid until rows are added or discarded. They are given in order, but to
    those who look at rows in any order.

    Parameters
    ----------
    kinds
        Types of the columns.
    segment_rows
        Most rows of a segment, a power of two.
    """

    def __init__(self, kinds: Sequence[str], segment_rows: int = SEGMENT_ROWS) -> None:
        self._kinds = tuple(kinds)
        self._most = segment_rows
        self._segments = [_Segment(self._kinds, min(FIRST_CAPACITY, segment_rows))]
        self._kept = 0

    def __len__(self) -> int:
        return self._kept

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self._segments)

    @property
    def capacity(self) -> int:
        """Rows for which there are places, dead ones included."""
        return sum(segment.capacity for segment in self._segments)

    def append(self, ids: IntArray, timestamps: IntArray, rows: Frame) -> None:
        """Append rows."""
        done = 0
        while done < rows.length:
            last = self._segments[-1]
            if last.tail == last.capacity or (
                last.capacity < self._most and last.tail + rows.length - done > last.capacity
            ):
                last = self._make_room(rows.length - done)
            stop = min(done + last.capacity - last.tail, rows.length)
            part = slice(done, stop)
            last.append(ids[part], timestamps[part], rows.slice(done, stop))
            done = stop
        self._kept += rows.length

    def _make_room(self, added: int) -> _Segment:
        """A last segment with room for at least one row."""
        last = self._segments[-1]
        if last.kept > self._most // 2:
            self._join()
            made = _Segment(self._kinds, self._most)
            self._segments.append(made)
            return made
        capacity = min(max(last.capacity, _capacity(last.kept + added)), self._most)
        made = self._segments[-1] = _Segment(self._kinds, capacity)
        made.take_from(last)
        return made

    def _join(self) -> None:
        """Drop segments without living rows, and join some that have few."""
        segments = [segment for segment in self._segments if segment.kept]
        joins = at = 0
        while joins < JOINS and at + 1 < len(segments):
            one, other = segments[at], segments[at + 1]
            if one.kept + other.kept > self._most // 2:
                at += 1
                continue
            made = _Segment(self._kinds, one.kept + other.kept)
            made.take_from(one)
            made.take_from(other)
            segments[at : at + 2] = [made]
            joins += 1
        self._segments = segments

    def positions(self, ids: IntArray) -> Positions:
        """Places of the living rows with these identities, which rise."""
        if len(self._segments) == 1:
            only = self._segments[0]
            return only.head + np.searchsorted(only.ids[only.head : only.tail], ids)
        firsts = np.array([segment.ids[0] for segment in self._segments])
        found: list[Positions] = []
        for index, part in self._parts(np.searchsorted(ids, firsts)[1:], len(ids)):
            segment = self._segments[index]
            within = np.searchsorted(segment.ids[segment.head : segment.tail], ids[part])
            found.append(index * self._most + segment.head + within)
        return np.concatenate(found) if found else _no_places

    def until(self, timestamp_ms: int) -> Positions:
        """Places of the rows with that timestamp or an earlier one."""
        found: list[Positions] = []
        for index, segment in enumerate(self._segments):
            places = segment.until(timestamp_ms)
            found.append(index * self._most + places)
            if len(places) < segment.kept:
                break
        return found[0] if len(found) == 1 else np.concatenate(found)

    def oldest(self, count: int) -> Positions:
        """Places of the `count` oldest rows."""
        found: list[Positions] = []
        for index, segment in enumerate(self._segments):
            places = segment.oldest(count)
            found.append(index * self._most + places)
            count -= len(places)
            if not count:
                break
        return found[0] if len(found) == 1 else np.concatenate(found)

    def newest(self, count: int) -> Positions:
        """Places of the `count` rows appended last, of which none has been discarded."""
        found: list[Positions] = []
        for index in range(len(self._segments) - 1, -1, -1):
            tail = self._segments[index].tail
            begin = max(tail - count, 0)
            found.append(index * self._most + np.arange(begin, tail))
            count -= tail - begin
            if not count:
                break
        return found[0] if len(found) == 1 else np.concatenate(found[::-1])

    def rows(self, positions: Positions) -> Rows:
        """Rows at some positions. They stay as they are when rows are added or discarded."""
        if len(self._segments) == 1:
            only = self._segments[0]
            return RowsAt(list(map(Vector, only.values, only.valid)), positions)
        return self.take(positions)

    def take(self, positions: Positions) -> Frame:
        """A copy of the rows at some positions."""
        ordered, places = _in_order(positions)
        frames = [
            self._segments[index].rows(within, len(within))
            for index, within in self._by_segment(ordered)
        ]
        found = concat_frames(frames) if frames else self._segments[0].rows(positions, 0)
        return found if places is None else found.take(places)

    def ids(self, positions: Positions) -> IntArray:
        """Identities of the rows at some positions."""
        return self._gathered([segment.ids for segment in self._segments], positions)

    def timestamps(self, positions: Positions) -> IntArray:
        """Timestamps of the rows at some positions."""
        return self._gathered([segment.timestamps for segment in self._segments], positions)

    def _gathered(self, columns: Sequence[IntArray], positions: Positions) -> IntArray:
        """The values at some positions of what each segment has."""
        if len(columns) == 1:
            return columns[0][positions]
        ordered, places = _in_order(positions)
        parts = [columns[index][at] for index, at in self._by_segment(ordered)]
        found = np.concatenate(parts) if parts else columns[0][:0]
        return found if places is None else found[places]

    def discard(self, positions: Positions) -> None:
        """Remove rows."""
        for index, places in self._by_segment(positions):
            self._segments[index].discard(places)
        self._kept -= len(positions)
        while len(self._segments) > 1 and not self._segments[0].kept:
            del self._segments[0]

    def _by_segment(self, positions: Positions) -> Iterator[tuple[int, Positions]]:
        """The places within each segment that some positions lie in."""
        ends = np.arange(1, len(self._segments)) * self._most
        for index, part in self._parts(np.searchsorted(positions, ends), len(positions)):
            yield index, positions[part] - index * self._most

    def _parts(self, begins: Positions, length: int) -> Iterator[tuple[int, slice]]:
        """The segments that have a part of an array, by where that of each but the first begins."""
        begin = 0
        for index, end in enumerate([*begins.tolist(), length]):
            if begin < end:
                yield index, slice(begin, end)
                begin = end

    def oldest_ms(self) -> int | None:
        """Timestamp of the oldest row; None if there is none."""
        if not self._kept:
            return None
        first = next(segment for segment in self._segments if segment.kept)
        return int(first.timestamps[first.head])

    def save(self) -> Pieces:
        """The living rows.

        Rows are never overwritten where they lie, only flagged dead: a copy of the flags suffices.
        The pieces do not depend on the segments.
        """
        saved = [_saved(segment) for segment in self._segments if segment.kept]

        def pieces() -> Iterator[State]:
            keys: list[Frame] = []
            rows: list[Frame] = []
            most = room = piece_rows(_first(saved)) if saved else 0
            for alive, their_keys, their_rows in saved:
                living = alive.nonzero()[0]
                begin = 0
                while begin < len(living):
                    places = living[begin : begin + room]
                    keys.append(their_keys.take(places))
                    rows.append(their_rows.take(places))
                    begin, room = begin + len(places), room - len(places)
                    if not room:
                        yield self._piece(keys, rows)
                        keys, rows, room = [], [], most
            if keys:
                yield self._piece(keys, rows)

        return pieces

    def _piece(self, keys: list[Frame], rows: list[Frame]) -> State:
        return State(
            frames={
                "keys": write_frame(concat_frames(keys), ("int", "int")),
                "rows": write_frame(concat_frames(rows), self._kinds),
            }
        )

    def load(self, state: State) -> None:
        """Append saved rows.

        Raises
        ------
        SnapshotError
            The rows are not those of a log.
        """
        keys = read_frame(state.frames["keys"], ("int", "int"))
        rows = read_frame(state.frames["rows"], self._kinds)
        ids, timestamps = keys[0].values, keys[1].values
        last = self._segments[-1]
        if (
            rows.length != keys.length
            or not rows.length
            or (last.tail and ids[0] <= last.ids[last.tail - 1])
            or (last.tail and timestamps[0] < last.timestamps[last.tail - 1])
            or np.any(np.diff(ids) <= 0)
            or np.any(np.diff(timestamps) < 0)
        ):
            raise SnapshotError("rows of a window are not in order")
        self.append(ids, timestamps, rows)


def _saved(segment: _Segment) -> tuple[BoolArray, Frame, Frame]:
    """Which of a segment's rows live now; their identities and timestamps; the rows."""
    part = slice(segment.head, segment.tail)
    length = segment.tail - segment.head
    keys = (Vector(segment.ids[part], None), Vector(segment.timestamps[part], None))
    return segment.alive[part].copy(), Frame(keys, length), segment.rows(part, length)


def _first(saved: Sequence[tuple[BoolArray, Frame, Frame]]) -> Frame:
    """The first living rows of segments, of which there are some."""
    found: list[Frame] = []
    missing = SAMPLED_ROWS
    for alive, _, rows in saved:
        living = np.flatnonzero(alive)[:missing]
        found.append(rows.take(living))
        missing -= len(living)
        if not missing:
            break
    return concat_frames(found)


def _capacity(rows: int) -> int:
    """Room for as many rows again, rounded up to a power of two."""
    return max(FIRST_CAPACITY, 1 << (2 * rows - 1).bit_length())
