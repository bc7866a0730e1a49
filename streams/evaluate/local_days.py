"""Evaluation of a statement whose windows are days of a time zone, some of which are shorter.

Around an evaluation that knows only lengths of time: it is told times in which all days are equally
long (`streams.plan.local_days`). What it gives is told in milliseconds again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.protocol import Evaluation, Pass, Showing
from streams.expressions.time_zones import LocalDays, day_begins
from streams.plan.local_days import DAY, DAY_MS, LONGEST_MS
from streams.plan.program import DAY_BITS, Program
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.state import Stateful


class FarTimestampError(ValueError):
    """A timestamp has no day."""


class EqualDays:
    """Tells milliseconds in times in which all days are equally long, and back.

    A time is the number of a day, from 1970-01-01, and the milliseconds since it began.

    Examples
    --------
    >>> equal = EqualDays(LocalDays("Europe/Berlin"))
    >>> day, rest = divmod(int(equal.times(np.array([-1]))[0]), DAY)
    >>> day, rest
    (0, 3599999)
    """

    def __init__(self, days: LocalDays) -> None:
        self._begins_ms, self._zero = day_begins(days)

    def times(self, at_ms: IntArray) -> IntArray:
        """The times of milliseconds."""
        last = len(self._begins_ms) - 1
        places = (self._begins_ms.searchsorted(at_ms, side="right") - 1).clip(0, last)
        rests = at_ms - self._begins_ms[places]
        outside = (rests < 0) | (places == last)
        further = np.where(outside, rests // DAY_MS, 0)
        return ((places - self._zero + further) << DAY_BITS) + rests - further * DAY_MS

    def milliseconds(self, times: IntArray) -> IntArray:
        """The milliseconds of times."""
        days = (times >> DAY_BITS) + self._zero
        places = days.clip(0, len(self._begins_ms) - 1)
        return self._begins_ms[places] + (days - places) * DAY_MS + (times & (DAY - 1))

    def until(self, at_ms: int) -> int:
        """The time of a watermark, which may be beyond all."""
        if abs(at_ms) >= LONGEST_MS:
            return at_ms
        return int(self.times(np.array([at_ms]))[0])


class LocalDaysEvaluation(Evaluation):
    """Tells an evaluation times in which days are equally long.

    Parameters
    ----------
    inner
        Of a program whose windows are as long in these times.
    """

    def __init__(self, inner: Evaluation, days: LocalDays) -> None:
        self._inner, self._equal = inner, EqualDays(days)

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        taken = {
            stream: None if rows is None else _at(rows, self._times(rows))
            for stream, rows in given.taken.items()
        }
        rows = self._inner.run(Pass(taken, given.first_ids, self._equal.until(given.until_ms)))
        return _at(rows, self._equal.milliseconds(_timestamps(rows)))

    def _times(self, rows: pa.RecordBatch) -> IntArray:
        times_ms = _timestamps(rows)
        if max(-int(times_ms[0]), int(times_ms[-1])) >= LONGEST_MS:
            raise FarTimestampError(
                f"days of a time zone have no timestamps beyond ±{LONGEST_MS} ms, as "
                f"{times_ms[-1]} is"
            )
        return self._equal.times(times_ms)

    def show(self, program: Program, schema: pa.Schema) -> None:
        """See `Showing`."""
        assert isinstance(self._inner, Showing)
        self._inner.show(program, schema)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """See `Evaluation`."""
        return self._inner.stateful()


def _timestamps(rows: pa.RecordBatch) -> IntArray:
    return rows.column(TIMESTAMP).to_numpy(zero_copy_only=False)


def _at(rows: pa.RecordBatch, times: IntArray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(times), *rows.columns[1:]], schema=rows.schema)
