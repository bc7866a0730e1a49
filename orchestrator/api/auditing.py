"""What was drilled when, and with which result; what never was, and what cannot be drilled.

All of it is read from the history, where each drill leaves its report, but for what the cluster is
now: its drills, fragments and promises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from orchestrator.api.aiming import cluster_pid
from orchestrator.api.cluster_status import event_documents
from orchestrator.api.connection import Cluster
from orchestrator.api.drilling import BEGUN, DRILLS, FAILED, PASSED
from orchestrator.control.observe.audit_events import RECOVERED
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.published import PublishedFigures, read_figures
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.blast import planned_recoveries_ms
from orchestrator.drills.report import from_history
from orchestrator.results.drills import DrillAudit, DrilledFragment, DrilledRun, DrillRecord
from orchestrator.store.protocol import HistoryEntry


def drill_audit(cluster: Cluster) -> DrillAudit:
    """What was drilled when, on which fragments, and what never was or cannot be."""
    view = read_view(cluster.store)
    history = cluster.store.history()
    runs = tuple(_run(e, history) for e in history if e.event.kind in (PASSED, FAILED))
    return DrillAudit(
        cluster=view.settings.name,
        at_us=cluster_now_us(view.cluster_clocks),
        since_us=min((each.event.at_us for each in history), default=None),
        drills=_records(cluster, view, runs),
        fragments=_fragments(view, read_figures(cluster.store), runs),
        runs=runs,
        unended=event_documents(_unended(history)),
    )


def _unended(history: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """The beginnings of drills that no result follows before the drill begins again."""
    found: list[HistoryEntry] = []
    open_drills: dict[str, HistoryEntry] = {}
    for entry in history:
        name, kind = entry.event.subject, entry.event.kind
        if kind not in (BEGUN, PASSED, FAILED):
            continue
        before = open_drills.pop(name, None)
        if kind == BEGUN:
            found += [] if before is None else [before]
            open_drills[name] = entry
    return sorted([*found, *open_drills.values()], key=lambda entry: entry.sequence)


def _records(
    cluster: Cluster, view: ClusterView, runs: Sequence[DrilledRun]
) -> tuple[DrillRecord, ...]:
    """All drills that there are, and former ones that were run."""
    found = {
        name: DrillRecord(name=name, what=each.what, unfit=each.unfit(view, cluster_pid(cluster)))
        for name, each in DRILLS.items()
    }
    for run in runs:
        before = found.get(run.drill, DrillRecord(name=run.drill))
        measured = [] if run.report is None else [run.report]
        longest_ms = [before.longest_ms, *(each.recovery_ms for each in measured)]
        bounds_ms = [before.bound_ms, *(each.bound_ms for each in measured)]
        found[run.drill] = msgspec.structs.replace(
            before,
            at_us=run.at_us,
            passed=run.passed,
            detail=run.detail,
            runs=before.runs + 1,
            failed=before.failed + (not run.passed),
            longest_ms=max((ms for ms in longest_ms if ms is not None), default=None),
            bound_ms=min((ms for ms in bounds_ms if ms is not None), default=None),
        )
    return tuple(found.values())


def _fragments(
    view: ClusterView, figures: PublishedFigures, runs: Sequence[DrilledRun]
) -> tuple[DrilledFragment, ...]:
    planned_ms = planned_recoveries_ms(view, figures)
    drills = {name: Counter[str]() for name in sorted(view.fragments)}
    for run in runs:
        for name in () if run.report is None else run.report.fragments:
            if name in drills:
                drills[name][run.drill] += 1
    queries = {name: view.query_records.get(view.fragments[name].record.query) for name in drills}
    return tuple(
        DrilledFragment(
            fragment=name,
            bound_ms=None if query is None else query.recovery_bound_ms,
            planned_ms=planned_ms.get(name),
            drills=drills[name],
        )
        for name, query in queries.items()
    )


def _run(entry: HistoryEntry, history: Sequence[HistoryEntry]) -> DrilledRun:
    event = entry.event
    report = from_history(event.report)
    recoveries = [
        each
        for each in history
        if each.event.kind == RECOVERED
        and report is not None
        and report.struck_us <= each.event.at_us <= event.at_us
    ]
    return DrilledRun(
        drill=event.subject,
        at_us=event.at_us,
        passed=event.kind == PASSED,
        detail=event.detail,
        report=report,
        recoveries=event_documents(recoveries),
    )
