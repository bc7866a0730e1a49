"""Settings of random schedules."""

from __future__ import annotations

from orchestrator.simulation.trials.setting import PlayMode, random_setting


def test_clients_push_the_streams_of_every_eleventh_setting() -> None:
    played = {
        seed: {each.driver for each in random_setting(seed).recordings.values()}
        for seed in range(5, 60)
    }
    pushed = {seed for seed, drivers in played.items() if PlayMode.PUSHED in drivers}
    assert pushed <= {seed for seed in played if seed % 11 == 5}
    assert len(pushed) >= 4
