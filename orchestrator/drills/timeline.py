"""A drill as it went: when outputs were silent, and what happened when.

Silences are what an output's receiver saw: the time between two arrivals, at the later one. Of
each tenth of a second only the longest is kept; the history keeps less of a long drill (`thinned`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
import numpy as np

from foundation.arrays import IntArray
from orchestrator.control.observe.audit_events import RESTORED
from orchestrator.drills.acting import Disturbed
from orchestrator.drills.kill_executor import Killed
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.records import HistoryEvent
from orchestrator.results.drill_report import Moment, Silence, Timeline

SAMPLE_MS = 100.0

BEFORE_US = 1_000_000
AFTER_US = 1_000_000
"""What is shown before the fault, and after everything was restored."""

KEPT_OUTPUTS, KEPT_SILENCES = 8, 100
"""What the history keeps of a timeline: so many outputs, and so many silences of each. A drill's
report then has ten to thirty kilobytes, and draws the same picture as far as eyes can tell."""

TOLD = ("took over", RESTORED, "node joined")
"""Kinds of events in the history that a timeline shows."""


def timeline(
    found: Killed | Disturbed,
    bound_ms: float,
    delivered: Mapping[str, Delivered],
    events: Iterable[HistoryEvent],
) -> Timeline:
    """What is to be shown of a drill.

    Parameters
    ----------
    delivered
        Output → its deliveries where it was watched. An output may be watched in two places.
    events
        The history; those that do not belong to the drill are left out.
    """
    struck_us = found.killed_us if isinstance(found, Killed) else found.struck_us
    begin_us, end_us = struck_us - BEFORE_US, found.restored_us + AFTER_US
    happened = [*_of_drill(found)]
    happened += [
        (event.at_us, f"{event.kind}: {event.subject}")
        for event in events
        if event.kind in TOLD and struck_us <= event.at_us <= end_us
    ]
    return Timeline(
        bound_ms=bound_ms,
        moments=tuple(
            Moment(at_ms=(at_us - struck_us) / 1000, what=what) for at_us, what in sorted(happened)
        ),
        silences={
            stream: tuple(
                _silences(one.completed_column("arrived_us"), struck_us, begin_us, end_us)
            )
            for stream, one in delivered.items()
        },
    )


def thinned(shown: Timeline) -> Timeline:
    """A timeline as the history keeps it: the longest silences, of the outputs that had them."""
    longest = sorted(
        shown.silences,
        key=lambda stream: -max((each.lasted_ms for each in shown.silences[stream]), default=0.0),
    )
    kept = set(longest[:KEPT_OUTPUTS])
    return msgspec.structs.replace(
        shown,
        moments=tuple(
            msgspec.structs.replace(each, at_ms=round(each.at_ms, 1)) for each in shown.moments
        ),
        silences={
            stream: tuple(_longest_of_each_part(silences))
            for stream, silences in shown.silences.items()
            if stream in kept
        },
    )


def _longest_of_each_part(silences: Sequence[Silence]) -> Iterator[Silence]:
    """The longest silence of each of `KEPT_SILENCES` equal parts of the time they took."""
    if not silences:
        return
    begin_ms = silences[0].ended_ms
    part_ms = max((silences[-1].ended_ms - begin_ms) / KEPT_SILENCES, SAMPLE_MS)
    for _, part in groupby(silences, key=lambda each: int((each.ended_ms - begin_ms) / part_ms)):
        found = max(part, key=lambda each: each.lasted_ms)
        yield Silence(ended_ms=round(found.ended_ms, 1), lasted_ms=round(found.lasted_ms, 1))


def _of_drill(found: Killed | Disturbed) -> Iterator[tuple[int, str]]:
    if isinstance(found, Killed):
        yield found.killed_us, "fault"
        if found.causes:
            yield found.detected_us, f"noticed: {', '.join(sorted(set(found.causes)))}"
        yield found.restored_us, "everything protected"
        return
    for step in found.steps or (found,):
        yield step.struck_us, "fault"
        yield step.over_us, "fault over"
    yield found.restored_us, "everything protected"


def _silences(
    arrived_us: IntArray, struck_us: int, begin_us: int, end_us: int
) -> Iterator[Silence]:
    """The longest silence of each tenth of a second, by when it ended."""
    times_us: IntArray = np.sort(arrived_us)
    ended_us, lasted_us = times_us[1:], np.diff(times_us)
    shown = (ended_us >= begin_us) & (ended_us <= end_us)
    longest: dict[int, Silence] = {}
    for at_us, lasts_us in zip(ended_us[shown].tolist(), lasted_us[shown].tolist(), strict=True):
        at_ms = (at_us - struck_us) / 1000
        tenth = int(at_ms // SAMPLE_MS)
        if tenth not in longest or longest[tenth].lasted_ms < lasts_us / 1000:
            longest[tenth] = Silence(ended_ms=at_ms, lasted_ms=lasts_us / 1000)
    yield from longest.values()
