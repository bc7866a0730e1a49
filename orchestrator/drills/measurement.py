"""The consequences of a failure, measured where the outputs are delivered.

Everything is computed from deliveries: when each timestamp was completed, and which sequence
numbers came. Only the time of detection is what the product says of itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.drills.acting import Disturbed, DrillFailed
from orchestrator.drills.kill_executor import Killed
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.results.drill_report import TIGHTEST, Blast, FailoverFigures
from streams.vectors.chunk import NO_WATERMARK, TIMESTAMP

OUTAGE_WINDOW_US = 5_000_000
"""How long after the kill silences are looked for."""


def failover(killed: Killed, delivered: Collection[Delivered]) -> FailoverFigures:
    """Measure a kill at the outputs.

    Raises
    ------
    DrillFailed
        If an output did not come back at all.
    """
    suffered = outage(killed, delivered)
    faults = [sequence_faults(one) for one in delivered]
    return FailoverFigures(
        killed_node=", ".join(killed.target.hosts),
        detection_ms=killed.detection_ms,
        recovery_ms=suffered.recovery_ms,
        gap_ms=suffered.gap_ms,
        bound_ms=killed.target.bound_ms,
        lost=sum(fault.lost for fault in faults),
        repeated=sum(fault.repeated for fault in faults),
        completed_timestamps=sum(one.completed_timestamps.num_rows for one in delivered),
        redundancy_restored_s=killed.redundancy_restored_s,
        unprotected_s=killed.unprotected_s,
        resumed_us=suffered.resumed_us,
        bound_why=TIGHTEST,
        gap_why="pauses of the streams themselves and of healing count, too",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The silence of outputs after a kill; the figures are those of `FailoverFigures`."""

    recovery_ms: float
    gap_ms: float
    resumed_us: int


def outage(killed: Killed, delivered: Collection[Delivered]) -> Outage:
    """The outage at the sink that suffered most.

    Raises
    ------
    DrillFailed
        If an output did not come back at all.
    """
    worst = Outage(recovery_ms=0.0, gap_ms=0.0, resumed_us=killed.killed_us)
    for one in delivered:
        arrived_us: IntArray = np.sort(one.completed_column("arrived_us"))
        end_us = killed.killed_us + OUTAGE_WINDOW_US
        silence = longest_silence(arrived_us, killed.killed_us, killed.detected_us)
        after = longest_silence(arrived_us, killed.killed_us, end_us)
        if silence is None or after is None or arrived_us[-1] < killed.killed_us:
            raise DrillFailed("no result came after the kill")
        since_kill_ms = max((silence.ended_us - killed.killed_us) / 1000, 0.0)
        recovery_ms = silence.gap_ms if killed.by_and_by else since_kill_ms
        is_worse = recovery_ms > worst.recovery_ms
        worst = Outage(
            recovery_ms=recovery_ms if is_worse else worst.recovery_ms,
            gap_ms=max(worst.gap_ms, after.gap_ms),
            resumed_us=silence.ended_us if is_worse else worst.resumed_us,
        )
    return worst


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFaults:
    """Tuples that the sequence numbers show to be lost or repeated."""

    lost: int
    repeated: int


def sequence_faults(delivered: Delivered) -> SequenceFaults:
    """Tuples missing between the first and the last delivered, and tuples delivered again.

    Tuples that the sink has dropped because they were late are not lost.
    Numbers begin anew in each generation and are compared within it. A tuple of a later generation
    is repeated if its timestamp was complete in an earlier one. Tuples that the sink itself reports
    as lost count too, since no tuple may have come after them. So do those that the sink has kept a
    second time, although a reader of its files gets them once.
    """
    generations = delivered.completed_column("generation")
    losses, late = delivered.completed_column("lost"), delivered.completed_column("late")
    ends = delivered.completed_column("next_seq")
    watermarks_ms = delivered.completed_column("watermark_ms")
    row_generations = _column(delivered.rows, GENERATION)
    numbers = _column(delivered.rows, SEQUENCE)
    timestamps = _column(delivered.rows, TIMESTAMP)
    lost = repeated = 0
    complete_ms = NO_WATERMARK
    for generation in np.unique(generations):
        ours = row_generations == generation
        known = int(np.count_nonzero(timestamps[ours] <= complete_ms))
        distinct = np.unique(numbers[ours])
        span = int(distinct[-1] - distinct[0]) + 1 if len(distinct) else 0
        reported = int(losses[generations == generation].sum())
        dropped = 0
        if len(distinct):
            within = (generations == generation) & (ends <= distinct[-1])
            dropped = int(late[within & (ends - late >= distinct[0])].sum())
        lost += max(span - len(distinct) - dropped, reported)
        repeated += max(int(np.count_nonzero(ours)) - len(distinct), known)
        complete_ms = max(complete_ms, int(watermarks_ms[generations == generation].max()))
    return SequenceFaults(lost=lost, repeated=repeated + len(delivered.superseded_ms))


