"""What `vivace drill run --simulate` says: the drill on the plan that runs, and nothing touched."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.api import Cluster, DrillReport, predict
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills import disturbances
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.simulation.world.stage import Stage
from tests.long_tests import mostly_long
from tests.pairs import SETTLE_S, Input


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """The cluster that runs; here it is simulated itself."""
    recording = Input.random(seed=7, seconds=10)
    folder: Path = tmp_path_factory.mktemp("recording")
    made = Scenario(recording.manifests(folder, repeat=True), seed=3, settle_s=SETTLE_S)
    made.begin()
    return made


@pytest.fixture
def cluster(live: Scenario, tmp_path: Path) -> Cluster:
    return connected(live, tmp_path)


def connected(scenario: Scenario, folder: Path) -> Cluster:
    reach = ClusterContext(cluster="pairs", pid=1, started_s=0.0, folder=str(folder))
    return Cluster(reach, scenario.store)


def _one_server(_cluster_pid: int) -> list[str]:
    return ["server"]


def moments(report: DrillReport) -> list[str]:
    assert report.timeline is not None
    return [moment.what for moment in report.timeline.moments]


@pytest.mark.parametrize(
    "name",
    mostly_long(
        [
            *("kill-executor", "hang", "kill-sink-site", "cut-link", "switchover"),
            *("kill-coordinator", "slow-node", "fill-disk", "drain-and-kill", "kill-zookeeper"),
            *("pause-zookeeper", "rolling-restart"),
        ],
        quick=5,
    ),
)
def test_a_drill_is_predicted_where_everything_runs(
    live: Scenario, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # A real cluster of its own has it; what the drill strikes is simulated all the same.
    monkeypatch.setattr(disturbances, "zookeeper_processes", _one_server)
    revision = live.world.server.revision
    report = predict(cluster, name)
    assert report.simulated
    assert report.failures == ()
    assert report.tuples > 0
    if name == "cut-link":
        assert 150 < report.recovery_ms < report.bound_ms
    if name == "kill-executor":
        assert 0 < report.detection_ms <= report.recovery_ms
    if name == "rolling-restart":
        joined = {f"node joined: {host}" for host in live.world.hosts}
        assert joined <= set(moments(report))
        # Two coordinators and a server of ZooKeeper, then all hosts.
        assert moments(report).count("fault over") == 3 + len(live.world.hosts)
    if name == "drain-and-kill":
        # The node has no primary left when its executor is killed: nobody takes over.
        (node,) = report.blast.nodes
        assert f"node joined: {node}" in moments(report)
        assert not any(what.startswith("took over") for what in moments(report))
    assert live.world.server.revision == revision


def test_the_loss_of_a_driver_is_predicted_where_there_are_two(tmp_path: Path) -> None:
    manifests = Input.random(seed=7, seconds=10).manifests(tmp_path, repeat=True)
    assert manifests.cluster is not None
    divided = msgspec.structs.replace(manifests.cluster, applications=2)
    live = Scenario(msgspec.structs.replace(manifests, cluster=divided), seed=3, settle_s=SETTLE_S)
    live.begin()
    report = predict(connected(live, tmp_path), "kill-driver", "pairs")
    assert report.failures == ()
    assert len(report.blast.nodes) == 2
    joined = {f"node joined: {node}" for node in report.blast.nodes}
    assert joined <= set(moments(report))
    assert 0 < report.detection_ms <= report.recovery_ms
    assert report.blast.planned_ms is not None
    assert report.recovery_ms <= report.blast.planned_ms <= report.bound_ms


def test_fragments_are_where_they_are_in_the_cluster(live: Scenario) -> None:
    view = read_view(live.store)
    scenario = Scenario(Stage.of_view(view), seed=11, settle_s=SETTLE_S)
    scenario.begin()
    found = read_view(scenario.store).fragments
    assert {name: [r.node for r in each.record.replicas] for name, each in found.items()} == {
        name: [r.node for r in each.record.replicas] for name, each in view.fragments.items()
    }
