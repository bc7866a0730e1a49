"""When streams start.

A source must not start before every query that reads it runs with a warm secondary for each
fragment and with its sinks listening: tuples that entered earlier would be unprotected. Streams
that feed one query start at the same time, else one would keep the other waiting for good. The same
holds for all streams that are connected through queries.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.control.view import ClusterView
from orchestrator.records import FragmentRecord


def streams_to_start(
    view: ClusterView, fragments: Mapping[str, FragmentRecord], begin_us: int
) -> dict[str, int]:
    """Streams that can start now → when.

    Parameters
    ----------
    fragments
        Records as they will be: a replica that was just assigned is not warm.
    begin_us
        Start of streams that are connected with no started one. A stream that joins a started one
        gets the same start time, and so catches up with it.
    """
    starting: dict[str, int] = {}
    for streams, queries in _groups(view):
        waiting = [name for name in streams if view.streams[name].record.start_at_us is None]
        if waiting and _ready(view, fragments, streams, queries):
            started = [view.streams[name].record.start_at_us for name in streams]
            at_us = min((start for start in started if start is not None), default=begin_us)
            starting |= dict.fromkeys(waiting, at_us)
    return starting


def _groups(view: ClusterView) -> list[tuple[list[str], set[str]]]:
    """Streams that enter from outside, connected by the queries that read them."""
    groups: list[tuple[set[str], set[str]]] = []
    unreadable = {problem.query for problem in view.problems}
    for query in sorted(view.queries.keys() - unreadable):
        streams, queries = view.dataflow.entering_streams(query), {query}
        for group in [group for group in groups if group[0] & streams]:
            groups.remove(group)
            streams, queries = streams | group[0], queries | group[1]
        groups.append((streams, queries))
    return [(sorted(streams), queries) for streams, queries in groups]


def _ready(
    view: ClusterView,
    fragments: Mapping[str, FragmentRecord],
    streams: list[str],
    queries: set[str],
) -> bool:
    hosts = {name: found.record for name, found in view.nodes.items()}
    entering = [(view.streams[name].record.site, name) for name in streams]
    leaving = [
        (site, stream)
        for query in queries
        for stream, site in view.queries[query].record.outputs.items()
    ]
    records = [fragments.get(f.key) for query in queries for f in view.dataflow.of(query)]
    return (
        all(site in hosts and stream in hosts[site].sources for site, stream in entering)
        and all(record is not None and view.protected(record) for record in records)
        and all(site in hosts and stream in hosts[site].sinks for site, stream in leaving)
    )
