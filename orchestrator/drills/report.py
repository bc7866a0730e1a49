"""The report of a drill: its predicted blast radius, and its observer's measurements.

Beside the observer, who receives the outputs as a sink does, their archives say what the sinks
have kept, and when it arrived there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from orchestrator.control.observe.view import ClusterView
from orchestrator.drills.acting import Disturbed
from orchestrator.drills.drill import Drill
from orchestrator.drills.kill_executor import Killed
from orchestrator.drills.measurement import differences, disturbance, failover
from orchestrator.drills.timeline import thinned, timeline
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.records import HistoryEvent
from orchestrator.results.drill_report import Blast, DrillReport


def for_history(report: DrillReport) -> dict[str, object]:
    """A report as the history keeps it, with less of a long timeline."""
    shown = None if report.timeline is None else thinned(report.timeline)
    return msgspec.to_builtins(msgspec.structs.replace(report, timeline=shown))


def from_history(kept: Mapping[str, object] | None) -> DrillReport | None:
    """A report that the history has kept; None if there is none, or another version wrote it."""
    with suppress(msgspec.ValidationError):
        return None if kept is None else msgspec.convert(kept, DrillReport)
    return None


def measured(
    chosen: Drill,
    view: ClusterView,
    blast: Blast,
    found: Killed | Disturbed,
    delivered: Mapping[str, Delivered],
    kept: Mapping[str, Delivered],
    events: Sequence[HistoryEvent],
) -> DrillReport:
    """The consequences of a drill.

    Parameters
    ----------
    delivered
        Watched output → what an observer was delivered.
    kept
        Output → the tuples that its sink has kept, as far as they are known: those of `over_links`
        must be.
    events
        The history.

    Raises
    ------
    DrillFailed
        An output did not come back.
    """
    at_sinks = {stream: kept[stream] for stream in over_links(view, blast)}
    if isinstance(found, Killed):
        consequences = failover(found, delivered.values())
    else:
        consequences = disturbance(found, blast, delivered.values(), at_sinks.values())
    compared = {s: differences(delivered[s], each) for s, each in kept.items()}
    watched = {**delivered, **{f"{stream} at its sink": each for stream, each in at_sinks.items()}}
    figures = msgspec.structs.asdict(consequences)
    struck_us = found.killed_us if isinstance(found, Killed) else found.struck_us
    figures["lost"] += sum(each.lost for each in compared.values())
    figures["repeated"] += sum(each.repeated for each in compared.values())
    return DrillReport(
        drill=chosen.name,
        struck_us=struck_us,
        fragments=blast.primaries,
        causes=tuple(sorted(set(found.causes))) if isinstance(found, Killed) else (),
        outputs=blast.outputs,
        tuples=sum(one.rows.num_rows for one in delivered.values()),
        blast=blast,
        compared=tuple(compared),
        differing=sum(each.differing for each in compared.values()),
        input_lost=tuple(
            f"{event.subject}: {event.detail}"
            for event in events
            if event.kind == "input lost"
            and event.subject in view.dataflow.fragments
            and event.at_us >= struck_us
        ),
        remarks=found.remarks if isinstance(found, Disturbed) else (),
        timeline=timeline(found, consequences.bound_ms, watched, events),
        **figures,
    )


def over_links(view: ClusterView, blast: Blast) -> list[str]:
    """Outputs whose sinks are at an end of a disturbed link: only they see what that does."""
    ends = {node for link in blast.links for node in link.split(":")}
    sites = {s: site for q in view.query_records.values() for s, site in q.outputs.items()}
    return [stream for stream in blast.outputs if sites[stream] in ends]
