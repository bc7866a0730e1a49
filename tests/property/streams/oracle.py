"""A small, slow, obviously right interpreter of the query language.

It recomputes the relation from scratch at every timestamp of interest, over plain Python values
(None is NULL), from the syntax tree; it shares nothing with the engine but the parser.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

from streams.language.ast import (
    Call,
    Column,
    Expression,
    KeptSide,
    Literal,
    OuterJoin,
    Quantifier,
    RealTime,
    RelationExpression,
    Select,
    SetOperation,
    SetOperator,
    Source,
    Statement,
    SubQuery,
    Top,
    ToStream,
    Window,
)
from streams.language.walk import leaves_of

Row = dict[str, Any]
Tuple = tuple[int, Row]
"""Timestamp, values."""
Inputs = Mapping[str, Sequence[Tuple]]
Environment = dict[tuple[str, str], Any]
"""(alias, column) → value."""

TIMESTAMP = "_ts"

aggregates = {"count", "sum", "avg", "stddev", "min", "max", "first", "last"}


@dataclass(frozen=True)
class Now:
    """The streams, a timestamp, and the row around a sub-query."""

    streams: Inputs
    timestamp_ms: int
    around: Environment | None = None


def evaluate(statement: Statement, inputs: Inputs, until_ms: int) -> dict[int, Counter[Any]]:
    """Timestamp → multiset of the rows emitted; timestamps without output are left out."""
    names = {source.stream for source in leaves_of(statement.body.selects)}
    streams = {name: inputs[name] for name in names}
    emitted: dict[int, Counter[Any]] = {}
    before: Counter[Any] = Counter()
    for timestamp_ms in timestamps_to_evaluate(statement, streams, until_ms):
        now = relation(statement.body.selects, Now(streams, timestamp_ms))
        out = {
            ToStream.ISTREAM: now - before,
            ToStream.DSTREAM: before - now,
            ToStream.RSTREAM: now,
        }[statement.body.to_stream]
        if out:
            emitted[timestamp_ms] = out
        before = now
    return emitted


def timestamps_to_evaluate(statement: Statement, streams: Inputs, until_ms: int) -> list[int]:
    """Timestamps with tuples, and those at which a row leaves a window by its age.

    Of a periodic statement, its releases.
    """
    if statement.body.real_time is not None:
        return releases(statement.body.real_time, streams, until_ms)
    found: set[int] = set()
    for source in leaves_of(statement.body.selects):
        assert source.window is not None
        if source.window.session_ms is not None:
            for end_ms, _ in sessions(source.window, streams[source.stream]):
                found.update((end_ms, end_ms + 1))
            continue
        if source.window.slide_rows is not None:
            times = [timestamp for timestamp, _ in streams[source.stream]]
            found.update(times[source.window.slide_rows - 1 :: source.window.slide_rows])
            continue
        span, slide = source.window.range_ms, source.window.slide_ms
        for timestamp, row in streams[source.stream]:
            if span is not None and slide is not None:
                # From the boundary at which the tuple enters to the one at which it leaves.
                offset = source.window.offset_ms
                enters = math.ceil(Fraction(timestamp - offset, slide)) * slide + offset
                leaves = math.ceil(Fraction(timestamp + span - offset, slide)) * slide + offset
                if enters < leaves:
                    found.update(range(enters, leaves + 1, slide))
                continue
            found.add(timestamp)
            if span is None:
                continue
            held = window(source.window, streams[source.stream], timestamp + span - 1)
            if any(kept is row for _, kept in held):
                found.add(timestamp + span)
    return sorted(timestamp_ms for timestamp_ms in found if timestamp_ms <= until_ms)


def releases(spec: RealTime, streams: Inputs, until_ms: int) -> list[int]:
    """The multiples of the period plus the offset, from STIME to ETIME after the first tuple."""
    times = [timestamp for tuples in streams.values() for timestamp, _ in tuples]
    first_ms = min(times, default=until_ms + 1)
    last_ms = until_ms if spec.ends_ms is None else min(until_ms, first_ms + spec.ends_ms)
    return [
        at_ms
        for at_ms in range(first_ms + spec.begins_ms, last_ms + 1)
        if (at_ms - spec.offset_ms) % spec.period_ms == 0
    ]


def window(spec: Window, tuples: Sequence[Tuple], timestamp_ms: int) -> list[Tuple]:
    """The tuples in a window at a timestamp."""
    if spec.slide_ms is not None:
        passed = math.floor(Fraction(timestamp_ms - spec.offset_ms, spec.slide_ms))
        timestamp_ms = passed * spec.slide_ms + spec.offset_ms
    held = [one for one in tuples if one[0] <= timestamp_ms]
    if spec.session_ms is not None:
        ended = [
            id(one)
            for end_ms, rows in sessions(spec, tuples)
            if end_ms == timestamp_ms
            for one in rows
        ]
        return [one for one in tuples if id(one) in ended]
    if spec.partition_by:
        assert spec.rows is not None
        newest: list[Tuple] = []
        for index, (timestamp, row) in enumerate(held):
            key = [row[column.name] for column in spec.partition_by]
            later = [
                other
                for _, other in held[index + 1 :]
                if [other[column.name] for column in spec.partition_by] == key
            ]
            if len(later) < spec.rows:
                newest.append((timestamp, row))
        held = newest
    elif spec.rows is not None:
        if spec.slide_rows is not None:
            held = held[: len(held) // spec.slide_rows * spec.slide_rows]
        held = held[-spec.rows :]
    if spec.range_ms is not None:
        held = [one for one in held if one[0] > timestamp_ms - spec.range_ms]
    return held


def sessions(spec: Window, tuples: Sequence[Tuple]) -> list[tuple[int, list[Tuple]]]:
    """The end of each session, and its tuples."""
    assert spec.session_ms is not None
    by_key: dict[Any, list[list[Tuple]]] = {}
    for one in tuples:
        of_key = by_key.setdefault(tuple(one[1][each.name] for each in spec.partition_by), [])
        if of_key and one[0] - of_key[-1][-1][0] < spec.session_ms:
            of_key[-1].append(one)
        else:
            of_key.append([one])
    return [(rows[-1][0] + spec.session_ms, rows) for of_key in by_key.values() for rows in of_key]


def relation(selects: Sequence[Select], now: Now) -> Counter[Any]:
    """The rows of a union of SELECTs at a timestamp."""
    return Counter(row for select in selects for row in selected(select, now))


def selected(select: Select, now: Now) -> Iterable[tuple[Any, ...]]:
    """The rows of one SELECT."""
    rows: list[Environment] = []
    for combination in product(*(rows_of(source, now) for source in select.sources)):
        joined: Environment = {}
        for part in combination:
            joined.update(part)
        if select.where is None or value(select.where, joined, now) is True:
            rows.append(joined)
    found = list(results(select, rows, now))
    if select.top is not None:
        return first_rows(select.top, found, grouped_rows(select, rows, now), now)
    return dict.fromkeys(found) if select.distinct else found


def results(select: Select, rows: list[Environment], now: Now) -> Iterable[tuple[Any, ...]]:
    """The SELECT list and the groups over the rows that WHERE leaves."""
    if not select.items:
        return [tuple(one for (_, name), one in row.items() if name != TIMESTAMP) for row in rows]
    expressions = [item.expression for item in select.items]
    aggregated = select.having is not None or any(map(has_aggregate, expressions))
    if not select.group_by and not aggregated:
        return [tuple(value(one, row, now) for one in expressions) for row in rows]
    groups = groups_of(select, rows, now)
    return [tuple(grouped(one, group, now) for one in expressions) for group in groups]


def groups_of(select: Select, rows: list[Environment], now: Now) -> list[list[Environment]]:
    """The rows of each group that HAVING leaves."""
    groups: dict[Any, list[Environment]] = {} if select.group_by else {(): []}
    for row in rows:
        groups.setdefault(tuple(value(one, row, now) for one in select.group_by), []).append(row)
    return [
        group
        for group in groups.values()
        if select.having is None or grouped(select.having, group, now) is True
    ]


def grouped_rows(select: Select, rows: list[Environment], now: Now) -> list[list[Environment]]:
    """The rows behind each row of the SELECT list."""
    assert select.top is not None
    expressions = [item.expression for item in (*select.items, *select.top.by)]
    if select.group_by or select.having is not None or any(map(has_aggregate, expressions)):
        return groups_of(select, rows, now)
    return [[row] for row in rows]


def first_rows(
    top: Top, found: list[tuple[Any, ...]], behind: list[list[Environment]], now: Now
) -> list[tuple[Any, ...]]:
    """The rows of the SELECT list that TOP leaves."""
    partitions: dict[Any, list[tuple[Any, tuple[Any, ...]]]] = {}
    for row, group in zip(found, behind, strict=True):
        ranked = [(grouped(one.expression, group, now), one.ascending) for one in top.by]
        rank = [
            *(Ranking(*one) for one in ranked),
            *(Ranking(cell, True) for cell in row),
        ]
        key = tuple(grouped(one, group, now) for one in top.partition_by)
        partitions.setdefault(key, []).append((rank, row))
    return [
        row
        for rows in partitions.values()
        for _, row in sorted(rows, key=lambda one: one[0])[: top.rows]
    ]


@dataclass(frozen=True)
class Ranking:
    """A value that is less than another one if it comes first; NULL comes last."""

    value: Any
    ascending: bool

    def __lt__(self, other: Ranking) -> bool:
        if self.value is None or other.value is None:
            return self.value is not None
        return self.value < other.value if self.ascending else self.value > other.value


def rows_of(source: Source, now: Now) -> list[Environment]:
    """The rows of a source, by the names of its columns."""
    match source.derived:
        case None:
            assert source.window is not None
            return [
                # The timestamp comes last, as in SELECT *, which leaves it out.
                {(source.alias, name): one for name, one in row.items()}
                | {(source.alias, TIMESTAMP): timestamp}
                for timestamp, row in window(
                    source.window, now.streams[source.stream], now.timestamp_ms
                )
            ]
        case RelationExpression(selects=selects):
            names, rows = names_of(selects[0], now), relation(selects, now)
        case SetOperation(operator=operator, every=every, left=left, right=right):
            names = names_of(left.selects[0], now)
            one, other = (relation(side.selects, now) for side in (left, right))
            if operator is SetOperator.INTERSECT:
                rows = one & other
            else:
                rows = one - other if every else Counter({r: 1 for r in one if r not in other})
            rows = rows if every else Counter(dict.fromkeys(rows, 1))
        case OuterJoin():
            return joined_rows(source.derived, now)
    keys = [(source.alias, name) for name in names]
    return [dict(zip(keys, row, strict=True)) for row in rows.elements()]


def joined_rows(join: OuterJoin, now: Now) -> list[Environment]:
    """Pairs, then the rows of the sides that are kept without a partner."""
    sides = rows_of(join.left, now), rows_of(join.right, now)
    found: list[Environment] = []
    partners: tuple[set[int], set[int]] = (set(), set())
    for left, right in product(*map(range, map(len, sides))):
        pair = sides[0][left] | sides[1][right]
        if join.condition is None or value(join.condition, pair, now) is True:
            found.append(pair)
            partners[0].add(left)
            partners[1].add(right)
    kept = {KeptSide.LEFT: [0], KeptSide.RIGHT: [1], KeptSide.BOTH: [0, 1]}.get(join.keeps, [])
    missing = [dict.fromkeys(keys_of(side, now)) for side in (join.left, join.right)]
    for side in kept:
        for place, row in enumerate(sides[side]):
            if place not in partners[side]:
                found.append(row | missing[1] if side == 0 else missing[0] | row)
    return found


def keys_of(source: Source, now: Now) -> list[tuple[str, str]]:
    """What the rows of a source are known by."""
    match source.derived:
        case None:
            known = now.streams[source.stream]
            columns = tuple(known[0][1]) if known else COLUMNS
            return [(source.alias, name) for name in (*columns, TIMESTAMP)]
        case RelationExpression(selects=selects):
            return [(source.alias, name) for name in names_of(selects[0], now)]
        case SetOperation(left=left):
            return [(source.alias, name) for name in names_of(left.selects[0], now)]
        case OuterJoin(left=left, right=right):
            return keys_of(left, now) + keys_of(right, now)


def names_of(select: Select, now: Now) -> list[str]:
    """The names of the columns of a SELECT."""
    if not select.items:
        keys = [key for source in select.sources for key in keys_of(source, now)]
        return [name for _, name in keys if name != TIMESTAMP]
    return [
        item.alias or (item.expression.name if isinstance(item.expression, Column) else f"#{place}")
        for place, item in enumerate(select.items)
    ]


COLUMNS = ("k", "i", "x", "b")
"""Of streams without tuples, in tests with sub-queries and outer joins."""


def has_aggregate(expression: Expression) -> bool:
    return (
        isinstance(expression, Call)
        and (expression.function in aggregates or any(map(has_aggregate, expression.arguments)))
    ) or (
        isinstance(expression, SubQuery)
        and expression.value is not None
        and has_aggregate(expression.value)
    )


def grouped(expression: Expression, rows: list[Environment], now: Now) -> Any:
    """An expression over a group."""
    match expression:
        case Literal():
            return expression.value
        case Column():
            return value(expression, rows[0], now)
        case SubQuery():
            compared = None if expression.value is None else grouped(expression.value, rows, now)
            return sub_query(expression, compared, rows[0] if rows else {}, now)
        case Call() if not has_aggregate(expression) and len(rows) == 1:
            return value(expression, rows[0], now)
        case Call() if expression.function not in aggregates:
            arguments = [grouped(one, rows, now) for one in expression.arguments]
            return apply(expression.function, arguments)
        case Call(star=True):
            return len(rows)
        case Call():
            values = [value(expression.arguments[0], row, now) for row in rows]
            values = [one for one in values if one is not None]
            if expression.distinct and expression.function not in ("first", "last"):
                values = list(set(values))
            return aggregate(expression.function, values)


def sub_query(sub: SubQuery, compared: Any, row: Environment, now: Now) -> Any:
    """What a sub-query in an expression stands for, by SQL's definition."""
    rows = list(relation(sub.query.selects, replace(now, around=row)).elements())
    if sub.quantifier is Quantifier.EXISTS:
        return bool(rows)
    if sub.quantifier is Quantifier.VALUE:
        return rows[0][0] if len(rows) == 1 else None
    assert sub.function is not None
    found = [apply(sub.function, [compared, one]) for (one,) in rows]
    if True in found:
        return True
    return None if None in found else False


