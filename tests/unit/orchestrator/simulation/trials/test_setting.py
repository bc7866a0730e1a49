"""Settings of random schedules."""

from __future__ import annotations

from orchestrator.records import FailureLabels
from orchestrator.simulation.trials.setting import NO_LABELS, PlayMode, random_setting


def test_clients_push_the_streams_of_every_eleventh_setting() -> None:
    played = {
        seed: {each.driver for each in random_setting(seed).recordings.values()}
        for seed in range(5, 60)
    }
    pushed = {seed for seed, drivers in played.items() if PlayMode.PUSHED in drivers}
    assert pushed <= {seed for seed in played if seed % 11 == 5}
    assert len(pushed) >= 4


def test_nodes_share_failure_domains_in_half_of_the_settings_since_an_edition() -> None:
    shared = 0
    for seed in range(40):
        labels = [each.labels for each in random_setting(seed).specs]
        shared += len({each.application for each in labels if each.application}) > 1
        before = random_setting(seed, edition=NO_LABELS)
        assert all(each.labels == FailureLabels() for each in before.specs)
    assert 10 <= shared <= 25
