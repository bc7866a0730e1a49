"""The parts of a host's budget: together they are no more than it has."""

from __future__ import annotations

import pytest

from ha.memory import MOST_WINDOW_BYTES, MemoryBudget


@pytest.mark.parametrize("total_bytes", [24 * 1024, 16 * 2**20, 256 * 2**20, 64 * 2**30])
@pytest.mark.parametrize("logs", [0, 1, 7, 200])
@pytest.mark.parametrize("streams", [0, 1, 7, 200])
def test_all_parts_together_are_no_more_than_the_budget(
    total_bytes: int, logs: int, streams: int
) -> None:
    budget = MemoryBudget(total_bytes)
    parts_bytes = [budget.log_bytes(logs)] * logs + [budget.input_bytes(streams)] * streams
    assert sum(parts_bytes) + budget.transit_bytes <= total_bytes


@pytest.mark.parametrize("streams", [1, 7, 200])
def test_a_window_leaves_room_for_standbys_that_are_slower_than_its_reader(streams: int) -> None:
    budget = MemoryBudget(16 * 2**20)
    assert 0 < 2 * budget.window_bytes(streams) <= budget.input_bytes(streams)
    assert MemoryBudget(2**50).window_bytes(streams) == MOST_WINDOW_BYTES
