"""The promises, checked after a trial: each broken one is a finding, in a sentence.

Content, order and exactly-once are one comparison: the sink's tuples against the oracle's list.
A difference is forgiven only where a fault took the last warm replica of a fragment that the
stream is made from (its *exposure*), and only if that was said; what follows the loss must be
correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ha.output_log import DEMAND_US
from ha.roles import ReplicaRole
from orchestrator.drills.links import CUT_LINK_MS, SCHEDULING_MS
from orchestrator.simulation.faults import Slow
from orchestrator.simulation.observed import Arrival, Observed
from orchestrator.simulation.oracle import Expected, Row, rows_of
from orchestrator.simulation.schedule import Shape
from orchestrator.simulation.setting import (
    BEGIN_MS,
    LITTLE_MEMORY_BYTES,
    LONGEST_WINDOW_MS,
    RECOVERY_BOUND_MS,
    VISITORS_WINDOW_MS,
    Setting,
)
from streams.program import Program

SHOWN = 3
"""Tuples that a finding shows."""


def findings(seen: Observed, expected: dict[str, Expected]) -> list[str]:
    """Every promise that was broken."""
    return [
        *(f"liveness: {each}" for each in seen.stuck),
        *(f"process: {each}" for each in seen.broken),
        *_redundancy(seen),
        *_state_lost(seen),
        *(finding for stream in seen.arrivals for finding in _sink(seen, expected, stream)),
        *_shed(seen),
        *(each for name, stream in seen.watched for each in _watched(seen, expected, name, stream)),
        *(each for stream in seen.visited for each in _visited(seen, expected, stream)),
        *_replicas(seen, expected),
        *_source_sites(seen),
        *_acknowledged(seen),
        *_diverged(seen),
        *_primaries(seen),
        *_budgets(seen),
        *_overload(seen),
        *_bound(seen),
    ]


def losses_us(seen: Observed) -> dict[str, int]:
    """Fragment → when its state was last said to be lost."""
    return {
        entry.text.split(":")[0].rpartition(".")[2]: entry.at_us
        for entry in seen.entries
        if entry.subject == "history" and entry.text.startswith("state lost ")
    }


def began_anew_us(seen: Observed) -> dict[str, int]:
    """Stream → when it was last said to begin anew."""
    return {
        entry.text.split(":")[0].rpartition(" ")[2]: entry.at_us
        for entry in seen.entries
        if entry.subject == "history" and entry.text.startswith("stream begins anew ")
    }


def _interrupted(seen: Observed, stream: str) -> bool:
    """Whether a site was started again whose source does not emit everything again."""
    recording = seen.setting.recordings.get(stream)
    return recording is not None and not recording.gapless and stream in seen.anew_us


def _shed(seen: Observed) -> Iterator[str]:
    """A load shedder counts every tuple that it drops, and admits no more than its limit."""
    for stream, recording in seen.setting.recordings.items():
        if recording.shed is None or stream in seen.anew_us or not seen.entered.get(stream):
            continue
        entered = sum(chunk.rows.num_rows for chunk in seen.entered[stream])
        counted = entered + seen.shed[stream]
        if counted != recording.rows.num_rows:
            yield f"truth: {stream} counts {counted} tuples of {recording.rows.num_rows}"


def _redundancy(seen: Observed) -> Iterator[str]:
    if not seen.healed and seen.began_us:
        yield "redundancy: not every fragment has two warm replicas at the end"


def _state_lost(seen: Observed) -> Iterator[str]:
    for fragment, at_us in losses_us(seen).items():
        if not any(name in seen.exposed_us for name in seen.setting.upstream(fragment)):
            yield (
                f"state: {fragment} began from nothing at {_ms(seen, at_us)}, "
                "though a warm replica lived"
            )


def _sink(seen: Observed, expected: dict[str, Expected], stream: str) -> Iterator[str]:
    """Content, order, exactly once, and the truth of what was reported."""
    arrivals = seen.arrivals[stream]
    if not arrivals:
        return
    chunks = [arrival.delivery.chunk for arrival in arrivals]
    rows = [row for chunk in chunks for row in rows_of(chunk.rows)]
    wanted = expected[stream].rows
    watermarks = [int(each) for chunk in chunks for each in chunk.watermarks_ms]
    if any(after <= before for before, after in pairwise(watermarks)):
        yield f"order: completed timestamps of {stream} repeat or fall at its sink"
    if any(after[0] < before[0] for before, after in pairwise(rows)):
        yield f"order: timestamps of {stream} fall at its sink"
    told_lost = sum(arrival.delivery.lost for arrival in arrivals)
    upstream = seen.setting.upstream(stream)
    excused = [name for name in upstream if name in seen.exposed_us or _interrupted(seen, name)]
    if rows == wanted:
        if told_lost and not excused:
            yield f"truth: {told_lost} tuples of {stream} are reported lost, and none is"
        return
    if not excused:
        yield f"content: {stream}: {_difference(rows, wanted)}; {told_lost} reported lost"
        return
    said = losses_us(seen) | began_anew_us(seen)
    if not told_lost and not any(name in said for name in upstream):
        yield f"truth: {stream}: {_difference(rows, wanted)}, and nothing says so"
    settled_ms = _settled_ms(seen, expected, stream)
    late = [row for row in rows if row[0] > settled_ms]
    right = [row for row in wanted if row[0] > settled_ms]
    if not _same_relations(seen, stream, late, right):
        yield f"content: {stream} is wrong long after the loss: {_difference(late, right)}"


def _watched(
    seen: Observed, expected: dict[str, Expected], observer: str, stream: str
) -> Iterator[str]:
    """What an observer has received is a part of the stream, each tuple once and in order.

    Observers demand nothing. Where hosts have little memory, a producer may drop what only an
    observer lacks; exactly that many tuples are then said to be lost.
    """
    upstream = seen.setting.upstream(stream)
    if any(name in seen.exposed_us or name in seen.anew_us for name in upstream):
        return
    arrivals = seen.watched[observer, stream]
    chunks = [arrival.delivery.chunk for arrival in arrivals]
    if not chunks:
        return
    rows = [row for chunk in chunks for row in rows_of(chunk.rows)]
    # The first chunk may begin with timestamps of which there is no tuple.
    first_ms = rows[0][0] if rows else chunks[-1].watermark_ms
    first_ms = min(first_ms, int(chunks[0].watermarks_ms[0]))
    wanted = [row for row in expected[stream].rows if first_ms <= row[0] <= chunks[-1].watermark_ms]
    if seen.setting.cluster.memory_bytes == LITTLE_MEMORY_BYTES:
        told_lost = sum(arrival.delivery.lost for arrival in arrivals)
        if _is_part(rows, wanted) and len(rows) + told_lost == len(wanted):
            return
    if rows != wanted:
        yield f"observer: {observer} of {stream}: {_difference(rows, wanted)}"


def _is_part(rows: list[Row], wanted: list[Row]) -> bool:
    """Whether rows are among the wanted ones, in the same order and none more often."""
    remaining = iter(wanted)
    return all(any(row == each for each in remaining) for row in rows)


def _visited(seen: Observed, expected: dict[str, Expected], stream: str) -> Iterator[str]:
    """The visitor's results are exact once its windows hold nothing from before it came."""
    arrivals = seen.visited[stream]
    upstream = seen.setting.upstream(stream)
    if any(name in seen.exposed_us or _interrupted(seen, name) for name in upstream):
        return
    if not arrivals:
        return
    chunks = [arrival.delivery.chunk for arrival in arrivals]
    watermarks = [int(each) for chunk in chunks for each in chunk.watermarks_ms]
    if any(after <= before for before, after in pairwise(watermarks)):
        yield f"order: completed timestamps of {stream} repeat or fall at its sink"
    came_ms = BEGIN_MS + (arrivals[0].at_us - seen.began_us) // 1000
    visiting = seen.setting.visiting
    from_ms = released_ms(visiting, expected, came_ms, VISITORS_WINDOW_MS)[stream]
    rows = [row for chunk in chunks for row in rows_of(chunk.rows) if row[0] > from_ms]
    wanted = [row for row in expected[stream].rows if from_ms < row[0] <= watermarks[-1]]
    if not _same_relations(seen, stream, rows, wanted):
        yield f"visitor: {stream}: {_difference(rows, wanted)}"


