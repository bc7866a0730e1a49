"""What a failure did to a stream, measured where the stream is delivered.

Everything is computed from what was delivered: when each answer came, and which sequence numbers.
Nothing the product says of itself enters here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestrator.sinks.delivered import SEQUENCE, Delivered
from topology.arrays import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFaults:
    """What the sequence numbers tell."""

    lost: int
    repeated: int


def sequence_faults(delivered: Delivered) -> SequenceFaults:
    """Tuples missing between the first and the last delivered, and tuples delivered again.

    What the sink itself reports as lost is counted too: it lies before a tuple that may never
    have come.
    """
    numbers = np.asarray(delivered.rows[SEQUENCE].to_numpy(), dtype=np.int64)
    reported = int(delivered.completed_column("lost").sum())
    if len(numbers) == 0:
        return SequenceFaults(lost=reported, repeated=0)
    distinct = len(np.unique(numbers))
    span = int(numbers.max() - numbers.min()) + 1
    return SequenceFaults(lost=max(span - distinct, reported), repeated=len(numbers) - distinct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The longest time in which no answer came.

    Attributes
    ----------
    gap_ms
        Its length.
    ended_us
        When the next answer came, cluster clock.
    """

    gap_ms: float
    ended_us: int


def longest_silence(arrived_us: IntArray, begin_us: int, end_us: int) -> Silence | None:
    """The longest pause between arrivals that touches [begin, end]; None without two arrivals.

    Parameters
    ----------
    arrived_us
        Arrival times of answers, never falling, shape (n,).
    """
    first = max(int(np.searchsorted(arrived_us, begin_us, side="right")) - 1, 0)
    last = int(np.searchsorted(arrived_us, end_us, side="left"))
    touched = arrived_us[first : last + 1]
    if len(touched) < 2:
        return None
    gaps = np.diff(touched)
    longest = int(np.argmax(gaps))
    return Silence(gap_ms=float(gaps[longest]) / 1000, ended_us=int(touched[longest + 1]))
