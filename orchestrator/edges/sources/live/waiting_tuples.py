"""Tuples of a live source that wait until their timestamps are complete: memory, then a file.

A long `slack`, many tuples of one timestamp, or a client whose clock stands still makes many tuples
wait. So few of them stay in memory. The others lie in *runs*: sorted pieces in files, which are
mapped and read when their turn comes (an external merge sort). The files have no names and do not
outlive the process; the journal keeps accepted tuples. The whole is bounded, too. Beyond the bound,
only tuples should be added that end the wait of many.

Of equal timestamps, the earlier arrival comes first.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from foundation.arrays import IntArray
from orchestrator.folders import PRIVATE

MEMORY_BYTES = 8 * 2**20
"""In memory, unless told otherwise."""

BATCH_BYTES = 1024
"""Memory of a batch besides its tuples, about."""

OPENING_SHARE = 1 / 16
"""Of all that may wait. Whatever ends the wait of so much may be added although it is full."""

MOST_WAITING_BYTES = 2**28
"""In memory and in files, unless told otherwise."""


@dataclass(slots=True)
class _Sorted:
    """Tuples in the order of their timestamps."""

    rows: pa.RecordBatch
    timestamps: IntArray
    whole: int
    """How many there were at first."""

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> _Sorted:
        """Rows that are in order."""
        return cls(rows, rows.column(0).to_numpy(zero_copy_only=False), rows.num_rows)

    def until(self, watermark_ms: int) -> int:
        """How many of them come up to a watermark."""
        return int(self.timestamps.searchsorted(watermark_ms, side="right"))

    def take(self, count: int) -> pa.RecordBatch:
        """Remove the first ones."""
        taken = self.rows.slice(0, count)
        self.rows, self.timestamps = self.rows.slice(count), self.timestamps[count:]
        return taken


class WaitingTuples:
    """Tuples of one stream that were accepted and have not come to their turn.

    Parameters
    ----------
    schema
        The stream's: the timestamp first.
    memory_bytes
        Bytes that stay in memory at most, besides tuples added since `settle`.
    folder
        For files; None: the system's folder for temporary files.
    most_bytes
        The bound of memory and files together.

    Attributes
    ----------
    size_bytes
        Bytes of the waiting tuples, in memory and in files.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        memory_bytes: int = MEMORY_BYTES,
        folder: Path | None = None,
        most_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._most_bytes = most_bytes
        self._runs: list[_Sorted] = []
        """In files, in the order of arrival."""
        self._latest: list[pa.RecordBatch] = []
        """In memory, as they came."""
        self._latest_bytes = 0
        self.size_bytes = 0

    @property
    def count(self) -> int:
        """How many tuples wait."""
        runs = sum(run.rows.num_rows for run in self._runs)
        return runs + sum(rows.num_rows for rows in self._latest)

    @property
    def opens_ms(self) -> int | None:
        """Up to where tuples would have to leave, before others should be added; None: nowhere."""
        if self.size_bytes < self._most_bytes:
            return None
        parts = [*self._runs, *self._sorted_latest()]
        latest_ms = max(int(part.timestamps[-1]) for part in parts)
        little_ms = _within(parts, latest_ms, int(OPENING_SHARE * self._most_bytes))
        afterwards = [part.timestamps[part.until(little_ms) :] for part in parts]
        return min((int(left[0]) for left in afterwards if len(left)), default=little_ms)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The waiting tuples; of equal timestamps, the earlier arrival first."""
        yield from (run.rows for run in self._runs)
        yield from self._latest

    def add(self, rows: pa.RecordBatch) -> None:
        """Let tuples wait."""
        if rows.num_rows:
            self._latest.append(rows)
            self._latest_bytes += rows.nbytes
            self.size_bytes += rows.nbytes

    def take(self, until_ms: int, most_bytes: int) -> tuple[pa.RecordBatch, int]:
        """Remove the tuples up to a timestamp, or fewer; returns them in order, and up to where.

        Parameters
        ----------
        most_bytes
            Size of the removed tuples, unless one timestamp has more.
        """
        latest = self._sorted_latest()
        parts = [*self._runs, *latest]
        until_ms = _within(parts, until_ms, most_bytes)
        taken = [part.take(part.until(until_ms)) for part in parts]
        self._runs = [run for run in self._runs if run.rows.num_rows]
        self._latest = [part.rows for part in latest if part.rows.num_rows]
        self._count()
        return _sorted(taken, self._schema).rows, until_ms

    def settle(self) -> None:
        """Write tuples beyond `memory_bytes` into a file.

        Raises
        ------
        OSError
            The disk does not take it.
        """
        if self._latest_bytes > self._memory_bytes:
            self._runs.append(self._written(_sorted(self._latest, self._schema).rows))
            self._latest = []
            self._count()
        elif BATCH_BYTES * len(self._latest) > self._memory_bytes:
            self._sorted_latest()
        self._merge()

    def _merge(self) -> None:
        """Write neighbours together of which no more waits than there was in one: files go."""
        merged: list[_Sorted] = []
        for run in self._runs:
            before = merged[-1] if merged else run
            left = before.rows.num_rows + run.rows.num_rows
            if before is run or left > max(before.whole, run.whole):
                merged.append(run)
            else:
                rows = _sorted([before.rows, run.rows], self._schema).rows
                merged[-1] = self._written(rows)
        self._runs = merged

    def _sorted_latest(self) -> list[_Sorted]:
        """The tuples in memory as one part; none if there are none."""
        if not self._latest:
            return []
        latest = _sorted(self._latest, self._schema)
        self._latest = [latest.rows]
        return [latest]

    def _count(self) -> None:
        self._latest_bytes = sum(rows.nbytes for rows in self._latest)
        self.size_bytes = self._latest_bytes + sum(run.rows.nbytes for run in self._runs)

    def _written(self, rows: pa.RecordBatch) -> _Sorted:
        """Rows in a file without a name."""
        if self._folder is not None:
            # It may have been removed since.
            self._folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            with contextlib.closing(ipc.new_file(file, self._schema)) as writer:
                writer.write_batch(rows)
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # The map stays, and goes with the last of its rows.
        return _Sorted.of(ipc.open_file(pa.py_buffer(mapped)).get_batch(0))


def _sorted(batches: list[pa.RecordBatch], schema: pa.Schema) -> _Sorted:
    """All of them in the order of their timestamps; equal ones stay as they come."""
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return _Sorted.of(pa.RecordBatch.from_pylist([], schema=schema))
    made = _Sorted.of(pa.concat_batches(found) if len(found) > 1 else found[0])
    if np.all(made.timestamps[1:] >= made.timestamps[:-1]):
        return made
    order = np.argsort(made.timestamps, kind="stable")
    return _Sorted.of(made.rows.take(pa.array(order)))


def _within(parts: list[_Sorted], until_ms: int, most_bytes: int) -> int:
    """The latest timestamp, `until_ms` at most, up to which they take no more; the first anyhow."""

    def too_much(at_ms: int) -> bool:
        taken = [(part, count) for part in parts if (count := part.until(at_ms))]
        return sum(part.rows.slice(0, count).nbytes for part, count in taken) > most_bytes

    if not too_much(until_ms):
        return until_ms
    least_ms = min(int(part.timestamps[0]) for part in parts if part.rows.num_rows)
    most_ms = until_ms
    while least_ms + 1 < most_ms:
        middle_ms = (least_ms + most_ms) // 2
        if too_much(middle_ms):
            most_ms = middle_ms
        else:
            least_ms = middle_ms
    return least_ms
