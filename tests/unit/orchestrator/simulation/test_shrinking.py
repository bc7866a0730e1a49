"""A failing schedule is made smaller while it fails in the same way."""

from __future__ import annotations

from orchestrator.simulation.faults import AnyFault, Crash, Cut, StoreAway
from orchestrator.simulation.schedule import Schedule, Shape
from orchestrator.simulation.shrinking import shrink

FAULTS: tuple[AnyFault, ...] = (
    StoreAway(at_ms=100, for_ms=3000),
    Cut(at_ms=200, for_ms=800, here="n1", there="n2", both_ways=False, holds=True, notice=False),
    Crash(at_ms=300, for_ms=1000, target="n3", after_writes=2),
)
SCHEDULE = Schedule(seed=1, shape=Shape.SEVERAL, faults=FAULTS)


def test_everything_that_is_not_needed_goes() -> None:
    small = shrink(SCHEDULE, lambda each: any(isinstance(f, Cut) for f in each.faults))
    (cut,) = small.faults
    assert isinstance(cut, Cut)
    assert (cut.for_ms, cut.both_ways, cut.holds) == (100, True, False)
    assert len(small.setting.queries) == 1


def test_what_is_needed_stays() -> None:
    assert shrink(SCHEDULE, lambda each: each == SCHEDULE) == SCHEDULE
