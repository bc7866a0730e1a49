"""Queries whose recovery bound cannot be kept at present, because hosts are late.

A plan promises a recovery time that follows from latencies and costs (reliable placement, (1)).
On a CPU-starved machine, everything that a host does comes late in addition, also its heartbeats.
Such a host may be silent for longer before its peers suspect it (`ha.failure_detector`), and its
successor is late as well. Hosts report how late they are; that tells whether the promise holds.
"""

from __future__ import annotations

import math

from ha.failure_detector import LAGS_GRANTED
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.view import ClusterView
from orchestrator.documents.units import figure
from orchestrator.records import FragmentRecord

STEP_MS = 50.0
"""Of what is told: a problem that changes with every report is written as often."""


def name_late_hosts(pending: PendingDecision) -> None:
    """Say of each query which fragment would take longest to recover now, if that is too long."""
    view = pending.view
    worst: dict[str, tuple[float, FragmentRecord]] = {}
    for record in pending.fragments.values():
        took_ms = recovery_ms(view, record)
        if took_ms is not None and took_ms > worst.get(record.query, (0.0, record))[0]:
            worst[record.query] = took_ms, record
    queries = view.query_records
    for query, (took_ms, record) in sorted(worst.items()):
        bound_ms = queries[query].recovery_bound_ms if query in queries else math.inf
        promised_ms = 0.0 if record.timing.promised is None else record.timing.promised.total_ms
        # A plan that breaks the bound by itself has been told of.
        if took_ms > bound_ms >= promised_ms:
            told_ms = math.ceil(took_ms / STEP_MS) * STEP_MS
            pending.problems.append(
                f"{query}: the recovery bound of {figure(bound_ms)} ms may be broken at present: "
                f"{record.fragment} may take {told_ms:.0f} ms instead of {promised_ms:.0f} ms, "
                "because hosts are late. Their machine is too busy: run less on it, or delete the "
                "query and apply it with a longer `recovery`"
            )


def recovery_ms(view: ClusterView, record: FragmentRecord) -> float | None:
    """How long taking over a fragment may take now, ms; None while nothing is promised, or it runs
    nowhere."""
    promised, late_ms = record.timing.promised, lateness_ms(view, record)
    if record.stopped is not None or promised is None or late_ms is None:
        return None
    return promised.total_ms + late_ms


def lateness_ms(view: ClusterView, record: FragmentRecord) -> float | None:
    """Time that late hosts add to a recovery, ms; None if one of its two hosts is unknown."""
    primary = view.hosts.get(record.primary.node)
    taking_over = None if record.secondary is None else view.hosts.get(record.secondary.node)
    if primary is None or taking_over is None:
        return None
    return LAGS_GRANTED * primary.lag_ms + taking_over.lag_ms