def _same_relations(seen: Observed, stream: str, rows: list[Row], wanted: list[Row]) -> bool:
    """Whether rows are those of a state that began later: the same, but groups in any order.

    Groups come in the order in which they began. One that lasts for ever may have begun before a
    query that came later, or a state that began from nothing, knew of it.
    """
    programs = seen.setting.every_program
    fragments = programs.keys() & seen.setting.upstream(stream)
    if all(select.group is None for name in fragments for select in programs[name].selects):
        return rows == wanted
    return Counter(rows) == Counter(wanted) and all(a[0] <= b[0] for a, b in pairwise(rows))


def released_ms(
    programs: Mapping[str, Program],
    expected: Mapping[str, Expected],
    since_ms: int,
    longest_ms: int,
) -> dict[str, int]:
    """Of each program's stream, the timestamp after which nothing depends on its inputs before.

    Parameters
    ----------
    programs
        In the order in which they read each other.
    since_ms
        Up to where other inputs may be anything.
    longest_ms
        Of windows. A session lasts as long as tuples follow each other.
    """
    released: dict[str, int] = {}
    for name, program in programs.items():
        reached_ms = {each: released.get(each, since_ms) for each in program.inputs}
        ends = [each + longest_ms for each in reached_ms.values()]
        for window in program.windows:
            if window.session_ms is not None:
                rows = expected[window.stream].rows
                ends += _session_ends(rows, reached_ms[window.stream], window.session_ms)
        released[name] = max(ends)
    return released


