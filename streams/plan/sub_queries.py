"""Sub-queries in expressions, as columns that are attached to the rows they are evaluated for.

EXISTS and comparisons with ANY are *match columns*: each that tells whether a row has a partner
among the rows of the sub-query. In three-valued logic, a comparison with ANY is true if it is
true for some row, false if it is false for all, and else NULL: one match says whether it is true
for some, one whether it is not false for some. Whoever asks only whether it is true, or only
whether it is false, as WHERE does of what AND connects, needs one of them.

The value of a sub-query is a column of a join with it. So that every row has one, the sub-query
is aggregated: an aggregate without GROUP BY has one row, and of others the only row counts.

A sub-query may name columns from around it in its WHERE. These conditions become those of the
match or the join. Where the sub-query aggregates, or ranks, they must be equalities: it does so
for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from streams.expressions.typed import (
    Apply,
    Constant,
    InputColumn,
    Typed,
    conjuncts,
    fields,
    relocated,
)
from streams.language.ast import KeptSide, Quantifier, RelationExpression, SubQuery
from streams.plan.outer_joins import all_of, identified, identity, joined, relation, without_partner
from streams.plan.program import AggregatePlan, GroupPlan
from streams.plan.relations import Chosen, Columns, Matched, Node, Resolved, United
from streams.plan.resolver import ATTACHED, OUTER, Surrounding, applied

SIDE = 1 << 28
"""Added to the position of a column that belongs to the sub-query."""

ErrorAt = Callable[[int, str], Exception]
"""Place and message → the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attached:
    """A sub-query that gives a column.

    Attributes
    ----------
    conditions
        Over the rows that it is attached to, and its own columns from `SIDE` on.
    default
        Value of the column for rows without a partner; None: the column is a match, or there is
        exactly one row for each.
    """

    node: Node
    conditions: tuple[Typed, ...] = ()
    default: Typed | None = None
    is_match: bool = False


class Attachments:
    """The sub-queries of one level of a SELECT."""

    def __init__(
        self,
        surrounding: Surrounding,
        selects: Callable[[RelationExpression, Surrounding], United],
        error: ErrorAt,
    ) -> None:
        """
        Parameters
        ----------
        selects
            Resolves a sub-query in what surrounds it, whose columns lie from `OUTER` on.
        """
        self._surrounding = surrounding
        self._selects = selects
        self._error = error
        self.attached: list[_Attached] = []

    def value(self, sub: SubQuery, meant: bool | None) -> Typed:
        """See `SubQueries`."""
        if sub.quantifier is Quantifier.VALUE:
            found = self._value(sub)
            return Apply("not", (found,), "bool") if meant is False else found
        comparison = None if sub.value is None else self._surrounding.column(sub.value)
        united = self._selects(sub.query, self._surrounding)
        part, correlated = self._separated(sub, united)
        if correlated and _is_single(united):
            # `part` has groups, by what is equal, and no row where there is no group.
            message = (
                "an aggregate without GROUP BY has a row whatever it names: compare its value, "
                "as in x = (SELECT …), or GROUP BY the columns that are compared"
            )
            raise self._error(sub.start, message)
        if sub.quantifier is Quantifier.EXISTS:
            match = self._match(sub, part, correlated, ())
            return Apply("not", (match,), "bool") if meant is False else match
        self._check_width(sub, united.columns)
        assert sub.function is not None
        assert comparison is not None
        item = InputColumn(SIDE, united.columns[0][1], united.columns[0][0])
        compared = applied(sub.function, (comparison, item))
        if compared is None:
            message = f"{comparison.kind} and {item.kind} of the sub-query cannot be compared"
            raise self._error(sub.start, message)
        true = possible = None
        if meant is not False:
            true = self._match(sub, part, correlated, (compared,))
        if meant is not True:
            not_false = Apply("coalesce", (compared, Constant(True, "bool")), "bool")
            possible = self._match(sub, part, correlated, (not_false,))
        if possible is None:
            assert true is not None
            return true
        if true is None:
            return Apply("not", (possible,), "bool")
        branches = (true, Constant(True, "bool"), possible, Constant(None, "bool"))
        return Apply("case", (*branches, Constant(False, "bool")), "bool")

    def _match(
        self, sub: SubQuery, united: United, correlated: Sequence[Typed], own: Sequence[Typed]
    ) -> Typed:
        return self._attach(
            _Attached(node=united, conditions=(*correlated, *own), is_match=True), "bool"
        )

    def _attach(self, one: _Attached, kind: str) -> InputColumn:
        self.attached.append(one)
        return InputColumn(ATTACHED + len(self.attached) - 1, kind, "sub-query")

    def _check_width(self, sub: SubQuery, columns: Columns) -> None:
        if len(columns) != 1:
            message = f"a sub-query whose value is used has one column, this has {len(columns)}"
            raise self._error(sub.start, message)

    def _value(self, sub: SubQuery) -> Typed:
        united = self._selects(sub.query, self._surrounding)
        self._check_width(sub, united.columns)
        kind = united.columns[0][1]
        single = _is_single(united)
        separated, correlated = self._separated(sub, united, equalities=True)
        default: Typed = Constant(None, kind)
        certain = not correlated
        if single:
            chosen = united.parts[0]
            assert chosen.resolved.group is not None
            default = _over_nothing(chosen.resolved.outputs[0][1], chosen.resolved.group)
            having = chosen.resolved.having
            if having is not None:
                certain = False
                kept = _over_nothing(having, chosen.resolved.group)
                default = Apply("case", (kept, default), kind)
        else:
            separated = _only_row(separated)
        if certain:
            return self._attach(_Attached(node=separated), kind)
        return self._attach(
            _Attached(node=separated, conditions=tuple(correlated), default=default), kind
        )

    def _separated(
        self, sub: SubQuery, united: United, *, equalities: bool = False
    ) -> tuple[United, list[Typed]]:
        """A sub-query without the conditions on what is around it, and these.

        Its columns are followed by those that the conditions need.
        """
        for part in united.parts:
            resolved = part.resolved
            beside = [output for _, output in resolved.outputs]
            beside += [] if resolved.having is None else [resolved.having]
            beside += [] if resolved.top is None else resolved.top.expressions()
            beside += replace(resolved, where=None).used()
            if any(map(names_outer, beside)):
                message = "a sub-query may name columns from around it in its WHERE only"
                raise self._error(sub.start, message)
        conditions = [
            one
            for part in united.parts
            if part.resolved.where is not None
            for one in conjuncts(part.resolved.where)
        ]
        if not any(map(names_outer, conditions)):
            return united, []
        if len(united.parts) > 1:
            message = "a sub-query of several SELECTs cannot name columns from around it"
            raise self._error(sub.start, message)
        part = next(iter(united.parts))
        resolved = part.resolved
        inner = replace(
            part,
            resolved=replace(
                resolved, where=all_of([one for one in conditions if not names_outer(one)])
            ),
        )
        correlated = [one for one in conditions if names_outer(one)]
        if not equalities and resolved.group is None and resolved.top is None:
            return _with_columns(inner, correlated)
        sides = [self._sides(sub, one) for one in correlated]
        return _by_keys(inner, sides)

    def _sides(self, sub: SubQuery, condition: Typed) -> tuple[Typed, Typed]:
        """What is equal: the side of the sub-query, and the one around it."""
        if isinstance(condition, Apply) and condition.function == "equal":
            one, other = condition.arguments
            for own, around in ((one, other), (other, one)):
                theirs = [column.index >= OUTER for column in fields(around)]
                if not names_outer(own) and theirs and all(theirs):
                    return own, relocated(around, _from_outer)
        message = (
            "a sub-query that aggregates, ranks or gives a value may name columns from around it "
            "in equalities only, such as WHERE inner.k = outer.k"
        )
        raise self._error(sub.start, message)


