"""Bounds that pages state are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ha import memory
from orchestrator.control.decide import beginning
from orchestrator.control.decide.decision import DecisionSettings

SITES_S = DecisionSettings().site_patience_us / 1e6
DOCS = Path(__file__).parents[3] / "docs"


NUMBERS = {1: "one", 5: "five", 16: "sixteenth", 4: "quarter"}


@pytest.mark.parametrize(
    ("page", "sentence", "value"),
    [
        ("manifests.md", "at most {word} times in a row", DecisionSettings().most_restarts),
        ("live-streams.md", "the fragment waits, {} s at most", SITES_S),
        ("troubleshooting.md", "do not settle it waits {} s", beginning.SETTLE_PATIENCE_US / 1e6),
        ("troubleshooting.md", "come for {} s", beginning.HOSTS_PATIENCE_US / 1e6),
        ("live-streams.md", "than a {word} of `memory`", 1 / memory.READER_SHARE),
        ("live-streams.md", "a {word} of the cluster's `memory` in bodies", 1 / memory.BODY_SHARE),
    ],
)
def test_a_bound_that_a_page_states_is_that_of_the_code(
    page: str, sentence: str, value: float
) -> None:
    stated = sentence.format(f"{value:g}", word=NUMBERS.get(round(value), ""))
    assert stated in " ".join((DOCS / page).read_text().split())
