"""What is said on paper is what the leader does in the simulated world once a host is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api.connection import Cluster
from orchestrator.api.predicting import predict
from orchestrator.api.whatif import what_if
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.operations.parameters import WhatIfParameters
from orchestrator.simulation.world.scenario import Scenario
from tests.long_tests import mostly_long
from tests.pairs import SETTLE_S, Input

FLOWS_S = 3.0
HEALED_S = 12.0


def begun(seed: int, folder: Path) -> Scenario:
    recording = Input.random(seed=seed, seconds=10)
    made = Scenario(recording.manifests(folder, repeat=True), seed=seed, settle_s=SETTLE_S)
    made.begin()
    made.run_for(FLOWS_S)
    return made


def connected(scenario: Scenario) -> Cluster:
    reach = ClusterContext(cluster="pairs", pid=1, started_s=0.0, folder="")
    return Cluster(reach, scenario.store)


@pytest.mark.parametrize("seed", mostly_long(range(20), quick=2))
def test_places_after_a_kill_are_those_that_were_said(seed: int, tmp_path: Path) -> None:
    scenario = begun(seed, tmp_path)
    records = [each.record for each in read_view(scenario.store).fragments.values()]
    node = records[seed % len(records)].primary.node
    said = what_if(connected(scenario), WhatIfParameters(without=(node,)))
    scenario.world.kill(node)
    scenario.run_for(HEALED_S)
    found = {
        name: (each.record.primary.node, each.record.secondary and each.record.secondary.node)
        for name, each in read_view(scenario.store).fragments.items()
    }
    assert {each.key: (each.primary[1], each.secondary[1]) for each in said.fragments} == found


def test_streams_that_nobody_can_read_again_are_made_up(tmp_path: Path) -> None:
    scenario = begun(1, tmp_path)
    for recording in tmp_path.glob("*.parquet"):
        recording.unlink()
    node = next(iter(read_view(scenario.store).fragments.values())).record.primary.node
    found = what_if(connected(scenario), WhatIfParameters(without=(node,), play_s=5.0)).played
    assert found is not None
    assert set(found.synthetic) == {"west", "east"}
    assert found.healed_s is not None
    for output in found.outputs:
        assert output.timestamps > 0
        assert output.lost == output.repeated == 0
        assert output.recovered_ms is not None
    report = predict(connected(scenario), "kill-executor", node)
    assert set(report.synthetic) == {"west", "east"}
    assert report.failures == ()