def _column(rows: pa.Table, name: str) -> IntArray:
    return np.asarray(rows[name].to_numpy(), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestSilence:
    """A time in which nothing arrived.

    Attributes
    ----------
    gap_ms
        Its length.
    ended_us
        The arrival that ended it, cluster clock.
    """

    gap_ms: float
    ended_us: int


def longest_silence(arrived_us: IntArray, begin_us: int, end_us: int) -> LongestSilence | None:
    """The longest pause between arrivals that touches [begin, end]; None without two arrivals.

    Parameters
    ----------
    arrived_us
        Arrival times, never falling, shape (n,).
    """
    first = max(int(np.searchsorted(arrived_us, begin_us, side="right")) - 1, 0)
    last = int(np.searchsorted(arrived_us, end_us, side="left"))
    touched = arrived_us[first : last + 1]
    if len(touched) < 2:
        return None
    gaps = np.diff(touched)
    longest = int(np.argmax(gaps))
    return LongestSilence(gap_ms=float(gaps[longest]) / 1000, ended_us=int(touched[longest + 1]))


def disturbance(
    disturbed: Disturbed,
    blast: Blast,
    delivered: Collection[Delivered],
    at_sinks: Collection[Delivered] = (),
) -> FailoverFigures:
    """Measure a disturbance at the outputs: the longest silence until everything was restored.

    If streams had no source for a while, the bound counts from when they had one again. Of several
    faults, the one counts that came nearest to its bound, or was furthest beyond it.

    Parameters
    ----------
    at_sinks
        What sinks have kept that may have been silent when the observer was not.

    Raises
    ------
    DrillFailed
        If an output did not come back at all.
    """
    silences = [
        (_longest(step, [*delivered, *at_sinks]), _away_ms(step))
        for step in disturbed.steps or (disturbed,)
    ]
    worst, away_ms = max(silences, key=lambda each: each[0].gap_ms - each[1])
    longest, longest_away_ms = max(silences, key=lambda each: each[0].gap_ms)
    faults = [sequence_faults(one) for one in delivered]
    return FailoverFigures(
        killed_node=", ".join((*blast.nodes, *blast.links)),
        detection_ms=0.0,
        recovery_ms=worst.gap_ms,
        gap_ms=longest.gap_ms,
        bound_ms=blast.bound_ms + away_ms,
        lost=sum(fault.lost for fault in faults),
        repeated=sum(fault.repeated for fault in faults),
        completed_timestamps=sum(one.completed_timestamps.num_rows for one in delivered),
        redundancy_restored_s=(disturbed.restored_us - disturbed.struck_us) / 1e6,
        resumed_us=worst.ended_us,
        bound_why=_why(blast, away_ms),
        gap_bound_ms=blast.bound_ms + longest_away_ms,
        gap_why=_why(blast, longest_away_ms),
    )


def _why(blast: Blast, away_ms: float) -> str:
    """Why a silence is held against this bound."""
    if not away_ms:
        return blast.bound_why
    added = f"and {away_ms / 1000:.1f} s in which streams had no source"
    return f"{blast.bound_ms:.0f} ms: {blast.bound_why}; {added}"


def _away_ms(disturbed: Disturbed) -> float:
    """How long streams had no source, ms."""
    return (disturbed.over_us - disturbed.struck_us) / 1000 if disturbed.ended_sources else 0.0


def _longest(disturbed: Disturbed, delivered: Collection[Delivered]) -> LongestSilence:
    """The longest silence of an output until everything was restored."""
    found = [LongestSilence(gap_ms=0.0, ended_us=disturbed.struck_us)]
    for one in delivered:
        arrived_us: IntArray = np.sort(one.completed_column("arrived_us"))
        silence = longest_silence(arrived_us, disturbed.struck_us, disturbed.restored_us)
        if silence is None or arrived_us[-1] < disturbed.over_us:
            raise DrillFailed("no result came after the fault")
        found.append(silence)
    return max(found, key=lambda each: each.gap_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """How what a sink has kept differs from what an observer was delivered meanwhile.

    Attributes
    ----------
    lost
        Tuples that only one of the two has.
    repeated
        Tuples that the sink has kept again.
    differing
        Tuples of the same number with other content.
    """

    lost: int
    repeated: int
    differing: int


def differences(observed: Delivered, kept: Delivered) -> Differences:
    """Compare two deliveries of a stream, number by number and value by value.

    Only timestamps count that both have completed, and that came after the observer's first ones:
    what it was sent before, it may have got in part.
    """
    ends_ms = [one.completed_column("watermark_ms") for one in (observed, kept)]
    if not all(len(each) for each in ends_ms):
        return Differences(lost=0, repeated=0, differing=0)
    after_ms, until_ms = int(ends_ms[0][0]), min(int(each[-1]) for each in ends_ms)
    seen, held = (_numbered(one.rows, after_ms, until_ms) for one in (observed, kept))
    here, there = dict(seen), dict(held)
    again_ms = kept.superseded_ms
    again = int(np.count_nonzero((again_ms > after_ms) & (again_ms <= until_ms)))
    return Differences(
        lost=len(here.keys() ^ there.keys()),
        repeated=len(held) - len(there) + again,
        differing=sum(here[key] != there[key] for key in here.keys() & there.keys()),
    )


def _numbered(
    rows: pa.Table, after_ms: int, until_ms: int
) -> list[tuple[tuple[int, int], tuple[object, ...]]]:
    """Number and content of the tuples with timestamps in a range."""
    timestamps = _column(rows, TIMESTAMP)
    chosen = rows.filter(pa.array((timestamps > after_ms) & (timestamps <= until_ms)))
    return [
        ((row.pop(GENERATION), row.pop(SEQUENCE)), tuple(row.values()))
        for row in chosen.to_pylist()
    ]
