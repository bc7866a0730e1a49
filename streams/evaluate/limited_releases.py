"""The time in which a periodic statement has releases: from STIME to ETIME.

Both are counted from the first tuple that the statement reads, of whichever input. That timestamp
is part of its state, so it is the same for both replicas, however they cut their input. A state
that begins from nothing after another one was lost is told it (`count_from`). Past ETIME nothing is
evaluated any more, and no state is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from streams.evaluate.protocol import Evaluation, Pass
from streams.plan.program import ReleasePlan
from streams.vectors.chunk import FOREVER_MS, TIMESTAMP
from streams.vectors.state import Pieces, State, Stateful


class LimitedReleases(Evaluation):
    """Evaluates as another evaluation does, and shows what lies between STIME and ETIME.

    Parameters
    ----------
    new
        Makes the other one, without state.
    """

    def __init__(self, new: Callable[[], Evaluation], plan: ReleasePlan) -> None:
        self._new, self._plan = new, plan
        self._inner = new()
        self._first_ms: int | None = None
        """The timestamp of the first tuple; None: none has come."""
        self._over = False

    def run(self, given: Pass) -> pa.RecordBatch:
        """See `Evaluation`."""
        if self._first_ms is None:
            came = [rows for rows in given.taken.values() if rows is not None]
            self._first_ms = min((one.column(TIMESTAMP)[0].as_py() for one in came), default=None)
        if self._over:
            given = given.without(tuple(given.taken))
            # Without tuples and state it has nothing to show.
            return self._inner.run(given)
        rows = self._inner.run(given)
        if rows.num_rows:
            times_ms = rows.column(TIMESTAMP).to_numpy(zero_copy_only=False)
            begin = int(times_ms.searchsorted(self._begins_ms))
            end = int(times_ms.searchsorted(self._ends_ms, side="right"))
            rows = rows.slice(begin, max(end - begin, 0))
        if given.until_ms >= self._ends_ms:
            self._inner, self._over = self._new(), True
        return rows

    def count_from(self, first_ms: int) -> None:
        """Count from a tuple that a former state has read."""
        self._first_ms = first_ms

    def count_on_from(self, before: LimitedReleases) -> None:
        """Count from where another evaluation of the statement does, if it has come so far."""
        self._first_ms = before._first_ms

    @property
    def counts_from_ms(self) -> int | None:
        """From where STIME and ETIME count; None: no tuple has come, or there is neither."""
        has_limits = self._plan.begins_ms or self._plan.ends_ms is not None
        return self._first_ms if has_limits else None

    @property
    def ended_ms(self) -> int | None:
        """ETIME, as a timestamp; None: it is not past."""
        return self._ends_ms if self._over else None

    @property
    def _begins_ms(self) -> int:
        return -FOREVER_MS if self._first_ms is None else self._first_ms + self._plan.begins_ms

    @property
    def _ends_ms(self) -> int:
        if self._first_ms is None or self._plan.ends_ms is None:
            return FOREVER_MS
        return self._first_ms + self._plan.ends_ms

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name, and the first tuple's timestamp."""
        yield from self._inner.stateful()
        yield "first-tuple", self

    def held(self) -> int:
        """Number of rows that it keeps itself."""
        return 0

    def save(self) -> Pieces:
        """The timestamp of the first tuple, and whether ETIME is past."""
        values = {"first_ms": self._first_ms, "over": self._over}

        def pieces() -> Iterator[State]:
            yield State(values=values)

        return pieces

    def load(self, state: State) -> None:
        """Take what was saved."""
        first_ms = state.values["first_ms"]
        self._first_ms = None if first_ms is None else int(first_ms)
        self._over = bool(state.values["over"])

    def loaded(self) -> None:
        """Nothing is left to do."""
