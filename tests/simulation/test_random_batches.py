"""Replicas that gather their input for random times, or take random few tuples at a time: every
promise but those of time is kept."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.host.core import dispatcher
from orchestrator.simulation.trials import setting
from orchestrator.simulation.trials.campaign import check
from orchestrator.simulation.trials.schedule import random_schedule
from orchestrator.simulation.trials.setting import ALL_IS_KEPT
from tests.property.streams.scheduling.test_batching_properties import RandomBatches


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4001, 4003])
def test_outputs_are_exact_and_replicas_alike_whatever_each_replica_takes_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[RandomBatches] = []

    def policy_of(_: str) -> RandomBatches:
        drawn.append(RandomBatches(np.random.default_rng([seed, len(drawn)])))
        return drawn[-1]

    monkeypatch.setattr(dispatcher, "policy_of", policy_of)
    monkeypatch.setattr(dispatcher, "MEASURED", "no task's")
    _, found = check(random_schedule(seed, edition=ALL_IS_KEPT))
    assert drawn
    assert not [each for each in found if not each.startswith("bound:")], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [9, 53])
def test_what_is_dropped_is_counted_and_replicas_are_alike_however_few_tuples_hosts_take(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)

    def in_time(*_: object) -> tuple[int, float]:
        return int(rng.integers(1, 4)), 1000.0

    monkeypatch.setattr(setting, "DENSER", 20)
    monkeypatch.setattr(dispatcher.Dispatcher, "in_time", in_time)
    seen, found = check(random_schedule(seed, ("crash", "pause")))
    assert sum(seen.overdue.values()) > 0
    assert not [each for each in found if not each.startswith("bound:")], f"seed {seed}"
