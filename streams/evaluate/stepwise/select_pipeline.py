"""The pipeline of the operators of one SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams.aggregates.groups import Groups
from streams.operators.filter import Filter
from streams.operators.identify import IdentifiedRows
from streams.operators.join import Join
from streams.operators.project import Project
from streams.operators.relation import Relation
from streams.operators.top import TopRows
from streams.plan.program import ChildPlan, Program, SelectPlan, SourcePlan
from streams.vectors.state import Stateful
from streams.vectors.vector import Delta


class SourcePipeline:
    """The rows of a window or a relation for which the source's own condition is true.

    Equal sources of a select, as in a self-join, share one pipeline.
    """

    def __init__(self, program: Program, plan: SourcePlan, *, joined: bool) -> None:
        self._window = plan.window
        kinds = program.source_kinds(plan.window)
        self._filter = None if plan.condition is None else Filter(plan.condition)
        derived = plan.window >= len(program.windows)
        self._identified = IdentifiedRows(kinds) if joined and derived else None
        self.relation: Relation | None = None
        """The rows for the join to read; None for a select from one source."""
        if joined:
            identified = self._identified
            self.relation = Relation(kinds) if identified is None else identified.relation
        self.width = len(kinds)

    def step(self, windows: Sequence[Delta | None]) -> Delta | None:
        """The change since the last pass, computed from the changes of the windows."""
        delta = windows[self._window]
        if delta is not None and self._filter is not None:
            delta = self._filter.step(delta)
        if delta is None:
            return None
        if self._identified is not None:
            return self._identified.step(delta)
        if self.relation is not None:
            self.relation.step(delta)
        return delta

    def stateful(self) -> Iterator[Stateful]:
        """The operator that has state, if there is one."""
        kept = self._identified or self.relation
        if kept is not None:
            yield kept


class ChildPipeline:
    """Computes what one or several SELECT lists are over: the sources, joined and grouped."""

    def __init__(self, program: Program, plan: ChildPlan) -> None:
        joined = len(plan.sources) > 1
        distinct = list(dict.fromkeys(plan.sources))
        self._sources = [SourcePipeline(program, one, joined=joined) for one in distinct]
        self._order = [distinct.index(one) for one in plan.sources]
        self._join: Join | None = None
        if joined:
            widths = [self._sources[index].width for index in self._order]
            self._join = Join(widths, plan.conjuncts, program.most_joined)
        self._groups: Groups | None = None
        if plan.group is not None:
            self._groups = Groups(
                plan.group,
                stays=program.stays(plan),
                in_order=program.in_order(plan),
                naive=program.naive,
            )

    def step(self, windows: Sequence[Delta | None], first_ms: int) -> Delta | None:
        """Compute the change since the last pass, from the changes of all windows.

        Parameters
        ----------
        windows
            The changes of the program's windows; None for none.
        first_ms
            The first timestamp of this pass.
        """
        deltas = [source.step(windows) for source in self._sources]
        if self._join is None:
            (change,) = deltas
        else:
            relations = [self._sources[index].relation for index in self._order]
            change = self._join.step(
                [deltas[index] for index in self._order],
                [relation for relation in relations if relation is not None],
            )
        if self._groups is not None:
            change = self._groups.step(change, first_ms)
        return change

    def groups_now(self, at_ms: int) -> Delta | None:
        """The rows of all groups, as if they entered at a timestamp; None if there is none."""
        return None if self._groups is None else self._groups.now(at_ms)

    @property
    def joined_rows(self) -> int:
        """Number of rows that a join compares changes with; 0 without a join."""
        return sum(one.relation.count for one in self._sources if one.relation is not None)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        for index, source in enumerate(self._sources):
            for operator in source.stateful():
                yield f"relation-{index}", operator
        if self._groups is not None:
            yield "aggregate", self._groups


class SelectPipeline:
    """Computes the change of the selected relation from that of what the SELECT list is over."""

    def __init__(self, program: Program, plan: SelectPlan) -> None:
        self._having = None if plan.having is None else Filter(plan.having)
        self._top: TopRows | None = None
        if plan.top is not None:
            stays = plan.group is None and program.stays(plan.child)
            self._top = TopRows(plan.top, plan.outputs, stays=stays)
        self._project = Project(plan.outputs)

    def step(self, change: Delta | None) -> Delta | None:
        """The change since the last pass; None for none."""
        if self._having is not None and change is not None:
            change = self._having.step(change)
        if change is None:
            return None
        return self._project.step(change) if self._top is None else self._top.step(change)

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name."""
        if self._top is not None:
            yield "top", self._top
