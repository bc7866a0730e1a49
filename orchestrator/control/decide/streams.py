"""The life of a stream that enters from outside: it starts, waits, begins anew, and is gone.

What is decided of it is a record of its own (`RunningStreamRecord`), which only the leader writes.
Without one a stream has not started. One that has outlived its stream is deleted; until then
nothing rests on it: its generation is less than the number of the creation of a stream that has
been applied again.
"""

from __future__ import annotations

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.stream_sites import begun_anew
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import NodeRecord
from orchestrator.store.protocol import RUNNING_STREAMS, STREAMS

SLIP_STEP_MS = 1000.0
"""What a source that waits must have slipped further before that is written again."""


def retire_streams(pending: PendingDecision) -> None:
    """Delete what was decided of streams that are gone, not of those that cannot be read."""
    view = pending.view
    kept = view.streams.keys() | view.broken(STREAMS).keys()
    gone = (view.running_streams.keys() | view.broken(RUNNING_STREAMS).keys()) - kept
    former = {
        name
        for name, found in view.running_streams.items()
        if name in view.streams and found.record.generation < view.number_of(view.streams[name])
    }
    for name in sorted(gone | former):
        pending.delete_stream(name)


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
        starts_us = {name: known[name].running.start_at_us for name in streams}
        waiting = [name for name, start_us in starts_us.items() if start_us is None]
        if not waiting or not _ready(pending, streams, queries):
            continue
        at_us = min((each for each in starts_us.values() if each is not None), default=begin_us)
        for name in waiting:
            stream = known[name]
            site = view.nodes[stream.feeding_site].record
            begun_at = None if stream.spec.resumes else site.incarnation
            event = pending.event("stream starts", name, "everything that reads it is protected")
            pending.change_stream(name, event, start_at_us=at_us, incarnation=begun_at)


def renew_streams(pending: PendingDecision) -> None:
    """Have streams begin anew whose site cannot continue their numbering.

    The site was started again, or is assigned a stream that it was relieved of: then its host has
    discarded the log with the numbers.
    """
    view = pending.view
    for name, stream in [*pending.planning.streams.items()]:
        site, running = view.nodes.get(stream.feeding_site), stream.running
        if running.incarnation is None or site is None:
            continue
        if site.record.incarnation != running.incarnation:
            why = "was started again"
        elif _relieved(view, site.record, name):
            why = "was relieved of it for a while"
        else:
            continue
        renewed = begun_anew(running, site.record)
        detail = f"{stream.feeding_site} {why} and its source cannot resume; "
        detail += f"generation {renewed['generation']}"
        pending.change_stream(name, pending.event("stream begins anew", name, detail), **renewed)


def note_slips(pending: PendingDecision) -> None:
    """Keep by how much sources have had to wait, for the time after their sites' restarts.

    While a source waits, hosts report more every second, so it is written in steps.
    """
    for name, stream in [*pending.planning.streams.items()]:
        site, running = pending.view.nodes.get(stream.feeding_site), stream.running
        status = None if site is None else site.record.sources.get(name)
        if status is None or running.start_at_us is None or not stream.spec.resumes:
            continue
        more_ms = status.slipped_ms - running.slipped_ms
        # Of two sites, the one that has taken over may have slipped less.
        is_less = stream.spec.standby is not None and more_ms <= -SLIP_STEP_MS
        if is_less or more_ms >= SLIP_STEP_MS or (more_ms > 0 and not status.throttled):
            pending.change_stream(name, None, slipped_ms=status.slipped_ms)


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
    entering = [(site, name) for name in streams for site in view.entering[name].opened_at]
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
