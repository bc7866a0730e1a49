"""Statements that are changed in place: what of the state the changed statement can go on with.

A statement is changed at a cut, an event time. Up to there its fragment gives what the former
statement says, and after it what the new one says (`FormerProgram`). Both replicas change at the
same cut, so they go on giving the same tuples the same numbers.

*The state is kept* if the two programs differ in nothing but what they show of their state: the
SELECT list, HAVING, and TOP over groups. Windows, conditions, joins, groups with their aggregates
and the columns that are read are compared as plans, position by position, not as texts. Then the
output after the cut is that of the new statement as if it had always run.

*Else it begins anew*: the output after the cut is that of the new statement over the tuples after
the cut. `why_anew` says why.
"""

from __future__ import annotations

from dataclasses import replace

from streams.language.ast import ToStream
from streams.plan.choice import EvaluationWay, ranks_panes, way_of
from streams.plan.program import ChildPlan, Program, SelectPlan

KEEPS_SHOWN_ROWS = "the newest rows of each key are kept as the SELECT list shows them"
"""Why `EvaluationWay.NEWEST` cannot go on with another SELECT list."""


def differs(before: Program, after: Program) -> bool:
    """Whether a statement gives anything else than before, or is evaluated in another way.

    When it is evaluated makes no difference: DEADLINE and IMPORTANCE of a periodic one.
    """
    return _bare(before) != _bare(after)


def why_stream_ends(before: Program, after: Program) -> str | None:
    """Why the stream of a statement cannot go on if it is changed, a phrase; None: it can."""
    if [*before.columns.items()] != [*after.columns.items()]:
        told = ", ".join(f"{name} {kind}" for name, kind in before.columns.items())
        return f"has readers and sinks that go on with its columns, {told}"
    return None


def why_read_anew(before: Program, after: Program) -> str | None:
    """Why a changed statement has to read its input from another place on, a phrase.

    None: it goes on where the former one has come to.
    """
    if set(before.inputs) != set(after.inputs):
        was, now = (", ".join(each.inputs) for each in (before, after))
        return f"it reads {now}, and read {was}"
    return None


def why_anew(before: Program, after: Program) -> str | None:
    """Why a changed statement cannot go on with the state of the former one, a phrase.

    None: it can, or has no state.
    """
    if not differs(before, after):
        return None
    if (of := after.of) is not None and before.of is not None:
        return why_anew(before.of, of)
    if before.loop is not None or after.loop is not None:
        return "its statements read each other"
    if before.releases is not None or after.releases is not None:
        return "its releases are counted from the first tuple that it reads"
    if before.days != after.days:
        return "its days are others"
    if before.stateless and after.stateless and before.skips == after.skips:
        return None
    if before.inputs != after.inputs:
        return why_read_anew(before, after) or "it reads its streams in another order"
    if before.windows != after.windows:
        return "its windows differ"
    if before.to_stream is not after.to_stream:
        return f"it was {_spelled(before.to_stream)} and is {_spelled(after.to_stream)}"
    if before.skips != after.skips:
        return "what is done with tuples on which it fails differs"
    if before.functions != after.functions:
        return "the functions that it calls differ"
    if (found := _other_children(before, after)) is not None:
        return found
    if before.reads != after.reads or before.input_columns != after.input_columns:
        return _other_columns(before, after)
    return _other_way(before, after)


def _bare(program: Program) -> Program:
    """A program but for its spelling, and for how urgent its releases are."""
    of = None if program.of is None else _bare(program.of)
    releases = program.releases
    if releases is not None:
        releases = replace(releases, deadline_ms=None, importance=0)
    return replace(program, text="", former=(), of=of, releases=releases)


def _spelled(to_stream: ToStream) -> str:
    return to_stream.value.upper()


def _other_columns(before: Program, after: Program) -> str:
    for stream, columns in after.reads.items():
        if new := [each for each in columns if each not in before.reads[stream]]:
            return f"its state has nothing of column {new[0]} of {stream}"
    return "it reads other columns, by which its state is laid out"


def _other_children(before: Program, after: Program) -> str | None:
    """How the sources, conditions or groups differ, of which SELECT lists show something."""
    if before.relations != after.relations:
        return "the relations within it differ"
    if len(before.selects) != len(after.selects):
        return "it is a union of another number of SELECTs"
    for one, other in zip(before.selects, after.selects, strict=True):
        if one.child == other.child:
            continue
        if one.sources != other.sources or one.conjuncts != other.conjuncts:
            return "its sources or conditions differ"
        return _other_groups(one.child, other.child)
    return None


def _other_groups(before: ChildPlan, after: ChildPlan) -> str:
    one, other = before.group, after.group
    if one is None or other is None:
        return f"it has {'no groups any more' if other is None else 'groups now'}"
    if one.keys != other.keys:
        return "its groups differ"
    new = [each for each in other.aggregates if each not in one.aggregates]
    if new:
        return f"its state has nothing of {new[0].function}(…) that it shows now"
    return "it shows fewer aggregates, or in another order, and its state has one place for each"


def _other_way(before: Program, after: Program) -> str | None:
    """Why the same groups or windows are kept in another form; None: they are not."""
    way = way_of(after)
    if way is not way_of(before):
        return "it is evaluated in another way"
    if way is EvaluationWay.NEWEST:
        return KEEPS_SHOWN_ROWS
    if ranks_panes(before) or ranks_panes(after):
        return "the rows that TOP ranks are kept as the SELECT list shows them"
    if way is not EvaluationWay.STEPWISE:
        return None
    for one, other in zip(before.selects, after.selects, strict=True):
        if other.group is None and _remembers(after, one, other):
            return "the rows that it shows are kept as the SELECT list shows them"
    return None


def _remembers(program: Program, before: SelectPlan, after: SelectPlan) -> bool:
    """Whether rows that are not of groups are kept as they are shown."""
    has_top = before.top is not None or after.top is not None
    return has_top or program.to_stream is ToStream.RSTREAM
