from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import psutil
import pytest

from orchestrator.deploy.context import (
    ClusterContext,
    ClusterExists,
    NoCluster,
    SeveralClusters,
    claim,
    find,
    home,
    publish,
    running,
    started_s,
    withdraw,
)
from orchestrator.errors import Unreachable, VivaceError


def context(name: str = "aircraft", *, age_s: float = 0.0) -> ClusterContext:
    """A cluster whose process is this test's, or was one with the same pid."""
    return ClusterContext(
        cluster=name,
        pid=os.getpid(),
        started_s=started_s(psutil.Process()) - age_s,
        folder="/nowhere",
    )


def test_home_is_named_by_the_environment() -> None:
    assert home({"VIVACE_HOME": "/some/where"}) == Path("/some/where")
    assert home({}) == Path.home() / ".vivace"


def test_context_file_is_for_its_owner_only(tmp_path: Path) -> None:
    claim(context(), tmp_path)
    publish(msgspec.structs.replace(context(), secret="s"), tmp_path)
    file = tmp_path / "aircraft.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["aircraft.json"]


def test_second_cluster_of_a_name_is_refused(tmp_path: Path) -> None:
    claim(context(), tmp_path)
    with pytest.raises(ClusterExists, match="vivace down --cluster aircraft") as refused:
        claim(context(), tmp_path)
    assert refused.value.exit_status == 2
    assert list(running(tmp_path)) == ["aircraft"]


def test_file_of_a_dead_cluster_is_removed(tmp_path: Path) -> None:
    # The same pid, given out again.
    claim(context(age_s=100), tmp_path)
    assert running(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []
    claim(context(age_s=100), tmp_path)
    claim(context(), tmp_path)
    assert list(running(tmp_path)) == ["aircraft"]


def test_only_cluster_is_found_without_its_name(tmp_path: Path) -> None:
    claim(context(), tmp_path)
    assert find(None, tmp_path).cluster == "aircraft"
    assert find("aircraft", tmp_path).cluster == "aircraft"


def test_no_cluster_is_exit_status_3(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="no cluster is running here; `vivace up -f …`") as none:
        find(None, tmp_path / "missing")
    assert none.value.exit_status == 3


def test_several_clusters_must_be_named(tmp_path: Path) -> None:
    for name in ("air", "sea"):
        claim(context(name), tmp_path)
    with pytest.raises(SeveralClusters, match=r"air, sea.*--cluster") as unnamed:
        find(None, tmp_path)
    assert unnamed.value.exit_status == 2
    with pytest.raises(NoCluster, match=r"'land'.*air, sea"):
        find("land", tmp_path)
    withdraw("sea", tmp_path)
    assert find(None, tmp_path).cluster == "air"


def test_starting_cluster_has_no_store_yet(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="still starting"), context().open_store():
        pass


def silent(address: str, *_: object, **__: object) -> None:
    """A store whose ZooKeeper does not answer."""
    raise Unreachable("ZooKeeper", address, "did not answer within 4 s", "Check that it runs.")


def test_silent_zookeeper_of_a_cluster_that_runs_is_waited_for_and_the_cluster_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.store.zookeeper.ZooKeeperStore", silent)
    runs = msgspec.structs.replace(context(), zookeeper="127.0.0.1:2181")
    with pytest.raises(Unreachable) as away, runs.open_store():
        pass
    assert "Data flows on" in away.value.remedy
    assert "try again" in away.value.remedy
    assert "/nowhere/logs/cluster.log" in away.value.remedy
    assert "vivace down" not in away.value.remedy
    assert away.value.exit_status == 3


def test_silent_zookeeper_of_a_cluster_that_has_ended_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.store.zookeeper.ZooKeeperStore", silent)
    ended = msgspec.structs.replace(context(age_s=100), zookeeper="127.0.0.1:2181")
    with pytest.raises(Unreachable) as away, ended.open_store():
        pass
    assert "has ended" in away.value.remedy
    assert "logs are in /nowhere/logs" in away.value.remedy
    assert away.value.exit_status == 3


def test_foreign_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(VivaceError, match=r"odd\.json"):
        running(tmp_path)
