"""Makes a failing schedule smaller, as long as it fails in the same way.

Tried in this order, again and again until nothing helps: fewer queries, no observer, no visit, one
operation less, one fault less, shorter faults, plainer faults.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

import msgspec

from orchestrator.simulation.trials.faults import AnyFault, Observe
from orchestrator.simulation.trials.operations import Drain, Rewording
from orchestrator.simulation.trials.schedule import Schedule

MOST_ROUNDS = 12
"""How often a schedule is made smaller at most: shrinking must end in a reasonable time."""


def shrink(schedule: Schedule, still_fails: Callable[[Schedule], bool]) -> Schedule:
    """A smaller schedule that still fails.

    Parameters
    ----------
    still_fails
        Plays a schedule, and says whether it fails in the way in question.
    """
    for _ in range(MOST_ROUNDS):
        smaller = next((each for each in _smaller(schedule) if still_fails(each)), None)
        if smaller is None:
            break
        schedule = smaller
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    count = len(schedule.setting.queries)
    if count > 1:
        smaller = msgspec.structs.replace(schedule, queries=count - 1, visit=None)
        known = smaller.setting.programs
        kept = [
            o
            for o in schedule.operations
            if isinstance(o, Drain | Rewording) or o.fragment in known
        ]
        streams = known.keys() | {name for program in known.values() for name in program.inputs}
        observers = tuple(_observers(schedule.observers, streams))
        yield msgspec.structs.replace(smaller, operations=tuple(kept), observers=observers)
    if schedule.observers:
        yield msgspec.structs.replace(schedule, observers=())
    if schedule.visit is not None:
        yield msgspec.structs.replace(schedule, visit=None)
    for i in range(len(schedule.rollouts)):
        stay = (*schedule.rollouts[:i], *schedule.rollouts[i + 1 :])
        yield msgspec.structs.replace(schedule, rollouts=stay)
    operations = schedule.operations
    for i in range(len(operations)):
        fewer = (*operations[:i], *operations[i + 1 :])
        yield msgspec.structs.replace(schedule, operations=fewer)
    faults = schedule.faults
    for i in range(len(faults)):
        if len(faults) > 1:
            yield _with(schedule, (*faults[:i], *faults[i + 1 :]))
    for i, fault in enumerate(faults):
        for plainer in _plainer(fault):
            yield _with(schedule, (*faults[:i], plainer, *faults[i + 1 :]))


def _observers(observers: Iterable[Observe], known: Container[str]) -> Iterator[Observe]:
    """Those of streams that there are; others would wait for them for ever."""
    for observer in observers:
        if streams := tuple(stream for stream in observer.streams if stream in known):
            yield msgspec.structs.replace(observer, streams=streams)


def _plainer(fault: AnyFault) -> Iterator[AnyFault]:
    if fault.for_ms >= 200:
        yield msgspec.structs.replace(fault, for_ms=fault.for_ms // 20 * 10)
    for name, plain in (("after_writes", None), ("both_ways", True), ("holds", False)):
        if getattr(fault, name, plain) != plain:
            yield msgspec.structs.replace(fault, **{name: plain})


def _with(schedule: Schedule, faults: tuple[AnyFault, ...]) -> Schedule:
    return msgspec.structs.replace(schedule, faults=faults)
