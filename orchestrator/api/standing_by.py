"""How well fragments are protected: for how long they were not, what a standby would have to do
now, and when the standby last had to, in a drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ha.roles import ReplicaRole
from orchestrator.api.drilling import FAILED, PASSED
from orchestrator.control.observe.audit_events import LOST, RESTORED
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.published import PublishedFigures
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentRecord, HistoryEvent
from orchestrator.store.protocol import HistoryEntry

DAY_US = 86_400_000_000


def unprotected_s(
    view: ClusterView, record: FragmentRecord, told: Sequence[HistoryEvent]
) -> float | None:
    """How long a fragment had no warm secondary the last time, or has had none until now, s.

    Parameters
    ----------
    told
        When its protection was lost, and restored; the first time it gets warm is no loss.
    """
    redundant = view.protected(record)
    last = next((e for e in reversed(told) if e.kind == (RESTORED if redundant else LOST)), None)
    if last is None or not any(event.kind == LOST for event in told):
        return None
    if redundant:
        return None if last.lasted_ms is None else last.lasted_ms / 1e3
    since_us = cluster_now_us(view.cluster_clocks) - last.at_us
    return (max(since_us, 0) / 1e3 + (last.lasted_ms or 0.0)) / 1e3


def redo_ms(view: ClusterView, figures: PublishedFigures, record: FragmentRecord) -> float | None:
    """What the secondary would have to evaluate at most if it took over now, processor time, ms.

    That is the input that it has and has not evaluated, and what producers keep back for it, of
    which there is less than a batch (`Timing.batch`), and as much at most as comes in the time that
    checkpoints cover.
    """
    standby = view.status(record.secondary, record.fragment)
    if standby is None or standby.role is not ReplicaRole.STANDBY:
        return None
    primary = view.status(record.primary, record.fragment)
    cost = standby.cost or (None if primary is None else primary.cost)
    if cost is None:
        query = figures.queries.get(record.query)
        known = () if query is None else query.costs
        cost = next((each for each in known if each.fragment == record.fragment), None)
    timing, load = record.timing, None if primary is None else primary.load
    kept = float(timing.batch - 1)
    if timing.checkpoint_ms:
        if load is None:
            return None
        kept = min(kept, load.tuples_s * timing.covered_ms / 1e3)
    tuples = standby.waiting + kept
    if cost is None or not tuples:
        return None if tuples else 0.0
    return (cost.fixed_us + tuples * cost.per_tuple_us) / 1000


def drilled_days(events: Sequence[HistoryEntry], now_us: int) -> Mapping[str, float]:
    """Fragment → how many days ago a drill last struck its primary, as far as the history goes
    back."""
    found: dict[str, float] = {}
    for each in events:
        event = each.event
        if event.kind in (PASSED, FAILED) and event.report is not None:
            for fragment in cast(list[Any], event.report.get("fragments") or []):
                found[str(fragment)] = max(now_us - event.at_us, 0) / DAY_US
    return found
