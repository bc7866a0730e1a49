"""The time that the recovery bound leaves, and how fragments that die together share it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from orchestrator.control.planning.dying_together import FeedingOption, Together
from orchestrator.records import Standby
from tests.unit.orchestrator.control.planning.test_feeding import FILTER, SECOND, applied, decided

OFFERS = [FeedingOption(1000.0, 0.0), FeedingOption(100.0, 50.0), FeedingOption(0.0, 100.0)]


def of_two(spare_ms: float) -> Together:
    """Two fragments on one node; the second waits for the first."""
    planning = decided(applied(Standby(), FILTER + SECOND, output="b", bound_ms=600.0))
    task = planning.task("q")
    standbys = planning.standbys(task)
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    assert primaries["a"] == primaries["b"]
    slowest_ms = standbys["b"].recovery.total_ms
    query = msgspec.structs.replace(task.query, recovery_bound_ms=slowest_ms + spare_ms)
    return Together(replace(task, query=query), standbys, primaries)


@pytest.mark.parametrize(
    ("spare_ms", "added_ms"), [(10.0, [0, 0]), (100.0, [50, 50]), (200.0, [100, 100])]
)
def test_time_goes_where_it_saves_most(spare_ms: float, added_ms: list[float]) -> None:
    """The first who may choose would take all of a hundred, and the other were sent everything."""
    together = of_two(spare_ms)
    together.share({"a": OFFERS, "b": OFFERS})
    assert sorted(together.added_ms.values()) == added_ms


def test_the_bound_of_one_leaves_the_time_of_those_that_wait_for_it() -> None:
    together = of_two(100.0)
    together.added_ms = {"a": 30.0, "b": 20.0}
    first_ms = together.standbys["a"].recovery.total_ms
    assert together.bound_ms("a") == pytest.approx(first_ms + 80.0)
    together.added_ms["a"] = 30.0
    second_ms = together.standbys["b"].recovery.total_ms
    assert together.bound_ms("b") == pytest.approx(second_ms + 70.0)
