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

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.api.applying import Applied as Applied
    from orchestrator.api.applying import Change as Change
    from orchestrator.api.applying import Deleted as Deleted
    from orchestrator.api.applying import Effect as Effect
    from orchestrator.api.applying import apply as apply
    from orchestrator.api.applying import delete as delete
    from orchestrator.api.audit import EventDocument as EventDocument
    from orchestrator.api.audit import HistoryDocument as HistoryDocument
    from orchestrator.api.audit import history as history
    from orchestrator.api.cluster_status import FragmentStatus as FragmentStatus
    from orchestrator.api.cluster_status import NodeStatus as NodeStatus
    from orchestrator.api.cluster_status import OutputStatus as OutputStatus
    from orchestrator.api.cluster_status import StatusDocument as StatusDocument
    from orchestrator.api.cluster_status import StreamStatus as StreamStatus
    from orchestrator.api.cluster_status import status as status
    from orchestrator.api.connection import Cluster as Cluster
    from orchestrator.api.connection import connect as connect
    from orchestrator.api.demo import Demo as Demo
    from orchestrator.api.demo import Example as Example
    from orchestrator.api.demo import Verdict as Verdict
    from orchestrator.api.drilling import DrillDocument as DrillDocument
    from orchestrator.api.drilling import DrillReport as DrillReport
    from orchestrator.api.drilling import drill as drill
    from orchestrator.api.drilling import drills as drills
    from orchestrator.api.lifecycle import DownDocument as DownDocument
    from orchestrator.api.lifecycle import UpDocument as UpDocument
    from orchestrator.api.lifecycle import down as down
    from orchestrator.api.lifecycle import serve as serve
    from orchestrator.api.lifecycle import up as up
    from orchestrator.api.mapping import CoordinateMap as CoordinateMap
    from orchestrator.api.mapping import Flow as Flow
    from orchestrator.api.mapping import Place as Place
    from orchestrator.api.mapping import coordinate_map as coordinate_map
    from orchestrator.api.metric_samples import MetricsDocument as MetricsDocument
    from orchestrator.api.metric_samples import Sample as Sample
    from orchestrator.api.metric_samples import exposition as exposition
    from orchestrator.api.metric_samples import metrics as metrics
    from orchestrator.api.plans import FragmentPlan as FragmentPlan
    from orchestrator.api.plans import PlanDocument as PlanDocument
    from orchestrator.api.plans import QueryPlan as QueryPlan
    from orchestrator.api.plans import plan as plan
    from orchestrator.api.tailing import Tail as Tail
    from orchestrator.api.tailing import TailBatch as TailBatch
    from orchestrator.api.tailing import TailRow as TailRow
    from orchestrator.api.tailing import tail as tail
    from orchestrator.api.validation import ValidateDocument as ValidateDocument
    from orchestrator.api.validation import validate as validate
    from orchestrator.errors import InvalidInput as InvalidInput
    from orchestrator.errors import Refused as Refused
    from orchestrator.errors import Unreachable as Unreachable
    from orchestrator.errors import VivaceError as VivaceError
    from orchestrator.manifest import Manifests as Manifests
    from orchestrator.manifest import load as load
    from orchestrator.progress import Progress as Progress

MODULES = {
    "api.applying": ("Applied", "Change", "Deleted", "Effect", "apply", "delete"),
    "api.audit": ("EventDocument", "HistoryDocument", "history"),
    "api.cluster_status": (
        *("FragmentStatus", "NodeStatus", "OutputStatus", "StatusDocument", "StreamStatus"),
        "status",
    ),
    "api.connection": ("Cluster", "connect"),
    "api.mapping": ("CoordinateMap", "Flow", "Place", "coordinate_map"),
    "api.demo": ("Demo", "Example", "Verdict"),
    "api.drilling": ("DrillDocument", "DrillReport", "drill", "drills"),
    "api.lifecycle": ("DownDocument", "UpDocument", "down", "serve", "up"),
    "api.metric_samples": ("MetricsDocument", "Sample", "exposition", "metrics"),
    "api.plans": ("FragmentPlan", "PlanDocument", "QueryPlan", "plan"),
    "api.tailing": ("Tail", "TailBatch", "TailRow", "tail"),
    "api.validation": ("ValidateDocument", "validate"),
    "errors": ("InvalidInput", "Refused", "Unreachable", "VivaceError"),
    "manifest": ("Manifests", "load"),
    "progress": ("Progress",),
}
"""Module → its names that the API exports."""

_homes = {name: module for module, names in MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"orchestrator.{_homes[name]}"), name)
    globals()[name] = found
    return found
