"""Random schedules of faults in the simulated world."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from foundation.suggestions import closest
from orchestrator.errors import InvalidInput
from orchestrator.simulation.trials import campaign
from orchestrator.simulation.trials.campaign import (
    Campaign,
    ScheduleSelection,
    TrialReport,
    TrialVerdict,
)
from orchestrator.simulation.trials.schedule import KINDS, STRUCK, Schedule, Shape, random_schedule


def fault_kinds() -> tuple[str, ...]:
    """The kinds of faults that schedules can be drawn from."""
    return tuple(KINDS)


def check_faults(kinds: Sequence[str], shapes: Sequence[str]) -> None:
    """Refuse kinds of faults and shapes of clusters that do not exist.

    Raises
    ------
    InvalidInput
        Naming the first one.
    """
    _selection(kinds, shapes)


def simulate(
    seeds: int,
    first_seed: int = 0,
    kinds: Sequence[str] = (),
    shapes: Sequence[str] = (),
    processes: int | None = None,
    tell: Callable[[TrialVerdict], None] = lambda _: None,
) -> Campaign:
    """Play the schedules of consecutive seeds, and check all promises after each.

    Parameters
    ----------
    kinds, shapes
        Those to draw from; empty: all.
    processes
        None: one a core.
    tell
        Told each verdict as it falls.

    Raises
    ------
    InvalidInput
        If a kind or a shape is unknown.
    """
    selection = _selection(kinds, shapes)
    return campaign.run(first_seed, seeds, selection, processes=processes, tell=tell)


def play_seed(seed: int, kinds: Sequence[str] = (), shapes: Sequence[str] = ()) -> TrialReport:
    """Play the schedule of one seed as it is, and tell all that happened."""
    selection = _selection(kinds, shapes)
    return _played(random_schedule(seed, selection.kinds, selection.shapes))


def play_file(path: Path) -> TrialReport:
    """Play a schedule out of a JSON file, such as one that was printed with a failure.

    Raises
    ------
    InvalidInput
        If the file holds none.
    """
    try:
        schedule = msgspec.json.decode(path.read_bytes(), type=Schedule)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InvalidInput(
            "command line", "--schedule", str(path), problem, "Check the path."
        ) from None
    except msgspec.DecodeError as error:
        raise InvalidInput(
            str(path),
            "schedule",
            None,
            str(error),
            "Give the JSON that a failure was printed with.",
        ) from None
    return _played(schedule)


def _played(schedule: Schedule) -> TrialReport:
    seen, found = campaign.check(schedule)
    return campaign.report(schedule, seen, found, shrunk=False)


def _selection(kinds: Sequence[str], shapes: Sequence[str]) -> ScheduleSelection:
    known = {shape.value: shape for shape in Shape}
    _refuse_unknown("--kind", kinds, KINDS)
    _refuse_unknown("--shape", shapes, known)
    whole = ScheduleSelection()
    # Who names kinds of faults wants faults.
    drawn = STRUCK if kinds else whole.shapes
    return ScheduleSelection(
        kinds=tuple(kinds) or whole.kinds,
        shapes=tuple(known[shape] for shape in shapes) or drawn,
    )


def _refuse_unknown(option: str, given: Sequence[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            close = closest(name, known)
            hint = f"Did you mean {close}?" if close else f"Known: {', '.join(sorted(known))}."
            raise InvalidInput("command line", option, name, "is unknown", hint)