def attached_to(
    inputs: Sequence[Node], where: Typed | None, attached: Sequence[_Attached]
) -> tuple[Node, Typed | None]:
    """Rows with the columns of sub-queries, and the condition on them that is left.

    Parameters
    ----------
    inputs
        Relations side by side.
    where
        A condition on them and on the attached columns.
    """
    conditions = [] if where is None else conjuncts(where)
    early = [one for one in conditions if all(c.index < ATTACHED for c in fields(one))]
    late = [one for one in conditions if one not in early]
    width = sum(len(one.columns) for one in inputs)
    node: Node = inputs[0]
    if len(inputs) > 1 or not attached[0].is_match or identified(node) is not node:
        node, early = relation(inputs, early), []
    for one in attached:
        node = _attached(node, one, all_of(early), width)
        early = []
    moved = [relocated(condition, moved_to(width)) for condition in late]
    return node, all_of(moved)


def moved_to(width: int) -> Callable[[InputColumn], InputColumn]:
    """Where attached columns are, behind so many others."""

    def move(column: InputColumn) -> InputColumn:
        if ATTACHED <= column.index < OUTER:
            return replace(column, index=column.index - ATTACHED + width)
        return column

    return move


def _attached(node: Node, one: _Attached, where: Typed | None, width: int) -> Node:
    columns = node.columns

    def move(column: InputColumn) -> InputColumn:
        if SIDE <= column.index < ATTACHED:
            return replace(column, index=column.index - SIDE + len(columns))
        return moved_to(width)(column)

    conditions = [relocated(condition, move) for condition in one.conditions]
    if one.is_match:
        return Matched(
            left=node, right=identified(one.node), where=where, conditions=tuple(conditions)
        )
    value = identity(one.node.columns[:1], len(columns))
    if one.default is None:
        found = relation((node, one.node), conditions)
    else:
        found = joined(node, one.node, conditions, KeptSide.NEITHER)
    pairs = found.parts[0]
    outputs = (*identity(columns), *value)
    parts = [replace(pairs, resolved=replace(pairs.resolved, outputs=outputs))]
    if one.default is not None:
        missing = (*identity(columns), (value[0][0], one.default))
        parts.append(without_partner(node, one.node, conditions, missing))
    return United(parts=tuple(parts), columns=(*columns, one.node.columns[0]))


