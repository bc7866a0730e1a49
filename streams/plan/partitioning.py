"""By which columns the inputs of a statement may be divided, so that each part is evaluated alone.

A *partitioning* names a column of each input. Tuples with different values in it never meet: the
output of a statement is the multiset union, timestamp by timestamp, of its outputs from the parts.
That holds if all of this does:

- A window that counts rows, or has sessions, does so for each value: the column is in PARTITION BY.
- Sources are joined by equality of their columns; NULL equals nothing.
- Groups, ranks (TOP) and DISTINCT have the column among their keys.
- ISTREAM and DSTREAM show the column, at one place of all SELECTs. Otherwise a row that enters in
  one part and an equal one that leaves in another cancel each other only in the whole.
- RSTREAM emits its relation whenever it is evaluated, which any tuple brings about. So no part may
  have rows at a timestamp at which none of its own tuples has it evaluated. That is so if each
  SELECT has a source with [NOW] or sessions, or if all windows slide to the same boundaries,
  because a boundary is evaluated wherever the window holds tuples.

A *stateless* statement (`Program.stateless`) may be divided by timestamps instead.

Floats are no keys (0.0 equals -0.0), and neither is the timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product

from streams.expressions.typed import Apply, InputColumn
from streams.language.ast import ToStream
from streams.plan.program import CODED_KINDS, Program, SelectPlan
from streams.vectors.chunk import TIMESTAMP

MOST_TRIED = 10_000
"""Most choices of columns that are looked at."""

Partitioning = Mapping[str, str]
"""Input → its column."""


class Interacting(Exception):
    """Tuples meet whatever their values in a column; says why."""


def partitionings(program: Program) -> list[Partitioning]:
    """All partitionings by which a statement may be evaluated in parts, none of them empty.

    Raises
    ------
    Interacting
        There is none.

    Examples
    --------
    >>> from streams.plan.compiler import compile_statement
    >>> from streams.language import parse
    >>> text = "ISTREAM(SELECT k, sum(x) AS t FROM s [RANGE 1 MINUTE] GROUP BY k)"
    >>> (statement,) = parse(f"REGISTER QUERY q {text};")
    >>> partitionings(compile_statement(statement, {"s": {"k": "string", "x": "float"}}))
    [{'s': 'k'}]
    """
    if program.loop is not None:
        raise Interacting("its statements read each other in a loop")
    if program.releases is not None:
        raise Interacting("its releases are counted from the first tuple of all")
    if program.relations:
        raise Interacting("it has sub-queries, outer joins or operations on relations")
    if program.to_stream is ToStream.RSTREAM and not _evaluated_alike(program):
        raise Interacting("RSTREAM repeats its rows whenever any tuple has it evaluated")
    left: list[Partitioning] = list(islice(_choices(program), MOST_TRIED))
    if not left:
        raise Interacting("it reads no column by which tuples could be told apart")
    for meets, why in _rules:
        left = [each for each in left if not meets(program, each)]
        if not left:
            raise Interacting(why)
    return left


def _choices(program: Program) -> Iterator[Partitioning]:
    """A column of each input, all of one type."""
    for kind in CODED_KINDS:
        options = [
            [
                name
                for name, own in zip(program.reads[stream], program.read_kinds(stream), strict=True)
                if own == kind and name != TIMESTAMP
            ]
            for stream in program.inputs
        ]
        for chosen in product(*options):
            yield dict(zip(program.inputs, chosen, strict=True))


def _evaluated_alike(program: Program) -> bool:
    """Whether a part has rows only at timestamps at which its own tuples have it evaluated."""
    boundaries = {(window.slide_ms, window.offset_ms) for window in program.windows}
    if len(boundaries) == 1 and all(window.slide_ms is not None for window in program.windows):
        return True
    momentary = [
        window.session_ms is not None or (window.range_ms == 1 and window.slide_ms is None)
        for window in program.windows
    ]
    return all(
        any(momentary[source.window] for source in select.sources) for select in program.selects
    )


def _counted_together(program: Program, by: Partitioning) -> bool:
    return any(
        program.reads[window.stream].index(by[window.stream]) not in window.partition_by
        for window in program.windows
        if window.rows is not None or window.session_ms is not None
    )


def _unequal(program: Program, by: Partitioning) -> bool:
    return any(not _equals(program, select, by) for select in program.selects)


def _grouped_together(program: Program, by: Partitioning) -> bool:
    return any(not _shown(program, select, by) for select in program.selects)


def _ranked_together(program: Program, by: Partitioning) -> bool:
    return any(
        select.top is not None
        and not any(_is_one(each, _shown(program, select, by)) for each in select.top.partition_by)
        for select in program.selects
    )


def _cancelled(program: Program, by: Partitioning) -> bool:
    if program.to_stream is ToStream.RSTREAM:
        return False
    shown = [_shown(program, select, by) for select in program.selects]
    return not any(
        all(
            _is_one(select.outputs[place], places)
            for select, places in zip(program.selects, shown, strict=True)
        )
        for place in range(len(program.columns))
    )


_rules: tuple[tuple[Callable[[Program, Partitioning], bool], str], ...] = (
    (_counted_together, "a window counts rows, or has sessions, whatever the values of a column"),
    (_unequal, "sources are not joined by equal columns"),
    (_grouped_together, "tuples are aggregated whatever their values in the same column"),
    (_ranked_together, "rows are ranked whatever their values in the same column"),
    (_cancelled, "ISTREAM and DSTREAM do not show the column that tells tuples apart"),
)


def _equals(program: Program, select: SelectPlan, by: Partitioning) -> frozenset[int]:
    """Where the sources side by side have what tells tuples apart; empty if it is not the same."""
    places: list[int] = []
    width = 0
    for source in select.sources:
        stream = program.windows[source.window].stream
        places.append(width + program.reads[stream].index(by[stream]))
        width += len(program.reads[stream])
    same = {places[0]}
    pairs = [pair for pair in map(_equal_fields, select.conjuncts) if pair is not None]
    for _ in pairs:
        for pair in pairs:
            if not same.isdisjoint(pair):
                same.update(pair)
    return frozenset(same) if same.issuperset(places) else frozenset()


def _equal_fields(condition: object) -> tuple[int, int] | None:
    if not isinstance(condition, Apply) or condition.function != "equal":
        return None
    one, other = condition.arguments
    if (
        not isinstance(one, InputColumn)
        or not isinstance(other, InputColumn)
        or one.kind != other.kind
    ):
        return None
    return one.index, other.index


def _shown(program: Program, select: SelectPlan, by: Partitioning) -> frozenset[int]:
    """Where the SELECT list may read what tells tuples apart; empty if it is lost in groups."""
    same = _equals(program, select, by)
    if select.group is None:
        return same
    return frozenset(place for place, key in enumerate(select.group.keys) if _is_one(key, same))


def _is_one(expression: object, places: frozenset[int]) -> bool:
    return isinstance(expression, InputColumn) and expression.index in places
