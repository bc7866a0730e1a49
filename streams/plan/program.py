"""A compiled statement: the typed and resolved program that the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from foundation.loop_limits import LoopLimits
from streams.expressions.time_zones import LocalDays
from streams.expressions.typed import InputColumn, Typed, relocated
from streams.language.ast import SetOperator, ToStream
from streams.vectors.chunk import TIMESTAMP

STEP_BITS = 16
"""Of an instant in a loop: what tells the steps of a millisecond apart (`streams.plan.loops`)."""

DAY_BITS = 27
"""Of a time in days of a time zone: the milliseconds since the day began."""

LONGEST_DAY_MS = 26 * 3_600_000
"""No day of a time zone is longer."""

CODED_KINDS = ("int", "bool", "string")
"""Types of keys that have codes (`streams.kernels.keys`)."""


EXACT_SUMS = ("exact_sum", "exact_squares")
"""Aggregates that are not rounded, but passed on as texts (`streams.arithmetic.exact_texts`)."""


ENDS, EXTREMES = ("first", "last"), ("min", "max")
"""Aggregates that are one of the values."""


REJECTED_SUFFIX = ".rejected"
"""Ends the name of the stream of tuples that a statement has rejected."""

REJECTED_COLUMNS = {"input": "string", "reason": "string", "what": "string"}
"""Which input a rejected tuple is of, the error, and the beginning of the tuple as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """A window on a stream. Selects that need the same window share one.

    Attributes
    ----------
    stream
        Its input.
    rows, range_ms, slide_ms, offset_ms, session_ms, slide_rows
        As in `streams.language.ast.Window`.
    partition_by
        Positions in the columns that the program reads of the stream.
    """

    stream: str
    rows: int | None
    range_ms: int | None
    partition_by: tuple[int, ...]
    slide_ms: int | None = None
    offset_ms: int = 0
    session_ms: int | None = None
    slide_rows: int | None = None

    @property
    def unlimited(self) -> bool:
        """Whether no row ever leaves it."""
        return (self.rows, self.range_ms, self.session_ms) == (None, None, None)

    @property
    def reach_ms(self) -> int:
        """How long before a timestamp tuples matter for what it shows; 0 if no time bounds that."""
        return 0 if self.range_ms is None else self.range_ms + (self.slide_ms or 0)

    @property
    def tumbling(self) -> tuple[int, int] | None:
        """Length and offset, ms, if each tuple is in it at one boundary only; else None."""
        if self.rows is not None or self.partition_by or self.range_ms is None:
            return None
        # Between two timestamps nothing changes: [NOW] slides by a millisecond.
        slide_ms = 1 if self.slide_ms is None else self.slide_ms
        return (self.range_ms, self.offset_ms) if slide_ms == self.range_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """One source of a select: a window or a relation, and the condition on that source alone.

    Attributes
    ----------
    window
        Position in `Program.windows`; past their number, in `Program.relations`.
    condition
        On the columns that the program reads of the stream, or the relation's; None: all rows.
    """

    window: int
    condition: Typed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatePlan:
    """One aggregate function over a group.

    Attributes
    ----------
    function
        count, sum, avg, stddev, min, max, first, last, exact_sum or exact_squares.
    argument
        The aggregated expression; None: `*`.
    kind
        Type of the result.
    distinct
        Equal values count once.
    """

    function: str
    argument: Typed | None
    kind: str
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """GROUP BY and the aggregates. Without keys there is one group, which always exists.

    Attributes
    ----------
    keys, aggregates
        Equal aggregates are one.
    written
        How many aggregates were written in the text.
    """

    keys: tuple[Typed, ...]
    aggregates: tuple[AggregatePlan, ...]
    written: int = field(default=0, compare=False)

    def relocated(self, move: Callable[[InputColumn], InputColumn]) -> GroupPlan:
        """The same plan over rows with other column positions."""
        return GroupPlan(
            written=self.written,
            keys=tuple(relocated(key, move) for key in self.keys),
            aggregates=tuple(
                replace(
                    one, argument=None if one.argument is None else relocated(one.argument, move)
                )
                for one in self.aggregates
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedBy:
    """What rows are ranked by: the greatest value comes first, or the least; NULL comes last."""

    expression: Typed
    ascending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopPlan:
    """TOP n BY.

    Attributes
    ----------
    rows
        How many rows of each partition.
    by
        What ranks them. Rows that are equal in all of it are ranked by their SELECT list.
    partition_by
        What tells partitions apart; empty: all rows are one.
    """

    rows: int
    by: tuple[RankedBy, ...]
    partition_by: tuple[Typed, ...]

    def expressions(self) -> Iterator[Typed]:
        """All that it reads."""
        yield from self.partition_by
        yield from (one.expression for one in self.by)

    def relocated(self, move: Callable[[InputColumn], InputColumn]) -> TopPlan:
        """The same plan over rows with other column positions."""
        return TopPlan(
            rows=self.rows,
            by=tuple(replace(one, expression=relocated(one.expression, move)) for one in self.by),
            partition_by=tuple(relocated(one, move) for one in self.partition_by),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectPlan:
    """One SELECT.

    Attributes
    ----------
    sources
        In the order of FROM.
    conjuncts
        Conditions on several sources, cheapest first, over the sources' columns side by side.
    group
        Over the same columns; None: no aggregation.
    having
        Condition over the group's keys and aggregates; None: all groups.
    outputs
        The SELECT list: over the same columns, or over the group's keys and aggregates.
    top
        Over what `outputs` are over; None: all rows.
    """

    sources: tuple[SourcePlan, ...]
    conjuncts: tuple[Typed, ...]
    group: GroupPlan | None
    outputs: tuple[Typed, ...]
    having: Typed | None = None
    top: TopPlan | None = None

    @property
    def child(self) -> ChildPlan:
        """What the SELECT list is over. Selects with equal children compute it once."""
        return ChildPlan(sources=self.sources, conjuncts=self.conjuncts, group=self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """The sources, joined and grouped; attributes as in `SelectPlan`."""

    sources: tuple[SourcePlan, ...]
    conjuncts: tuple[Typed, ...]
    group: GroupPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionPlan:
    """A relation with the rows of some selects.

    Attributes
    ----------
    kinds
        Types of its columns, here as in other relations.
    """

    selects: tuple[SelectPlan, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan:
    """INTERSECT or EXCEPT of two relations, which are given as sources are.

    Attributes
    ----------
    every
        A row counts as often as it occurs.
    """

    operator: SetOperator
    every: bool
    left: int
    right: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPlan:
    """The rows of the left, each with whether the right has a partner for it.

    Attributes
    ----------
    conjuncts
        What holds for a row and its partner, over the columns of both side by side.
    """

    left: SourcePlan
    right: SourcePlan
    conjuncts: tuple[Typed, ...]
    kinds: tuple[str, ...]


RelationPlan = UnionPlan | SetPlan | MatchPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlan:
    """One statement of a loop.

    Attributes
    ----------
    program
        Its lengths of time, those of windows, are distances of instants.
    delay
        By how many instants its stream is later; 0: by none.
    """

    program: Program
    delay: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPlan:
    """Statements that are evaluated together, instant by instant (`streams.plan.loops`).

    Attributes
    ----------
    members
        In the order in which they were written.
    order
        Positions of members; those that read a stream without delay come after its producer.
    exported
        Positions of those whose streams are given.
    """

    members: tuple[MemberPlan, ...]
    order: tuple[int, ...]
    exported: tuple[int, ...]
    limits: LoopLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlan:
    """When a periodic statement shows its relation; attributes as in `RealTime`."""

    period_ms: int
    offset_ms: int
    begins_ms: int
    ends_ms: int | None
    deadline_ms: int | None
    importance: int

    def next_from(self, at_ms: int) -> int:
        """The first release at or past a timestamp, as if they had no beginning and no end."""
        return at_ms + (self.offset_ms - at_ms) % self.period_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerProgram:
    """What a statement was until it was changed in place (`streams.plan.revision`).

    Attributes
    ----------
    program
        It has no former programs itself.
    until_ms
        Event time of the cut: up to there this program counts, and after it the next one. None: it
        is not agreed yet.
    keeps
        Whether the next program goes on with the state of this one; else it begins anew.
    """

    program: Program
    until_ms: int | None
    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled statement.

    Attributes
    ----------
    name
        Of the statement and its output stream.
    inputs
        Streams it reads, each once, in the order of their first appearance.
    columns
        Of the output: name → type.
    text
        The statement; a snapshot belongs to it.
    input_columns
        Input → all columns of the stream → type.
    reads
        Input → the columns that the program uses, in the stream's order.
    windows, selects, to_stream
        The parts of the computation.
    relations
        What selects and later relations are over, beside windows; empty for a program of one level.
    functions
        Installed functions that it calls → fingerprints of their code here
        (`streams.expressions.owned`).
    naive
        Aggregates keep the values of all rows, and read them when they are emitted. The compiler
        never chooses that: it is what pushing aggregates down is compared with.
    skips
        Tuples on which the program fails are left out (`streams.evaluate.skipping`). Its owner
        chooses that.
    of
        The program whose rejected tuples this one gives (`rejections`); None: it gives results.
    loop
        What it consists of if it is a loop; it has no windows, selects and relations then.
    releases
        When it shows its relation if it is periodic. Its windows with a range slide by the period,
        unless they count rows or slide by themselves.
    former
        What it was before, the oldest first, as long as some state may be of that.
    days
        Whose days its windows count; None: it knows lengths of time. Then those of its windows are
        days of 2²⁷ units (`streams.plan.local_days`).
    most_joined
        Most rows that the change of a join may have at a timestamp; None: any number.
    """

    name: str
    inputs: tuple[str, ...]
    columns: dict[str, str]
    text: str
    input_columns: dict[str, dict[str, str]]
    reads: dict[str, tuple[str, ...]]
    windows: tuple[WindowPlan, ...]
    selects: tuple[SelectPlan, ...]
    to_stream: ToStream
    relations: tuple[RelationPlan, ...] = ()
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    naive: bool = False
    skips: bool = False
    of: Program | None = None
    loop: LoopPlan | None = None
    releases: ReleasePlan | None = None
    former: tuple[FormerProgram, ...] = ()
    days: LocalDays | None = None
    most_joined: int | None = None

    @property
    def rejections(self) -> Program:
        """A program that gives the tuples which this one would leave out if it skipped them."""
        name, columns = self.name + REJECTED_SUFFIX, dict(REJECTED_COLUMNS)
        return replace(self, name=name, columns=columns, skips=True, of=self)

    @property
    def shown_at(self) -> ReleasePlan | None:
        """When results come, if at releases only: tuples that are left out are given at once."""
        return self.releases if self.of is None else None

    @property
    def bounded_reach_ms(self) -> int:
        """How long before a timestamp results depend on tuples, as far as time bounds that."""
        if self.loop is not None:
            programs = [each.program for each in self.loop.members]
            return max(each.bounded_reach_ms >> STEP_BITS for each in programs)
        return self.in_ms(max((window.reach_ms for window in self.windows), default=0))

    def in_ms(self, length: int) -> int:
        """The most milliseconds that a length of its windows has."""
        return length if self.days is None else length * LONGEST_DAY_MS >> DAY_BITS

    @property
    def lasts_ms(self) -> int:
        """How long after its last tuple it may give results; a loop may give some for ever."""
        if self.loop is not None:
            lengths = (each.program.lasts_ms + each.delay for each in self.loop.members)
            return sum(lengths) >> STEP_BITS
        longest = max(
            (window.range_ms or window.session_ms or 0) + (window.slide_ms or 0)
            for window in self.windows
        )
        return self.in_ms(longest) + (0 if self.releases is None else self.releases.period_ms)

    @property
    def keeps(self) -> tuple[str, ...]:
        """Inputs of which it keeps tuples for later timestamps."""
        if self.loop is not None or self.releases is not None:
            return self.inputs
        kept = (window.stream for window in self.windows if window.range_ms != 1)
        return tuple(dict.fromkeys(kept))

    @property
    def reach_ms(self) -> int | None:
        """How much older than a result a tuple may be on which it depends; None: by any time."""
        if self.loop is not None or self.releases is not None:
            return None
        ranges_ms: list[int] = []
        for window in self.windows:
            if window.range_ms is None or window.session_ms is not None:
                return None
            # ISTREAM and DSTREAM compare with the relation before.
            ranges_ms.append(window.range_ms + (window.slide_ms or 1))
        return self.in_ms(max(ranges_ms))

    def stays(self, child: ChildPlan) -> bool:
        """Whether no row ever leaves the rows that are grouped or selected."""
        return all(
            source.window < len(self.windows) and self.windows[source.window].unlimited
            for source in child.sources
        )

    def in_order(self, child: ChildPlan) -> bool:
        """Whether the rows of each group leave in the order in which they came, or never."""
        if len(child.sources) != 1 or child.group is None:
            return False
        if (place := child.sources[0].window) >= len(self.windows):
            return False
        window = self.windows[place]
        keys = {key.index for key in child.group.keys if isinstance(key, InputColumn)}
        # The rows of a session leave at once, others in the order of their partition.
        return window.session_ms is not None or keys.issuperset(window.partition_by)

    def read_kinds(self, stream: str) -> tuple[str, ...]:
        """Types of the columns that the program uses of an input."""
        columns = {TIMESTAMP: "int", **self.input_columns[stream]}
        return tuple(columns[name] for name in self.reads[stream])

    def source_kinds(self, source: int) -> tuple[str, ...]:
        """Types of the columns of a window or a relation."""
        if source < len(self.windows):
            return self.read_kinds(self.windows[source].stream)
        return self.relations[source - len(self.windows)].kinds

    @property
    def all_selects(self) -> tuple[SelectPlan, ...]:
        """The selects of the relations, too, and of the statements of a loop."""
        if self.loop is not None:
            members = self.loop.members
            return tuple(select for each in members for select in each.program.all_selects)
        unions = [one.selects for one in self.relations if isinstance(one, UnionPlan)]
        return (*(select for union in unions for select in union), *self.selects)

    @property
    def groups(self) -> bool:
        """Whether one of the selects has groups."""
        return any(select.group is not None for select in self.all_selects)

    def read_places(self, stream: str) -> tuple[int, ...]:
        """Where these columns lie in the stream's rows, in which the timestamp is first."""
        places = {
            name: place for place, name in enumerate((TIMESTAMP, *self.input_columns[stream]))
        }
        return tuple(places[name] for name in self.reads[stream])

    def needed_places(self, stream: str) -> tuple[int, ...]:
        """The same of all columns that this program or a former one uses, rising."""
        programs = (self, *(each.program for each in self.former))
        return tuple(sorted({place for each in programs for place in each.read_places(stream)}))

    @property
    def stateless(self) -> bool:
        """Whether each timestamp's output depends on that timestamp's tuples alone, row by row."""
        return (
            self.to_stream is ToStream.RSTREAM
            and self.loop is None
            and self.releases is None
            and not self.relations
            and all(len(select.sources) == 1 and select.group is None for select in self.selects)
            and all(
                window.range_ms == 1 and window.rows is None and window.slide_ms is None
                for window in self.windows
            )
        )

    @property
    def joins(self) -> bool:
        """Whether one of the selects has several sources."""
        if self.loop is not None:
            return any(each.program.joins for each in self.loop.members)
        return any(len(select.sources) > 1 for select in self.all_selects) or any(
            isinstance(one, MatchPlan) for one in self.relations
        )
