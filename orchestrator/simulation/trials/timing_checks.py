"""Whether output came in time: within the bound after a fault, and soon after an overload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from ha.output_log import CREDIT_US, DEMAND_US
from orchestrator.control.decide.moving import SWITCHED
from orchestrator.drills.links import CUT_LINK_MS, SCHEDULING_MS
from orchestrator.simulation.trials.faults import Slow
from orchestrator.simulation.trials.observed import Arrival, Observed
from orchestrator.simulation.trials.schedule import Shape
from orchestrator.simulation.trials.setting import (
    DEADLINE_MS,
    LITTLE_MEMORY_BYTES,
    RECOVERY_BOUND_MS,
    Setting,
)
from streams.scheduling.batching import IN_TIME_SHARE

TAKEOVER_EVERY_MS = 1000.0
"""How often a fragment may change its primary because a host that lives is slow."""

RECOVERS_MS = 2500.0
"""How long after the end of an overload output may still be late."""

IN_TIME_MS = 1000.0
"""Latency once an overload is over."""

NO_BOUND = frozenset({"clock", "slow", "delay", "replaced", "disk", "everything", "query-pause"})
"""Kinds of faults after which output may be late for as long as they last."""

CREDIT_MS = CREDIT_US / 1000
"""Where hosts have little memory: a chunk fills a window, and its consumer may acknowledge it late;
for so long a producer waits."""

FULL_LOG_MS = DEMAND_US / 1000
"""Where hosts have little memory: a producer whose log is full waits for so long for a consumer
that it does not reach, before it drops what only that one lacks."""


def timing(seen: Observed, calm: Callable[[], Observed]) -> Iterator[str]:
    """Output that came too late.

    Parameters
    ----------
    calm
        The same trial without faults, if it must be known what is late then.
    """
    yield from _overload(seen, calm)
    yield from _bound(seen)
    yield from _silent(seen)


def _silent(seen: Observed) -> Iterator[str]:
    """A paused query gives no results until it is to go on."""
    for silence in seen.silences:
        for stream in silence.streams:
            for arrival in seen.arrivals[stream]:
                if silence.since_us < arrival.at_us < silence.until_us:
                    at_ms = (arrival.at_us - seen.began_us) / 1000
                    yield f"pause: {stream} had results at {at_ms:.0f} ms, and was paused"
                    break


def _overload(seen: Observed, calm: Callable[[], Observed]) -> Iterator[str]:
    """A slow host is not taken for a dead one again and again; afterwards output is in time.

    What a query makes may be more than the little memory of hosts lets through, with or without a
    slow one.
    """
    if seen.schedule.shape is not Shape.SINGLE or seen.stuck:
        return
    ((fault),) = seen.schedule.faults
    if not isinstance(fault, Slow):
        return
    takeovers = Counter(
        entry.text.split(":")[0] for entry in seen.entries if entry.text.startswith("took over ")
    )
    for change, count in takeovers.items():
        if count > 2 + fault.for_ms / TAKEOVER_EVERY_MS:
            yield f"overload: {change} {count} times because a host is slow for {fault.for_ms} ms"
    late_ms = _late_ms(seen, fault.ends_ms + RECOVERS_MS)
    anyway = _late_ms(calm(), fault.ends_ms + RECOVERS_MS) if late_ms else {}
    for stream, most_ms in late_ms.items():
        if most_ms > anyway.get(stream, 0.0) + IN_TIME_MS:
            yield f"overload: {stream} is {most_ms:.0f} ms late long after the load has gone"


def _late_ms(seen: Observed, after_ms: float) -> dict[str, float]:
    """Output of what entered after a time since the beginning → how late it came, if too late."""
    from_us = seen.began_us + after_ms * 1000
    found: dict[str, float] = {}
    for stream, arrivals in seen.arrivals.items():
        for arrival in arrivals:
            entered_us = int(arrival.delivery.chunk.ingestion_times_us[-1])
            latency_ms = (arrival.at_us - entered_us) / 1000
            if entered_us > from_us and latency_ms > max(found.get(stream, 0.0), IN_TIME_MS):
                found[stream] = latency_ms
    return found


def _bound(seen: Observed) -> Iterator[str]:
    """After a single fault, every output resumes within the recovery bound.

    Without a fault it never rests, whatever operators do.
    """
    setting = seen.setting
    interval_ms = max(recording.interval_ms for recording in setting.recordings.values())
    waits_ms = FULL_LOG_MS if setting.cluster.memory_bytes == LITTLE_MEMORY_BYTES else 0.0
    if seen.schedule.shape is Shape.NONE and not seen.stuck:
        # The join of a visitor holds one stream up until the other has come as far.
        visited = seen.schedule.visit is not None
        held_ms = waits_ms if visited else min(waits_ms, CREDIT_MS)
        yield from _steady(seen, interval_ms + SCHEDULING_MS + held_ms)
    if seen.schedule.shape is not Shape.SINGLE or seen.stuck:
        return
    ((fault),) = seen.schedule.faults
    allowed_ms = RECOVERY_BOUND_MS + interval_ms + SCHEDULING_MS
    kind = type(fault).__struct_config__.tag
    if kind in NO_BOUND:
        return
    away_ms = fault.ends_ms - fault.at_ms + setting.session_timeout_us / 1000
    from_us = seen.began_us + fault.at_ms * 1000
    # Who was stopped has missed deadlines, and rests for longer for a while.
    ends_us = seen.began_us + fault.ends_ms * 1000
    resting = _given_to_struck(seen, ends_us) if kind == "pause" else set[str]()
    for stream, arrivals in seen.arrivals.items():
        if kind == "cut":
            # From fragment to fragment, and to the sink.
            hops = setting.depth(stream) + 1
            allowed_ms = hops * CUT_LINK_MS + interval_ms + SCHEDULING_MS
        most_ms = allowed_ms + waits_ms
        if resting & setting.upstream(stream):
            most_ms += IN_TIME_SHARE * DEADLINE_MS
        if seen.struck.keys() & _alone(setting, stream):
            # What enters and leaves there rests until the site is back.
            most_ms += away_ms
        silence = _longest_silence_ms(arrivals, from_us)
        if silence > most_ms:
            yield (
                f"bound: {stream} was silent for {silence:.0f} ms after a {kind}, "
                f"{most_ms:.0f} are allowed"
            )


def _given_to_struck(seen: Observed, since_us: float) -> set[str]:
    """Fragments of which operators have made a node primary that a fault had hit before."""
    return {
        entry.text.removeprefix(f"{SWITCHED} ").partition(":")[0].partition(".")[2]
        for entry in seen.entries
        if entry.at_us >= since_us
        and entry.text.startswith(f"{SWITCHED} ")
        and any(f" → {node}, " in entry.text for node in seen.struck)
    }


def _alone(setting: Setting, stream: str) -> set[str]:
    """The sites that an output cannot do without: its sink's, and those without a standby."""
    if setting.cluster.memory_bytes == LITTLE_MEMORY_BYTES:
        # What a sink that is away demands fills logs, and holds up what others read.
        return set(setting.sites)
    entering = setting.recordings.keys() & setting.upstream(stream)
    alone = {setting.recordings[name].site for name in entering if _is_alone(setting, name)}
    return alone | {setting.outputs[stream]}


def _is_alone(setting: Setting, stream: str) -> bool:
    recording = setting.recordings[stream]
    return recording.standby is None or not recording.resumes


def _steady(seen: Observed, allowed_ms: float) -> Iterator[str]:
    for stream, arrivals in seen.arrivals.items():
        silence_ms = _longest_silence_ms(arrivals, seen.began_us)
        if silence_ms > allowed_ms:
            yield f"bound: {stream} was silent for {silence_ms:.0f} ms without a fault"


def _longest_silence_ms(arrivals: list[Arrival], from_us: int) -> float:
    times = [arrival.delivery.arrived_us for arrival in arrivals]
    return max(
        ((after - before) / 1000 for before, after in pairwise(times) if after > from_us),
        default=0.0,
    )
