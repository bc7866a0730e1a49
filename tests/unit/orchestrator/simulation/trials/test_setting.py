"""Settings of random schedules."""

from __future__ import annotations

from orchestrator.records import FailureLabels
from orchestrator.simulation.trials.setting import (
    NO_LABELS,
    NOTHING_PERIODIC,
    PlayMode,
    random_setting,
)


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


def test_some_statements_are_periodic_since_an_edition_and_the_others_are_the_same() -> None:
    periodic = 0
    for seed in range(30):
        now = random_setting(seed).queries
        before = random_setting(seed, edition=NOTHING_PERIODIC).queries
        assert "RTSPEC" not in "".join(each.statements for each in before)
        texts = [one for each in now for one in each.statements.splitlines()]
        periodic += sum("RTSPEC" in text for text in texts)
        first = texts[0].split(" RTSPEC")[0].rstrip(";").partition("(")[2]
        assert first == before[0].statements.splitlines()[0].rstrip(";").partition("(")[2]
    assert 10 <= periodic <= 60
