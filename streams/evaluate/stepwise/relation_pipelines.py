"""The pipelines of relations: unions of selects, operations on two relations, matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from streams.evaluate.stepwise.select_pipeline import ChildPipeline, SelectPipeline, SourcePipeline
from streams.operators.matches import Matches
from streams.operators.set_operation import SetRows
from streams.operators.union import union
from streams.plan.program import (
    MatchPlan,
    Program,
    RelationPlan,
    SelectPlan,
    SetPlan,
    UnionPlan,
)
from streams.vectors.state import Stateful
from streams.vectors.vector import Delta


class RelationPipeline(Protocol):
    """Computes the change of a relation from those of what it is computed from."""

    def step(self, deltas: Sequence[Delta | None], first_ms: int) -> Delta | None:
        """The change since the last pass, from those of all windows and earlier relations.

        Parameters
        ----------
        first_ms
            The first timestamp of this pass.
        """
        ...

    @property
    def joined_rows(self) -> int:
        """Number of rows that a join compares changes with; 0 without a join."""
        ...

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        ...


class UnionPipeline:
    """The rows of selects; those that are over the same compute it once."""

    def __init__(self, program: Program, selects: Sequence[SelectPlan]) -> None:
        plans = list(dict.fromkeys(select.child for select in selects))
        self._children = [ChildPipeline(program, plan) for plan in plans]
        self._child_of = [plans.index(select.child) for select in selects]
        self._selects = [SelectPipeline(program, plan) for plan in selects]

    def show(self, program: Program, selects: Sequence[SelectPlan], at_ms: int) -> Delta | None:
        """Have other SELECT lists be over the same; returns the rows of groups that they show.

        Parameters
        ----------
        at_ms
            The timestamp that those rows are given.
        """
        self._selects = [SelectPipeline(program, plan) for plan in selects]
        return self._shown([child.groups_now(at_ms) for child in self._children])

    def step(self, deltas: Sequence[Delta | None], first_ms: int) -> Delta | None:
        """See `RelationPipeline`."""
        return self._shown([child.step(deltas, first_ms) for child in self._children])

    def _shown(self, changes: Sequence[Delta | None]) -> Delta | None:
        parts = (
            select.step(changes[child])
            for select, child in zip(self._selects, self._child_of, strict=True)
        )
        return union([part for part in parts if part is not None])

    @property
    def joined_rows(self) -> int:
        """See `RelationPipeline`."""
        return sum(child.joined_rows for child in self._children)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        for index, child in enumerate(self._children):
            # A child is named after the first select that is over it.
            first = self._child_of.index(index)
            for name, operator in child.stateful():
                yield f"select-{first}-{name}", operator
        for index, select in enumerate(self._selects):
            for name, operator in select.stateful():
                yield f"select-{index}-{name}", operator


class _SetPipeline:
    """INTERSECT or EXCEPT."""

    joined_rows = 0

    def __init__(self, plan: SetPlan) -> None:
        self._sides = plan.left, plan.right
        self._rows = SetRows(plan.operator, plan.kinds, every=plan.every)

    def step(self, deltas: Sequence[Delta | None], first_ms: int) -> Delta | None:
        return self._rows.step([deltas[side] for side in self._sides])

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        yield "rows", self._rows


class _MatchPipeline:
    """Rows with whether they have a partner."""

    def __init__(self, program: Program, plan: MatchPlan) -> None:
        self._sources = [
            SourcePipeline(program, one, joined=True) for one in (plan.left, plan.right)
        ]
        widths = [source.width for source in self._sources]
        self._matches = Matches(widths, plan.conjuncts, program.most_joined)

    def step(self, deltas: Sequence[Delta | None], first_ms: int) -> Delta | None:
        changes = [source.step(deltas) for source in self._sources]
        relations = [source.relation for source in self._sources]
        return self._matches.step(changes, [one for one in relations if one is not None])

    @property
    def joined_rows(self) -> int:
        return sum(one.relation.count for one in self._sources if one.relation is not None)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        for side, source in zip(("left", "right"), self._sources, strict=True):
            for operator in source.stateful():
                yield side, operator
        yield "partners", self._matches


def relation_pipeline(program: Program, plan: RelationPlan) -> RelationPipeline:
    """The pipeline of a relation."""
    match plan:
        case UnionPlan():
            return UnionPipeline(program, plan.selects)
        case SetPlan():
            return _SetPipeline(plan)
        case MatchPlan():
            return _MatchPipeline(program, plan)
