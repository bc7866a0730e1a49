"""A failing schedule is made smaller while it fails in the same way."""

from __future__ import annotations

from msgspec import structs

from orchestrator.simulation.trials.faults import AnyFault, Crash, LinkCut, Observe, StoreAway
from orchestrator.simulation.trials.schedule import Schedule, Shape
from orchestrator.simulation.trials.shrinking import shrink

FAULTS: tuple[AnyFault, ...] = (
    StoreAway(at_ms=100, for_ms=3000),
    LinkCut(
        at_ms=200, for_ms=800, here="n1", there="n2", both_ways=False, holds=True, notice=False
    ),
    Crash(at_ms=300, for_ms=1000, target="n3", after_writes=2),
)
SCHEDULE = Schedule(seed=1, shape=Shape.SEVERAL, faults=FAULTS)


def test_everything_that_is_not_needed_goes() -> None:
    small = shrink(SCHEDULE, lambda each: any(isinstance(f, LinkCut) for f in each.faults))
    (cut,) = small.faults
    assert isinstance(cut, LinkCut)
    assert (cut.for_ms, cut.both_ways, cut.holds) == (100, True, False)
    assert len(small.setting.queries) == 1


def test_what_is_needed_stays() -> None:
    assert shrink(SCHEDULE, lambda each: each == SCHEDULE) == SCHEDULE


def test_nobody_observes_a_stream_that_is_gone() -> None:
    """It would be waited for, whatever fails."""
    schedule = next(
        each
        for seed in range(1, 100)
        if len((each := structs.replace(SCHEDULE, seed=seed)).setting.queries) > 1
    )
    programs = schedule.setting.programs
    one = structs.replace(schedule, queries=1).setting
    gone = next(name for name in programs if name not in one.programs)
    read = next(iter(one.programs.values())).inputs[0]
    watch = Observe(
        name="watch", streams=(read, gone), region="n1", at_ms=0, until_ms=None, orderly=True
    )
    only_gone = structs.replace(watch, name="other", streams=(gone,))
    small = shrink(
        structs.replace(schedule, observers=(watch, only_gone)), lambda each: bool(each.observers)
    )
    assert [(each.name, each.streams) for each in small.observers] == [("watch", (read,))]
