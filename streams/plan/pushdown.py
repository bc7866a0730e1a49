"""Aggregates pushed down: each row is folded as it passes, and no row is kept for an aggregate.

The operator below an aggregate (a window, a selection, a projection, a join) looks at every row
anyway. It hands each row to the aggregates, which fold it into one value each. An aggregate of n
rows is hence there in constant time when it is emitted, and takes the memory of one value. A
*naive* aggregate keeps the rows until then, and reads all of them. Of m aggregates over the same
rows, l of which are equal,

    naive: m · n values for each group,    pushed down: m - l + 1 values.

Stepwise, a window with SLIDE hands its rows on at its boundaries, and they are folded there.

A value that may have to be corrected because rows leave the window needs more: `min` and `max`, for
one, keep what may become the least or greatest value (`streams.aggregates.two_stacks`,
`streams.aggregates.accumulators`).

References
----------
*Pushdown aggregates* (Embed Pushdown Aggregate). There, windows are count-based and are emptied at
each emission; here they may slide as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streams.expressions.typed import InputColumn, relocated
from streams.plan.program import ChildPlan, GroupPlan, Program, SelectPlan, UnionPlan


def computed_once(selects: Sequence[SelectPlan]) -> tuple[SelectPlan, ...]:
    """Give selects that group the same rows by the same keys one plan of aggregates."""
    merged: dict[ChildPlan, GroupPlan] = {}
    for select in selects:
        if (group := select.group) is None:
            continue
        rows = _ungrouped(select)
        former = merged.get(rows)
        aggregates = group.aggregates if former is None else former.aggregates + group.aggregates
        merged[rows] = GroupPlan(
            keys=group.keys,
            aggregates=tuple(dict.fromkeys(aggregates)),
            written=group.written + (0 if former is None else former.written),
        )
    return tuple(
        select if select.group is None else _over(select, merged[_ungrouped(select)])
        for select in selects
    )


def _ungrouped(select: SelectPlan) -> ChildPlan:
    """The rows and the keys of a select with groups."""
    assert select.group is not None
    keys = GroupPlan(keys=select.group.keys, aggregates=())
    return ChildPlan(sources=select.sources, conjuncts=select.conjuncts, group=keys)


def _over(select: SelectPlan, group: GroupPlan) -> SelectPlan:
    """The same select over a group with the aggregates of others too."""
    own = select.group
    assert own is not None
    keys = len(own.keys)

    def move(field: InputColumn) -> InputColumn:
        if field.index < keys:
            return field
        place = group.aggregates.index(own.aggregates[field.index - keys])
        return replace(field, index=keys + place)

    return replace(
        select,
        group=group,
        outputs=tuple(relocated(output, move) for output in select.outputs),
        having=None if select.having is None else relocated(select.having, move),
        top=None if select.top is None else select.top.relocated(move),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushdown:
    """The aggregates of a program over the same rows.

    Attributes
    ----------
    into
        The operators that fold rows, the last of which hands them on: window, union, selection,
        join, projection.
    written, kept
        Number of aggregates in the text, and of those that are computed: equal ones are one.
    """

    into: tuple[str, ...]
    written: int
    kept: int

    def __str__(self) -> str:
        naive = f"{self.written} for each of its rows"
        kept = "1 value is" if self.kept == 1 else f"{self.kept} values are"
        where = " + ".join(self.into)
        return f"aggregates folded in {where}: {kept} kept for each group, instead of {naive}"


def pushdowns(program: Program) -> tuple[Pushdown, ...]:
    """What the aggregates of a program are folded in, once for equal rows; naive ones are not."""
    if program.naive:
        return ()
    found: dict[ChildPlan, Pushdown] = {}
    for select in program.all_selects:
        if (group := select.group) is None or not group.aggregates:
            continue
        into = ["window"]
        if any(_is_union(program, source.window) for source in select.sources):
            into.append("union")
        if any(source.condition is not None for source in select.sources):
            into.append("selection")
        if len(select.sources) > 1:
            into.append("join" if select.conjuncts else "product")
        if any(not isinstance(one.argument, InputColumn | None) for one in group.aggregates):
            into.append("projection")
        found[select.child] = Pushdown(
            into=tuple(into), written=group.written, kept=len(group.aggregates)
        )
    return tuple(found.values())


def _is_union(program: Program, source: int) -> bool:
    """Whether a source is a sub-query that puts the rows of several selects together."""
    if source < len(program.windows):
        return False
    relation = program.relations[source - len(program.windows)]
    return isinstance(relation, UnionPlan) and len(relation.selects) > 1
