"""Settings of random schedules."""

from __future__ import annotations

from orchestrator.records import FailureLabels
from orchestrator.simulation.trials.setting import (
    NO_LABELS,
    NOTHING_PERIODIC,
    ONE_LEVEL,
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
        now = random_setting(seed, edition=ONE_LEVEL).queries
        before = random_setting(seed, edition=NOTHING_PERIODIC).queries
        assert "RTSPEC" not in "".join(each.statements for each in before)
        texts = [one for each in now for one in each.statements.splitlines()]
        periodic += sum("RTSPEC" in text for text in texts)
        first = texts[0].split(" RTSPEC")[0].rstrip(";").partition("(")[2]
        assert first == before[0].statements.splitlines()[0].rstrip(";").partition("(")[2]
    assert 10 <= periodic <= 60


def test_there_are_loops_and_statements_of_several_levels_since_an_edition() -> None:
    loops = levels = 0
    for seed in range(30):
        before = random_setting(seed, edition=ONE_LEVEL).programs.values()
        assert not any(each.loop or each.relations for each in before)
        programs = random_setting(seed).every_program.values()
        loops += sum(each.loop is not None for each in programs)
        levels += sum(bool(each.relations) for each in programs)
    assert 10 <= loops <= 40
    assert 10 <= levels <= 60
