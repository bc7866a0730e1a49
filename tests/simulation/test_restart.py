"""A cluster that is stopped and started again on the same store."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import PROBLEMS
from tests.pairs import NODES, SETTLE_S, Input


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    recording = Input.random(seed=5, seconds=30, every_ms=200.0)
    return Scenario(recording.manifests(tmp_path), seed=2, settle_s=SETTLE_S)


def places(scenario: Scenario) -> dict[str, list[str]]:
    """Fragment → the nodes of its replicas that live."""
    view = read_view(scenario.store)
    return {
        name: [each.node for each in found.record.replicas if view.alive(each)]
        for name, found in view.fragments.items()
    }


def problems(scenario: Scenario) -> str:
    found = scenario.store.get(PROBLEMS)
    return "" if found is None else "; ".join(found.record.problems)


def kinds(scenario: Scenario) -> list[str]:
    return [entry.event.kind for entry in scenario.store.history()]


def test_a_cluster_whose_hosts_come_back_one_by_one_waits_for_all_of_them(
    scenario: Scenario,
) -> None:
    scenario.begin()
    scenario.run_for(3.0)
    scenario.stop()
    scenario.run_for(10.0)
    scenario.start(every_s=15.0)
    scenario.run_for(80.0)
    assert not any(places(scenario).values())
    assert "6 of 7 registered, without n4" in problems(scenario)
    scenario.run_for(15.0)
    scenario.heal()
    assert {len(nodes) for nodes in places(scenario).values()} == {2}
    assert not problems(scenario)
    assert kinds(scenario).count("start") == 1
    assert "placed again" not in kinds(scenario)
    assert not any(found.record.lacked for found in read_view(scenario.store).fragments.values())


def test_nodes_that_come_too_late_are_used_once_they_are_there(scenario: Scenario) -> None:
    scenario.begin()
    scenario.run_for(3.0)
    scenario.stop()
    scenario.run_for(10.0)
    scenario.start(every_s=0.1)
    late = NODES[2:]
    scenario.run_for(1.0)
    for node in late:
        scenario.kill(node, restart_s=90.0)
    scenario.run_for(80.0)
    assert all(places(scenario).values())
    assert not set(late) & {node for nodes in places(scenario).values() for node in nodes}
    assert "was placed without n3, n4, which the manifest names" in problems(scenario)
    scenario.run_for(60.0)
    assert not problems(scenario)
    assert not any(found.record.lacked for found in read_view(scenario.store).fragments.values())
    assert kinds(scenario).count("state lost") == len(places(scenario))
