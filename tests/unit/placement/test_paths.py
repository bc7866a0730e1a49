"""A path in words."""

from __future__ import annotations

from placement.paths import way


def test_a_stop_that_is_named_after_its_node_is_told_by_the_node() -> None:
    path = ("north @ here", "alerts @ paris", "alerts at desk @ desk")
    assert way(path) == "north @ here → alerts @ paris → desk"


def test_any_other_stop_is_told_whole() -> None:
    assert way(("tea at desk @ paris",)) == "tea at desk @ paris"
