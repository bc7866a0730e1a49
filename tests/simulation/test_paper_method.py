"""`placement: {method: paper}`: hosts and leader follow the papers' methods, and keep promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.replicas import PLANNING_SEED
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.manifest import Manifests, load
from orchestrator.records import FragmentRecord
from orchestrator.simulation.world.scenario import Scenario
from placement.evaluation.load import Load
from placement.methods import Method
from placement.planner import free_points
from placement.primaries import PrimaryTask, nearest_nodes
from tests.pairs import FRAGMENTS, SETTLE_S, Input, answer


@pytest.fixture
def recording() -> Input:
    return Input.random(seed=7, seconds=14)


def manifests(recording: Input, folder: Path) -> Manifests:
    file = recording.write(folder)
    text = file.read_text()
    file.write_text(text.replace("kind: Cluster", "kind: Cluster\nplacement: {method: paper}", 1))
    return load([file])


def started(recording: Input, folder: Path) -> Scenario:
    made = Scenario(manifests(recording, folder), seed=1, check_invariants=True, settle_s=SETTLE_S)
    made.begin()
    made.run_for(3)
    return made


def fragment(scenario: Scenario, name: str) -> FragmentRecord:
    return read_view(scenario.store).fragments[f"pairing.{name}"].record


def test_primaries_are_on_the_nodes_nearest_to_the_points_of_algorithm_3(
    recording: Input, tmp_path: Path
) -> None:
    scenario = started(recording, tmp_path)
    view = read_view(scenario.store)
    assert view.settings.placement.method is Method.PAPER
    planning = Planning.of(view)
    planning.running = {}
    task = planning.task("pairing")
    assert task.settings.as_printed
    rng = np.random.default_rng(PLANNING_SEED)
    (points_ms,) = free_points([task.request], task.network, task.settings, [rng])
    load = Load(task.network, operator_load=task.settings.operator_load, cpu=task.settings.cpu)
    nearest = nearest_nodes(
        PrimaryTask(request=task.request, points_ms=points_ms, view=task.network, load=load)
    )
    placed = {each.operator: each.primary for each in planning.place("pairing").placements}
    assert placed == {name: nearest[name] for name in FRAGMENTS}


def test_the_primary_dies_and_nothing_is_lost_or_repeated(recording: Input, tmp_path: Path) -> None:
    scenario = started(recording, tmp_path)
    before = fragment(scenario, "pairs")
    assert before.secondary is not None
    scenario.kill(before.primary.node)
    played = scenario.finish()
    after = fragment(scenario, "pairs")
    assert after.primary.node == before.secondary.node
    assert after.secondary is not None
    assert after.secondary.node not in (before.primary.node, after.primary.node)
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected
