"""Puts the program of a loop into the memory of the loop machine.

Every operator of stepwise evaluation (`streams.evaluate.stepwise`) becomes an instruction, with the
tables that it reads, changes and gives; those with state are listed under the names that they have
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from foundation.loop_limits import Beyond
from streams.evaluate.loops.memory import Memory, Texts
from streams.evaluate.loops.state import (
    AggregateState,
    DelayedState,
    GroupState,
    LogState,
    NoState,
    Partitioned,
    RelationState,
)
from streams.evaluate.loops.steps import ExpressionSteps, Locate
from streams.expressions.typed import Apply, InputColumn, Typed, fields
from streams.kernels.loops import layout
from streams.language.ast import ToStream
from streams.plan.program import (
    ENDS,
    AggregatePlan,
    ChildPlan,
    GroupPlan,
    Program,
    SelectPlan,
    SourcePlan,
    UnionPlan,
    WindowPlan,
)
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.state import Stateful

_sums = {
    ("sum", "int"): layout.SUM_INT,
    ("avg", "int"): layout.AVG_INT,
    ("sum", "float"): layout.SUM_FLOAT,
    ("avg", "float"): layout.AVG_FLOAT,
}
_ranked = {"min": 0, "max": layout.REVERSED, "first": 0, "last": layout.REVERSED}
_emitted = {ToStream.DSTREAM: 0, ToStream.ISTREAM: 1, ToStream.RSTREAM: 2}


@dataclass(frozen=True, slots=True)
class External:
    """A stream from outside.

    Attributes
    ----------
    table
        Its tuples of a pass.
    names, places, kinds
        Its columns: names, places in record batches, types.
    """

    table: int
    names: tuple[str, ...]
    places: tuple[int, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """A table with the change of a relation.

    Attributes
    ----------
    table, kinds
        The table, and the types of its columns.
    identified
        Whether its rows have identities.
    """

    table: int
    kinds: tuple[str, ...]
    identified: bool


@dataclass(slots=True)
class _Instructions:
    """The program of a member."""

    words: list[int] = field(default_factory=list[int])

    def add(self, what: int, *arguments: int) -> None:
        """Append an instruction."""
        missing = layout.INSTRUCTION - 1 - len(arguments)
        self.words += (what, *arguments, *([0] * missing))


class Assembly:
    """The memory of a loop, and where everything is in it.

    Attributes
    ----------
    memory
        It.
    externals
        Stream → its tuples from outside.
    members
        Addresses of the statements.
    outs, sequence
        Place of an exported statement → the table of its tuples; the order of all of them.
    states
        The operators that have state, by name.
    """

    def __init__(self, program: Program) -> None:
        assert program.loop is not None
        self._loop = program.loop
        self.memory = Memory()
        self.states: list[tuple[str, Stateful]] = []
        self._texts: list[tuple[int, tuple[int, ...]]] = []
        """Tables with state, and their columns that are texts."""
        self._constants: dict[str, list[int]] = {}
        """Text → addresses of words that have its code."""
        self.externals = {stream: self._external(program, stream) for stream in program.inputs}
        self.members = [self.memory.put([0] * layout.MEMBER_WORDS) for _ in self._loop.members]
        self._streams = {
            each.program.name: self.memory.table(len(each.program.columns))
            for each in self._loop.members
        }
        self.outs = {
            place: self.memory.table(len(self._loop.members[place].program.columns))
            for place in self._loop.exported
        }
        self.sequence = self.memory.table(2, header=0)
        self._expiries: list[int] = []
        for place in range(len(self.members)):
            self._member(place)
        self._header()
        self.memory.lay_out()

    def columns_of(self, place: int) -> tuple[str, ...]:
        """Types of the columns of a statement."""
        return tuple(self._loop.members[place].program.columns.values())

    def _external(self, program: Program, stream: str) -> External:
        read = [
            (name, place, kind)
            for name, place, kind in zip(
                program.reads[stream],
                program.read_places(stream),
                program.read_kinds(stream),
                strict=True,
            )
            if name != TIMESTAMP
        ]
        names, places, kinds = (tuple(column) for column in zip(*read, strict=True)) if read else (
            (), (), ()
        )  # fmt: skip
        return External(self.memory.table(len(read)), names, places, kinds)

    def _header(self) -> None:
        memory, loop = self.memory, self._loop
        externals = [each.table for each in self.externals.values()]
        exports = [self.members[place] for place in sorted(loop.exported)]
        header = {
            layout.MEMBERS: memory.put(self.members),
            layout.MEMBER_COUNT: len(self.members),
            layout.EXTERNALS: memory.put(externals),
            layout.EXTERNAL_COUNT: len(externals),
            layout.EXPIRIES: memory.put(self._expiries),
            layout.EXPIRY_COUNT: len(self._expiries) // 2,
            layout.EXPORTS: memory.put(exports),
            layout.EXPORT_COUNT: len(exports),
            layout.STEPS: loop.limits.steps,
            layout.TUPLES: loop.limits.tuples,
            layout.CUTS: int(loop.limits.beyond is Beyond.CUT),
            layout.SEQUENCE: self.sequence,
            layout.ORDER: memory.put([self.members[place] for place in loop.order]),
        }
        for word, value in header.items():
            memory.words[word] = value

    def _member(self, place: int) -> None:
        plan, memory = self._loop.members[place], self.memory
        width = len(plan.program.columns)
        given = self._streams[plan.program.name]
        queue = memory.table(width) if plan.delay else None
        statement = _Statement(self, plan.program, f"statement-{place}-", self.members[place])
        words = statement.instructions.words
        member = {
            layout.PROGRAM: memory.put(words),
            layout.LENGTH: len(words) // layout.INSTRUCTION,
            layout.DELAY: plan.delay,
            layout.GIVEN: given,
            layout.QUEUE: queue or 0,
            layout.OUT: self.outs.get(place, 0),
            layout.NUMBER: place,
        }
        for word, value in member.items():
            memory.words[self.members[place] + word] = value
        self.states.append((f"statement-{place}-stream", DelayedState(memory, plan, given, queue)))
        if queue is not None:
            self.note_texts(queue, tuple(plan.program.columns.values()))

    def note_texts(self, table: int, kinds: Sequence[str]) -> None:
        """Note which columns of a table with state are texts."""
        columns = tuple(place for place, kind in enumerate(kinds) if kind == "string")
        if columns:
            self._texts.append((table, columns))

    def stream(self, name: str) -> tuple[int, tuple[str, ...]]:
        """The tuples of a stream, and names of their columns."""
        if name in self._streams:
            program = next(each.program for each in self._loop.members if each.program.name == name)
            return self._streams[name], tuple(program.columns)
        return self.externals[name].table, self.externals[name].names

    def expires(self, log: int, length: int) -> None:
        """Note that rows leave a window when they are so many instants old."""
        self._expiries += (log, length)

    def steps(self, expression: Typed, locate: Locate) -> tuple[int, int]:
        """Put an expression into the memory; where its steps begin and end."""
        texts: list[tuple[int, str]] = []

        def code_of(text: str) -> int:
            # The constant's word is the fourth of the step that is being made.
            texts.append((len(made.words) + 3, text))
            return int(self.memory.texts.encode(pa.array([text], pa.string()))[0])

        made = ExpressionSteps(locate, code_of)
        made.of(expression)
        begin = self.memory.put(made.words)
        for word, text in texts:
            self._constants.setdefault(text, []).append(begin + word)
        return begin, begin + len(made.words)

    def list_of(self, expressions: Sequence[Typed], locate: Locate) -> int:
        """Put expressions into the memory; the address of the list of their steps."""
        return self.memory.put([word for each in expressions for word in self.steps(each, locate)])

    def renew_codes(self) -> int:
        """Give new codes to the texts that tables with state hold; how many they are.

        Tables that are found by texts are to be found anew.
        """
        memory, before = self.memory, self.memory.texts
        held: list[IntArray] = []
        for table, columns in self._texts:
            rows = memory.rows(table)
            held += [rows[:, layout.VALUES + column] for column in columns]
        codes = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *held]))
        memory.texts = Texts()
        new: IntArray = np.zeros(before.count, dtype=np.int64)
        new[codes[1:]] = memory.texts.encode(pa.array(before.decode(codes[1:]), pa.string()))
        for table, columns in self._texts:
            rows = memory.rows(table)
            for column in columns:
                rows[:, layout.VALUES + column] = new[rows[:, layout.VALUES + column]]
            memory.words[table + layout.MOVED] += 1
            if hashes := int(memory.words[table + layout.HASH]):
                memory.words[hashes + layout.STALE] = 1
        for text, words in self._constants.items():
            code = int(memory.texts.encode(pa.array([text], pa.string()))[0])
            memory.words[words] = code
        return memory.texts.count


class _Statement:
    """The instructions of a statement.

    Parameters
    ----------
    prefix
        Of the names of its operators with state.
    member
        Its address.
    """

    def __init__(self, assembly: Assembly, program: Program, prefix: str, member: int) -> None:
        self._assembly, self._program, self._prefix = assembly, program, prefix
        self._memory = assembly.memory
        self.instructions = _Instructions()
        self._changes = [self._window(place, plan) for place, plan in enumerate(program.windows)]
        self.instructions.add(layout.CHECK)
        for place, relation in enumerate(program.relations):
            assert isinstance(relation, UnionPlan)
            kinds = relation.kinds
            self._changes.append(self._union(f"relation-{place}-", relation.selects, kinds))
        kinds = tuple(program.columns.values())
        change = self._union("", program.selects, kinds)
        relation = 0
        if program.to_stream is ToStream.RSTREAM:
            _, relation = self._identified(change, "to-stream")
        hashes = self._memory.table(1, header=0)
        what = _emitted[program.to_stream]
        self.instructions.add(layout.EMIT, change.table, member, what, relation, len(kinds), hashes)

    def _note(self, name: str, state: Stateful) -> None:
        self._assembly.states.append((self._prefix + name, state))

    def _change(self, kinds: tuple[str, ...], *, identified: bool) -> _Change:
        return _Change(self._memory.table(len(kinds)), kinds, identified)

    def _window(self, place: int, plan: WindowPlan) -> _Change:
        program, memory = self._program, self._memory
        kinds = program.read_kinds(plan.stream)
        change = self._change(kinds, identified=True)
        stream, names = self._assembly.stream(plan.stream)
        places = memory.put(
            [-1 if name == TIMESTAMP else names.index(name) for name in program.reads[plan.stream]]
        )
        name = f"window-{place}"
        if plan.rows is None and plan.range_ms is None:
            self.instructions.add(
                layout.UNBOUNDED_WINDOW, 0, change.table, stream, places, len(kinds)
            )
            self._note(name, NoState())
            return change
        partitioned = plan.rows is not None and bool(plan.partition_by)
        log = memory.table(len(kinds) + (2 if partitioned else 0))
        self._assembly.note_texts(log, kinds)
        common = (log, change.table, stream, places, len(kinds))
        found: Partitioned | None = None
        if partitioned:
            assert plan.rows is not None
            found = self._keys(plan.partition_by, kinds)
            leaving = memory.table(1, header=0)
            self.instructions.add(
                *(layout.PARTITION_WINDOW, *common, plan.rows, plan.range_ms or 0),
                *(found.by, found.count, found.keys, leaving),
            )
        elif plan.rows is not None:
            self.instructions.add(layout.ROWS_WINDOW, *common, plan.rows)
        else:
            assert plan.range_ms is not None
            self.instructions.add(layout.RANGE_WINDOW, *common, plan.range_ms)
        if plan.range_ms is not None:
            self._assembly.expires(log, plan.range_ms)
        self._note(name, LogState(memory, log, kinds, found))
        return change

    def _keys(self, partition_by: tuple[int, ...], kinds: tuple[str, ...]) -> Partitioned:
        memory, count = self._memory, len(partition_by)
        # After the keys, the place of the last row.
        keys = memory.table(count + 1)
        memory.found_by(keys, count)
        self._assembly.note_texts(keys, [kinds[place] for place in partition_by])
        hashes = int(memory.words[keys + layout.HASH])
        return Partitioned(memory.put(partition_by), count, keys, hashes)

    def _union(self, prefix: str, selects: Sequence[SelectPlan], kinds: tuple[str, ...]) -> _Change:
        plans = list(dict.fromkeys(select.child for select in selects))
        first = [
            next(place for place, one in enumerate(selects) if one.child == plan) for plan in plans
        ]
        children = [
            self._child(f"{prefix}select-{place}-", plan)
            for place, plan in zip(first, plans, strict=True)
        ]
        change = self._change(kinds, identified=False)
        for place, select in enumerate(selects):
            source, sources, locate = children[plans.index(select.child)]
            having = (0, 0) if select.having is None else self._steps(select.having, locate)
            outputs = self._assembly.list_of(select.outputs, locate)
            self.instructions.add(
                *(layout.PROJECT, source, sources, change.table, int(place == 0), *having),
                *(len(select.outputs), outputs),
            )
        return change

    def _steps(self, expression: Typed, locate: Locate) -> tuple[int, int]:
        return self._assembly.steps(expression, locate)

    def _source(self, plan: SourcePlan) -> _Change:
        """The change of a window or a relation, of the rows for which the condition is true."""
        change = self._changes[plan.window]
        if plan.condition is None:
            return change
        passing = self._change(change.kinds, identified=change.identified)
        size = layout.VALUES + len(change.kinds)
        steps = self._steps(plan.condition, lambda index: (0, index))
        self.instructions.add(layout.FILTER, change.table, passing.table, *steps, size)
        return passing

    def _identified(self, change: _Change, name: str) -> tuple[_Change, int]:
        """Have the rows of a change be identified and kept."""
        found = self._change(change.kinds, identified=True)
        relation = self._memory.table(len(change.kinds))
        size = layout.VALUES + len(change.kinds)
        self.instructions.add(layout.IDENTIFY, change.table, found.table, relation, size)
        self._keep(relation, change.kinds, name, identified=True)
        return found, relation

    def _keep(self, table: int, kinds: tuple[str, ...], name: str, *, identified: bool) -> None:
        self._assembly.note_texts(table, kinds)
        self._note(name, RelationState(self._memory, table, kinds, identified=identified))

    def _related(self, plan: SourcePlan, name: str) -> tuple[_Change, int]:
        """The change of a source of a join, and its relation."""
        change = self._source(plan)
        if not change.identified:
            return self._identified(change, name)
        relation = self._memory.table(len(change.kinds))
        size = layout.VALUES + len(change.kinds)
        self.instructions.add(layout.RELATE, change.table, relation, size)
        self._keep(relation, change.kinds, name, identified=False)
        return change, relation

    def _child(self, prefix: str, plan: ChildPlan) -> tuple[int, int, Locate]:
        """The change that SELECT lists are over, of how many sources, and where columns are."""
        if len(plan.sources) == 1:
            change = self._source(plan.sources[0])
            table, sources, locate = change.table, 1, _only
        else:
            distinct = list(dict.fromkeys(plan.sources))
            related = [
                self._related(one, f"{prefix}relation-{place}")
                for place, one in enumerate(distinct)
            ]
            sides = [related[distinct.index(one)] for one in plan.sources]
            table, locate = self._join(sides, plan.conjuncts)
            sources = len(sides)
        if plan.group is None:
            return table, sources, locate
        grouped = self._group(prefix, plan, plan.group, (table, sources, locate))
        return grouped, 1, _only

    def _join(
        self, sides: Sequence[tuple[_Change, int]], conjuncts: Sequence[Typed]
    ) -> tuple[int, Locate]:
        ends = [0, *accumulate(len(change.kinds) for change, _ in sides)]

        def locate(index: int) -> tuple[int, int]:
            source = next(place for place, end in enumerate(ends[1:]) if index < end)
            return source, index - ends[source]

        memory, count = self._memory, len(sides)
        change = memory.table(count)
        words = [count, change]
        for side, relation in sides:
            words += (side.table, relation)
        for first in range(count):
            waiting, bound = list(conjuncts), {first}
            for source in range(count):
                if source == first:
                    continue
                bound.add(source)
                ready = [
                    one
                    for one in waiting
                    if {locate(each.index)[0] for each in fields(one)} <= bound
                ]
                waiting = [one for one in waiting if one not in ready]
                pairs = [_pair(one, source, locate) for one in ready]
                equal = [word for pair in pairs if pair is not None for word in pair]
                others = [one for one, pair in zip(ready, pairs, strict=True) if pair is None]
                words += (source, int(source > first), len(equal) // 3, memory.put(equal))
                words += (len(others), self._assembly.list_of(others, locate))
                words.append(self._index() if equal else 0)
        self.instructions.add(layout.JOIN, memory.put(words))
        return change, locate

    def _index(self) -> int:
        """An index of a relation, which has to be made."""
        index = self._memory.table(len(layout.LINKS), header=0)
        self._memory.words[index + layout.STALE] = 1
        return index

    def _group(
        self, prefix: str, child: ChildPlan, plan: GroupPlan, given: tuple[int, int, Locate]
    ) -> int:
        memory, (source, sources, locate) = self._memory, given
        keys, number = len(plan.keys), len(plan.aggregates)
        change, touched = memory.table(keys + number), memory.table(number + 3, header=0)
        at = layout.VALUES + keys
        found: list[AggregateState] = []
        words: list[int] = []
        stays = self._program.stays(child)
        for one in plan.aggregates:
            state = self._aggregate(one, at)
            steps = (0, 0) if one.argument is None else self._steps(one.argument, locate)
            words += (state.what, *steps, at, state.ranked, int(stays), state.pool, 0)
            found.append(state)
            at += _state_words(state.what)
        table = memory.table(at + 2 + number - layout.VALUES)
        memory.found_by(table, keys)
        kinds = [key.kind for key in plan.keys]
        self._assembly.note_texts(table, kinds)
        group = memory.put(
            [
                *(source, sources, change, table, touched),
                *(keys, self._assembly.list_of(plan.keys, locate), number, memory.put(words), at),
            ]
        )
        self.instructions.add(layout.GROUP, group)
        self._note(f"{prefix}aggregate", GroupState(memory, group, table, kinds, found))
        return change

    def _aggregate(self, plan: AggregatePlan, at: int) -> AggregateState:
        if plan.argument is None:
            return AggregateState(layout.COUNT_ALL, at, 0, 0, plan.kind)
        if plan.function == "count":
            return AggregateState(layout.COUNT, at, 0, 0, plan.kind)
        if (plan.function, plan.argument.kind) in _sums:
            what = _sums[plan.function, plan.argument.kind]
            return AggregateState(what, at, 0, 0, plan.kind)
        ranked = _ranked[plan.function]
        if plan.function in ENDS:
            ranked |= layout.RANK_ID
        elif plan.kind == "float":
            ranked |= layout.RANK_FLOAT
        pool = self._memory.table(layout.NODE_WORDS, header=0)
        return AggregateState(layout.BEST, at, ranked, pool, plan.kind)


def _only(index: int) -> tuple[int, int]:
    return 0, index


def _state_words(what: int) -> int:
    if what in (layout.SUM_FLOAT, layout.AVG_FLOAT):
        return layout.FLOAT_SUM_WORDS
    return {layout.COUNT_ALL: 0, layout.COUNT: 1, layout.BEST: 2}.get(what, 3)


def _pair(condition: Typed, new: int, locate: Locate) -> tuple[int, int, int] | None:
    """Columns of which a condition says that they are equal: another source, its, and the new's."""
    if not isinstance(condition, Apply) or condition.function != "equal":
        return None
    one, other = condition.arguments
    if not isinstance(one, InputColumn) or not isinstance(other, InputColumn):
        return None
    if one.kind != other.kind:
        return None
    sides = [locate(one.index), locate(other.index)]
    if sides[0][0] == new:
        sides.reverse()
    if sides[0][0] == new or sides[1][0] != new:
        return None
    return *sides[0], sides[1][1]
