"""A fault at random: a seed that fails reproduces its run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.simulation.scenario import Scenario
from tests.pairs import NODES, Input, answer

SEEDS = range(100, 110)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_executor_killed_at_any_time(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    recording = Input.random(seed, seconds=12)
    scenario = Scenario(recording.manifests(tmp_path), seed=seed, check_invariants=True)
    scenario.begin()
    scenario.run_for(float(rng.uniform(0.1, 3)))
    killed = str(rng.choice(NODES))
    scenario.kill(killed)
    scenario.run_for(8)
    scenario.heal()
    played = scenario.finish()
    told = f"seed {seed}, killed {killed}"
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0), told
        assert answer(delivered) == expected, told
