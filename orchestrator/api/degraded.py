"""What is not as it should be: since when, what is done about it, and when it should be over.

Nobody knows when something will be over. It usually takes as long as it took before, so that is
what is told: the median of the times that the history knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from orchestrator.control.observe.audit_events import RESTORED
from orchestrator.control.observe.missing_hosts import AWAITED_US
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentRecord, HistoryEvent
from orchestrator.results.status import (
    UNKEPT_MS,
    Degradation,
    FragmentStatus,
    OutputStatus,
    StreamStatus,
)
from orchestrator.store.protocol import HistoryEntry

NODE_LOST, NODE_JOINED = "node lost", "node joined"

UNKNOWN = "it has never been so as far as the history goes back"


def degradations(
    view: ClusterView,
    fragments: Sequence[FragmentStatus],
    streams: Sequence[StreamStatus],
    outputs: Sequence[OutputStatus],
    history: Sequence[HistoryEntry],
    problems: Sequence[str],
    now_us: int,
) -> tuple[Degradation, ...]:
    """Hosts that are away, fragments without a warm standby, streams without one, sinks, links."""
    events = [each.event for each in history]
    return (
        *_hosts(view, events),
        *_fragments(view, fragments, events, problems, now_us),
        *_streams(view, streams, events),
        *_outputs(outputs, now_us),
        *_links(view),
    )


def _hosts(view: ClusterView, events: Sequence[HistoryEvent]) -> Iterator[Degradation]:
    lost_us, away_ms = _absences(events)
    for name in (*view.settings.nodes, *view.settings.sites):
        if name in view.hosts:
            continue
        is_node = name in view.settings.nodes
        until_us, why = _expected(lost_us.get(name), away_ms)
        yield Degradation(
            subject=f"{'node' if is_node else 'site'} {name}",
            state="has no host",
            since_us=lost_us.get(name),
            doing="Spark starts another executor"
            if is_node
            else "whoever supervises its process starts it again",
            until_us=until_us,
            until_why=why,
        )


def _fragments(
    view: ClusterView,
    fragments: Sequence[FragmentStatus],
    events: Sequence[HistoryEvent],
    problems: Sequence[str],
    now_us: int,
) -> Iterator[Degradation]:
    lasted_ms = [e.lasted_ms for e in events if e.kind == RESTORED and e.lasted_ms is not None]
    for each in fragments:
        if each.redundant or each.paused:
            continue
        bare_s = each.unprotected_s
        since_us = None if bare_s is None else now_us - round(bare_s * 1e6)
        word = re.compile(rf"(?<![\w-]){re.escape(each.fragment)}(?![\w-])")
        hindrance = next((told for told in problems if word.search(told)), None)
        state, doing, ends = _healing(view, view.fragments[each.name].record, each, hindrance)
        until_us, why = _expected(since_us, lasted_ms) if ends else (None, "it does not heal alone")
        yield Degradation(
            subject=f"fragment {each.name}",
            state=state,
            since_us=since_us,
            doing=doing,
            until_us=until_us,
            until_why=why,
        )


def _healing(
    view: ClusterView, record: FragmentRecord, status: FragmentStatus, hindrance: str | None
) -> tuple[str, str, bool]:
    """How a fragment without a warm standby is, what is done, and whether that can end it.

    Parameters
    ----------
    hindrance
        What keeps the leader from naming a standby, in its own words.
    """
    if record.stopped is not None:
        return f"is stopped: {record.stopped}", "nothing: apply its query again", False
    if not status.primary_alive:
        return (
            f"has no primary: {record.primary.node} is gone",
            "its secondary takes over, if it was warm; else the leader has it begin again",
            True,
        )
    if record.secondary is None:
        return "has no standby", hindrance or "the leader names a node", hindrance is None
    node = record.secondary.node
    if not view.alive(record.secondary):
        return (
            f"has no standby: {node} is gone",
            f"{node} is awaited for {AWAITED_US / 1e6:.0f} s, then another node is named",
            True,
        )
    if view.lags(record):
        return f"has a standby on {node} that lags", f"{node} catches up", True
    size = status.snapshot_bytes
    told = "" if size is None else f", {size:,} bytes the last time"
    return f"has a standby on {node} that is not warm", f"{node} is given the state{told}", True


def _streams(
    view: ClusterView, streams: Sequence[StreamStatus], events: Sequence[HistoryEvent]
) -> Iterator[Degradation]:
    lost_us, away_ms = _absences(events)
    for each in streams:
        if each.standby is None or each.stands_by:
            continue
        since_us = None if each.standby in view.hosts else lost_us.get(each.standby)
        until_us, why = _expected(since_us, away_ms)
        yield Degradation(
            subject=f"stream {each.stream}",
            state=f"has no standby site: {each.standby} "
            + ("does not follow" if each.standby in view.hosts else "is away"),
            since_us=since_us,
            doing=f"it enters at {each.site} alone until {each.standby} reads it, too",
            until_us=until_us,
            until_why=why,
        )


def _outputs(outputs: Sequence[OutputStatus], now_us: int) -> Iterator[Degradation]:
    for each in outputs:
        if each.unkept_ms > UNKEPT_MS:
            yield Degradation(
                subject=f"output {each.query}.{each.stream}",
                state=f"is not kept by its sink at {each.site}",
                since_us=now_us - round(each.unkept_ms * 1e3),
                doing=f"{each.site} holds what comes, and offers it again",
                until_us=None,
                until_why="the sink has to take it",
            )


def _links(view: ClusterView) -> Iterator[Degradation]:
    for _, found in sorted(view.links.items()):
        link = found.record
        how = "is cut" if link.delay_ms is None else f"takes {link.delay_ms:g} ms longer"
        yield Degradation(
            subject=f"link {link.source} → {link.target}",
            state=f"{how} by a drill",
            since_us=None,
            doing="it ends by itself",
            until_us=link.until_us,
            until_why="as the drill has said",
        )


def _absences(events: Sequence[HistoryEvent]) -> tuple[Mapping[str, int], Sequence[float]]:
    """Host → when it was lost, of those that have not joined again; and how long others were away,
    ms."""
    lost_us: dict[str, int] = {}
    away_ms: list[float] = []
    for event in events:
        if event.kind == NODE_LOST:
            lost_us[event.subject] = event.at_us
        elif event.kind == NODE_JOINED and event.subject in lost_us:
            away_ms.append((event.at_us - lost_us.pop(event.subject)) / 1e3)
    return lost_us, away_ms


def _expected(since_us: int | None, lasted_ms: Sequence[float]) -> tuple[int | None, str]:
    """When something should be over that began then, by how long that took before; and why."""
    if since_us is None or not lasted_ms:
        return None, UNKNOWN
    count, took_ms = len(lasted_ms), median(lasted_ms)
    times = "the last time" if count == 1 else f"on average the last {count} times"
    return since_us + round(took_ms * 1e3), f"it took {took_ms / 1e3:.1f} s {times}"
