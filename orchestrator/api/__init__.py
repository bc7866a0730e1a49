"""The operations that a client can carry out on a cluster.

They take typed requests, return msgspec records, and print nothing. The command line, like any
other client, renders these records. `on_progress` tells how far a long operation has come. What a
person can do something about is raised as a `VivaceError`.

>>> from pathlib import Path
>>> from orchestrator import api
>>> manifests = api.load([Path("examples/aircraft")])
>>> api.validate(manifests).cluster
'aircraft'
>>> with api.connect("aircraft") as cluster:
...     applied = api.apply(cluster, manifests, dry_run=True)
...     document = api.status(cluster)
>>> applied.plan.queries[0].query, len(document.nodes)
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
    from orchestrator.api.applying import Applied, Change, Effect, apply
    from orchestrator.api.auditing import DrillAudit, DrilledRun, DrillRecord, drill_audit
    from orchestrator.api.cluster_status import (
        EventDocument,
        FragmentStatus,
        HistoryDocument,
        LinkStatus,
        NodeStatus,
        OutputStatus,
        StatusDocument,
        StreamStatus,
        history,
        status,
    )
    from orchestrator.api.connection import Cluster, connect
    from orchestrator.api.deleting import Deleted, delete
    from orchestrator.api.demo import MISSES_ALLOWED, Demo, Example, Verdict
    from orchestrator.api.drill_series import DrillRun, run_series
    from orchestrator.api.drilling import DrillDocument, drill, drills
    from orchestrator.api.lifecycle import DownDocument, UpDocument, down, serve, up
    from orchestrator.api.lines import opened
    from orchestrator.api.mapping import CoordinateMap, Flow, Place, coordinate_map
    from orchestrator.api.metric_samples import MetricsDocument, Sample, exposition, metrics
    from orchestrator.api.moving import (
        CordonDocument,
        MoveDocument,
        MovesDocument,
        cordon,
        drain,
        move,
        switch,
        uncordon,
        withdraw,
    )
    from orchestrator.api.plans import PlanDocument, plan
    from orchestrator.api.predicting import predict
    from orchestrator.api.sending import SentDocument, send
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
    from orchestrator.api.tailing import Tail, TailBatch, TailRow, tail
    from orchestrator.api.validation import ValidateDocument, validate
    from orchestrator.api.verified_input import Unverifiable
    from orchestrator.api.verified_span import AskedSpan, lasting, moment
    from orchestrator.api.verifying import OutputVerdict, VerifyDocument, verify
    from orchestrator.drills.report import DrillReport
    from orchestrator.errors import InvalidInput, Refused, Unreachable, VivaceError
    from orchestrator.manifest import Manifests, load
    from orchestrator.progress import Progress
    from orchestrator.records import FragmentCost, FragmentPlan, PlaceLoad, QueryPlan

MODULES = {
    "api.applying": ("Applied", "Change", "Effect", "apply"),
    "api.cluster_status": (
        *("EventDocument", "FragmentStatus", "HistoryDocument", "LinkStatus", "NodeStatus"),
        *("OutputStatus", "StatusDocument", "StreamStatus", "history", "status"),
    ),
    "api.connection": ("Cluster", "connect"),
    "api.lines": ("opened",),
    "api.mapping": ("CoordinateMap", "Flow", "Place", "coordinate_map"),
    "api.moving": (
        *("CordonDocument", "MoveDocument", "MovesDocument", "cordon", "drain", "move", "switch"),
        *("uncordon", "withdraw"),
    ),
    "api.deleting": ("Deleted", "delete"),
    "api.demo": ("MISSES_ALLOWED", "Demo", "Example", "Verdict"),
    "api.auditing": ("DrillAudit", "DrilledRun", "DrillRecord", "drill_audit"),
    "api.drill_series": ("DrillRun", "run_series"),
    "api.drilling": ("DrillDocument", "drill", "drills"),
    "api.lifecycle": ("DownDocument", "UpDocument", "down", "serve", "up"),
    "api.metric_samples": ("MetricsDocument", "Sample", "exposition", "metrics"),
    "api.plans": ("PlanDocument", "plan"),
    "api.predicting": ("predict",),
    "api.sending": ("SentDocument", "send"),
    "api.simulating": (
        *("Campaign", "TrialReport", "TrialVerdict"),
        *("check_faults", "fault_kinds", "play_file", "play_seed", "simulate"),
    ),
    "api.tailing": ("Tail", "TailBatch", "TailRow", "tail"),
    "api.validation": ("ValidateDocument", "validate"),
    "api.verified_input": ("Unverifiable",),
    "api.verified_span": ("AskedSpan", "lasting", "moment"),
    "api.verifying": ("OutputVerdict", "VerifyDocument", "verify"),
    "drills.report": ("DrillReport",),
    "errors": ("InvalidInput", "Refused", "Unreachable", "VivaceError"),
    "manifest": ("Manifests", "load"),
    "progress": ("Progress",),
    "records": ("FragmentCost", "FragmentPlan", "PlaceLoad", "QueryPlan"),
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