def _session_ends(rows: list[Row], since_ms: int, gap_ms: int) -> Iterator[int]:
    """When the sessions end that may last at a time, of each key."""
    last: dict[object, int] = {}
    for at_ms, key, *_ in rows:
        if since_ms < at_ms <= last.get(key, since_ms) + gap_ms:
            last[key] = at_ms
    return (at_ms + gap_ms for at_ms in last.values())


def _settled_ms(seen: Observed, expected: dict[str, Expected], stream: str) -> int:
    """Timestamp after which no window holds anything of the time of a loss."""
    said = losses_us(seen) | began_anew_us(seen)
    upstream = seen.setting.upstream(stream)
    last_us = max((at for name, at in said.items() if name in upstream), default=seen.began_us)
    last_ms = BEGIN_MS + (last_us - seen.began_us) // 1000
    programs = seen.setting.every_program
    depth = sum(name in programs for name in upstream)
    released = released_ms(programs, expected, last_ms, LONGEST_WINDOW_MS)[stream]
    return max(last_ms + depth * LONGEST_WINDOW_MS, released) + 3000


def _difference(rows: list[Row], wanted: list[Row]) -> str:
    had, needed = Counter(rows), Counter(wanted)
    missing, extra = needed - had, had - needed
    again = Counter({row: count for row, count in extra.items() if row in needed})
    foreign = extra - again
    parts = [
        f"{sum(counted.values())} {what} ({', '.join(map(_shown, sorted(counted)[:SHOWN]))})"
        for what, counted in (("missing", missing), ("repeated", again), ("wrong", foreign))
        if counted
    ]
    return ", ".join(parts) or "the right tuples in another order"


def _shown(row: Row) -> str:
    return " ".join(map(str, (row[0] - BEGIN_MS, *row[1:])))


def _replicas(seen: Observed, expected: dict[str, Expected]) -> Iterator[str]:
    """Both replicas have evaluated everything, and are in the same state."""
    if seen.stuck or not seen.healed:
        return
    replicas = {
        name: [
            hosted.replica
            for host in seen.world.hosts.values()
            if (hosted := host.core.replica_manager.replicas.get(name)) is not None
        ]
        for name in sorted(seen.running)
    }
    for name, pair in replicas.items():
        roles = sorted(replica.role.value for replica in pair)
        if roles != [ReplicaRole.PRIMARY.value, ReplicaRole.STANDBY.value]:
            yield f"replicas: {name} has {', '.join(roles)}"
            continue
        one, other = pair
        for replica in pair:
            reached_ms = replica.output_watermark_ms
            if reached_ms is None or reached_ms < expected[name].end_ms:
                yield f"reader: the {replica.role.value} of {name} stopped at {reached_ms}"
        if one.generation != other.generation:
            both = f"{one.generation} and {other.generation}"
            yield f"replicas: those of {name} are of generations {both}"
        elif one.log.end != other.log.end:
            yield f"replicas: those of {name} end at {one.log.end} and {other.log.end}"
        elif one.engine.snapshot() != other.engine.snapshot():
            yield f"replicas: those of {name} are in different states"


def _source_sites(seen: Observed) -> Iterator[str]:
    """One of a stream's two sites feeds its consumers, and the other one has read as much."""
    if seen.stuck or not seen.healed:
        return
    for stream, recording in seen.setting.recordings.items():
        if recording.standby is None:
            continue
        found = [
            seen.world.hosts[site].core.replica_manager.sources.get(stream)
            for site in recording.sites
        ]
        pair = [source for source in found if source is not None]
        roles = sorted(source.role.value for source in pair)
        if roles != [ReplicaRole.PRIMARY.value, ReplicaRole.STANDBY.value]:
            yield f"sites: sources of {stream} are {', '.join(roles)}"
        elif pair[0].log.end != pair[1].log.end:
            yield f"sites: those of {stream} end at {pair[0].log.end} and {pair[1].log.end}"


def _acknowledged(seen: Observed) -> Iterator[str]:
    """Every reader has acknowledged everything, and producers keep nothing for those that left."""
    if seen.stuck or not seen.healed:
        return
    for node, host in sorted(seen.world.hosts.items()):
        manager = host.core.replica_manager
        logs = {name: hosted.replica.log for name, hosted in manager.replicas.items()}
        logs |= {name: source.log for name, source in manager.sources.items()}
        for name, log in logs.items():
            for reader, subscriber in log.subscribers.items():
                if (read_by := seen.world.hosts.get(reader)) is None or not read_by.alive:
                    continue
                if subscriber.acknowledged.next_seq != log.end.next_seq:
                    yield (
                        f"reader: {reader} has acknowledged {subscriber.acknowledged.next_seq} of "
                        f"{log.end.next_seq} tuples of {name} at {node}"
                    )


