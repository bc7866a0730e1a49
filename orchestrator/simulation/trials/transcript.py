"""A trial as text that reviews as a diff: a line a fault, decision and report, with its time."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.simulation.trials.faults import event_text
from orchestrator.simulation.trials.observed import Entry, Observed
from streams.language import parse


def transcript(seen: Observed, found: Sequence[str]) -> str:
    """The setting, the schedule, everything that happened from the streams' begin, the findings."""
    setting, schedule = seen.setting, seen.schedule
    lines = [f"seed {schedule.seed}, {schedule.shape.value}{', frames' if setting.frames else ''}"]
    lines.append(f"nodes: {' '.join(setting.executors)}; sites: {' '.join(setting.sites)}")
    for name, recording in setting.recordings.items():
        lines.append(f"stream {name} at {' or '.join(recording.sites)}")
    for query in setting.queries:
        lines += [f"{query.name}: {statement.text}" for statement in parse(query.statements)]
        leaving = ", ".join(f"{stream} at {site}" for stream, site in query.outputs.items())
        lines.append(f"{query.name} delivers {leaving}")
    lines += [
        f"{each.name} reads {' '.join(each.streams)} from {each.at_ms} to {each.until_ms or '…'} ms"
        for each in schedule.observers
    ]
    if schedule.visit is not None and setting.visitor is not None:
        lines += [f"visitor: {each.text}" for each in parse(setting.visitor.statements)]
        lines.append(f"visitor from {schedule.visit.at_ms} to {schedule.visit.until_ms or '…'} ms")
    lines += [f"planned at {fault.at_ms} ms: {event_text(fault)}" for fault in schedule.faults]
    lines.append("")
    lines += [_line(seen, entry) for entry in seen.entries if entry.at_us >= seen.began_us]
    lines += ["", *(f"! {finding}" for finding in found)] if found else ["", "all promises kept"]
    return "\n".join(lines) + "\n"


def _line(seen: Observed, entry: Entry) -> str:
    return f"{(entry.at_us - seen.began_us) / 1000:9.1f}  {entry.subject:<8} {entry.text}"
