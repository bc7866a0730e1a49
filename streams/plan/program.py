"""A compiled statement: the typed and resolved program that the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from math import gcd

from streams.expressions.typed import Apply, Field, Typed, fields, relocated
from streams.language.ast import ToStream
from streams.vectors.chunk import TIMESTAMP

MOST_PANES = 10_000
"""Most panes of a window: there is work to do for each of them."""


MOST_NEWEST = 16
"""Most rows of a key that have a place of their own from the start."""

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


class Evaluation(Enum):
    """The ways to evaluate a program. All give the same rows in the same order."""

    STATELESS = "stateless"
    """Row by row, many timestamps in one pass of Arrow and numpy."""
    PANES = "panes"
    """Groups over a window that slides, many timestamps in one pass of compiled kernels."""
    SESSIONS = "sessions"
    """Groups that are sessions, many timestamps in one pass of compiled kernels."""
    NEWEST = "newest"
    """Newest rows of each key, many timestamps in one pass of compiled kernels."""
    JOIN = "join"
    """Pairs of equal keys of two windows that tumble together, many windows in one pass."""
    LOOKUP = "lookup"
    """Tuples that are looked up in a relation that grows, many timestamps in one pass."""
    STEPWISE = "stepwise"
    """By the changes of relations: any program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """A window on a stream. Selects that need the same window share one.

    Attributes
    ----------
    stream
        Its input.
    rows, range_ms, slide_ms, offset_ms, session_ms
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
    """One source of a select: a window, and the condition on that source alone.

    Attributes
    ----------
    window
        Position in `Program.windows`.
    condition
        On the columns that the program reads of the stream; None: all rows.
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

    def relocated(self, move: Callable[[Field], Field]) -> GroupPlan:
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

    def relocated(self, move: Callable[[Field], Field]) -> TopPlan:
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
    naive
        Aggregates keep the values of all rows, and read them when they are emitted. The compiler
        never chooses that: it is what pushing aggregates down is compared with.
    skips
        Tuples on which the program fails are left out (`streams.evaluate.skipping`). Its owner
        chooses that.
    of
        The program whose rejected tuples this one gives (`rejections`); None: it gives results.
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
    naive: bool = False
    skips: bool = False
    of: Program | None = None

    @property
    def rejections(self) -> Program:
        """A program that gives the tuples which this one would leave out if it skipped them."""
        name, columns = self.name + REJECTED_SUFFIX, dict(REJECTED_COLUMNS)
        return replace(self, name=name, columns=columns, skips=True, of=self)

    @property
    def reach_ms(self) -> int | None:
        """How much older than a result a tuple may be on which it depends; None: by any time."""
        ranges_ms: list[int] = []
        for window in self.windows:
            if window.range_ms is None or window.session_ms is not None:
                return None
            # ISTREAM and DSTREAM compare with the relation before.
            ranges_ms.append(window.range_ms + (window.slide_ms or 1))
        return max(ranges_ms)

    def stays(self, child: ChildPlan) -> bool:
        """Whether no row ever leaves the rows that are grouped or selected."""
        return all(self.windows[source.window].unlimited for source in child.sources)

    def in_order(self, child: ChildPlan) -> bool:
        """Whether the rows of each group leave in the order in which they came, or never."""
        if len(child.sources) != 1 or child.group is None:
            return False
        window = self.windows[child.sources[0].window]
        keys = {key.index for key in child.group.keys if isinstance(key, Field)}
        # The rows of a session leave at once, others in the order of their partition.
        return window.session_ms is not None or keys.issuperset(window.partition_by)

    def read_kinds(self, stream: str) -> tuple[str, ...]:
        """Types of the columns that the program uses of an input."""
        columns = {TIMESTAMP: "int", **self.input_columns[stream]}
        return tuple(columns[name] for name in self.reads[stream])

    def read_places(self, stream: str) -> tuple[int, ...]:
        """Where these columns lie in the stream's rows, in which the timestamp is first."""
        places = {
            name: place for place, name in enumerate((TIMESTAMP, *self.input_columns[stream]))
        }
        return tuple(places[name] for name in self.reads[stream])

    @property
    def evaluation(self) -> Evaluation:
        """The way to evaluate it."""
        if self.naive:
            return Evaluation.STEPWISE
        if self._has_panes:
            return Evaluation.PANES
        if any(select.top is not None for select in self.selects):
            return Evaluation.STEPWISE
        if self.stateless:
            return Evaluation.STATELESS
        if self._has_newest:
            return Evaluation.NEWEST
        if self._has_sessions:
            return Evaluation.SESSIONS
        if not self.equal_keys:
            return Evaluation.STEPWISE
        return Evaluation.LOOKUP if self._has_lookup else Evaluation.JOIN

    @property
    def _has_newest(self) -> bool:
        """Whether it shows how the newest rows of each key change."""
        if len(self.selects) != 1 or len(self.windows) != 1:
            return False
        (select,), (window,) = self.selects, self.windows
        if len(select.sources) != 1 or select.group is not None:
            return False
        kinds = self.read_kinds(window.stream)
        return (
            self.to_stream is not ToStream.RSTREAM
            and window.rows is not None
            and window.rows <= MOST_NEWEST
            and window.range_ms is None
            and bool(window.partition_by)
            and all(kinds[place] in CODED_KINDS for place in window.partition_by)
        )

    @property
    def equal_keys(self) -> tuple[tuple[Typed, Typed], ...]:
        """What must be equal in a join that finds pairs by keys; empty for other programs.

        These are joins of two windows that tumble together, and of a growing relation with tuples
        that are looked up in it.

        Pairs of expressions over the columns of the first and of the second source, each over the
        columns that the program reads of its stream.
        """
        if len(self.selects) != 1 or self.to_stream is not ToStream.RSTREAM:
            return ()
        (select,) = self.selects
        if len(select.sources) != 2 or select.group is not None:
            return ()
        spans = {window.tumbling for window in self.windows}
        if (len(spans) != 1 or None in spans) and not self._has_lookup:
            return ()
        found = (_equal_keys(condition, self._left_width) for condition in select.conjuncts)
        return tuple(keys for keys in found if keys is not None)

    @property
    def _has_lookup(self) -> bool:
        """Whether the first source holds all tuples so far, and the second those of now."""
        first, second = (self.windows[one.window] for one in self.selects[0].sources)
        return first.unlimited and second.tumbling == (1, 0)

    @property
    def other_conjuncts(self) -> tuple[Typed, ...]:
        """The conditions on both sources that these keys leave."""
        (select,) = self.selects
        return tuple(
            condition
            for condition in select.conjuncts
            if _equal_keys(condition, self._left_width) is None
        )

    @property
    def _left_width(self) -> int:
        """Number of columns of the first source of the first select."""
        return len(self.read_kinds(self.windows[self.selects[0].sources[0].window].stream))

    @property
    def _has_panes(self) -> bool:
        """Whether it aggregates groups over one window that slides, by what panes can add up."""
        if len(self.selects) != 1 or len(self.windows) != 1:
            return False
        (select,), (window,) = self.selects, self.windows
        group = select.group
        if len(select.sources) != 1 or group is None:
            return False
        if window.slide_ms is None or window.range_ms is None:
            return False
        return window.range_ms // gcd(window.range_ms, window.slide_ms) <= MOST_PANES and all(
            key.kind in CODED_KINDS for key in group.keys
        )

    @property
    def _has_sessions(self) -> bool:
        """Whether each of its groups is a session of one window, and shown when that ends."""
        if len(self.selects) != 1 or len(self.windows) != 1:
            return False
        (select,), (window,) = self.selects, self.windows
        group = select.group
        if self.to_stream is not ToStream.RSTREAM or len(select.sources) != 1 or group is None:
            return False
        # With a gap of a millisecond two sessions of a key may end one right after the other.
        if window.session_ms is None or window.session_ms <= 1 or not window.partition_by:
            return False
        keys = {key.index if isinstance(key, Field) else None for key in group.keys}
        return (
            keys == set(window.partition_by)
            and all(key.kind in CODED_KINDS for key in group.keys)
            and not any(one.distinct for one in group.aggregates)
        )

    @property
    def ranks_panes(self) -> bool:
        """Whether TOP is over the rows of one source that enter and leave its window in panes."""
        if len(self.selects) != 1 or len(self.windows) != 1:
            return False
        (select,), (window,) = self.selects, self.windows
        if select.top is None or select.group is not None or len(select.sources) != 1:
            return False
        return window.tumbling is not None or (
            window.slide_ms is not None and window.range_ms is not None
        )

    @property
    def stateless(self) -> bool:
        """Whether each timestamp's output depends on that timestamp's tuples alone, row by row."""
        return (
            self.to_stream is ToStream.RSTREAM
            and all(len(select.sources) == 1 and select.group is None for select in self.selects)
            and all(
                window.range_ms == 1 and window.rows is None and window.slide_ms is None
                for window in self.windows
            )
        )

    @property
    def joins(self) -> bool:
        """Whether one of the selects has several sources."""
        return any(len(select.sources) > 1 for select in self.selects)


def _equal_keys(condition: Typed, width: int) -> tuple[Typed, Typed] | None:
    """The sides of `f(A) = g(B)` that codes tell apart; A has the first `width` columns."""
    if not isinstance(condition, Apply) or condition.function != "equal":
        return None
    one, other = condition.arguments
    if one.kind != other.kind or one.kind not in CODED_KINDS:
        return None
    places = [[field.index for field in fields(side)] for side in (one, other)]
    if not all(places):
        return None
    if max(places[1]) < width:
        one, other, places = other, one, places[::-1]
    if max(places[0]) >= width or min(places[1]) < width:
        return None
    return one, relocated(other, lambda field: replace(field, index=field.index - width))