def _diverged(seen: Observed) -> Iterator[str]:
    """Replicas never have different output, as long as none of their state was lost."""
    if seen.exposed_us:
        return
    for entry in seen.entries:
        if entry.text.startswith("diverged "):
            yield f"replicas: at {_ms(seen, entry.at_us)}, {entry.text}"


def _primaries(seen: Observed) -> Iterator[str]:
    for (name, epoch), accepted in seen.accepted.items():
        if len(accepted) > 1:
            nodes = ", ".join(sorted(each.node for each in accepted))
            yield f"epochs: {name} had primaries {nodes} in epoch {epoch}"


def _budgets(seen: Observed) -> Iterator[str]:
    for node, memory in seen.over_budget.items():
        yield f"memory: the queues of {node} took {memory.used} of {memory.budget} bytes: {memory}"


TAKEOVER_EVERY_MS = 1000.0
"""How often a fragment may change its primary because a host that lives is slow."""

RECOVERS_MS = 2500.0
"""How long after the end of an overload output may still be late."""

IN_TIME_MS = 1000.0
"""Latency once an overload is over."""


def _overload(seen: Observed) -> Iterator[str]:
    """A slow host is not taken for a dead one again and again; afterwards output is in time."""
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
    settled_us = seen.began_us + (fault.ends_ms + RECOVERS_MS) * 1000
    for stream, arrivals in seen.arrivals.items():
        late_ms = [
            latency_ms
            for arrival in arrivals
            if (entered_us := int(arrival.delivery.chunk.ingestion_times_us[-1])) > settled_us
            and (latency_ms := (arrival.at_us - entered_us) / 1000) > IN_TIME_MS
        ]
        if late_ms:
            yield f"overload: {stream} is {max(late_ms):.0f} ms late long after the load has gone"


NO_BOUND = frozenset({"clock", "slow", "delay", "replaced", "disk"})
"""Kinds of faults after which output may be late for as long as they last."""

FULL_LOG_MS = DEMAND_US / 1000
"""Where hosts have little memory: a producer whose log is full waits for so long for a consumer
that it does not reach, before it drops what only that one lacks."""


def _bound(seen: Observed) -> Iterator[str]:
    """After a single fault, every output resumes within the recovery bound.

    Without a fault it never rests, whatever operators do.
    """
    setting = seen.setting
    interval_ms = max(recording.interval_ms for recording in setting.recordings.values())
    if seen.schedule.shape is Shape.NONE and not seen.stuck:
        yield from _steady(seen, interval_ms + SCHEDULING_MS)
    if seen.schedule.shape is not Shape.SINGLE or seen.stuck:
        return
    ((fault),) = seen.schedule.faults
    allowed_ms = RECOVERY_BOUND_MS + interval_ms + SCHEDULING_MS
    kind = type(fault).__struct_config__.tag
    if kind in NO_BOUND:
        return
    away_ms = fault.ends_ms - fault.at_ms + setting.session_timeout_us / 1000
    waits_ms = FULL_LOG_MS if setting.cluster.memory_bytes == LITTLE_MEMORY_BYTES else 0.0
    from_us = seen.began_us + fault.at_ms * 1000
    for stream, arrivals in seen.arrivals.items():
        if kind == "cut":
            # From fragment to fragment, and to the sink.
            hops = setting.depth(stream) + 1
            allowed_ms = hops * CUT_LINK_MS + interval_ms + SCHEDULING_MS
        most_ms = allowed_ms + waits_ms
        if seen.struck.keys() & _alone(setting, stream):
            # What enters and leaves there rests until the site is back.
            most_ms += away_ms
        silence = _longest_silence_ms(arrivals, from_us)
        if silence > most_ms:
            yield (
                f"bound: {stream} was silent for {silence:.0f} ms after a {kind}, "
                f"{most_ms:.0f} are allowed"
            )


def _alone(setting: Setting, stream: str) -> set[str]:
    """The sites that an output cannot do without: its sink's, and those without a standby."""
    if setting.cluster.memory_bytes == LITTLE_MEMORY_BYTES:
        # What a sink that is away demands fills logs, and holds up what others read.
        return set(setting.sites)
    entering = setting.recordings.keys() & setting.upstream(stream)
    alone = {setting.recordings[name].site for name in entering if _is_alone(setting, name)}
    return alone | {setting.outputs[stream]}


def _is_alone(setting: Setting, stream: str) -> bool:
    return setting.recordings[stream].standby is None


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


def _ms(seen: Observed, at_us: int) -> str:
    return f"{(at_us - seen.began_us) / 1000:.0f} ms"