def aggregate(function: str, values: list[Any]) -> Any:
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        return min(values) if function == "min" else max(values)
    if function in ("first", "last"):
        return values[0] if function == "first" else values[-1]
    if function == "stddev":
        return deviation(values)
    total = sum(map(Fraction, values))
    if function == "avg":
        return with_one_zero(float(total / len(values)))
    return int(total) if all(isinstance(one, int) for one in values) else float(total)


def deviation(values: list[Any]) -> float | None:
    """Of a sample; None beyond the greatest float. A root that is no ratio has a hundred digits
    before it is rounded, once."""
    if len(values) < 2:
        return None
    exact = [Fraction(one) for one in values]
    mean = sum(exact, Fraction()) / len(exact)
    squares = [(one - mean) * (one - mean) for one in exact]
    variance = sum(squares, Fraction()) / (len(exact) - 1)
    # Only a ratio may lie halfway between two floats.
    root = Fraction(math.isqrt(variance.numerator), math.isqrt(variance.denominator))
    if root * root == variance:
        return float(root) if root < 2**1024 else None
    with localcontext() as context:
        context.prec = 200
        found = float((Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt())
    return found if math.isfinite(found) else None


def value(expression: Expression, row: Environment, now: Now) -> Any:
    """An expression over a row, or over the one around it."""
    match expression:
        case Literal():
            return expression.value
        case Column():
            for known in (row, now.around or {}):
                found = [
                    one
                    for (alias, name), one in known.items()
                    if name == expression.name and expression.source in (None, alias)
                ]
                if found:
                    (only,) = found
                    return with_one_zero(only)
            raise LookupError(expression)
        case SubQuery():
            compared = None if expression.value is None else value(expression.value, row, now)
            return sub_query(expression, compared, row, now)
        case Call():
            arguments = [value(one, row, now) for one in expression.arguments]
            return apply(expression.function, arguments)


def apply(function: str, arguments: list[Any]) -> Any:
    """A function of values; None is NULL."""
    if function == "and":
        return None if None in arguments and False not in arguments else False not in arguments
    if function == "or":
        return None if None in arguments and True not in arguments else True in arguments
    if function == "is_null":
        return arguments[0] is None
    if function in ("least", "greatest"):
        known = [one for one in arguments if one is not None]
        if not known:
            return None
        return min(known) if function == "least" else max(known)
    if function == "coalesce":
        return next((one for one in arguments if one is not None), None)
    if function == "case":
        *paired, otherwise = arguments if len(arguments) % 2 else [*arguments, None]
        branches = zip(paired[::2], paired[1::2], strict=True)
        return next((one for condition, one in branches if condition is True), otherwise)
    if None in arguments:
        return None
    try:
        result = strict[function](*arguments)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    if isinstance(result, complex) or (isinstance(result, float) and not math.isfinite(result)):
        return None
    return with_one_zero(result)


def with_one_zero(one: Any) -> Any:
    """A value; 0.0 for either zero."""
    return one + 0.0 if isinstance(one, float) else one


def rounded(number: float) -> float:
    if isinstance(number, int):
        return number
    whole = math.trunc(number)
    return float(whole + (math.copysign(1, number) if abs(number - whole) >= 0.5 else 0))


def divided(dividend: float, divisor: float) -> float:
    return dividend / divisor


def remainder(divided: float, divisor: float) -> float:
    if isinstance(divided, int) and isinstance(divisor, int):
        return int(math.copysign(abs(divided) % abs(divisor), divided))
    return math.fmod(divided, divisor)


def like(text: str, pattern: str) -> bool:
    """Whether a text matches: % stands for any characters, _ for one."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[begin:], pattern[1:]) for begin in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def substring(text: str, first: int, length: int = 10**9) -> str:
    """The characters whose places, from 1, lie in [first, first + length)."""
    places = range(first, first + length)
    return "".join(one for place, one in enumerate(text, 1) if place in places)


def part(text: str, separator: str, number: int) -> str:
    """The parts between separators count from 1; there are endlessly many empty ones."""
    return dict(enumerate(text.split(separator), 1)).get(number, "")


def lowered(text: str) -> str:
    return "".join(one.lower() if one.isascii() else one for one in text)


def raised(text: str) -> str:
    return "".join(one.upper() if one.isascii() else one for one in text)


def replaced(text: str, sought: str, other: str) -> str:
    return text.replace(sought, other) if sought else text


def extracted(text: str, pattern: str, group: int) -> str | None:
    """What a group matches; patterns of tests mean the same to Python and to RE2."""
    found = re.search(pattern, text)
    return None if found is None else found[group] or ""


def whole(one: Any) -> int | None:
    """A number without its fraction."""
    return int(one) if -(2**63) <= int(one) < 2**63 else None


def written(one: Any) -> str:
    """A value as the language writes it."""
    return str(one).upper() if isinstance(one, bool) else str(one)


strict: dict[str, Callable[..., Any]] = {
    "add": lambda *terms: reduce(operator.add, terms),
    "subtract": operator.sub,
    "multiply": lambda *factors: reduce(operator.mul, factors),
    "divide": divided,
    "modulo": remainder,
    "negate": operator.neg,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "not": operator.not_,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": rounded,
    "sqrt": math.sqrt,
    "cos": math.cos,
    "sin": math.sin,
    "radians": math.radians,
    "power": math.pow,
    "concat": lambda *texts: "".join(texts),
    "like": like,
    "substring": substring,
    "split_part": part,
    "length": len,
    "replace": replaced,
    "lower": lowered,
    "upper": raised,
    "regexp_extract": extracted,
    "cast_string": written,
    "cast_int": whole,
    "cast_float": float,
}
