"""Two Spark applications: the driver of either dies, again and again, while pairs are joined."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.drills.disturbances import DRILLS
from orchestrator.drills.kill_executor import Killed, apart
from orchestrator.drills.measurement import SequenceFaults, outage, sequence_faults
from orchestrator.errors import Refused
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import Input, answer

KILL_DRIVER = "kill-driver"
BOUND_MS = 300.0


@pytest.fixture
def recording() -> Input:
    return Input.random(seed=3, seconds=45, every_ms=300.0)


@pytest.fixture
def scenario(tmp_path: Path, recording: Input) -> Scenario:
    manifests = recording.manifests(tmp_path)
    assert manifests.cluster is not None
    divided = msgspec.structs.replace(manifests.cluster, applications=2)
    return Scenario(msgspec.structs.replace(manifests, cluster=divided), seed=1)


def test_a_killed_driver_is_one_more_failover_and_replicas_go_apart_again(
    scenario: Scenario, recording: Input
) -> None:
    scenario.begin()
    assert apart(read_view(scenario.store))
    kills: list[Killed] = []
    for _ in range(2):
        scenario.run_for(1.0)
        kills.append(scenario.drill("pairs", KILL_DRIVER))
        assert apart(read_view(scenario.store))
    # The successor's application is the other one.
    assert not kills[0].target.hosts.keys() & kills[1].target.hosts.keys()
    played = scenario.finish()
    for stream, expected in recording.expected().items():
        one = played.delivered(stream)
        assert sequence_faults(one) == SequenceFaults(lost=0, repeated=0)
        assert answer(one) == expected
        for killed in kills:
            assert outage(killed, [one]).recovery_ms <= BOUND_MS + 100.0


def test_while_one_application_is_away_the_other_one_s_driver_is_not_killed(
    scenario: Scenario,
) -> None:
    scenario.begin()
    scenario.run_for(1.0)
    record = read_view(scenario.store).fragments["pairing.pairs"].record
    for node in DRILLS[KILL_DRIVER].struck(read_view(scenario.store), record.primary.node):
        scenario.kill(node, restart_s=60.0)
    scenario.run_for(8.0)
    with pytest.raises(Refused, match="no warm secondary elsewhere"):
        scenario.drill("pairs", KILL_DRIVER)
