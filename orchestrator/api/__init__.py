"""The operations on a cluster, for the process that serves them and for the command line's own.

They take a `Cluster`, whose store is open, and typed requests, return msgspec records, and print
nothing. The command line, like any other client, renders these records. `on_progress` tells how far
a long operation has come. What a person can do something about is raised as a `VivaceError`.

>>> from pathlib import Path
>>> from orchestrator import api
>>> manifests = api.load([Path("examples/aircraft")])
>>> api.validate(manifests).cluster
'aircraft'
>>> applied = api.apply(cluster, manifests, dry_run=True)
>>> applied.plan.queries[0].query, len(api.status(cluster).nodes)
('proximity', 9)

Modules are imported when a name of theirs is first used: `vivace --help` needs none of them, and
`vivace validate` neither ZooKeeper nor a solver.
"""

# Others take the names that are imported here for type checkers.
# pyright: reportUnusedImport=false

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.api.applying import apply
    from orchestrator.api.auditing import drill_audit
    from orchestrator.api.bulk import bulk_coordinates, bulk_place
    from orchestrator.api.cluster_status import history, status
    from orchestrator.api.connection import Cluster
    from orchestrator.api.deleting import delete, named_in
    from orchestrator.api.demo import MISSES_ALLOWED, Demo, Example, Verdict
    from orchestrator.api.drill_series import run_series
    from orchestrator.api.drilling import drill, drills
    from orchestrator.api.lifecycle import DownDocument, UpDocument, down, serve, up
    from orchestrator.api.lines import opened
    from orchestrator.api.maintaining import break_maintenance, maintenance
    from orchestrator.api.mapping import coordinate_map
    from orchestrator.api.metric_samples import exposition, metrics
    from orchestrator.api.moving import cordon, drain, move, switch, uncordon, withdraw
    from orchestrator.api.pausing import pause_query, resume_query
    from orchestrator.api.plan_files import apply_plan, move_plans, rebalance, undo
    from orchestrator.api.plans import plan
    from orchestrator.api.predicting import predict
    from orchestrator.api.saving import (
        create_savepoint,
        delete_savepoint,
        export_savepoint,
        savepoint,
        savepoints,
    )
    from orchestrator.api.sending import send
    from orchestrator.api.simulating import (
        Campaign,
        TrialReport,
        TrialVerdict,
        check_faults,
        fault_kinds,
        play_file,
        play_seed,
        simulate,
    )
    from orchestrator.api.sizing import cluster_sizes
    from orchestrator.api.tailing import Tail, tail
    from orchestrator.api.trying import AskedTry, try_query
    from orchestrator.api.validation import validate
    from orchestrator.api.verified_input import Unverifiable
    from orchestrator.api.verified_span import AskedSpan
    from orchestrator.api.verifying import verify
    from orchestrator.api.whatif import what_if
    from orchestrator.deploy.rendering.compose import render_compose
    from orchestrator.deploy.rendering.machine_files import MachinePaths
    from orchestrator.deploy.rendering.standalone import render_standalone
    from orchestrator.documents.written import lasting, moment, size, state_rate
    from orchestrator.errors import InvalidInput, Refused, Unreachable, VivaceError, error_report
    from orchestrator.manifest import ClusterManifest, Manifests, cluster_record, load
    from orchestrator.operations.texts import read_sql
    from orchestrator.progress import Progress
    from orchestrator.records import (
        AutomationMode,
        BeginFrom,
        ChangedQuery,
        ChangedStatement,
        FailureLabels,
        FragmentCost,
        FragmentExplanation,
        FragmentPlan,
        PlaceLoad,
        PlanDocument,
        PlanFile,
        PlannedMove,
        QueryPlan,
        RebalancePlan,
        RefusalExplanation,
        ReplicaPlace,
        StatementEffect,
    )
    from orchestrator.results.automation import AutomationStatus, ProposalStatus, ProposalSummary
    from orchestrator.results.bulk import BulkEmbedding, BulkPlacement
    from orchestrator.results.changes import Applied, Change, Deleted, Effect
    from orchestrator.results.coordinate_map import CoordinateMap, Flow, Place
    from orchestrator.results.drill_report import DrillReport
    from orchestrator.results.drills import (
        DrillAudit,
        DrillDocument,
        DrilledRun,
        DrillRecord,
        DrillRun,
    )
    from orchestrator.results.inspection import (
        Description,
        LocatedHost,
        LogDocument,
        RoundTrip,
        StoredRecords,
        Topology,
    )
    from orchestrator.results.metrics import MetricsDocument, Sample
    from orchestrator.results.moves import (
        CordonDocument,
        MoveDocument,
        MovePlansDocument,
        MovePlanStatus,
        MovesDocument,
        MoveStepStatus,
    )
    from orchestrator.results.preflight import PreflightDocument, RollObstacle, RunningProcess
    from orchestrator.results.redaction import redacted, redacted_text
    from orchestrator.results.rendering import RenderDocument, RenderedFile
    from orchestrator.results.sizing import ProcessSize, SizeDocument, StateEstimate
    from orchestrator.results.status import (
        UNKEPT_MS,
        Degradation,
        EventDocument,
        FragmentStatus,
        HistoryDocument,
        LinkStatus,
        NodeStatus,
        OutputStatus,
        QueryStatus,
        StatusDocument,
        StreamStatus,
    )
    from orchestrator.results.streams import SentDocument, TailBatch, TailEvent, TailRow
    from orchestrator.results.trying import TriedInput, TriedOutput, TryDocument
    from orchestrator.results.validation import ValidateDocument
    from orchestrator.results.verification import EvaluatedAgain, OutputVerdict, VerifyDocument
    from orchestrator.results.whatif import (
        FragmentOutlook,
        LoadOutlook,
        LossOutlook,
        PlayedDocument,
        PlayedOutput,
        QueryOutlook,
        RefusedQuery,
        WhatIfDocument,
    )
    from orchestrator.spark.spark_choice import LOCAL_SPARK, SparkChoice

