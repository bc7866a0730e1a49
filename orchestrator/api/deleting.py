"""Taking queries and streams out of a cluster.

Everything is checked before anything is deleted. Of several queries, readers go before what they
read, so that what is left can run whenever the client dies.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from contextlib import suppress

from foundation.suggestions import nearest
from orchestrator.api.applying import note
from orchestrator.api.connection import Cluster
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.planning.planner import order
from orchestrator.errors import InvalidInput
from orchestrator.results.changes import Deleted
from orchestrator.store.protocol import QUERIES, STREAMS, RecordMissing, Store


def delete(cluster: Cluster, *names: str, if_there: Collection[str] = ()) -> Deleted:
    """Delete queries, and the streams from outside that only they read; or streams without a query.

    Parameters
    ----------
    names
        Queries, or streams that no other query reads.
    if_there
        More of them, some of which may not be there: a stream goes with the last query that reads
        it.

    Raises
    ------
    InvalidInput
        One is neither, or a query that stays reads what it makes. Nothing was changed.
    RecordInvalid
        One cannot be read. Nothing was changed.
    """
    store = cluster.store
    view = read_view(store)
    known = {**view.streams, **view.queries}
    view.check_readable({*names, *if_there} - known.keys())
    for name in names:
        if name not in known:
            raise _refusal(name, "is no query or stream here", nearest(name, known))
    present = [each for each in dict.fromkeys((*names, *if_there)) if each in known]
    absent = tuple(each for each in if_there if each not in known)
    if not present:
        problem = "are not here, neither as queries nor as streams"
        raise _refusal(", ".join(absent), problem, "`vivace status` shows what is.")
    queries = [each for each in present if each in view.queries]
    streams = {each for each in present if each not in view.queries}
    kept = [each for each in view.queries if each not in queries]
    _check_readers(view, queries, streams, kept)
    read = {stream for each in kept for stream in view.dataflow.entering_streams(each)}
    unused = {stream for each in queries for stream in view.dataflow.entering_streams(each)} - read
    first_readers = order(view.dataflow, queries)[::-1]
    for query in first_readers:
        store.delete(QUERIES.key(query), view.queries[query].version)
        note(store, view, "deleted", f"query {query}", "")
    deleted = _delete_streams(store, view, unused | streams, read)
    return Deleted(queries=tuple(first_readers), streams=deleted, absent=absent)


def _check_readers(
    view: ClusterView, queries: Collection[str], streams: Collection[str], kept: Collection[str]
) -> None:
    """Refuse to delete what a query that stays reads."""
    for query in queries:
        if readers := [each for each in kept if query in view.dataflow.upstream_queries(each)]:
            problem = f"makes streams that {', '.join(readers)} reads or shares"
            raise _refusal(query, problem, "Delete the readers first, or name them too.")
    for stream in streams:
        beside = view.streams[stream].record.beside
        if beside is not None and beside not in streams:
            raise _refusal(stream, f"is a side stream of {beside}", "It goes with that.")
        sides = {name for name, each in view.streams.items() if each.record.beside == stream}
        own = {stream, *sides}
        if readers := [each for each in kept if own & view.dataflow.entering_streams(each)]:
            remedy = "Delete these queries: a stream goes with the last one that reads it."
            raise _refusal(stream, f"is read by {', '.join(readers)}", remedy)


def _refusal(name: str, problem: str, remedy: str) -> InvalidInput:
    return InvalidInput("command line", "NAME", name, problem, remedy)


def _delete_streams(
    store: Store, view: ClusterView, unused: Set[str], kept: Set[str]
) -> tuple[str, ...]:
    """Delete streams, and their side streams that are not kept."""
    beside = {name for name, each in view.streams.items() if each.record.beside in unused}
    deleted = sorted(unused | (beside - kept))
    for stream in deleted:
        # What was decided of it is the leader's to delete.
        with suppress(RecordMissing):
            store.delete(STREAMS.key(stream), view.streams[stream].version)
            note(store, view, "deleted", f"stream {stream}", "nothing reads it any more")
    return tuple(deleted)
