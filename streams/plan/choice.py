"""The choice of the way in which a program is evaluated.

Stepwise evaluation takes any program: it follows the changes of relations from one timestamp to the
next. The other ways are for programs of one shape each. They take many timestamps in one pass over
arrays, and less time. All give the same rows in the same order, so a program has the first way
whose shape it has. Keys that kernels tell apart must have codes (`CODED_KINDS`): floats have none.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from math import gcd

from streams.expressions.typed import Apply, InputColumn, Typed, fields, relocated
from streams.language.ast import ToStream
from streams.plan.loop_core import why_stepwise
from streams.plan.program import CODED_KINDS, Program, SelectPlan, WindowPlan

MOST_PANES = 10_000
"""Most panes of a window: there is work to do for each of them."""

MOST_NEWEST = 16
"""Most rows of a key that have a place of their own from the start."""


class EvaluationWay(Enum):
    """The ways to evaluate a program."""

    STATELESS = "stateless"
    """Row by row, by Arrow and numpy: no result depends on a tuple of another timestamp."""
    PANES = "panes"
    """Groups over a window that slides, by compiled kernels: what panes know is added up."""
    SESSIONS = "sessions"
    """Groups that are sessions and shown when they end, by compiled kernels."""
    NEWEST = "newest"
    """Changes of the newest rows of each key, by compiled kernels: a key has places for them."""
    JOIN = "join"
    """Pairs of equal keys of two windows that tumble together: a window has no past."""
    LOOKUP = "lookup"
    """Tuples that are looked up in a relation that grows: no pair ever goes."""
    STEPWISE = "stepwise"
    """By the changes of relations: any program."""
    COMPILED_LOOP = "compiled loop"
    """Statements that read each other, instant by instant, by one compiled machine."""
    LOOP = "loop"
    """Statements that read each other, instant by instant, each of them stepwise."""


def way_of(program: Program) -> EvaluationWay:
    """The way to evaluate a program."""
    if program.loop is not None:
        stepwise = why_stepwise(program) is not None
        return EvaluationWay.LOOP if stepwise else EvaluationWay.COMPILED_LOOP
    if program.naive or program.relations or not _slides_with_releases(program):
        return EvaluationWay.STEPWISE
    only = _one_window(program)
    if only is not None and _adds_up_panes(*only):
        return EvaluationWay.PANES
    if any(select.top is not None for select in program.selects):
        return EvaluationWay.STEPWISE
    if program.stateless:
        return EvaluationWay.STATELESS
    if only is not None and _shows_newest(program, *only):
        return EvaluationWay.NEWEST
    if only is not None and _shows_sessions(program, *only):
        return EvaluationWay.SESSIONS
    if not join_conditions(program)[0]:
        return EvaluationWay.STEPWISE
    return EvaluationWay.LOOKUP if _looks_up(program) else EvaluationWay.JOIN


def _slides_with_releases(program: Program) -> bool:
    """Whether all windows change at the releases of a periodic program, and at no other times."""
    releases = program.releases
    return releases is None or all(
        window.range_ms is not None
        and window.rows is None
        and (window.slide_ms, window.offset_ms) == (releases.period_ms, releases.offset_ms)
        for window in program.windows
    )


def ranks_panes(program: Program) -> bool:
    """Whether TOP is over the rows of one source that enter and leave its window in panes."""
    if (only := _one_window(program)) is None:
        return False
    select, window = only
    if select.top is None or select.group is not None:
        return False
    return window.tumbling is not None or (
        window.slide_ms is not None and window.range_ms is not None
    )


def join_conditions(program: Program) -> tuple[tuple[tuple[Typed, Typed], ...], tuple[Typed, ...]]:
    """What must be equal in a join that finds pairs by keys, and its other conditions on pairs.

    These are joins of two windows that tumble together, and of a growing relation with tuples that
    are looked up in it. Other programs have no such keys.

    Returns
    -------
    tuple
        Pairs of expressions over the columns of the first and of the second source, each over the
        columns that the program reads of its stream. Then conditions over the columns of both.
    """
    select = program.selects[0]
    if len(program.selects) != 1 or len(select.sources) != 2 or select.group is not None:
        return (), ()
    if program.to_stream is not ToStream.RSTREAM:
        return (), ()
    spans = {window.tumbling for window in program.windows}
    if (len(spans) != 1 or None in spans) and not _looks_up(program):
        return (), ()
    width = len(program.read_kinds(program.windows[select.sources[0].window].stream))
    sides = [(one, _equal_sides(one, width)) for one in select.conjuncts]
    return (
        tuple(keys for _, keys in sides if keys is not None),
        tuple(condition for condition, keys in sides if keys is None),
    )


def _one_window(program: Program) -> tuple[SelectPlan, WindowPlan] | None:
    """The only select and its only window, if there are no others."""
    if len(program.selects) != 1 or len(program.windows) != 1 or program.relations:
        return None
    (select,), (window,) = program.selects, program.windows
    return (select, window) if len(select.sources) == 1 else None


def _adds_up_panes(select: SelectPlan, window: WindowPlan) -> bool:
    """Whether it aggregates groups over a window that slides, by what panes can add up."""
    if select.group is None or window.slide_ms is None or window.range_ms is None:
        return False
    return window.range_ms // gcd(window.range_ms, window.slide_ms) <= MOST_PANES and all(
        key.kind in CODED_KINDS for key in select.group.keys
    )


def _shows_newest(program: Program, select: SelectPlan, window: WindowPlan) -> bool:
    """Whether it shows how the newest rows of each key change."""
    kinds = program.read_kinds(window.stream)
    return (
        select.group is None
        and program.to_stream is not ToStream.RSTREAM
        and window.rows is not None
        and window.rows <= MOST_NEWEST
        and window.range_ms is None
        and bool(window.partition_by)
        and all(kinds[place] in CODED_KINDS for place in window.partition_by)
    )


def _shows_sessions(program: Program, select: SelectPlan, window: WindowPlan) -> bool:
    """Whether each of its groups is a session of the window, and shown when that ends."""
    group = select.group
    if program.to_stream is not ToStream.RSTREAM or group is None:
        return False
    # With a gap of a millisecond two sessions of a key may end one right after the other.
    if window.session_ms is None or window.session_ms <= 1 or not window.partition_by:
        return False
    keys = {key.index if isinstance(key, InputColumn) else None for key in group.keys}
    return (
        keys == set(window.partition_by)
        and all(key.kind in CODED_KINDS for key in group.keys)
        and not any(one.distinct for one in group.aggregates)
    )


def _looks_up(program: Program) -> bool:
    """Whether the first of two sources holds all tuples so far, and the second those of now."""
    first, second = (program.windows[one.window] for one in program.selects[0].sources)
    return first.unlimited and second.tumbling == (1, 0)


def _equal_sides(condition: Typed, width: int) -> tuple[Typed, Typed] | None:
    """The sides of `f(A) = g(B)` that codes tell apart; A has the first `width` columns."""
    if not isinstance(condition, Apply) or condition.function != "equal":
        return None
    one, other = condition.arguments
    if one.kind != other.kind or one.kind not in CODED_KINDS:
        return None
    places = [[field.index for field in fields(side)] for side in (one, other)]
    if not all(places):
        return None
    if max(places[1]) < width:
        one, other, places = other, one, places[::-1]
    if max(places[0]) >= width or min(places[1]) < width:
        return None
    return one, relocated(other, lambda field: replace(field, index=field.index - width))