def names_outer(expression: Typed) -> bool:
    """Whether an expression names columns from around the sub-query that it is in."""
    return any(column.index >= OUTER for column in fields(expression))


def _from_outer(column: InputColumn) -> InputColumn:
    return replace(column, index=column.index - OUTER) if column.index >= OUTER else column


def _is_single(united: United) -> bool:
    """Whether a relation has one row, or none where HAVING leaves it out."""
    resolved = united.parts[0].resolved
    keyless = resolved.group is not None and not resolved.group.keys
    return len(united.parts) == 1 and keyless and resolved.top is None


def _with_columns(part: Chosen, conditions: Iterable[Typed]) -> tuple[United, list[Typed]]:
    """A SELECT that gives the columns that conditions need, too; and the conditions."""
    conditions = list(conditions)
    own = [column for one in conditions for column in fields(one) if column.index < OUTER]
    needed = list(dict.fromkeys(own))
    count = len(part.resolved.outputs)

    def move(column: InputColumn) -> InputColumn:
        if column.index >= OUTER:
            return _from_outer(column)
        return replace(column, index=SIDE + count + needed.index(column))

    resolved = replace(
        part.resolved,
        outputs=(*part.resolved.outputs, *((column.name, column) for column in needed)),
    )
    united = United(parts=(replace(part, resolved=resolved),), columns=resolved.columns)
    return united, [relocated(one, move) for one in conditions]


def _by_keys(part: Chosen, sides: Sequence[tuple[Typed, Typed]]) -> tuple[United, list[Typed]]:
    """A SELECT that does what it does for each value of its sides of equalities; and these."""
    resolved = part.resolved
    keys = tuple(own for own, _ in sides)
    added: tuple[Typed, ...] = keys
    if (group := resolved.group) is not None:
        before = len(group.keys)
        added = tuple(
            InputColumn(before + place, key.kind, "key") for place, key in enumerate(keys)
        )

        def move(column: InputColumn) -> InputColumn:
            if column.index < before:
                return column
            return replace(column, index=column.index + len(keys))

        resolved = replace(
            resolved,
            group=replace(group, keys=(*group.keys, *keys)),
            outputs=tuple((name, relocated(one, move)) for name, one in resolved.outputs),
            having=None if resolved.having is None else relocated(resolved.having, move),
            top=None if resolved.top is None else resolved.top.relocated(move),
        )
    if (top := resolved.top) is not None:
        resolved = replace(resolved, top=replace(top, partition_by=(*top.partition_by, *added)))
    count = len(resolved.outputs)
    resolved = replace(resolved, outputs=(*resolved.outputs, *(("key", one) for one in added)))
    united = United(parts=(replace(part, resolved=resolved),), columns=resolved.columns)
    conditions: list[Typed] = []
    for place, (own, around) in enumerate(sides):
        key = InputColumn(SIDE + count + place, own.kind, "key")
        conditions.append(Apply("equal", (key, around), "bool"))
    return united, conditions


def _only_row(united: United) -> United:
    """The first column of the only row; NULL if there are several. Other columns are keys."""
    (name, kind), *others = united.columns
    keys = tuple(InputColumn(place, each, key) for place, (key, each) in enumerate(others, 1))
    item: Typed = InputColumn(0, kind, name)
    if kind == "bool":
        item = Apply("cast_int", (item,), "int")
    aggregates = (
        AggregatePlan(function="count", argument=None, kind="int"),
        AggregatePlan(function="min", argument=item, kind=item.kind),
    )
    count, least = (
        InputColumn(len(keys) + place, one.kind, one.function)
        for place, one in enumerate(aggregates)
    )
    value: Typed = least
    if kind == "bool":
        value = Apply("equal", (least, Constant(1, "int")), "bool")
    is_one = Apply("equal", (count, Constant(1, "int")), "bool")
    outputs = [(name, Apply("case", (is_one, value), kind))]
    outputs += [
        (key.name, InputColumn(place, key.kind, key.name)) for place, key in enumerate(keys)
    ]
    resolved = Resolved(
        outputs=tuple(outputs), group=GroupPlan(keys=keys, aggregates=aggregates, written=2)
    )
    return United(parts=(Chosen(inputs=(united,), resolved=resolved),), columns=resolved.columns)


def _over_nothing(expression: Typed, group: GroupPlan) -> Typed:
    """An expression over aggregates of no rows."""
    match expression:
        case InputColumn(index=index, kind=kind):
            counts = group.aggregates[index].function == "count"
            return Constant(0, "int") if counts else Constant(None, kind)
        case Apply(function=function, arguments=arguments, kind=kind):
            return Apply(function, tuple(_over_nothing(one, group) for one in arguments), kind)
        case Constant():
            return expression
