"""What the processes of a cluster understand."""

from __future__ import annotations

from orchestrator.api.connection import Cluster
from orchestrator.control.observe.running_versions import running_versions
from orchestrator.errors import InvalidInput
from orchestrator.results.preflight import RunningProcess, VersionsDocument
from orchestrator.store.protocol import CLUSTER


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
    )
