"""Queries that pause: they give no results, and keep their place.

Once somebody wants a query to pause (`PauseRecord`), each of its fragments writes a checkpoint at
once. As soon as all of them have checkpoints that fit, the leader notes in their records that they
are paused, and then they run nowhere. Nobody keeps output for them meanwhile, and they hold up
nobody. Their checkpoints stay, and journals keep what follows these.

When the query is resumed, its fragments go on as those do that have lost all replicas
(`lost_fragments`, `resuming`): from their checkpoints, under the same numbers. Results that were
given after a checkpoint was taken come again then, and consumers drop them.
"""

from __future__ import annotations

from collections.abc import Iterator

from foundation.suggestions import nearest
from orchestrator.control.decide.checkpoints import spelled, stored_of
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.resuming import Resumption
from orchestrator.control.decide.savepoints import NO_FOLDER, patience_us
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import InvalidInput, Refused
from orchestrator.records import FragmentRecord, PauseRecord
from orchestrator.store.protocol import PAUSES, QUERIES

PAUSED = "paused"
"""Kind of the event."""


def check_pause(view: ClusterView, query: str) -> None:
    """Say why a query cannot pause, if it cannot.

    Raises
    ------
    InvalidInput
        There is no such query, or the cluster keeps no checkpoints.
    Refused
        What comes meanwhile could not be kept for it, or another query reads its streams.
    """
    _check_known(view, query)
    if view.settings.state is None:
        remedy = f"{NO_FOLDER[0].upper()}{NO_FOLDER[1:]}."
        raise InvalidInput("", "query", query, "cannot pause", remedy)
    streams = view.stream_records
    for stream in sorted(view.dataflow.entering_streams(query) & streams.keys()):
        if not streams[stream].resumes:
            problem = f"reads stream {stream}, of which nothing can be kept for it meanwhile"
            remedy = "Delete the query, and apply it again later: its state begins anew."
            raise Refused(f"query {query}", "pause", query, problem, remedy, {})
    made = {each.name for each in view.dataflow.of(query)}
    for reader in view.dataflow.fragments.values():
        read = made & reader.inputs.keys()
        if read and reader.query != query and not view.is_paused(reader.query):
            problem = f"makes stream {min(read)}, which query {reader.query} reads"
            remedy = f"`vivace pause {reader.query}` first."
            raise Refused(f"query {query}", "pause", query, problem, remedy, {})


def check_resume(view: ClusterView, query: str) -> None:
    """Say why a query cannot go on, if it cannot.

    Raises
    ------
    InvalidInput
        There is no such query.
    Refused
        It reads the streams of a query that is paused.
    """
    _check_known(view, query)
    for name in sorted(view.dataflow.upstream_queries(query) - {query}):
        if view.is_paused(name):
            problem = f"reads what query {name} makes, and that is paused"
            remedy = f"`vivace resume {name}` first."
            raise Refused(f"query {query}", "pause", query, problem, remedy, {})


def _check_known(view: ClusterView, query: str) -> None:
    if query not in view.queries:
        raise InvalidInput("", "query", query, "is not a query here", nearest(query, view.queries))


def pause_queries(pending: PendingDecision) -> None:
    """Have queries pause whose fragments have written their checkpoints."""
    view = pending.view
    for name, found in sorted(view.pauses.items()):
        if view.is_paused(name):
            pending.attempt(f"query {name}", lambda wish=found.record: _pause(pending, wish))
        elif name not in view.broken(QUERIES):
            pending.write(PAUSES.key(name), None, found.version)


def checkpoints_us(pending: PendingDecision) -> int:
    """After which time every fragment is to write a checkpoint for that; 0: none need."""
    return max((wish.asked_us for wish in _wishes(pending) if _running(pending, wish)), default=0)


def name_lost_input(pending: PendingDecision) -> None:
    """Say of which paused queries the journals of streams have dropped input already."""
    flow = {each.key: each for each in pending.view.dataflow.fragments.values()}
    for wish in _wishes(pending):
        keys = [key for key, record in pending.fragments.items() if record.query == wish.query]
        resumption = Resumption(pending, {key: stored_of(pending, key) for key in keys})
        resumption.of([key for key in keys if key in flow and pending.fragments[key].paused])
        for key, why in sorted(resumption.reasons.items()):
            pending.problems.append(
                f"query {wish.query} is paused, and {key} would begin anew if resumed: {why}"
            )


def _wishes(pending: PendingDecision) -> Iterator[PauseRecord]:
    for name, found in sorted(pending.view.pauses.items()):
        if pending.view.is_paused(name):
            yield found.record


def _running(pending: PendingDecision, wish: PauseRecord) -> list[FragmentRecord]:
    """The fragments of a query that are to pause, and run."""
    found = [each for each in pending.fragments.values() if each.query == wish.query]
    return [each for each in found if each.stopped is None]


def _pause(pending: PendingDecision, wish: PauseRecord) -> None:
    """Note that the fragments of a query are paused, once all have checkpoints that fit."""
    running = _running(pending, wish)
    spec = pending.view.settings.state
    changes = any(each.changing is not None or each.restart is not None for each in running)
    if not running or spec is None or changes:
        return
    resumption = Resumption(pending, {key: stored_of(pending, key) for key in pending.fragments})
    chosen = resumption.of(
        [
            each.key
            for each in pending.fragments.values()
            if each.query == wish.query and (each.paused or each.stopped is None)
        ]
    )
    late = pending.now_us - wish.asked_us >= patience_us(spec)
    lacking = [each.key for each in running if each.key not in chosen]
    if lacking:
        if late:
            told = "; ".join(f"{key}: {resumption.reasons.get(key, '')}" for key in lacking)
            pending.problems.append(f"query {wish.query} runs on until it can pause: {told}")
        return
    if not late and any(chosen[each.key].at_us < wish.asked_us for each in running):
        return
    for record in running:
        detail = f"it goes on from {spelled(chosen[record.key], pending.now_us)}, once resumed"
        pending.change_fragment(record, PAUSED, detail, paused=True, third=None)
