"""Asking for savepoints: what is refused at once, what is awaited, and what is exported."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from orchestrator import api
from orchestrator.api import saving
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import InvalidInput, Refused, Unreachable
from orchestrator.records import SavepointRecord, SavepointState
from orchestrator.store.protocol import CLUSTER, LEADER, SAVEPOINTS, LeaderRecord
from tests.saved_cluster import SavedCluster


@pytest.fixture
def saved(tmp_path: Path) -> SavedCluster:
    return SavedCluster(tmp_path / "state")


@pytest.fixture
def cluster(saved: SavedCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, saved.store)


def test_a_savepoint_is_asked_for_and_awaited(saved: SavedCluster, cluster: api.Cluster) -> None:
    told: list[tuple[str, str]] = []

    def on_progress(step: str, detail: str) -> None:
        told.append((step, detail))
        if step == "waiting":
            # The leader chooses.
            saved.store.delete(SAVEPOINTS.key("before"), 0)
            saved.begin()
        else:
            saved.work.step()

    made = api.create_savepoint(cluster, "before", on_progress)
    assert (made.name, made.state, made.queries) == ("before", "kept", ("proximity",))
    assert made.copied_bytes == made.bytes > 0
    assert told[0] == ("waiting", "for every fragment to write a checkpoint")
    assert told[-1] == ("copying", f"{made.bytes:,} of {made.bytes:,} bytes")
    assert api.savepoint(cluster, "before") == made
    assert [each.name for each in api.savepoints(cluster).savepoints] == ["before"]
    with pytest.raises(InvalidInput, match="is the name of a savepoint that is kept"):
        api.create_savepoint(cluster, "before")
    copied = api.export_savepoint(made, saved_folder(saved) / "copy.tar")
    assert Path(copied.path).stat().st_size > copied.bytes > made.bytes
    with pytest.raises(InvalidInput, match="is there already"):
        api.export_savepoint(made, Path(copied.path))
    with pytest.raises(InvalidInput, match="TARGET"):
        api.export_savepoint(made, saved_folder(saved) / "nowhere" / "copy.tar")

    def work(_step: str, _detail: str) -> None:
        saved.work.step()

    assert api.delete_savepoint(cluster, "before", work).savepoints == ()
    assert not saved.files()
    with pytest.raises(InvalidInput, match="cannot be read"):
        api.export_savepoint(made, saved_folder(saved) / "copy")


def saved_folder(saved: SavedCluster) -> Path:
    return Path(saved.folder).parent


@pytest.mark.parametrize("name", ["Upper", "a_b", "", "x" * 65, "-", "a--b"])
def test_a_name_that_cannot_be_one_is_refused(cluster: api.Cluster, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a name"):
        api.create_savepoint(cluster, name)


def test_a_name_that_apply_takes_for_something_else(cluster: api.Cluster) -> None:
    for name in ("now", "beginning"):
        with pytest.raises(InvalidInput, match="`vivace apply --from` means something else"):
            api.create_savepoint(cluster, name)


def test_without_a_folder_there_is_none(saved: SavedCluster, cluster: api.Cluster) -> None:
    found = saved.store.get(CLUSTER)
    assert found is not None
    saved.store.update(CLUSTER, structs.replace(found.record, state=None), found.version)
    with pytest.raises(InvalidInput, match="The cluster has no folder of checkpoints"):
        api.create_savepoint(cluster, "before")
    assert not saved.view.savepoints


def test_why_one_failed_is_said_and_its_name_is_free(
    saved: SavedCluster, cluster: api.Cluster
) -> None:
    def fail(_step: str, _detail: str) -> None:
        found = saved.store.get(SAVEPOINTS.key("before"))
        assert found is not None
        failed = SavepointRecord(
            name="before", asked_us=1, state=SavepointState.FAILED, why="the folder is full"
        )
        saved.store.update(SAVEPOINTS.key("before"), failed, found.version)

    for _ in range(2):
        with pytest.raises(Refused, match="the folder is full"):
            api.create_savepoint(cluster, "before", fail)


def test_one_that_is_unknown_is_refused_with_the_nearest(
    saved: SavedCluster, cluster: api.Cluster
) -> None:
    with pytest.raises(InvalidInput, match="`vivace savepoint create` makes one"):
        api.savepoint(cluster, "befor")
    saved.begin()
    for call in (api.savepoint, api.delete_savepoint):
        with pytest.raises(InvalidInput, match="before"):
            call(cluster, "befor")
    with pytest.raises(InvalidInput, match="is copying"):
        api.export_savepoint(api.savepoint(cluster, "before"), Path("nowhere"))


def test_without_a_leader_it_is_said_that_nobody_leads(
    saved: SavedCluster, cluster: api.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "LEADER_S", 0.0)
    found = saved.store.get(LEADER)
    if found is not None:
        saved.store.delete(LEADER, found.version)
    with pytest.raises(Unreachable, match="is made once a coordinator leads"):
        api.create_savepoint(cluster, "before")
    assert saved.record().state is SavepointState.WANTED
    saved.store.create(LEADER, LeaderRecord(candidate="somebody"))
