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
    claim,
    find,
    publish,
    running,
    started_s,
    withdraw,
)
from orchestrator.errors import VivaceError
from vivace import contexts
from vivace.contexts import NoCluster, SeveralClusters, home


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aircraft.json", "contexts"]


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
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
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


def test_clients_find_a_cluster_while_it_runs_and_its_secret_is_not_told(tmp_path: Path) -> None:
    claim(context(), tmp_path)
    name, starting = contexts.find(None, tmp_path)
    assert (name, starting.api) == ("aircraft", "")
    runs = msgspec.structs.replace(context(), secret="s", api="http://127.0.0.1:1", token="t")
    publish(runs, tmp_path)
    _, told = contexts.find("aircraft", tmp_path)
    assert (told.api, told.token({}), told.pid) == ("http://127.0.0.1:1", "t", os.getpid())
    files = [*(tmp_path / "contexts").iterdir()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert not [each for each in files if '"s"' in each.read_text()]
    withdraw("aircraft", tmp_path)
    assert contexts.known(tmp_path) == {}
    assert not [*(tmp_path / "contexts").iterdir()]


def test_foreign_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(VivaceError, match=r"odd\.json"):
        running(tmp_path)
