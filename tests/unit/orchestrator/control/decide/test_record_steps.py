"""What the leader writes while processes run that read older records than others."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from orchestrator.api.cluster_status import status
from orchestrator.api.connection import Cluster
from orchestrator.api.versions import versions
from orchestrator.manifest import Manifests
from orchestrator.records import Assignment, FragmentRecord, Overflow, QueryRecord
from orchestrator.records.base import Record
from orchestrator.records.versions import Versions, this_version
from orchestrator.results.preflight import obstacles
from orchestrator.results.whatif import WhatIfDocument
from orchestrator.store.protocol import CANDIDATES, FRAGMENTS, QUERIES, CandidateRecord
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest
from tests.served_cluster import reach

ALERTS = "proximity.alerts"
NEXT = msgspec.structs.replace(this_version(), records=2)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ObedientCluster:
    """A cluster of which every record has a later field, of a version that knows them."""
    later: dict[type[Record], dict[str, int]] = {
        Assignment: {"records": 2},
        FragmentRecord: {"functions": 2},
        QueryRecord: {"overflow": 2},
    }
    for kind, fields in later.items():
        monkeypatch.setattr(kind, "later", fields)
    monkeypatch.setattr("orchestrator.records.base._with_later", {*later})
    monkeypatch.setattr("orchestrator.control.process.this_version", lambda: NEXT)
    made = ObedientCluster()
    made.store.records = made.coordinator_store.records = 2
    made.apply(aircraft())
    become(made, NEXT, made.hosts)
    made.settle()
    return made


def become(cluster: ObedientCluster, versions: Versions, names: Iterable[str]) -> None:
    """Have hosts be of a version, and report it."""
    for name in names:
        cluster.hosts[name].store.records = versions.records
        cluster.hosts[name].tell(versions=versions)


def needing(cluster: ObedientCluster, folder: str = "assignments") -> set[str]:
    """Names of the records of a folder that not every version reads."""
    return {
        path.partition("/")[2]
        for path, entry in cluster.server.entries.items()
        if path.startswith(f"{folder}/") and b'"needs":2' in entry.data
    }


def test_later_fields_are_in_use_once_every_process_knows_them(cluster: ObedientCluster) -> None:
    assert needing(cluster) == {*cluster.hosts}
    become(cluster, this_version(), ["paris"])
    cluster.settle()
    assert needing(cluster) == set()
    assert cluster.assignment("lyon").records == 1
    become(cluster, NEXT, ["paris"])
    cluster.settle()
    assert needing(cluster) == {*cluster.hosts}


def test_a_coordinator_that_only_stands_counts(cluster: ObedientCluster) -> None:
    standing = cluster.server.connect()
    old = CandidateRecord(versions=this_version())
    standing.create(CANDIDATES.key("another"), old, ephemeral=True)
    cluster.settle()
    assert needing(cluster) == set()
    standing.close()
    cluster.settle()
    assert needing(cluster) == {*cluster.hosts}


def test_what_was_decided_is_written_anew_for_a_process_that_starts(
    cluster: ObedientCluster,
) -> None:
    key = FRAGMENTS.key(ALERTS)
    found = cluster.view().fragments[ALERTS]
    later = msgspec.structs.replace(found.record, functions={"heading": "1"})
    cluster.store.update(key, later, found.version)
    cluster.settle()
    assert needing(cluster, "fragments") == {ALERTS}
    become(cluster, this_version(), ["paris"])
    cluster.settle()
    assert needing(cluster, "fragments") == set()
    after = cluster.store.get(key)
    assert after is not None
    assert after.record.functions == {}


def test_a_query_that_some_process_cannot_read_is_refused(cluster: ObedientCluster) -> None:
    become(cluster, this_version(), ["paris"])
    cluster.settle()
    counting = query_manifest(
        "counting",
        "REGISTER QUERY counts RSTREAM(SELECT id FROM north_tracks [NOW]);",
        outputs={"counts": "control-centre"},
    )
    wanted = msgspec.structs.replace(counting.record, overflow={"counts": Overflow.DROP})
    manifests = Manifests(
        cluster=None, streams=(), queries=(msgspec.structs.replace(counting, record=wanted),)
    )
    refusal = cluster.propose(manifests).refusal
    assert refusal is not None
    assert refusal.where == "query counting"
    assert "needs a version that reads records 2" in refusal.problem
    assert "executor paris reads 1" in refusal.problem
    become(cluster, NEXT, ["paris"])
    assert cluster.propose(manifests, "again").refusal is None


def test_preflight_of_the_older_version_names_what_it_would_leave_alone(
    cluster: ObedientCluster,
) -> None:
    found = cluster.view().queries["proximity"]
    later = msgspec.structs.replace(found.record, overflow={"alerts": Overflow.DROP})
    cluster.store.update(QUERIES.key("proximity"), later, found.version)
    opened = Cluster(reach(), cluster.store)
    running, state = versions(opened), status(opened)
    nothing = WhatIfDocument(assumed=())
    assert [*obstacles(NEXT, running, state, nothing, None)] == []
    against = {
        each.subject: each for each in obstacles(this_version(), running, state, nothing, None)
    }
    assert {*against} == {"queries/proximity", *(f"assignments/{name}" for name in cluster.hosts)}
    assert "Delete what it describes" in against["queries/proximity"].remedy
    assert "the coordinators last" in against["assignments/paris"].remedy
