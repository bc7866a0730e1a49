"""Hosts that are too slow for a while: nobody takes over from them, and latency recovers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.simulation.world.scenario import Scenario, ScenarioOutcome
from orchestrator.simulation.world.world import Costs
from tests.pairs import NODES, SETTLE_S, SITES, Input, answer

SECONDS = 14
LOAD_S = 5.0
RECOVERED_S = 2.0
"""Time after the load until latencies must be as before."""

RECOVERED_MS = 250


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=SECONDS)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    """The replay has run for three seconds."""
    costs = Costs(effort_us=100.0)
    made = Scenario(
        recording.manifests(tmp_path),
        seed=1,
        check_invariants=True,
        costs=costs,
        settle_s=SETTLE_S,
    )
    made.begin()
    made.run_for(3)
    return made


def stall_again_and_again(scenario: Scenario, nodes: list[str], seed: int) -> None:
    """Keep hosts from running for longer and longer, as a machine does whose load rises.

    Each host runs for 30 to 80 ms and stands still, for 40 ms at first and half a second at last.
    """
    world, random = scenario.world, Random(seed)
    begins_us = world.now_us
    ends_us = begins_us + round(LOAD_S * 1e6)

    def stall(node: str) -> Callable[[], None]:
        def begin() -> None:
            progress = (world.now_us - begins_us) / (ends_us - begins_us)
            if progress >= 1:
                return
            host = world.hosts[node]
            longest_us = 40_000 + progress * 460_000
            lasts_us = round(random.uniform(0.5, 1.0) * longest_us)
            host.pause()
            world.at(world.now_us + lasts_us, host.resume)
            world.at(world.now_us + lasts_us + random.randint(30_000, 80_000), begin)

        return begin

    for node in nodes:
        world.at(begins_us + random.randint(0, 100_000), stall(node))


def assert_nobody_took_over(scenario: Scenario) -> None:
    for counter in ("takeovers", "demotions"):
        by_host = {n: h.core.counters[counter] for n, h in scenario.world.hosts.items()}
        assert not sum(by_host.values()), f"{counter}: {by_host}"


def assert_exact_and_recovered(
    played: ScenarioOutcome, recording: Input, recovered_us: int
) -> None:
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected
        after = delivered.completed_column("ingestion_time_us") > recovered_us
        assert np.max(delivered.latencies_ms[after]) < RECOVERED_MS


@pytest.mark.parametrize("seed", range(2))
def test_a_loaded_machine_that_starves_all_hosts(
    scenario: Scenario, recording: Input, seed: int
) -> None:
    stall_again_and_again(scenario, [*NODES, *SITES], seed)
    scenario.run_for(LOAD_S)
    recovered_us = scenario.world.now_us + round(RECOVERED_S * 1e6)
    played = scenario.finish()
    assert_nobody_took_over(scenario)
    assert_exact_and_recovered(played, recording, recovered_us)


@pytest.mark.parametrize("node", NODES[:2])
def test_one_node_that_is_starved(scenario: Scenario, recording: Input, node: str) -> None:
    stall_again_and_again(scenario, [node], seed=1)
    scenario.run_for(LOAD_S)
    recovered_us = scenario.world.now_us + round(RECOVERED_S * 1e6)
    played = scenario.finish()
    assert_nobody_took_over(scenario)
    assert_exact_and_recovered(played, recording, recovered_us)


def test_evaluation_that_costs_more_than_the_hosts_have(
    scenario: Scenario, recording: Input
) -> None:
    for host in scenario.world.hosts.values():
        host.slowness = 100.0
    scenario.run_for(LOAD_S)
    for host in scenario.world.hosts.values():
        host.slowness = 1.0
    recovered_us = scenario.world.now_us + round(RECOVERED_S * 1e6)
    played = scenario.finish()
    assert_nobody_took_over(scenario)
    assert_exact_and_recovered(played, recording, recovered_us)
