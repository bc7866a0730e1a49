"""What the processes of a cluster understand."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.api.connection import Cluster
from orchestrator.control.decide.decision import DECIDED
from orchestrator.control.observe.running_versions import running_versions
from orchestrator.errors import InvalidInput
from orchestrator.results.preflight import NeedingRecord, RunningProcess, VersionsDocument
from orchestrator.store.protocol import CLUSTER, CORDONS, QUERIES, STREAMS, Store

WANTED = (STREAMS, QUERIES, CORDONS)
"""What people write."""


def versions(cluster: Cluster) -> VersionsDocument:
    """What the processes of a cluster understand, and its settings.

    Raises
    ------
    InvalidInput
        No coordinator has published settings yet.
    """
    found = cluster.store.get(CLUSTER)
    if found is None:
        remedy = "Wait until a coordinator has published its settings."
        raise InvalidInput("", "cluster", cluster.name, "has no settings yet", remedy)
    return VersionsDocument(
        processes=tuple(
            RunningProcess(name=name, kind=kind, versions=version)
            for kind, name, version in running_versions(cluster.store)
        ),
        settings=found.record,
        needing=tuple(_needing(cluster.store)),
    )


def _needing(store: Store) -> Iterator[NeedingRecord]:
    """Records that not every version reads, and that outlive the processes."""
    for folder in (*WANTED, *DECIDED):
        found = store.list(folder)
        needs = {name: each.record.needs for name, each in found.records.items()}
        needs |= {error.path.rpartition("/")[2]: error.needs for error in found.invalid}
        for name, needed in sorted(needs.items()):
            if needed > 1:
                path = folder.key(name).path
                yield NeedingRecord(path=path, needs=needed, wanted=folder in WANTED)
