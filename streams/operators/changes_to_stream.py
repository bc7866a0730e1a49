"""ISTREAM and DSTREAM: the rows inserted into a relation, or removed, since the last timestamp.

    ISTREAM(R) at τ = R(τ) − R(τ⁻),   DSTREAM(R) at τ = R(τ⁻) − R(τ),

differences of multisets. They follow from the relation's change alone: a row that was inserted as
often as it was removed did not change. These operators therefore have no state.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from foundation.arrays import IntArray
from streams.vectors.arrays import Bits
from streams.vectors.vector import Delta, Emitted, Frame, Positions


class ChangesToStream:
    """Emits the net change in one direction."""

    def __init__(self, *, inserted: bool) -> None:
        """
        Parameters
        ----------
        inserted
            True for ISTREAM, False for DSTREAM.
        """
        self._inserted = inserted

    def step(self, change: Delta | None) -> Emitted | None:
        """Rows to emit, in the order of the change; None for none.

        If some of several equal rows cancel, the later ones remain.
        """
        if change is None:
            return None
        rows, inserted, times_ms, _ = change
        assert isinstance(rows, Frame)
        wanted = (inserted if self._inserted else ~inserted).nonzero()[0]
        if not len(wanted):
            return None
        if len(wanted) == rows.length:
            return Emitted(rows, times_ms)
        others = (~inserted if self._inserted else inserted).nonzero()[0]
        gone = cancelled(rows, times_ms, wanted, others)
        if gone:
            wanted = np.delete(wanted, gone)
        return Emitted(rows.take(wanted), times_ms[wanted]) if len(wanted) else None


FEW_ROWS = 32
"""With fewer rows, comparing all of them takes less time than finding those to compare."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def cancelled(rows: Frame, times_ms: IntArray, wanted: Positions, others: Positions) -> list[int]:
    """Those of the wanted rows, by their places among them, that also change the other way."""
    if len(wanted) < FEW_ROWS:
        return _equal_ones(rows, times_ms, wanted, others)
    hashes = _hashes(rows, times_ms)
    (places,) = np.isin(hashes[wanted], hashes[others]).nonzero()
    if not len(places):
        return []
    opposite = others[np.isin(hashes[others], hashes[wanted[places]])]
    found = _equal_ones(rows, times_ms, wanted[places], opposite)
    return places[found].tolist() if found else []


def _hashes(rows: Frame, times_ms: IntArray) -> Bits:
    """A hash of each row's timestamp and numbers: equal rows have equal ones."""
    hashes = times_ms.astype(np.uint64)
    for values, valid in rows.columns:
        if values.dtype == np.object_:
            continue
        numbers = values.view(np.uint64) if values.dtype == np.float64 else values
        words = numbers.astype(np.uint64)
        if valid is not None:
            words = np.where(valid, words, np.uint64(1))
        hashes = (hashes ^ words) * _MULTIPLIER
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _equal_ones(rows: Frame, times_ms: IntArray, wanted: Positions, others: Positions) -> list[int]:
    """As `cancelled`, comparing all rows."""
    other_times: list[int] = times_ms[others].tolist()
    contested = set(other_times)
    times: list[int] = times_ms[wanted].tolist()
    if contested.isdisjoint(times):
        return []
    those = list(zip(other_times, rows.take(others).tuples(), strict=True))
    these = list(zip(times, rows.take(wanted).tuples(), strict=True))
    if set(those).isdisjoint(these):
        return []
    opposite = Counter(those)
    found: list[int] = []
    for place, change in enumerate(these):
        if opposite[change] > 0:
            opposite[change] -= 1
            found.append(place)
    return found
