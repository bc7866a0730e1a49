"""Changes of queries in trials: other statements of the same results."""

from __future__ import annotations

import pytest

from orchestrator.simulation.trials.operations import Rewording, reworded
from orchestrator.simulation.trials.schedule import KINDS, USUAL, random_schedule
from orchestrator.simulation.trials.setting import ONE_LEVEL

NOW = "REGISTER QUERY f RSTREAM(SELECT key, value{} FROM s [NOW] WHERE value >= 26)"


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        (NOW.format(""), NOW.format(" + 0 AS value")),
        (NOW.format(" + 1 AS value"), NOW.format(" + 1 + 0 AS value")),
    ],
)
def test_a_statement_without_state_shows_its_value_otherwise(statement: str, changed: str) -> None:
    other = "\nREGISTER QUERY g ISTREAM(SELECT key, value FROM f [RANGE 1 SECONDS])"
    assert reworded(f"{statement};{other};") == f"{changed};{other};"


@pytest.mark.parametrize(
    "statement",
    [
        "RSTREAM(SELECT key, sum(value) AS value FROM s [NOW] GROUP BY key)",
        "RSTREAM(SELECT key, value FROM s [NOW] UNION ALL SELECT key, value FROM t [NOW])",
        "ISTREAM(SELECT key, value - 34 AS value FROM f [NOW] WHERE value >= 34)<NOW>",
        "RSTREAM(SELECT key, value FROM s [RANGE 2 SECONDS] TOP 1 BY value ASC PARTITION BY key)",
    ],
)
def test_any_other_stays_as_it_is(statement: str) -> None:
    assert reworded(statement) == statement


def test_queries_are_changed_where_clusters_keep_checkpoints() -> None:
    for kind in KINDS.keys() - {*USUAL}:
        for seed in range(5):
            changes = [
                each
                for each in random_schedule(seed, (kind, "crash")).operations
                if isinstance(each, Rewording)
            ]
            assert len(changes) == 1
    drawn = [random_schedule(1), random_schedule(1, ("everything",), edition=ONE_LEVEL)]
    assert not [o for each in drawn for o in each.operations if isinstance(o, Rewording)]
