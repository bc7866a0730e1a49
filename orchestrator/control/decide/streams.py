"""The life of a stream that enters from outside: when it starts, begins anew and has slipped."""

from __future__ import annotations

import msgspec

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import NodeRecord
from orchestrator.store.protocol import STREAMS

SLIP_STEP_MS = 1000.0
"""What a source that waits must have slipped further before that is written again."""


def start_streams(pending: PendingDecision) -> None:
    """Start the streams that can start now.

    A source must not start before every query that reads it runs with a warm secondary for each
    fragment and with its sinks listening: tuples that entered earlier would be unprotected. Streams
    that feed one query start at the same time, else one would keep the other waiting for good. The
    same holds for all streams that are connected through queries. A stream that joins a started one
    gets the same start time, and so catches up with it.
    """
    view, known = pending.view, pending.planning.streams
    begin_us = pending.now_us + pending.settings.start_delay_us
    for streams, queries in _connected_streams(view):
        waiting = [name for name in streams if known[name].start_at_us is None]
        if not waiting or not _ready(pending, streams, queries):
            continue
        started = [known[name].start_at_us for name in streams]
        at_us = min((start for start in started if start is not None), default=begin_us)
        for name in waiting:
            site = view.nodes[known[name].feeding_site].record
            known[name] = msgspec.structs.replace(
                known[name],
                start_at_us=at_us,
                incarnation=None if known[name].resumes else site.incarnation,
            )
            event = pending.event("stream starts", name, "everything that reads it is protected")
            pending.write(STREAMS.key(name), known[name], view.streams[name].version, event)


def renew_streams(pending: PendingDecision) -> None:
    """Have streams begin anew whose site cannot continue their numbering.

    The site was started again, or is assigned a stream that it was relieved of: then its host has
    discarded the log with the numbers.
    """
    view, known = pending.view, pending.planning.streams
    for name, stream in known.items():
        site = view.nodes.get(stream.feeding_site)
        if stream.incarnation is None or site is None:
            continue
        if site.record.incarnation != stream.incarnation:
            why = "was started again"
        elif _relieved(view, site.record, name):
            why = "was relieved of it for a while"
        else:
            continue
        renewed = msgspec.structs.replace(
            stream, generation=stream.generation + 1, incarnation=site.record.incarnation
        )
        known[name] = renewed
        detail = f"{stream.feeding_site} {why} and its source cannot resume; "
        detail += f"generation {renewed.generation}"
        event = pending.event("stream begins anew", name, detail)
        pending.write(STREAMS.key(name), renewed, view.streams[name].version, event)


def note_slips(pending: PendingDecision) -> None:
    """Keep by how much sources have had to wait, for the time after their sites' restarts.

    While a source waits, hosts report more every second, so it is written in steps.
    """
    view, known = pending.view, pending.planning.streams
    for name, stream in known.items():
        site = view.nodes.get(stream.feeding_site)
        status = None if site is None else site.record.sources.get(name)
        if status is None or stream.start_at_us is None or not stream.resumes:
            continue
        more_ms = status.slipped_ms - stream.slipped_ms
        # Of two sites, the one that has taken over may have slipped less.
        is_less = stream.standby is not None and more_ms <= -SLIP_STEP_MS
        if is_less or more_ms >= SLIP_STEP_MS or (more_ms > 0 and not status.throttled):
            known[name] = msgspec.structs.replace(stream, slipped_ms=status.slipped_ms)
            pending.write(STREAMS.key(name), known[name], view.streams[name].version)


def _relieved(view: ClusterView, site: NodeRecord, stream: str) -> bool:
    """Whether a site's present assignment leaves out a stream that enters there."""
    found = view.assignments.get(site.node)
    if found is None or found.record.incarnation != site.incarnation:
        return False
    return all(source.stream != stream for source in found.record.sources)


def _connected_streams(view: ClusterView) -> list[tuple[list[str], set[str]]]:
    """Streams that enter from outside, connected by the queries that read them."""
    groups: list[tuple[set[str], set[str]]] = []
    unreadable = {problem.query for problem in view.problems}
    known = view.stream_records
    for query in sorted(view.queries.keys() - unreadable):
        streams, queries = view.dataflow.entering_streams(query), {query}
        streams |= {name for name, each in known.items() if each.beside in streams}
        for group in [group for group in groups if group[0] & streams]:
            groups.remove(group)
            streams, queries = streams | group[0], queries | group[1]
        groups.append((streams, queries))
    return [(sorted(streams), queries) for streams, queries in groups]


def _ready(pending: PendingDecision, streams: list[str], queries: set[str]) -> bool:
    """Whether everything that reads these streams, and delivers what is made of them, is there."""
    view = pending.view
    hosts = {name: found.record for name, found in view.nodes.items()}
    entering = [(site, name) for name in streams for site in view.stream_records[name].opened_at]
    leaving = [
        (site, stream)
        for query in queries
        for stream, site in view.queries[query].record.outputs.items()
    ]
    # Records as they will be: a replica that was just assigned is not warm.
    records = [pending.fragments.get(f.key) for query in queries for f in view.dataflow.of(query)]
    return (
        all(site in hosts and stream in hosts[site].sources for site, stream in entering)
        and all(r is not None and (r.stopped or view.protected(r)) for r in records)
        and all(site in hosts and stream in hosts[site].sinks for site, stream in leaving)
    )
