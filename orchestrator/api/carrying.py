"""Carrying out an operation of the table (`orchestrator.operations.table`) on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from orchestrator.api.apart import carry_apart
from orchestrator.api.applying import apply
from orchestrator.api.auditing import drill_audit
from orchestrator.api.automation import automation, pause, proposals, resume, set_automation
from orchestrator.api.cluster_status import history, status
from orchestrator.api.connection import Cluster
from orchestrator.api.deleting import delete, named_in
from orchestrator.api.describing import describe, queries
from orchestrator.api.drill_series import run_series
from orchestrator.api.drilling import drill, drills
from orchestrator.api.explaining import explain, explain_refusal
from orchestrator.api.maintaining import break_maintenance, maintenance
from orchestrator.api.mapping import coordinate_map
from orchestrator.api.metric_samples import metrics
from orchestrator.api.moving import cordon, drain, move, switch, uncordon, withdraw
from orchestrator.api.pausing import pause_query, resume_query
from orchestrator.api.plan_files import apply_plan, move_plans, rebalance, undo
from orchestrator.api.plans import plan
from orchestrator.api.process_logs import log_of
from orchestrator.api.proposals import NOTHING
from orchestrator.api.saving import (
    create_savepoint,
    delete_savepoint,
    savepoint,
    savepoints,
)
from orchestrator.api.sending import send
from orchestrator.api.stored_records import stored_records
from orchestrator.api.stream_entries import stream_entry
from orchestrator.api.tailing import tail
from orchestrator.api.tokens import create_token, revoke_token, tokens
from orchestrator.api.topologies import topology
from orchestrator.api.validation import validate
from orchestrator.api.verified_span import AskedSpan
from orchestrator.api.verifying import verify
from orchestrator.api.versions import versions
from orchestrator.folders import scratch_folder
from orchestrator.manifest import Manifests, load_texts
from orchestrator.operations import table
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import (
    ApplyParameters,
    ApplyPlanParameters,
    BreakParameters,
    CordonParameters,
    DeleteParameters,
    DrainParameters,
    DrillParameters,
    DrillSeriesParameters,
    ExplainParameters,
    HistoryParameters,
    ManifestParameters,
    MoveParameters,
    NewSavepointParameters,
    Parameters,
    PreviewParameters,
    RebalanceParameters,
    SavepointParameters,
    SendParameters,
    StreamParameters,
    SwitchoverParameters,
    TailParameters,
    VerifyParameters,
    WithdrawParameters,
)
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    ApplyPlanRequest,
    FragmentExplanation,
    PlanDocument,
    PlanFile,
    RebalanceLimits,
    RefusalExplanation,
)
from orchestrator.results.changes import Applied
from orchestrator.results.commands import CordonedDocument, DeletedDocument, WithdrawnDocument
from orchestrator.results.coordinate_map import CoordinateMap
from orchestrator.results.drill_report import DrillReport
from orchestrator.results.drills import DrillRun
from orchestrator.results.maintenance import MaintenanceDocument
from orchestrator.results.moves import MovesDocument
from orchestrator.results.savepoints import SavepointsDocument, SavepointStatus
from orchestrator.results.streams import SentLines, StreamEntry, TailEvent
from orchestrator.results.verification import VerifyDocument

P = TypeVar("P", bound=Parameters)
R = TypeVar("R")

Carry = Callable[[Cluster, Any, Progress], object]


def carry_out(
    operation: Operation[P, R], cluster: Cluster, parameters: P, on_progress: Progress = silent
) -> R:
    """Carry out an operation; raises what the function of the API raises that it stands for."""
    result: Any = _CARRIED[operation.name](cluster, parameters, on_progress)
    return result


def follow(
    cluster: Cluster,
    asked: TailParameters,
    tell: Callable[[TailEvent], None],
    ended: Callable[[], bool],
) -> None:
    """Follow a stream until its limit, or until `ended` says so."""

    def remark(reason: str) -> None:
        tell(TailEvent(remark=reason))

    followed = tail(cluster, asked.stream, asked.limit, remark, ended, asked.after)
    tell(TailEvent(columns=dict(followed.columns)))
    for batch in followed.batches:
        tell(TailEvent(batch=batch))


def _manifests(asked: ManifestParameters | DeleteParameters) -> Manifests:
    return load_texts(asked.manifests, Path(asked.folder))


def _apply(cluster: Cluster, asked: ApplyParameters, on_progress: Progress) -> Applied:
    return apply(
        cluster,
        _manifests(asked),
        dry_run=asked.dry_run,
        wait=asked.wait,
        begin=asked.begin,
        savepoint=asked.savepoint,
        on_progress=on_progress,
    )


def _preview(cluster: Cluster, asked: PreviewParameters, on_progress: Progress) -> PlanDocument:
    return plan(cluster, _manifests(asked), on_progress, asked.begin, asked.savepoint)


def _explain(
    cluster: Cluster, asked: ExplainParameters, on_progress: Progress
) -> FragmentExplanation:
    return explain(cluster, asked.fragment, on_progress)


def _explain_refusal(
    cluster: Cluster, asked: ManifestParameters, on_progress: Progress
) -> RefusalExplanation:
    return explain_refusal(cluster, _manifests(asked), on_progress)


def _map(cluster: Cluster, _: Parameters, on_progress: Progress) -> CoordinateMap:
    return coordinate_map(cluster, plan(cluster, NOTHING, on_progress))


def _preview_map(
    cluster: Cluster, asked: ManifestParameters, on_progress: Progress
) -> CoordinateMap:
    manifests = _manifests(asked)
    return coordinate_map(cluster, plan(cluster, manifests, on_progress), manifests)


def _delete(cluster: Cluster, asked: DeleteParameters, on_progress: Progress) -> DeletedDocument:
    named = named_in(_manifests(asked))
    deleted = delete(
        cluster,
        *asked.names,
        if_there=named,
        keep_streams=asked.keep_streams,
        on_progress=on_progress,
    )
    return DeletedDocument(deleted=deleted)


def _move(cluster: Cluster, asked: MoveParameters, on_progress: Progress) -> MovesDocument:
    return move(
        cluster,
        asked.fragment,
        asked.role,
        asked.node,
        dry_run=asked.dry_run,
        wait=asked.wait,
        on_progress=on_progress,
    )


def _switch(cluster: Cluster, asked: SwitchoverParameters, on_progress: Progress) -> MovesDocument:
    return switch(
        cluster,
        asked.fragment,
        dry_run=asked.dry_run,
        wait=asked.wait,
        on_progress=on_progress,
    )


def _withdraw(cluster: Cluster, asked: WithdrawParameters, _: Progress) -> WithdrawnDocument:
    return WithdrawnDocument(withdrawn=withdraw(cluster, asked.fragment))


def _drain(cluster: Cluster, asked: DrainParameters, on_progress: Progress) -> MovesDocument:
    return drain(
        cluster,
        asked.node,
        at_a_time=asked.at_a_time,
        dry_run=asked.dry_run,
        wait=asked.wait,
        on_progress=on_progress,
    )


def _rebalance(cluster: Cluster, asked: RebalanceParameters, on_progress: Progress) -> PlanFile:
    limits = msgspec.convert(asked, RebalanceLimits, from_attributes=True)
    return rebalance(cluster, asked.goals, limits, on_progress)


def _apply_plan(
    cluster: Cluster, asked: ApplyPlanParameters, on_progress: Progress
) -> MovesDocument:
    wish = msgspec.convert(asked, ApplyPlanRequest, from_attributes=True)
    return apply_plan(
        cluster, wish, dry_run=asked.dry_run, wait=asked.wait, on_progress=on_progress
    )


def _cordon(cluster: Cluster, asked: CordonParameters, _: Progress) -> CordonedDocument:
    return CordonedDocument(cordon=cordon(cluster, asked.node, dry_run=asked.dry_run))


def _uncordon(cluster: Cluster, asked: CordonParameters, _: Progress) -> CordonedDocument:
    return CordonedDocument(cordon=uncordon(cluster, asked.node, dry_run=asked.dry_run))


def _break(cluster: Cluster, asked: BreakParameters, _: Progress) -> MaintenanceDocument:
    return break_maintenance(cluster, dry_run=asked.dry_run)


def _create_savepoint(
    cluster: Cluster, asked: NewSavepointParameters, on_progress: Progress
) -> SavepointStatus:
    return create_savepoint(cluster, asked.savepoint, on_progress)


def _delete_savepoint(
    cluster: Cluster, asked: SavepointParameters, on_progress: Progress
) -> SavepointsDocument:
    return delete_savepoint(cluster, asked.savepoint, on_progress)


def _history(cluster: Cluster, asked: HistoryParameters, _: Progress) -> object:
    return history(cluster, asked.limit)


def _drill(cluster: Cluster, asked: DrillParameters, on_progress: Progress) -> DrillReport:
    return drill(
        cluster,
        asked.drill,
        asked.target,
        on_progress,
        force=asked.force,
        predicted_ms=asked.predicted_ms,
    )


def _drill_series(
    cluster: Cluster, asked: DrillSeriesParameters, on_progress: Progress
) -> tuple[DrillRun, ...]:
    return run_series(
        cluster,
        asked.drills or [each.name for each in drills()],
        asked.target,
        on_progress,
        times=asked.times,
        force=asked.force,
        compare=asked.compare,
    )


def _apart(operation: Operation[Any, Any]) -> Carry:
    return lambda cluster, asked, on_progress: carry_apart(operation, cluster, asked, on_progress)


def _verify(cluster: Cluster, asked: VerifyParameters, on_progress: Progress) -> VerifyDocument:
    span = msgspec.convert(asked, AskedSpan, from_attributes=True)
    return verify(cluster, asked.query, span, sql=asked.sql, on_progress=on_progress)


def _stream(cluster: Cluster, asked: StreamParameters, _: Progress) -> StreamEntry:
    return stream_entry(cluster, asked.stream)


def _send(cluster: Cluster, asked: SendParameters, on_progress: Progress) -> SentLines:
    with scratch_folder() as folder:
        given, left_out = folder / "lines", folder / "left-out"
        given.write_text(asked.lines, encoding="utf-8")
        with given.open("rb", buffering=0) as lines:
            sent = send(
                lambda: stream_entry(cluster, asked.stream),
                lines,
                written=asked.written,
                is_sorted=asked.is_sorted,
                skip_bad=left_out if asked.skip_bad else None,
                on_progress=on_progress,
            )
        bad = left_out.read_text(encoding="utf-8", errors="replace") if left_out.exists() else ""
    return SentLines(sent=sent, left_out=bad)


_CARRIED: Mapping[str, Carry] = {
    table.STATUS.name: lambda cluster, _, __: status(cluster),
    table.HISTORY.name: _history,
    table.METRICS.name: lambda cluster, _, __: metrics(cluster),
    table.NODES.name: lambda cluster, _, __: status(cluster).nodes,
    table.QUERIES.name: lambda cluster, _, __: queries(cluster),
    table.STREAMS.name: lambda cluster, _, __: status(cluster).streams,
    table.FRAGMENTS.name: lambda cluster, _, __: status(cluster).fragments,
    table.OUTPUTS.name: lambda cluster, _, __: status(cluster).outputs,
    table.DESCRIBE.name: lambda cluster, asked, _: describe(cluster, asked),
    table.TOPOLOGY.name: lambda cluster, _, __: topology(cluster),
    table.VERSIONS.name: lambda cluster, _, __: versions(cluster),
    table.LOGS.name: lambda cluster, asked, _: log_of(cluster, asked, cluster.reach.logs),
    table.RECORDS.name: lambda cluster, _, __: stored_records(cluster),
    table.PLAN.name: lambda cluster, _, on_progress: plan(cluster, NOTHING, on_progress),
    table.PREVIEW.name: _preview,
    table.EXPLAIN.name: _explain,
    table.EXPLAIN_REFUSAL.name: _explain_refusal,
    table.MAP.name: _map,
    table.PREVIEW_MAP.name: _preview_map,
    table.VALIDATE.name: lambda _, asked, __: validate(_manifests(asked)),
    table.APPLY.name: _apply,
    table.DELETE.name: _delete,
    table.MOVE.name: _move,
    table.SWITCHOVER.name: _switch,
    table.WITHDRAW.name: _withdraw,
    table.DRAIN.name: _drain,
    table.REBALANCE.name: _rebalance,
    table.APPLY_PLAN.name: _apply_plan,
    table.MOVES.name: lambda cluster, _, __: move_plans(cluster),
    table.UNDO.name: lambda cluster, asked, on_progress: undo(cluster, asked.plan, on_progress),
    table.PROPOSALS.name: lambda cluster, _, __: proposals(cluster),
    table.AUTOMATION.name: lambda cluster, _, __: automation(cluster),
    table.AUTOMATION_SET.name: lambda cluster, asked, _: set_automation(cluster, asked),
    table.AUTOMATION_PAUSE.name: lambda cluster, asked, _: pause(cluster, asked),
    table.AUTOMATION_RESUME.name: lambda cluster, _, __: resume(cluster),
    table.PAUSE.name: lambda cluster, asked, told: pause_query(cluster, asked.query, told),
    table.RESUME.name: lambda cluster, asked, told: resume_query(cluster, asked.query, told),
    table.CORDON.name: _cordon,
    table.UNCORDON.name: _uncordon,
    table.MAINTENANCE.name: lambda cluster, _, __: maintenance(cluster),
    table.MAINTENANCE_BREAK.name: _break,
    table.SAVEPOINTS.name: lambda cluster, _, __: savepoints(cluster),
    table.SAVEPOINT.name: lambda cluster, asked, _: savepoint(cluster, asked.savepoint),
    table.SAVEPOINT_CREATE.name: _create_savepoint,
    table.SAVEPOINT_DELETE.name: _delete_savepoint,
    table.DRILLS.name: lambda _, __, ___: drills(),
    table.DRILL_AUDIT.name: lambda cluster, _, __: drill_audit(cluster),
    table.DRILL.name: _drill,
    table.DRILL_SERIES.name: _drill_series,
    table.PREDICT.name: _apart(table.PREDICT),
    table.WHAT_IF.name: _apart(table.WHAT_IF),
    table.VERIFY.name: _verify,
    table.STREAM.name: _stream,
    table.SEND.name: _send,
    table.TOKENS.name: lambda cluster, _, __: tokens(cluster),
    table.TOKEN_CREATE.name: lambda cluster, asked, _: create_token(cluster, asked),
    table.TOKEN_REVOKE.name: lambda cluster, asked, _: revoke_token(cluster, asked.token),
}
"""Operation → how it is carried out; `tail` is followed (`follow`)."""
