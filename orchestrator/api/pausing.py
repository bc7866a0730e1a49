"""Pausing queries, and having them go on.

A client writes that it wants a query to pause, or deletes that wish. The leader does the rest,
whatever becomes of the client (`orchestrator.control.decide.pausing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestrator.api.connection import Cluster
from orchestrator.control.decide.pausing import check_pause, check_resume
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import Unreachable
from orchestrator.progress import Progress, silent
from orchestrator.records import FragmentRecord, HistoryEvent, PauseRecord
from orchestrator.results.pauses import QueryPause
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import PAUSES, PROBLEMS, Store

LOOK_EVERY_S = 0.1

TIMEOUT_S = 180.0
"""How long a query may take to pause, or to go on: checkpoints are awaited for a minute."""

LOOK = "`vivace status` shows which fragments are not done."
"""What to do if the leader names no problem."""


def pause_query(cluster: Cluster, query: str, on_progress: Progress = silent) -> QueryPause:
    """Have a query give no results, and keep its state and its place, until it is resumed.

    Raises
    ------
    InvalidInput
        There is no such query, or the cluster keeps no checkpoints.
    Refused
        What comes meanwhile could not be kept for it, or another query reads its streams.
    Unreachable
        It has not come to pause in time. It does so later.
    """

    def change(view: ClusterView) -> HistoryEvent | None:
        check_pause(view, query)
        if view.is_paused(query):
            return None
        at_us, life = cluster_now_us(view.cluster_clocks), view.number_of(view.queries[query])
        record, key = PauseRecord(query=query, life=life, asked_us=at_us), PAUSES.key(query)
        if (former := view.pauses.get(query)) is None:
            cluster.store.create(key, record)
        else:
            cluster.store.update(key, record, former.version)
        return _event(cluster, at_us, "pause", query, "once every fragment has a checkpoint")

    changed = _change(cluster, query, change)
    _await(cluster.store, query, lambda each: each.stopped is not None, "pausing", on_progress)
    return QueryPause(query=query, paused=True, changed=changed)


def resume_query(cluster: Cluster, query: str, on_progress: Progress = silent) -> QueryPause:
    """Have a paused query go on where it was.

    Raises
    ------
    InvalidInput
        There is no such query.
    Refused
        It reads the streams of a query that is paused.
    Unreachable
        It has not gone on in time. It does so later.
    """
    before: dict[str, int] = {}

    def change(view: ClusterView) -> HistoryEvent | None:
        check_resume(view, query)
        before.update({r.key: r.generation for r in _of(view, query) if r.paused})
        if not view.is_paused(query):
            return None
        found = view.pauses.get(query) or view.broken(PAUSES)[query]
        cluster.store.delete(PAUSES.key(query), found.version)
        at_us = cluster_now_us(view.cluster_clocks)
        return _event(cluster, at_us, "resume", query, "from its checkpoints")

    changed = _change(cluster, query, change)
    view = _await(cluster.store, query, lambda each: not each.paused, "resuming", on_progress)
    anew = [each.key for each in _of(view, query) if before.get(each.key, 0) < each.generation]
    begun_anew = tuple(key for key in anew if key in before)
    return QueryPause(query=query, paused=False, changed=changed, begun_anew=begun_anew)


def _change(
    cluster: Cluster, query: str, change: Callable[[ClusterView], HistoryEvent | None]
) -> bool:
    """Make a change by the newest records; returns whether it was one."""

    def attempt() -> bool:
        event = change(read_view(cluster.store))
        if event is not None:
            cluster.store.append_history(event)
        return event is not None

    return until_not_overtaken(PAUSES.key(query).path, attempt)


def _event(cluster: Cluster, at_us: int, kind: str, query: str, detail: str) -> HistoryEvent:
    return HistoryEvent(
        at_us=at_us, kind=kind, subject=f"query {query}", detail=detail, by=cluster.by
    )


def _of(view: ClusterView, query: str) -> list[FragmentRecord]:
    return [each.record for each in view.fragments.values() if each.record.query == query]


def _await(
    store: Store,
    query: str,
    done: Callable[[FragmentRecord], bool],
    step: str,
    on_progress: Progress,
) -> ClusterView:
    """The view once all fragments of a query are as they should be."""
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        view = read_view(store)
        waiting = [each.key for each in _of(view, query) if not done(each)]
        if not waiting:
            return view
        on_progress(step, ", ".join(waiting))
        if time.monotonic() > until_s:
            published = store.get(PROBLEMS)
            told = () if published is None else published.record.problems
            remedy = "; ".join(each for each in told if query in each)
            problem = f"did not come within {TIMEOUT_S:g} s, and is awaited still"
            raise Unreachable(
                f"The end of {step} query {query}", "the cluster", problem, remedy or LOOK
            )
        time.sleep(LOOK_EVERY_S)
