"""From relations with resolved names to the program that the engine runs.

Columns are renumbered to those that are needed. The conditions of WHERE are split at AND. A
condition on a single source is applied to the rows that enter and leave that source, before any
join. The other conditions are applied to joined rows, cheapest first (numbers before
trigonometry before strings). Any order is correct, because a row is selected only if every
condition is true, and no condition can fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from streams.expressions.owned import fingerprints
from streams.expressions.typed import (
    Apply,
    InputColumn,
    Typed,
    conjuncts,
    cost,
    fields,
    relocated,
)
from streams.language.ast import RealTime, Statement
from streams.language.walk import functions_of
from streams.plan.program import (
    MatchPlan,
    Program,
    RelationPlan,
    ReleasePlan,
    SelectPlan,
    SetPlan,
    SourcePlan,
    UnionPlan,
    WindowPlan,
)
from streams.plan.pushdown import computed_once
from streams.plan.relations import (
    Chosen,
    Combined,
    Matched,
    Node,
    United,
    Windowed,
    inputs_of,
    located,
    note_needed,
)
from streams.vectors.chunk import TIMESTAMP


def numbered(
    statement: Statement, root: United, catalogue: Mapping[str, Mapping[str, str]]
) -> Program:
    """The program of a statement.

    Parameters
    ----------
    root
        What the statement makes a stream of.
    catalogue
        Stream → column → type.
    """
    note_needed(root)
    return _Numbering(root, catalogue).program(statement, root)


def _releases(real_time: RealTime | None) -> ReleasePlan | None:
    if real_time is None:
        return None
    return ReleasePlan(
        period_ms=real_time.period_ms,
        offset_ms=real_time.offset_ms,
        begins_ms=real_time.begins_ms,
        ends_ms=real_time.ends_ms,
        deadline_ms=real_time.deadline_ms,
        importance=real_time.importance,
    )


class _Numbering:
    """Numbers the windows and relations of one statement."""

    def __init__(self, root: United, catalogue: Mapping[str, Mapping[str, str]]) -> None:
        self._catalogue = catalogue
        leaves = list(dict.fromkeys(_leaves(root)))
        self._inputs = tuple(dict.fromkeys(leaf.stream for leaf in leaves))
        used: dict[str, set[str]] = {stream: set() for stream in self._inputs}
        for leaf in leaves:
            used[leaf.stream].update(leaf.columns[index][0] for index in leaf.needed)
            used[leaf.stream].update(column.name for column in leaf.window.partition_by)
        self._reads = {
            stream: tuple(name for name in (TIMESTAMP, *catalogue[stream]) if name in used[stream])
            for stream in self._inputs
        }
        self._windows = list(dict.fromkeys(map(self._window, leaves)))
        self._relations: list[RelationPlan] = []
        self._known: dict[int, int] = {}

    def program(self, statement: Statement, root: United) -> Program:
        """Number all of it."""
        selects = computed_once([self._select(part, root.needed) for part in root.parts])
        return Program(
            name=statement.name,
            inputs=self._inputs,
            columns=dict(root.columns),
            text=statement.text,
            input_columns={stream: dict(self._catalogue[stream]) for stream in self._inputs},
            reads=self._reads,
            windows=tuple(self._windows),
            selects=selects,
            to_stream=statement.body.to_stream,
            relations=tuple(self._relations),
            functions=fingerprints(functions_of(statement)),
            releases=_releases(statement.body.real_time),
        )

    def _window(self, leaf: Windowed) -> WindowPlan:
        window, reads = leaf.window, self._reads[leaf.stream]
        return WindowPlan(
            stream=leaf.stream,
            rows=window.rows,
            range_ms=window.range_ms,
            slide_ms=window.slide_ms,
            offset_ms=window.offset_ms,
            session_ms=window.session_ms,
            slide_rows=window.slide_rows,
            partition_by=tuple(reads.index(column.name) for column in window.partition_by),
        )

    def _number(self, node: Node) -> int:
        """The position of a window, or after them that of a relation."""
        if isinstance(node, Windowed):
            return self._windows.index(self._window(node))
        if (known := self._known.get(id(node))) is not None:
            return known
        plan = self._plan(node)
        if plan not in self._relations:
            self._relations.append(plan)
        number = len(self._windows) + self._relations.index(plan)
        self._known[id(node)] = number
        return number

    def _plan(self, node: United | Combined | Matched) -> RelationPlan:
        kinds = self._kinds(node)
        match node:
            case United():
                parts = computed_once([self._select(part, node.needed) for part in node.parts])
                return UnionPlan(selects=parts, kinds=kinds)
            case Combined():
                sides = self._number(node.left), self._number(node.right)
                return SetPlan(
                    operator=node.operator,
                    every=node.every,
                    left=sides[0],
                    right=sides[1],
                    kinds=kinds,
                )
            case Matched():
                return self._matches(node, kinds)

    def _matches(self, node: Matched, kinds: tuple[str, ...]) -> MatchPlan:
        inputs = (node.left, node.right)
        own, joint = self._split(inputs, [] if node.where is None else conjuncts(node.where))
        assert not joint
        theirs, both = self._split(inputs, [c for one in node.conditions for c in conjuncts(one)])
        # What is asked of the left alone selects no rows here: those have no partner. Columns of
        # the left lie first, so that their places within it are those side by side.
        both += theirs[0]
        left, right = (
            SourcePlan(window=self._number(one), condition=_all_of(conditions))
            for one, conditions in zip(inputs, (own[0], theirs[1]), strict=True)
        )
        return MatchPlan(
            left=left, right=right, conjuncts=tuple(sorted(both, key=cost)), kinds=kinds
        )

    def _select(self, chosen: Chosen, needed: set[int]) -> SelectPlan:
        resolved, inputs = chosen.resolved, chosen.inputs
        own, joint = self._split(
            inputs, [] if resolved.where is None else conjuncts(resolved.where)
        )
        sources = tuple(
            SourcePlan(window=self._number(one), condition=_all_of(conditions))
            for one, conditions in zip(inputs, own, strict=True)
        )

        def side_by_side(column: InputColumn) -> InputColumn:
            return self._moved(inputs, column)

        outputs = [output for _, output in resolved.outputs]
        group, top = resolved.group, resolved.top
        outputs = [outputs[index] for index in sorted(needed)]
        if group is None:
            outputs = [relocated(output, side_by_side) for output in outputs]
            top = None if top is None else top.relocated(side_by_side)
        else:
            group = group.relocated(side_by_side)
        return SelectPlan(
            sources=sources,
            conjuncts=tuple(sorted(joint, key=cost)),
            group=group,
            outputs=tuple(outputs),
            having=resolved.having,
            top=top,
        )

    def _split(
        self, inputs: tuple[Node, ...], conditions: Sequence[Typed]
    ) -> tuple[list[list[Typed]], list[Typed]]:
        """Conditions on each input alone, over its columns; those on several, over all."""
        own: list[list[Typed]] = [[] for _ in inputs]
        joint: list[Typed] = []
        for condition in conditions:
            concerned = {located(inputs, column.index)[0] for column in fields(condition)}
            if len(concerned) > 1:
                joint.append(relocated(condition, lambda column: self._moved(inputs, column)))
            else:
                own[min(concerned, default=0)].append(
                    relocated(condition, lambda column: self._within(inputs, column))
                )
        return own, joint

    def _within(self, inputs: tuple[Node, ...], column: InputColumn) -> InputColumn:
        place, index = located(inputs, column.index)
        return InputColumn(self._place(inputs[place], index), column.kind, column.name)

    def _moved(self, inputs: tuple[Node, ...], column: InputColumn) -> InputColumn:
        place, _ = located(inputs, column.index)
        starts = [0, *accumulate(len(self._kinds(one)) for one in inputs)]
        within = self._within(inputs, column)
        return InputColumn(starts[place] + within.index, column.kind, column.name)

    def _place(self, node: Node, index: int) -> int:
        """Where a column lies among those that are computed."""
        match node:
            case Windowed():
                return self._reads[node.stream].index(node.columns[index][0])
            case United():
                return sorted(node.needed).index(index)
            case Combined():
                return index
            case Matched():
                if index < len(node.left.columns):
                    return self._place(node.left, index)
                return len(self._kinds(node.left))

    def _kinds(self, node: Node) -> tuple[str, ...]:
        """Types of the columns that are computed."""
        match node:
            case Windowed():
                kinds = dict(node.columns)
                return tuple(kinds[name] for name in self._reads[node.stream])
            case United():
                return tuple(node.columns[index][1] for index in sorted(node.needed))
            case Combined():
                return tuple(kind for _, kind in node.columns)
            case Matched():
                return (*self._kinds(node.left), "bool")


def _leaves(node: Node) -> list[Windowed]:
    """The windows that a relation is computed from, in the order in which they are written."""
    found: list[Windowed] = []
    seen: set[int] = set()

    def visit(one: Node) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        if isinstance(one, Windowed):
            found.append(one)
        for other in inputs_of(one):
            visit(other)

    visit(node)
    return found


def _all_of(conditions: list[Typed]) -> Typed | None:
    return _conjunction(sorted(conditions, key=cost)) if conditions else None


def _conjunction(conditions: list[Typed]) -> Typed:
    """All of some conditions, as a tree that is no deeper than it must be."""
    if len(conditions) == 1:
        return conditions[0]
    middle = (len(conditions) + 1) // 2
    halves = _conjunction(conditions[:middle]), _conjunction(conditions[middle:])
    return Apply("and", halves, "bool")