MODULES = {
    "api.applying": ("apply",),
    "api.auditing": ("drill_audit",),
    "api.bulk": ("bulk_coordinates", "bulk_place"),
    "api.cluster_status": ("history", "status"),
    "api.connection": ("Cluster",),
    "api.deleting": ("delete", "named_in"),
    "api.demo": ("Demo", "Example", "MISSES_ALLOWED", "Verdict"),
    "api.drill_series": ("run_series",),
    "api.drilling": ("drill", "drills"),
    "api.lifecycle": ("DownDocument", "UpDocument", "down", "serve", "up"),
    "api.lines": ("opened",),
    "api.mapping": ("coordinate_map",),
    "api.maintaining": ("break_maintenance", "maintenance"),
    "api.metric_samples": ("exposition", "metrics"),
    "api.moving": ("cordon", "drain", "move", "switch", "uncordon", "withdraw"),
    "api.pausing": ("pause_query", "resume_query"),
    "api.plan_files": ("apply_plan", "move_plans", "rebalance", "undo"),
    "api.plans": ("plan",),
    "api.predicting": ("predict",),
    "api.saving": (
        "create_savepoint",
        "delete_savepoint",
        "export_savepoint",
        "savepoint",
        "savepoints",
    ),
    "api.sending": ("send",),
    "api.simulating": (
        *("Campaign", "TrialReport", "TrialVerdict", "check_faults", "fault_kinds", "play_file"),
        *("play_seed", "simulate"),
    ),
    "api.sizing": ("cluster_sizes",),
    "api.tailing": ("Tail", "tail"),
    "api.trying": ("AskedTry", "try_query"),
    "api.validation": ("validate",),
    "api.verified_input": ("Unverifiable",),
    "api.verified_span": ("AskedSpan",),
    "api.verifying": ("verify",),
    "api.whatif": ("what_if",),
    "deploy.rendering.compose": ("render_compose",),
    "deploy.rendering.machine_files": ("MachinePaths",),
    "deploy.rendering.standalone": ("render_standalone",),
    "documents.written": ("lasting", "moment", "size", "state_rate"),
    "errors": ("InvalidInput", "Refused", "Unreachable", "VivaceError", "error_report"),
    "manifest": ("ClusterManifest", "Manifests", "cluster_record", "load"),
    "operations.texts": ("read_sql",),
    "progress": ("Progress",),
    "records": (
        *("AutomationMode", "FragmentCost", "FragmentExplanation", "FragmentPlan", "PlaceLoad"),
        *("BeginFrom", "ChangedQuery", "ChangedStatement", "FailureLabels", "StatementEffect"),
        *("PlanDocument", "PlanFile", "PlannedMove", "QueryPlan", "RebalancePlan"),
        *("RefusalExplanation", "ReplicaPlace"),
    ),
    "results.automation": ("AutomationStatus", "ProposalStatus", "ProposalSummary"),
    "results.bulk": ("BulkEmbedding", "BulkPlacement"),
    "results.changes": ("Applied", "Change", "Deleted", "Effect"),
    "results.coordinate_map": ("CoordinateMap", "Flow", "Place"),
    "results.drill_report": ("DrillReport",),
    "results.drills": ("DrillAudit", "DrillDocument", "DrillRecord", "DrillRun", "DrilledRun"),
    "results.inspection": (
        *("Description", "LocatedHost", "LogDocument", "RoundTrip", "StoredRecords", "Topology"),
    ),
    "results.metrics": ("MetricsDocument", "Sample"),
    "results.moves": (
        *("CordonDocument", "MoveDocument", "MovePlansDocument", "MovePlanStatus"),
        *("MovesDocument", "MoveStepStatus"),
    ),
    "results.preflight": ("RollObstacle", "PreflightDocument", "RunningProcess"),
    "results.redaction": ("redacted", "redacted_text"),
    "results.rendering": ("RenderDocument", "RenderedFile"),
    "results.sizing": ("ProcessSize", "SizeDocument", "StateEstimate"),
    "results.status": (
        *("Degradation", "EventDocument", "FragmentStatus", "HistoryDocument", "LinkStatus"),
        *("NodeStatus", "OutputStatus", "QueryStatus", "StatusDocument", "StreamStatus"),
        "UNKEPT_MS",
    ),
    "results.streams": ("SentDocument", "TailBatch", "TailEvent", "TailRow"),
    "results.trying": ("TriedInput", "TriedOutput", "TryDocument"),
    "results.validation": ("ValidateDocument",),
    "results.verification": ("EvaluatedAgain", "OutputVerdict", "VerifyDocument"),
    "results.whatif": (
        *("FragmentOutlook", "LoadOutlook", "LossOutlook", "PlayedDocument", "PlayedOutput"),
        *("QueryOutlook", "RefusedQuery", "WhatIfDocument"),
    ),
    "spark.spark_choice": ("LOCAL_SPARK", "SparkChoice"),
}
"""Module → its names that the API exports."""

_homes = {name: module for module, names in MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"orchestrator.{_homes[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What it exports, whether or not it has been used yet."""
    return sorted(_homes)
