"""What `vivace drill run --simulate` says: the drill on the plan that runs, and nothing touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api import Cluster, predict
from orchestrator.api.predicting import NOT_SIMULATED
from orchestrator.control.view import read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills.kill_executor import Inapplicable
from orchestrator.simulation.scenario import Scenario
from orchestrator.simulation.stage import Stage
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
    reach = ClusterContext(cluster="pairs", pid=1, started_s=0.0, folder=str(tmp_path))
    return Cluster(reach, live.store)


@pytest.mark.parametrize(
    "name",
    ["kill-executor", "hang", "kill-sink-site", "cut-link", "switchover", "kill-coordinator"],
)
def test_a_drill_is_predicted_where_everything_runs(
    live: Scenario, cluster: Cluster, name: str
) -> None:
    revision = live.world.server.revision
    report = predict(cluster, name)
    assert report.simulated
    assert report.failures == ()
    assert report.tuples > 0
    if name == "cut-link":
        assert 150 < report.recovery_ms < report.bound_ms
    if name == "kill-executor":
        assert 0 < report.detection_ms <= report.recovery_ms
    assert live.world.server.revision == revision


def test_fragments_are_where_they_are_in_the_cluster(live: Scenario) -> None:
    view = read_view(live.store)
    scenario = Scenario(Stage.of_view(view), seed=11, settle_s=SETTLE_S)
    scenario.begin()
    found = read_view(scenario.store).fragments
    assert {name: [r.node for r in each.record.replicas] for name, each in found.items()} == {
        name: [r.node for r in each.record.replicas] for name, each in view.fragments.items()
    }


@pytest.mark.parametrize("name", NOT_SIMULATED)
def test_a_drill_that_cannot_be_simulated_says_why(cluster: Cluster, name: str) -> None:
    with pytest.raises(Inapplicable, match="it cannot be simulated"):
        predict(cluster, name)
