"""Event time of a live source: tuples that arrive in any order become a stream in order.

Time comes from a column, or is the arrival. From a column, tuples may come out of order by `slack`:
the *watermark* stays that far behind the newest timestamp, and one millisecond more, because more
tuples of the newest timestamp may follow. Tuples wait until the watermark has reached them, and
leave in the order of their timestamps; of equals, the earlier arrival comes first. A tuple at or
before the watermark is *late*: its timestamp is complete, so it cannot enter any more, and is
counted. A tuple further ahead of the clock than `max_ahead` is counted too, and does not enter: it
would drag the watermark with it, and make everything else late.

A source that is silent for `idle_after` must not hold up streams that are joined with it. Its
watermark then advances with the clock, from where it was when the silence began. If time is the
arrival, it always advances with the clock. While the site was away, or consumers held the stream
up, clients could not send. So silence begins only when the source is opened or has room again, and
clients have had time to come back.

Whether tuples that come together are late depends on the tuples before all of them. Two sites that
get the same tuples in different portions must judge alike; there each tuple is judged by the tuples
before itself (`one_by_one`).

This is plain code without clock or thread. Its output depends only on its input and the times that
are passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray, IntArray
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from orchestrator.records import WaitingInput
from streams.vectors.chunk import NO_WATERMARK

ANY_BYTES = 2**62

MOST_WATERMARKS = 64
"""Watermarks of one release. Engines divide their work there, and each costs something."""

EARLIEST_MS = -62_135_596_800_000
"""The year 1 begins. An earlier timestamp is a mistake of its unit, and counts as late."""

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999. A later timestamp is a mistake of its unit, and counts as too far ahead
whatever `max_ahead` is: a watermark that goes there never comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """How a source's event time advances.

    Attributes
    ----------
    by_arrival
        Whether the timestamp of a tuple is when it arrived.
    slack_ms
        By how much tuples may come out of order.
    idle_after_ms
        Silence after which the clock advances the watermark; None: never.
    max_ahead_ms
        How far a timestamp may lie ahead of the clock; None: as far as it likes.
    one_by_one
        Whether lateness must not depend on how many tuples come together.
    returns_ms
        How long it may take clients that could not speak to come back.
    """

    by_arrival: bool = True
    slack_ms: int = 0
    idle_after_ms: int | None = 1000
    max_ahead_ms: int | None = 60_000
    one_by_one: bool = False
    returns_ms: int = 0

    def most_ms(self, arrived_us: int) -> int:
        """The last timestamp that is not too far ahead of its arrival."""
        if self.max_ahead_ms is None:
            return LATEST_MS
        return min(arrived_us // 1000 + self.max_ahead_ms, LATEST_MS)

    def newest_ms(self, rows: pa.RecordBatch, arrived_us: int) -> int:
        """The newest timestamp of tuples that is not too far ahead."""
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        admitted = timestamps[timestamps <= self.most_ms(arrived_us)]
        return int(admitted.max(initial=NO_WATERMARK))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Number of tuples that did not enter, and the tuples."""

    late: int = 0
    ahead: int = 0
    late_rows: pa.RecordBatch | None = field(default=None, compare=False, repr=False)
    ahead_rows: pa.RecordBatch | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A part of the stream that is complete up to its last watermark.

    Attributes
    ----------
    rows
        In order, with the stream's schema.
    watermarks_ms
        Rising, at least one; the last one is at or past every row.
    """

    rows: pa.RecordBatch
    watermarks_ms: IntArray


@dataclass(slots=True)
class Orderer:
    """Tuples of one stream that wait for their turn.

    Attributes
    ----------
    schema
        The stream's: the timestamp first.
    time
        How event time advances.
    waiting
        Tuples that were accepted and not released.
    is_behind
        Whether the last release left out tuples that were due.
    watermark_ms
        Everything up to it has been released.
    newest_ms
        The newest timestamp that was accepted.
    silent_since_us
        Since when no client has sent anything, though clients could; cluster clock.
    silent_from_ms
        The watermark when that silence began. It may be far past the newest tuple, if a silence
        before has ended without one.
    waits_since_us
        Since when tuples wait and none has been released, cluster clock; None: nothing waits.
    """

    schema: pa.Schema
    time: EventTime
    waiting: WaitingTuples
    is_behind: bool = False
    watermark_ms: int = NO_WATERMARK
    newest_ms: int = NO_WATERMARK
    silent_since_us: int = 0
    silent_from_ms: int = NO_WATERMARK
    waits_since_us: int | None = None

    @property
    def waiting_input(self) -> WaitingInput | None:
        """How much waits, since when, and for what; None: nothing waits."""
        if self.waits_since_us is None:
            return None
        waits_for_time = not (self.is_behind or self.time.by_arrival)
        slack_ms, idle_after_ms = self.time.slack_ms, self.time.idle_after_ms
        return WaitingInput(
            tuples=self.waiting.count,
            bytes=self.waiting.size_bytes,
            since_us=self.waits_since_us,
            for_ms=self.newest_ms + slack_ms + 1 if waits_for_time else None,
            until_idle_ms=None
            if idle_after_ms is None or not waits_for_time
            else idle_after_ms + slack_ms,
        )

    def resume(
        self,
        watermark_ms: int,
        newest_ms: int,
        waiting: Iterable[pa.RecordBatch],
        now_us: int,
    ) -> None:
        """Continue where another process was."""
        self.watermark_ms, self.newest_ms = watermark_ms, newest_ms
        if newest_ms != NO_WATERMARK:
            self.excuse(now_us)
        for rows in waiting:
            self.waiting.add(rows)
            self.waiting.settle()
        self._note_wait(now_us)

    def accept(self, rows: pa.RecordBatch, arrived_us: int) -> tuple[pa.RecordBatch, Refusals]:
        """Take tuples in; returns those that wait now, and how many were refused.

        Parameters
        ----------
        rows
            With the stream's schema. By arrival, the timestamps are replaced.
        """
        if not rows.num_rows:
            return rows, Refusals()
        if self.time.by_arrival:
            stamp = max(arrived_us // 1000, self.watermark_ms + 1, self.newest_ms)
            rows = _stamped(rows, np.full(rows.num_rows, stamp, dtype=np.int64), self.schema)
            return self._wait(rows, stamp, arrived_us), Refusals()
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        ahead: BoolArray = timestamps > self.time.most_ms(arrived_us)
        # Tuples that do not enter make no others late.
        counted = np.where(ahead, NO_WATERMARK, timestamps)
        late: BoolArray = timestamps <= self._complete_ms(counted)
        refusals = Refusals(late=int(np.count_nonzero(late)), ahead=int(np.count_nonzero(ahead)))
        if refusals.late or refusals.ahead:
            refusals = replace(
                refusals,
                late_rows=rows.filter(pa.array(late)) if refusals.late else None,
                ahead_rows=rows.filter(pa.array(ahead)) if refusals.ahead else None,
            )
            admitted = ~(late | ahead)
            rows, timestamps = rows.filter(pa.array(admitted)), timestamps[admitted]
        if not rows.num_rows:
            return rows, refusals
        return self._wait(rows, int(timestamps.max()), arrived_us), refusals

    def excuse(self, now_us: int) -> None:
        """Note that clients could not send until now, and have to come back."""
        self.heard(now_us + 1000 * self.time.returns_ms)

    def heard(self, now_us: int) -> None:
        """Count silence from now on."""
        if now_us > self.silent_since_us:
            self.silent_since_us, self.silent_from_ms = now_us, self.watermark_ms

    def release(self, now_us: int, most_bytes: int = ANY_BYTES) -> Released | None:
        """The tuples that are complete by now, with a watermark; None if there is nothing new.

        Parameters
        ----------
        most_bytes
            Size of the release, unless one timestamp has more. The next one goes on there. 0:
            nothing.
        """
        target_ms = self._target_ms(now_us)
        self.is_behind = target_ms > self.watermark_ms
        if not self.is_behind or not most_bytes:
            self.waiting.settle()
            self._note_wait(now_us)
            return None
        rows, self.watermark_ms = self.waiting.take(target_ms, most_bytes)
        self.is_behind = target_ms > self.watermark_ms
        self.waiting.settle()
        if rows.num_rows:
            self.waits_since_us = None
        self._note_wait(now_us)
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        return Released(rows=rows, watermarks_ms=_watermarks_ms(timestamps, self.watermark_ms))

    def _complete_ms(self, timestamps: IntArray) -> IntArray | int:
        """Up to where timestamps are complete: for each tuple, or for all that come together."""
        known_ms = max(self.watermark_ms, EARLIEST_MS - 1)
        if not self.time.one_by_one:
            return known_ms
        newest_ms = np.maximum.accumulate(np.append(self.newest_ms, timestamps))[:-1]
        least_ms = EARLIEST_MS + self.time.slack_ms
        return np.maximum(np.maximum(newest_ms, least_ms) - self.time.slack_ms - 1, known_ms)

    def _wait(self, rows: pa.RecordBatch, newest_ms: int, arrived_us: int) -> pa.RecordBatch:
        self.newest_ms = max(self.newest_ms, newest_ms)
        self.heard(arrived_us)
        self.waiting.add(rows)
        return rows

    def _note_wait(self, now_us: int) -> None:
        if not self.waiting.size_bytes:
            self.waits_since_us = None
        elif self.waits_since_us is None:
            self.waits_since_us = now_us

    def _target_ms(self, now_us: int) -> int:
        """The watermark that holds now."""
        if self.time.by_arrival:
            # Whatever arrives from now on gets a later timestamp.
            return max(now_us // 1000 - 1, self.newest_ms)
        if self.newest_ms == NO_WATERMARK:
            return NO_WATERMARK
        target_ms = self.newest_ms - self.time.slack_ms - 1
        silent_ms = (now_us - self.silent_since_us) // 1000
        idle_after_ms = self.time.idle_after_ms
        if idle_after_ms is not None and silent_ms >= idle_after_ms:
            from_ms = max(self.newest_ms - self.time.slack_ms, self.silent_from_ms)
            target_ms = max(target_ms, from_ms + silent_ms - idle_after_ms)
        return target_ms


def _stamped(rows: pa.RecordBatch, timestamps: IntArray, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(timestamps), *rows.columns[1:]], schema=schema)


def _watermarks_ms(timestamps: IntArray, target_ms: int) -> IntArray:
    """Some of the timestamps, evenly by tuples, and the target."""
    if len(timestamps) > MOST_WATERMARKS:
        timestamps = timestamps[np.linspace(0, len(timestamps) - 1, MOST_WATERMARKS).astype(int)]
    return np.union1d(timestamps, np.array([target_ms], dtype=np.int64))
