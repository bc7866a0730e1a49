"""Whether the right tuples have come, each once and in order, and whether losses were reported.

Content, order and exactly-once are one comparison: the sink's tuples against the oracle's list. A
difference is forgiven only if a fault took the last warm replica of a fragment that the stream is
made from (its *exposure*), and only if that was reported. Tuples before the loss, and long after
it, must be correct. In no case may a timestamp come twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from orchestrator.records import Late
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.oracle import ExpectedStream, Row, rows_of
from orchestrator.simulation.trials.setting import (
    BEGIN_MS,
    LITTLE_MEMORY_BYTES,
    LONGEST_WINDOW_MS,
    VISITORS_WINDOW_MS,
)
from streams.plan.program import LoopPlan, Program
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK, Chunk

SHOWN = 3
"""Tuples that a finding shows."""


def content(seen: Observed, expected: dict[str, ExpectedStream]) -> Iterator[str]:
    """Findings about the tuples of sinks, observers and visitors."""
    for stream in seen.arrivals:
        yield from _sink(seen, expected, stream)
    yield from _shed(seen)
    for name, stream in seen.watched:
        yield from _watched(seen, expected, name, stream)
    for stream in seen.visited:
        yield from _visited(seen, expected, stream)


def losses_us(seen: Observed) -> dict[str, int]:
    """Fragment → when its state was last said to be lost."""
    return {name.rpartition(".")[2]: at_us for name, at_us in _said(seen, "state lost ").items()}


def _began_anew_us(seen: Observed) -> dict[str, int]:
    """Stream → when it was last said to begin anew."""
    return _said(seen, "stream begins anew ")


def _said(seen: Observed, what: str) -> dict[str, int]:
    """Subject → when something was last said of it in the history."""
    return {
        entry.text.removeprefix(what).split(":")[0].rpartition(" ")[2]: entry.at_us
        for entry in seen.entries
        if entry.subject == "history" and entry.text.startswith(what)
    }


def _interrupted(seen: Observed, stream: str) -> bool:
    """Whether a site was started again whose source does not emit everything again."""
    recording = seen.setting.recordings.get(stream)
    return recording is not None and not recording.gapless and stream in seen.anew_us


def _shed(seen: Observed) -> Iterator[str]:
    """Every tuple that is dropped before it has a number is counted: recorded = shed + overdue +
    entered."""
    for stream, recording in seen.setting.recordings.items():
        if not recording.drops or stream in seen.anew_us or not seen.entered.get(stream):
            continue
        entered = sum(chunk.rows.num_rows for chunk in seen.entered[stream])
        counted = entered + seen.shed[stream] + seen.overdue[stream]
        if counted != recording.rows.num_rows:
            yield f"truth: {stream} counts {counted} tuples of {recording.rows.num_rows}"


def _sink(seen: Observed, expected: dict[str, ExpectedStream], stream: str) -> Iterator[str]:
    """Content, order, exactly once, and the truth of what was reported."""
    arrivals = seen.arrivals[stream]
    if not arrivals:
        return
    chunks = [arrival.delivery.chunk for arrival in arrivals]
    rows = [row for chunk in chunks for row in rows_of(chunk.rows)]
    wanted, dropped, told_late = _without_late(seen, stream, expected[stream].rows)
    watermarks = [int(each) for chunk in chunks for each in chunk.watermarks_ms]
    if any(after <= before for before, after in pairwise(watermarks)):
        yield f"order: completed timestamps of {stream} repeat or fall at its sink"
    if any(after[0] < before[0] for before, after in pairwise(rows)):
        yield f"order: timestamps of {stream} fall at its sink"
    if _come_twice(chunks):
        yield f"order: timestamps of {stream} that were complete come again at its sink"
    told_lost = sum(arrival.delivery.lost for arrival in arrivals)
    upstream = seen.setting.upstream(stream)
    excused = [name for name in upstream if name in seen.exposed_us or _interrupted(seen, name)]
    if dropped != told_late and not excused:
        yield f"truth: {told_late} tuples of {stream} were dropped as late, and {dropped} lack"
    if rows == wanted:
        if told_lost and not excused:
            yield f"truth: {told_lost} tuples of {stream} are reported lost, and none is"
        return
    if not excused:
        yield f"content: {stream}: {_difference(rows, wanted)}; {told_lost} reported lost"
        return
    if _enters_again(seen, stream) and not _same_relations(seen, stream, rows, wanted):
        yield (
            f"promise: {stream}: {_difference(rows, wanted)}, though all that was taken in is kept "
            "where fragments read that began from nothing"
        )
    said = losses_us(seen) | _began_anew_us(seen)
    if not told_lost and not any(name in said for name in upstream):
        yield f"truth: {stream}: {_difference(rows, wanted)}, and nothing says so"
    first_us = min(
        each[name] for each in (seen.exposed_us, seen.anew_us) for name in upstream if name in each
    )
    came = [each.delivery.chunk for each in arrivals if each.at_us < first_us]
    early = [row for chunk in came for row in rows_of(chunk.rows)]
    if early != wanted[: len(early)]:
        told = _difference(early, wanted[: len(early)])
        yield f"content: {stream} is wrong before anything was lost: {told}"
    settled_ms = _settled_ms(seen, expected, stream)
    late = [row for row in rows if row[0] > settled_ms]
    right = [row for row in wanted if row[0] > settled_ms]
    if not _same_relations(seen, stream, late, right):
        yield f"content: {stream} is wrong long after the loss: {_difference(late, right)}"


def _without_late(seen: Observed, stream: str, wanted: list[Row]) -> tuple[list[Row], int, int]:
    """The rows that are left of an output if its sink has dropped late ones, how many it should
    have dropped by timestamp, and how many it says that it has."""
    (query,) = (each for each in seen.setting.queries if stream in each.outputs)
    if query.late.get(stream, Late.KEEP) is Late.KEEP:
        return wanted, 0, sum(sum(each.delivery.late) for each in seen.arrivals[stream])
    late: list[tuple[int, int]] = []
    told = 0
    before_ms = NO_WATERMARK
    for arrival in seen.arrivals[stream]:
        delivery = arrival.delivery
        counts = delivery.late or [0] * len(delivery.chunk.watermarks_ms)
        for watermark_ms, count in zip(delivery.chunk.watermarks_ms.tolist(), counts, strict=True):
            if count:
                late.append((before_ms, watermark_ms))
                told += count
            before_ms = watermark_ms
    kept = [row for row in wanted if not any(a < row[0] <= b for a, b in late)]
    return kept, len(wanted) - len(kept), told


def _enters_again(seen: Observed, stream: str) -> bool:
    """Whether a stream must be whole although a state was lost from which it is made.

    Undelivered input enters again, with as much earlier input as windows reach back. So the stream
    is whole if time bounds all windows and no input was reported lost. There is one exception:
    output of another fragment is kept only for readers that have not processed it. Windows over
    such output begin anew.
    """
    setting, upstream = seen.setting, seen.setting.upstream(stream)
    made = {name: program for name, program in setting.every_program.items() if name in upstream}
    windows = [window for program in made.values() for window in program.windows]
    if any(program.loop is not None for program in made.values()):
        # What a loop gives itself does not enter again.
        return False
    lost = losses_us(seen).keys() & made.keys()
    told = {
        entry.text.split(":")[0].rpartition(" ")[2]
        for entry in seen.entries
        if entry.text.startswith("input lost ")
    }
    return (
        all(setting.recordings[each].resumes for each in upstream - made.keys())
        and all(window.range_ms is not None for window in windows)
        and not told & upstream
        and (
            all(window.range_ms == 1 for window in windows)
            or not any(made.keys() & {*made[name].inputs} for name in lost)
        )
    )


def _watched(
    seen: Observed, expected: dict[str, ExpectedStream], observer: str, stream: str
) -> Iterator[str]:
    """What an observer has received is a part of the stream, each tuple once and in order.

    Observers demand nothing. Where hosts have little memory, a producer may drop what only an
    observer lacks; exactly that many tuples are then said to be lost.
    """
    arrivals = seen.watched[observer, stream]
    chunks = [arrival.delivery.chunk for arrival in arrivals]
    if _come_twice(chunks):
        yield f"order: timestamps of {stream} that were complete come again at {observer}"
    upstream = seen.setting.upstream(stream)
    if not chunks or any(name in seen.exposed_us or name in seen.anew_us for name in upstream):
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


def _come_twice(chunks: list[Chunk]) -> bool:
    """Whether timestamps come again after they were complete."""
    return any(after.earliest_ms <= before.watermark_ms for before, after in pairwise(chunks))


def _is_part(rows: list[Row], wanted: list[Row]) -> bool:
    """Whether rows are among the wanted ones, in the same order and none more often."""
    remaining = iter(wanted)
    return all(any(row == each for each in remaining) for row in rows)


def _visited(seen: Observed, expected: dict[str, ExpectedStream], stream: str) -> Iterator[str]:
    """The visitor's results are exact once its windows hold nothing from before it came."""
    arrivals = seen.visited[stream]
    upstream = seen.setting.upstream(stream)
    chunks = [arrival.delivery.chunk for arrival in arrivals]
    if _come_twice(chunks):
        yield f"order: timestamps of {stream} that were complete come again at its sink"
    if any(name in seen.exposed_us or _interrupted(seen, name) for name in upstream):
        return
    if not arrivals:
        return
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

    Groups, and the rows of relations in a program or a loop, come in the order in which they began.
    One that lasts for ever may have begun before a query that came later, or a state that began
    from nothing, knew of it.
    """
    programs = seen.setting.every_program
    fragments = programs.keys() & seen.setting.upstream(stream)
    made = [programs[name] for name in fragments]
    if not any(each.relations or each.groups or each.loop is not None for each in made):
        return rows == wanted
    return Counter(rows) == Counter(wanted) and all(a[0] <= b[0] for a, b in pairwise(rows))


def released_ms(
    programs: Mapping[str, Program],
    expected: Mapping[str, ExpectedStream],
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
        Of windows. A session lasts as long as tuples follow each other, and some loops remember all
        that has ever been.
    """
    released: dict[str, int] = {}
    for name, program in programs.items():
        reached_ms = {each: released.get(each, since_ms) for each in program.inputs}
        period_ms = 0 if program.releases is None else program.releases.period_ms
        ends = [each + longest_ms + period_ms for each in reached_ms.values()]
        if program.loop is not None and _remembers(program.loop):
            ends = [FOREVER_MS]
        for window in program.windows:
            if window.session_ms is not None:
                rows = expected[window.stream].rows
                ends += _session_ends(rows, reached_ms[window.stream], window.session_ms)
        released[name] = max(ends)
    return released


def _remembers(loop: LoopPlan) -> bool:
    """Whether what a loop gives itself at one millisecond may matter at later ones, and so on."""
    own = {each.program.name for each in loop.members}
    return any(
        each.delay > 1
        or any(one.range_ms != 1 for one in each.program.windows if one.stream in own)
        for each in loop.members
    )


def _session_ends(rows: list[Row], since_ms: int, gap_ms: int) -> Iterator[int]:
    """When the sessions end that may last at a time, of each key."""
    last: dict[object, int] = {}
    for at_ms, key, *_ in rows:
        if since_ms < at_ms <= last.get(key, since_ms) + gap_ms:
            last[key] = at_ms
    return (at_ms + gap_ms for at_ms in last.values())


def _settled_ms(seen: Observed, expected: dict[str, ExpectedStream], stream: str) -> int:
    """Timestamp after which no window holds anything of the time of a loss."""
    said = losses_us(seen) | _began_anew_us(seen)
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
