"""What the leader does about moves that nobody asks for: set, paused, resumed, looked at."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.decide.automation import spent
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import InvalidInput
from orchestrator.operations.parameters import AutomationParameters, PauseParameters
from orchestrator.records import AutomationRecord, HistoryEvent, ProposedMoves, QuietHours
from orchestrator.results.automation import AutomationStatus, ProposalStatus, ProposalSummary
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import AUTOMATION, RecordInvalid

CHANGED = "automation"
"""Kind of the event."""

_hours = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def automation(cluster: Cluster) -> AutomationStatus:
    """What is wanted, and what has been done."""
    view = read_view(cluster.store)
    return _status(view, view.automation)


def set_automation(cluster: Cluster, asked: AutomationParameters) -> AutomationStatus:
    """Want it otherwise; what is not given stays as it is.

    Raises
    ------
    InvalidInput
        These are no hours of a day.
    """
    changes: dict[str, object] = {}
    if asked.mode is not None:
        changes["mode"] = asked.mode
    if asked.moves_an_hour is not None:
        changes["moves_an_hour"] = asked.moves_an_hour
    if asked.bytes_an_hour is not None or asked.any_bytes:
        changes["bytes_an_hour"] = None if asked.any_bytes else asked.bytes_an_hour
    if asked.quiet is not None:
        changes["quiet"] = tuple(map(quiet_hours, asked.quiet))
    return _changed(cluster, lambda _: changes)


def pause(cluster: Cluster, asked: PauseParameters) -> AutomationStatus:
    """Have nothing planned or moved that nobody asks for."""

    def paused(now_us: int) -> dict[str, object]:
        until_us = None if asked.for_s is None else now_us + round(asked.for_s * 1e6)
        return {"paused": True, "paused_until_us": until_us}

    return _changed(cluster, paused)


def resume(cluster: Cluster) -> AutomationStatus:
    """End a pause."""
    return _changed(cluster, lambda _: {"paused": False, "paused_until_us": None})


def proposals(cluster: Cluster) -> tuple[ProposalStatus, ...]:
    """The moves that the leader proposes by itself, if there are any."""
    found = read_view(cluster.store).proposed
    if found is None:
        return ()
    short, plan = msgspec.structs.asdict(summary(found.record)), found.record.file
    return (ProposalStatus(**short, plan=plan),)


def summary(proposed: ProposedMoves) -> ProposalSummary:
    """A proposal in short."""
    plan = proposed.file
    sizes = [each.state_bytes for each in plan.moves]
    known = [size for size in sizes if size is not None]
    return ProposalSummary(
        name=plan.digest,
        made_us=proposed.made_us,
        until_us=proposed.until_us,
        reasons=proposed.reasons,
        moves=len(plan.moves),
        state_bytes=sum(known) if len(known) == len(sizes) else None,
        cost_bytes=(0.0, 0.0) if plan.rebalancing is None else plan.rebalancing.cost_bytes,
    )


def quiet_hours(text: str) -> QuietHours:
    """Hours of a day as somebody writes them.

    Raises
    ------
    InvalidInput
        They are none.
    """
    found = _hours.fullmatch(text)
    if found is not None:
        hour, minute, until_hour, until_minute = map(int, found.groups())
        hours = QuietHours(begin_min=hour * 60 + minute, end_min=until_hour * 60 + until_minute)
        if hours.begin_min != hours.end_min:
            return hours
    remedy = "Write them as 22:00-06:00, in UTC."
    raise InvalidInput("", "quiet", text, "are no hours of a day", remedy)


def _changed(cluster: Cluster, changes: Callable[[int], dict[str, object]]) -> AutomationStatus:
    store = cluster.store

    def change() -> AutomationStatus:
        view = read_view(store)
        now_us = cluster_now_us(view.cluster_clocks)
        version: int | None = None
        before = AutomationRecord()
        try:
            if (found := store.get(AUTOMATION)) is not None:
                before, version = found.record, found.version
        except RecordInvalid as broken:
            version = broken.version
        record = msgspec.structs.replace(before, **changes(now_us))
        status = _status(view, record)
        if version is not None and record == before:
            return status
        if version is None:
            store.create(AUTOMATION, record)
        else:
            store.update(AUTOMATION, record, version)
        event = HistoryEvent(
            at_us=now_us,
            kind=CHANGED,
            subject=record.mode.value,
            detail=told(status),
            by=cluster.by,
        )
        store.append_history(event)
        return status

    return until_not_overtaken(AUTOMATION.path, change)


def told(status: AutomationStatus) -> str:
    """What is wanted, in one line."""
    bytes_an_hour = status.bytes_an_hour
    shipped = "any number of" if bytes_an_hour is None else f"{bytes_an_hour:,.0f}"
    parts = [f"{status.moves_an_hour} moves and {shipped} bytes an hour"]
    if status.quiet:
        parts.append(f"quiet {', '.join(status.quiet)} UTC")
    if status.paused:
        parts.append("paused" if status.paused_until_us is None else "paused for a while")
    return "; ".join(parts)


def _status(view: ClusterView, record: AutomationRecord) -> AutomationStatus:
    now_us = cluster_now_us(view.cluster_clocks)
    used = spent(view, now_us)
    paused = record.is_paused(now_us)
    return AutomationStatus(
        mode=record.mode,
        moves_an_hour=record.moves_an_hour,
        bytes_an_hour=record.bytes_an_hour,
        quiet=tuple(map(str, record.quiet)),
        paused=paused,
        paused_until_us=record.paused_until_us if paused else None,
        rests=record.rests(now_us),
        moved=used.moves,
        moved_bytes=used.bytes or 0.0,
    )
