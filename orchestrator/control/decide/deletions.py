"""Deletions that clients ask for: what goes, in which order, and what must stay.

Of several queries, readers go before what they read, so that what is left can run wherever a leader
stops.
"""

from __future__ import annotations

from collections.abc import Collection

from foundation.suggestions import nearest
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import order
from orchestrator.errors import InvalidInput
from orchestrator.records import DeleteRequest, Deletion


def plan_deletion(view: ClusterView, wish: DeleteRequest) -> Deletion:
    """What is to be deleted.

    Raises
    ------
    InvalidInput
        One of the names is neither a query nor a stream, or a query that stays reads what it makes.
    """
    known = {**view.streams, **view.queries}
    for name in wish.names:
        if name not in known:
            raise _refusal(name, "is no query or stream here", nearest(name, known))
    present = [each for each in dict.fromkeys((*wish.names, *wish.if_there)) if each in known]
    absent = tuple(each for each in wish.if_there if each not in known)
    if not present:
        problem = "are not here, neither as queries nor as streams"
        raise _refusal(", ".join(absent), problem, "`vivace status` shows what is.")
    queries = [each for each in present if each in view.queries]
    streams = {each for each in present if each not in view.queries}
    if wish.keep_streams:
        streams &= {*wish.names}
    kept = [each for each in view.queries if each not in queries]
    _check_readers(view, queries, streams, kept)
    read = {stream for each in kept for stream in view.dataflow.entering_streams(each)}
    own = {stream for each in queries for stream in view.dataflow.entering_streams(each)}
    unused = streams if wish.keep_streams else own - read | streams
    beside = {name for name, each in view.streams.items() if each.record.beside in unused}
    return Deletion(
        queries=tuple(order(view.dataflow, queries)[::-1]),
        streams=tuple(sorted(unused | (beside - read))),
        absent=absent,
    )


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
    return InvalidInput("", "names", name, problem, remedy)
