"""What drills do to simulated hosts: a full disk keeps nothing, a crowded host takes longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.drills.acting import Acting
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.drills.striking import struck_host
from orchestrator.embedded.process_faults import RIVALS
from orchestrator.progress import silent
from orchestrator.records import StrikeKind
from orchestrator.simulation.world.drill_hands import SimulatedHands
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import SETTLE_S, Input, answer


@pytest.fixture
def recording() -> Input:
    return Input.random(seed=5, seconds=16)


@pytest.fixture
def scenario(tmp_path: Path, recording: Input) -> Scenario:
    made = Scenario(recording.manifests(tmp_path), seed=2, settle_s=SETTLE_S)
    made.begin()
    made.run_for(3.0)
    return made


def acting(scenario: Scenario, hands: SimulatedHands) -> Acting:
    return Acting(
        view=read_view(scenario.store), node="", store=scenario.store, on_progress=silent, by="",
        hands=hands,
    )  # fmt: skip


def test_a_site_with_a_full_disk_keeps_nothing_and_all_of_it_afterwards(
    scenario: Scenario, recording: Input
) -> None:
    hands = SimulatedHands(scenario)
    with struck_host(acting(scenario, hands), "exit", StrikeKind.FULL_DISK, 10.0):
        before = {stream: len(kept) for stream, kept in scenario.deliveries.items()}
        hands.rest(3.0)
        assert {stream: len(kept) for stream, kept in scenario.deliveries.items()} == before
        assert any("no space" in each for each in read_view(scenario.store).hosts["exit"].problems)
    played = scenario.finish()
    told = [each.event for each in scenario.store.history() if each.event.kind == "sink failed"]
    assert sorted(each.subject for each in told) == sorted(recording.expected())
    assert all("no space" in each.detail for each in told)
    for stream, expected in recording.expected().items():
        assert sequence_faults(played.delivered(stream)) == SequenceFaults(lost=0, repeated=0)
        assert answer(played.delivered(stream)) == expected


def test_a_crowded_host_takes_as_long_as_beside_its_rivals(scenario: Scenario) -> None:
    hands, view = SimulatedHands(scenario), read_view(scenario.store)
    primary = view.fragments["pairing.pairs"].record.primary

    def evaluation_us() -> float:
        status = read_view(scenario.store).status(primary, "pairs")
        assert status is not None
        assert status.load is not None
        return 1e6 * status.load.cores / status.load.evaluations_s

    before_us = evaluation_us()
    with struck_host(acting(scenario, hands), primary.node, StrikeKind.SLOW, 6.0):
        hands.rest(2.0)
        first_us = evaluation_us()
        hands.rest(4.0)
        later_us = evaluation_us()
    assert before_us < first_us < later_us < (RIVALS + 1) * before_us * 1.1
    assert later_us > 2 * before_us
    hands.rest(4.0)
    assert evaluation_us() < later_us
