"""Outer joins, made of selects and of matches that say which rows have a partner.

    A LEFT JOIN B ON c = (A ⋈ B where c) ∪ ({a ∈ A | no b ∈ B with c} × {NULLs}),

and RIGHT and FULL accordingly.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from streams.expressions.typed import Apply, Constant, InputColumn, Typed, relocated
from streams.language.ast import KeptSide
from streams.plan.relations import Chosen, Columns, Matched, Node, Resolved, United, Windowed


def identity(columns: Columns, begin: int = 0) -> tuple[tuple[str, Typed], ...]:
    """Outputs that are columns as they are, from a position on."""
    return tuple(
        (name, InputColumn(index, kind, name)) for index, (name, kind) in enumerate(columns, begin)
    )


def all_of(conditions: Sequence[Typed]) -> Typed | None:
    """A condition that holds if all do; None without conditions."""
    found: Typed | None = None
    for condition in conditions:
        found = condition if found is None else Apply("and", (found, condition), "bool")
    return found


def relation(inputs: Sequence[Node], conditions: Sequence[Typed]) -> United:
    """All columns of relations side by side, where conditions hold."""
    columns = tuple(column for one in inputs for column in one.columns)
    resolved = Resolved(outputs=identity(columns), where=all_of(conditions))
    return United(parts=(Chosen(inputs=tuple(inputs), resolved=resolved),), columns=columns)


def joined(left: Node, right: Node, conditions: Sequence[Typed], keeps: KeptSide) -> United:
    """A join of two relations, with the columns of both.

    Parameters
    ----------
    conditions
        Over the columns of both, those of the left first.
    """
    found = relation((left, right), conditions)
    starts = [0, *accumulate(len(one.columns) for one in (left, right))]
    parts = list(found.parts)
    if keeps in (KeptSide.LEFT, KeptSide.BOTH):
        padding = tuple((name, Constant(None, kind)) for name, kind in right.columns)
        outputs = (*identity(left.columns), *padding)
        parts.append(without_partner(left, right, conditions, outputs))
    if keeps in (KeptSide.RIGHT, KeptSide.BOTH):

        def turned(column: InputColumn) -> InputColumn:
            index = column.index - starts[1]
            return InputColumn(index % starts[2], column.kind, column.name)

        padding = tuple((name, Constant(None, kind)) for name, kind in left.columns)
        outputs = (*padding, *identity(right.columns))
        turned_conditions = [relocated(one, turned) for one in conditions]
        parts.append(without_partner(right, left, turned_conditions, outputs))
    return United(parts=tuple(parts), columns=found.columns)


def without_partner(
    left: Node, right: Node, conditions: Sequence[Typed], outputs: tuple[tuple[str, Typed], ...]
) -> Chosen:
    """Outputs over the rows of the left for which no row of the right fulfils conditions."""
    matched = Matched(
        left=identified(left), right=identified(right), where=None, conditions=tuple(conditions)
    )
    match = InputColumn(len(left.columns), "bool", "")
    resolved = Resolved(outputs=outputs, where=Apply("not", (match,), "bool"))
    return Chosen(inputs=(matched,), resolved=resolved)


def identified(node: Node) -> Node:
    """A relation whose rows can be told apart: those of sessions cannot until they are derived."""
    if isinstance(node, Windowed) and node.window.session_ms is not None:
        return relation((node,), ())
    return node
