"""Partitions of a topic become one stream, ordered by (timestamp, partition, offset).

A reader may be far ahead in one partition and behind in another. If it took tuples as they come, a
backlog would be late. So each partition's tuples wait until all others have come as far: up to the
least of the partitions' newest timestamps (a watermark per partition). If that is the newest one of
several partitions, the first of them gives its tuples up, and the others wait for it. A partition
that has been read to its end, and has had nothing new for `idle_after` while the reader looked, is
not waited for.

Within a partition, tuples keep their order. One that is older than its predecessor waits for that
one; one that lies too far ahead of the clock waits for nothing, and holds nothing up.

Two readers of a topic may get its messages in different portions. With `by_key`, each tuple is
ordered by the newest timestamp up to it in its partition, which portions do not change.

This is plain code without clock or thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.vectors.chunk import NO_WATERMARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Tuples of all partitions, in order.

    Attributes
    ----------
    places
        Partition → the offset to continue with once these tuples are taken in.
    """

    rows: pa.RecordBatch
    places: dict[int, int]


@dataclass(slots=True)
class _Bunch:
    rows: pa.RecordBatch
    keys: IntArray
    offsets: IntArray
    next_offset: int


@dataclass(slots=True)
class _Partition:
    newest: int = NO_WATERMARK
    at_end: bool = False
    moved_us: int = 0
    held_bytes: int = 0
    waiting: deque[_Bunch] = field(default_factory=deque[_Bunch])


class PartitionMerge:
    """The tuples of a topic's partitions that wait for each other.

    Parameters
    ----------
    schema
        The stream's.
    waits
        Whether partitions wait for each other; not if time goes by arrival.
    idle_after_us
        Silence after which a partition that is read to its end is not waited for; None: never.
    by_key
        Whether the order must be the same however much is read at once.
    """

    def __init__(
        self, schema: pa.Schema, *, waits: bool, idle_after_us: int | None, by_key: bool = False
    ) -> None:
        self._schema = schema
        self._by_key = by_key
        self._waits = waits
        self._idle_after_us = idle_after_us
        self._partitions: dict[int, _Partition] = {}

    def begin(self, partition: int, now_us: int) -> None:
        """Wait for a partition."""
        self._partitions[partition] = _Partition(moved_us=now_us)

    def add(
        self,
        partition: int,
        rows: pa.RecordBatch,
        offsets: IntArray,
        next_offset: int,
        now_us: int,
        *,
        most_ms: int | None = None,
    ) -> None:
        """Take what was read next.

        Parameters
        ----------
        offsets
            Of the rows.
        next_offset
            Of what follows; some before it may have held no row.
        most_ms
            Later timestamps lie too far ahead.
        """
        each = self._partitions[partition]
        stamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        if most_ms is not None:
            stamps = np.where(stamps > most_ms, NO_WATERMARK, stamps)
        keys = np.maximum.accumulate(np.append(each.newest, stamps))[1:]
        if len(keys):
            each.newest = int(keys[-1])
        each.waiting.append(_Bunch(rows, keys, offsets, next_offset))
        each.held_bytes += rows.nbytes
        each.at_end, each.moved_us = False, now_us

    def looked_away(self, us: int) -> None:
        """Note that nothing was read for a while: nobody was silent meanwhile."""
        for each in self._partitions.values():
            each.moved_us += us

    @property
    def is_at_end(self) -> bool:
        """Whether everything has been read that there was, and nothing of it waits here."""
        return all(each.at_end and not each.waiting for each in self._partitions.values())

    def at_end(self, partition: int) -> None:
        """Note that a partition has nothing more for now."""
        self._partitions[partition].at_end = True

    def held_bytes(self, partition: int) -> int:
        """What waits of a partition."""
        return self._partitions[partition].held_bytes

    def take(self, now_us: int) -> Merged | None:
        """Tuples that need not wait any more, or the places after what held none; None: nothing."""
        frontier = self._frontier(now_us)
        found: list[tuple[int, _Bunch]] = []
        places: dict[int, int] = {}
        for number, each in sorted(self._partitions.items()):
            for bunch in _released(each, _passed(number, frontier)):
                places[number] = bunch.next_offset
                if bunch.rows.num_rows:
                    found.append((number, bunch))
        if not places:
            return None
        return Merged(rows=self._ordered(found), places=places)

    def _frontier(self, now_us: int) -> tuple[int, int] | None:
        """Key and partition up to which all is released; None: all is."""
        if not self._waits:
            return None
        waited = [
            (each.newest, number)
            for number, each in self._partitions.items()
            if not self._idle(each, now_us)
        ]
        return min(waited, default=None)

    def _idle(self, each: _Partition, now_us: int) -> bool:
        if self._idle_after_us is None or not each.at_end:
            return False
        return now_us - each.moved_us >= self._idle_after_us

    def _ordered(self, found: list[tuple[int, _Bunch]]) -> pa.RecordBatch:
        if not found:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        rows = pa.concat_batches([bunch.rows for _, bunch in found])
        stamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        if self._by_key:
            stamps = np.concatenate([bunch.keys for _, bunch in found])
        counts = [len(bunch.offsets) for _, bunch in found]
        partitions = np.repeat([number for number, _ in found], counts)
        offsets = np.concatenate([bunch.offsets for _, bunch in found])
        order = np.lexsort((offsets, partitions, stamps))
        return rows.take(pa.array(order))


def _passed(partition: int, frontier: tuple[int, int] | None) -> int | None:
    """The last key that a partition gives up; None: any."""
    if frontier is None:
        return None
    key, last = frontier
    return key if partition <= last else key - 1


def _released(each: _Partition, most: int | None) -> Iterable[_Bunch]:
    """What a partition gives up, up to a key."""
    while each.waiting:
        bunch = each.waiting[0]
        count = len(bunch.keys)
        if most is not None:
            count = int(np.searchsorted(bunch.keys, most, side="right"))
        if count == len(bunch.keys):
            each.waiting.popleft()
            each.held_bytes -= bunch.rows.nbytes
            yield bunch
            continue
        if count:
            each.held_bytes -= bunch.rows.nbytes
            rest = _Bunch(
                bunch.rows.slice(count),
                bunch.keys[count:],
                bunch.offsets[count:],
                bunch.next_offset,
            )
            each.waiting[0] = rest
            each.held_bytes += rest.rows.nbytes
            begun = bunch.rows.slice(0, count), bunch.keys[:count], bunch.offsets[:count]
            yield _Bunch(*begun, int(bunch.offsets[count]))
        return
