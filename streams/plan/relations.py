"""Relations with their names resolved, before they are numbered as plans.

A statement is a directed graph of relations. At its leaves are windows on streams; every other
relation is computed from others. Columns are positions among all columns of what lies below.
Which of them are needed is known only when the whole statement is: `note_needed` finds out, and
`streams.plan.numbering` makes plans of it, over the needed columns alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from streams.expressions.typed import InputColumn, Typed, fields, relocated
from streams.language.ast import SetOperator, Window
from streams.plan.program import GroupPlan, TopPlan

Columns = tuple[tuple[str, str], ...]
"""Name and type of each; names may occur twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A SELECT with every name resolved; fields are positions in what lies below, side by side."""

    outputs: tuple[tuple[str, Typed], ...]
    where: Typed | None = None
    group: GroupPlan | None = None
    having: Typed | None = None
    top: TopPlan | None = None

    @property
    def columns(self) -> Columns:
        """Name and type of each output."""
        return tuple((name, output.kind) for name, output in self.outputs)

    def relocated(self, move: Callable[[InputColumn], InputColumn]) -> Resolved:
        """The same over rows with other column positions."""
        outputs, group, top, having = self.outputs, self.group, self.top, self.having
        if group is None:
            outputs = tuple((name, relocated(output, move)) for name, output in outputs)
            top = None if top is None else top.relocated(move)
        else:
            group = group.relocated(move)
        where = None if self.where is None else relocated(self.where, move)
        return Resolved(outputs=outputs, where=where, group=group, having=having, top=top)

    @property
    def groups_alone(self) -> Resolved:
        """The keys and aggregates of its groups, all of which are shown."""
        assert self.group is not None
        parts = (*self.group.keys, *self.group.aggregates)
        outputs = tuple(
            (f"column {place}", InputColumn(place, part.kind, f"column {place}"))
            for place, part in enumerate(parts)
        )
        return Resolved(outputs=outputs, where=self.where, group=self.group)

    def used(self) -> Iterator[Typed]:
        """The expressions over what lies below that are needed whatever is selected."""
        if self.where is not None:
            yield self.where
        if self.group is None:
            yield from self.top.expressions() if self.top is not None else ()
            return
        yield from self.group.keys
        for aggregate in self.group.aggregates:
            if aggregate.argument is not None:
                yield aggregate.argument


@dataclass(slots=True, kw_only=True, eq=False)
class Windowed:
    """A window on a stream; its columns are all of the stream's, then the timestamp."""

    stream: str
    window: Window
    columns: Columns
    needed: set[int] = field(default_factory=set[int])


@dataclass(slots=True, kw_only=True, eq=False)
class Chosen:
    """One SELECT over relations."""

    inputs: tuple[Node, ...]
    resolved: Resolved


@dataclass(slots=True, kw_only=True, eq=False)
class United:
    """The rows of all SELECTs."""

    parts: tuple[Chosen, ...]
    columns: Columns
    needed: set[int] = field(default_factory=set[int])


@dataclass(slots=True, kw_only=True, eq=False)
class Combined:
    """INTERSECT or EXCEPT."""

    operator: SetOperator
    every: bool
    left: Node
    right: Node
    columns: Columns


@dataclass(slots=True, kw_only=True, eq=False)
class Matched:
    """The rows of the left for which a condition holds, each with whether it has a partner.

    Attributes
    ----------
    where
        On columns of the left alone; None: all rows.
    conditions
        Over the columns of both sides, the left's first: they hold for a row and its partner.
    """

    left: Node
    right: Node
    where: Typed | None
    conditions: tuple[Typed, ...]

    @property
    def columns(self) -> Columns:
        """Those of the left, then the match."""
        return (*self.left.columns, ("", "bool"))


Node = Windowed | United | Combined | Matched


def inputs_of(node: Node) -> tuple[Node, ...]:
    """What a relation is computed from."""
    match node:
        case Windowed():
            return ()
        case United():
            return tuple(one for part in node.parts for one in part.inputs)
        case Combined() | Matched():
            return node.left, node.right


def note_needed(root: United) -> None:
    """Note which columns of every relation are needed if all of the root are."""
    for place in range(len(root.columns)):
        _need(root, place)
    seen: set[int] = set()
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        pending += inputs_of(node)
        match node:
            case Windowed():
                pass
            case United():
                for part in node.parts:
                    _need_of(part)
                    ranked = part.resolved.top is not None
                    for place in range(len(node.columns)) if ranked else ():
                        # TOP ranks equal rows by all that is selected.
                        _need(node, place)
            case Combined():
                for side in (node.left, node.right):
                    for place in range(len(node.columns)):
                        _need(side, place)
            case Matched():
                both = (node.left, node.right)
                for condition in (*node.conditions, *(() if node.where is None else (node.where,))):
                    _need_fields(both, condition)


def _need_of(chosen: Chosen) -> None:
    for expression in chosen.resolved.used():
        _need_fields(chosen.inputs, expression)


def _need_fields(inputs: tuple[Node, ...], expression: Typed) -> None:
    for column in fields(expression):
        place, index = located(inputs, column.index)
        _need(inputs[place], index)


def located(inputs: tuple[Node, ...], index: int) -> tuple[int, int]:
    """Of which input a column is, of all columns side by side, and its position there."""
    for place, one in enumerate(inputs):
        if index < len(one.columns):
            return place, index
        index -= len(one.columns)
    raise IndexError(index)


def _need(node: Node, index: int) -> None:
    match node:
        case Windowed():
            node.needed.add(index)
        case United():
            if index in node.needed:
                return
            node.needed.add(index)
            for part in node.parts:
                if part.resolved.group is None:
                    _need_fields(part.inputs, part.resolved.outputs[index][1])
        case Matched():
            if index < len(node.left.columns):
                _need(node.left, index)
        case Combined():
            return
