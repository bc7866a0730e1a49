"""Values that break programs, and random statements over them with any function of the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from streams.expressions.functions import functions, written
from streams.language.ast import Call, Column, Expression, Literal
from streams.language.writer import written_expression
from streams.plan.resolver import aggregate_names
from tests.property.streams.evaluate.stepwise.test_passes import Rows
from tests.property.streams.evaluate.test_engine_matches_oracle import columns

MEBIBYTE = 2**20

texts: list[Any] = [
    *(
        "",
        "a",
        "b",
        "a",
        "b",
        "ç",
        "e\u0301",
        "İ",
        "ß",
        "\U0010ffff",
        "\ufeff",
        "\u2028",
        "\x00",
        "a\x00",
    ),
    *(
        "\x1c7",
        "7\x1d",
        "\x1e1.5",
        "1.5\x1f",
        "\x7f",
        "\x851",
        "\xa01",
        "\u20031.5",
        " 1.5\t",
        "\n-0\r",
    ),
    *("nan", "NaN", "inf", "-Infinity", "1e309", "-1e309", "1e-400", "1e999999999", "-0", "0x1p-3"),
    *("1_000", "٣", "1.", ".5", ".", "+", "--1", "9" * 400, "0." + "0" * 400 + "1", "1e", "TRUE"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "0" * 30 + "1"),
    *(
        "%",
        "_",
        "\\",
        "a%\\",
        "(",
        "'",
        '"',
        "\r\n",
        "--",
        "1p0",
        "-1a3fp-52",
        "fp9999",
        "0p0",
        "ap-2148",
    ),
    None,
]
large: list[Any] = [
    *("a" * MEBIBYTE, " " * MEBIBYTE + "1", "9" * MEBIBYTE, "." + "0" * MEBIBYTE, "," * MEBIBYTE),
    "ç" * (MEBIBYTE // 2),
]
integers: list[Any] = [
    *(
        0,
        1,
        2,
        3,
        -1,
        -4,
        10**6,
        2**31,
        2**32 - 1,
        2**53 + 1,
        2**62,
        2**63 - 1,
        -(2**63),
        1 - 2**63,
    ),
    None,
]
floats: list[Any] = [
    *(0.0, -0.0, 0.5, -1.5, 2.5, 0.1, 5e-324, -5e-324, 1e-310, 1.7976931348623157e308, -1.7e308),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        2.0**53 + 2,
        2.0**63,
        -(2.0**63),
        1e16,
        1e300,
        None,
    ),
]
booleans: list[Any] = [True, False, None]

YEAR_1_MS, YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999
starts_ms = [YEAR_1_MS, -1, 0, 1_700_000_000_000, YEAR_9999_MS - 200]

literals: Mapping[str, list[Any]] = {
    "int": [value for value in integers if value is not None],
    "float": [value for value in floats if value is not None and np.isfinite(value)],
    "string": [value for value in texts if value is not None],
    "bool": [True, False],
}
patterns = ["%", "", "_", "a%", "\\%", "%\\", "%\x00%", "ç_", "%,%"]
expressions_of_re2 = ["", ".", "(a*)*b|c", r"(?s)^(.*)(\d+)$", r"\x00", "[^a]+", "(,)|(ç)", r"\pN+"]

Rng = np.random.Generator


def any_of(rng: Rng, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def tuples(rng: Rng, most: int, start_ms: int) -> Rows:
    """Tuples of a stream; now and then a leap from one end of the calendar to the other."""
    count = int(rng.integers(1, most + 1))
    gaps = rng.choice([0, 0, 1, 1, 2, 40], count)
    if rng.random() < 0.1:
        gaps[int(rng.integers(count))] = YEAR_9999_MS - YEAR_1_MS
    values = [texts, integers, floats, booleans]
    if rng.random() < 0.03:
        values[0] = [*large, *texts[:8]]
        count = min(count, 12)
    if rng.random() < 0.3:
        # Groups of several tuples, and values that meet in joins.
        values = [rng.choice(np.array(each, dtype=object), 3).tolist() for each in values]
    rows = [tuple(any_of(rng, each) for each in values) for _ in range(count)]
    timestamps = (start_ms + np.cumsum(gaps[:count])).tolist()
    return list(zip(timestamps, rows, strict=True))


def _options() -> dict[str, dict[str, list[tuple[str, ...]]]]:
    """Type of the result → function → the types of arguments that it takes for that."""
    found: dict[str, dict[str, list[tuple[str, ...]]]] = {kind: {} for kind in literals}
    for name, function in functions.items():
        most = min(function.most_arguments or function.arguments, function.arguments + 2)
        for count in range(function.arguments, most + 1):
            for kinds in product(literals, repeat=count):
                if (result := function.result(kinds)) is not None:
                    found[result].setdefault(name, []).append(kinds)
    return found


options = _options()
aggregated: Mapping[str, list[tuple[str, str]]] = {
    "int": [("count", kind) for kind in literals]
    + [(name, "int") for name in ("sum", "min", "max", "first", "last")],
    "float": [(name, "float") for name in ("sum", "min", "max", "first", "last")]
    + [(name, kind) for name in ("avg", "stddev") for kind in ("int", "float")],
    "string": [(name, "string") for name in ("min", "max", "first", "last", "exact_sum")]
    + [(name, kind) for name in ("exact_sum", "exact_squares") for kind in ("int", "float")],
    "bool": [("first", "bool"), ("last", "bool")],
}
"""Type of the result → aggregates, with the type of what they aggregate."""

assert {name for each in aggregated.values() for name, _ in each} == set(aggregate_names)


class Expressions:
    """Random expressions; the functions take turns, so that none is left out.

    Attributes
    ----------
    seen
        Functions and aggregates that occurred.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.seen: set[str] = set()
        self._turns = {kind: list[str]() for kind in literals}

    def text(self, kind: str, leaf: Callable[[str], Expression], depth: int = 2) -> str:
        """An expression of a type, as it is written."""
        return written_expression(self.expression(kind, leaf, depth))

    def expression(self, kind: str, leaf: Callable[[str], Expression], depth: int) -> Expression:
        if depth == 0 or self.rng.random() < 0.1:
            return leaf(kind)
        if not self._turns[kind]:
            self._turns[kind] = self.rng.permutation(list(options[kind])).tolist()
        name = self._turns[kind].pop()
        self.seen.add(name)
        kinds = any_of(self.rng, options[kind][name])
        arguments = [self.expression(each, leaf, depth - 1) for each in kinds]
        if name == "like":
            arguments[1] = literal(any_of(self.rng, patterns))
        if name == "regexp_extract":
            arguments[1:] = [literal(any_of(self.rng, expressions_of_re2)), literal(0)]
        return Call(
            start=0, end=0, function=name, arguments=tuple(arguments), infix=name in written
        )

    def plain(self, source: str | None = None) -> Callable[[str], Expression]:
        """Columns of a source, and literals."""

        def leaf(kind: str) -> Expression:
            if self.rng.random() < 0.25:
                return literal(any_of(self.rng, literals[kind]))
            names = [name for name, own in columns.items() if own == kind]
            if kind == "int" and self.rng.random() < 0.2:
                names = ["_ts"]
            return Column(start=0, end=0, source=source, name=any_of(self.rng, names))

        return leaf

    def over_groups(self) -> Callable[[str], Expression]:
        """Aggregates of expressions, and literals."""

        def leaf(kind: str) -> Expression:
            if self.rng.random() < 0.1:
                return literal(any_of(self.rng, literals[kind]))
            name, of = any_of(self.rng, aggregated[kind])
            self.seen.add(name)
            argument = self.expression(of, self.plain(), int(self.rng.integers(2)))
            distinct = bool(self.rng.random() < 0.15)
            return Call(start=0, end=0, function=name, arguments=(argument,), distinct=distinct)

        return leaf


def literal(value: Any) -> Literal:
    return Literal(start=0, end=0, value=value)


windows = [
    *("[NOW]", "[NOW]", "[RANGE 7 MILLISECONDS]", "[RANGE 277777776 HOURS]", "[UNBOUNDED]"),
    *("[ROWS 1]", "[ROWS 9]", "[ROWS 1000000000000]", "[PARTITION BY k ROWS 2]"),
    *("[PARTITION BY x, b ROWS 3 RANGE 20 MILLISECONDS]", "[PARTITION BY i ROWS 1]"),
    *("[RANGE 6 MILLISECONDS SLIDE 2 MILLISECONDS OFFSET 1 MILLISECONDS]",),
    *(
        "[RANGE 5 MILLISECONDS SLIDE 5 MILLISECONDS]",
        "[RANGE 3 MILLISECONDS SLIDE 40 MILLISECONDS]",
    ),
    *("[SESSION 4 MILLISECONDS]", "[SESSION 9 MILLISECONDS PARTITION BY k]"),
    *("[SESSION 3 MILLISECONDS PARTITION BY i, b]", "[SESSION 3 MILLISECONDS PARTITION BY x]"),
]
joined_windows = [
    *("[NOW]", "[ROWS 3]", "[UNBOUNDED]", "[PARTITION BY i ROWS 1]", "[RANGE 9 MILLISECONDS]"),
    *("[RANGE 5 MILLISECONDS SLIDE 5 MILLISECONDS]", "[RANGE 277777776 HOURS]"),
]


class Statements:
    """Random bodies of statements over the streams `s` and `t`."""

    def __init__(self, rng: Rng) -> None:
        self.expressions = Expressions(rng)
        self._rng = rng
        self._shapes = [self._rows, self._rows, self._groups, self._groups, self._join, self._union]

    def body(self, number: int) -> str:
        """A statement; the shapes take turns."""
        return self._shapes[number % len(self._shapes)]()

    def _to_stream(self) -> str:
        return any_of(self._rng, ["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"])

    def _some(self, leaf: Callable[[str], Expression], fewest: int = 1) -> list[str]:
        count = int(self._rng.integers(fewest, 4))
        kinds = [any_of(self._rng, list(literals)) for _ in range(count)]
        return [self.expressions.text(kind, leaf) for kind in kinds]

    def _where(self, leaf: Callable[[str], Expression], often: float = 0.3) -> str:
        drawn = self._rng.random() < often
        return f" WHERE {self.expressions.text('bool', leaf)}" if drawn else ""

    def _top(self, leaf: Callable[[str], Expression]) -> str:
        if self._rng.random() < 0.8:
            return ""
        return f" TOP {self._rng.integers(1, 4)} BY {', '.join(self._some(leaf))}"

    def _select(self, window: str) -> str:
        leaf = self.expressions.plain()
        listed = ", ".join(f"{each} AS a{n}" for n, each in enumerate(self._some(leaf)))
        distinct = "DISTINCT " if self._rng.random() < 0.2 else ""
        top = "" if distinct else self._top(leaf)
        return f"SELECT {distinct}{listed} FROM s {window}{self._where(leaf)}{top}"

    def _rows(self) -> str:
        return f"{self._to_stream()}({self._select(any_of(self._rng, windows))})"

    def _groups(self) -> str:
        keys = any_of(
            self._rng, [(), ("k",), ("i",), ("x",), ("b",), ("k", "i"), ("x", "b"), ("_ts",)]
        )
        leaf = self.expressions.over_groups()
        listed = [f"{key} AS g{n}" for n, key in enumerate(keys) if self._rng.random() < 0.8]
        listed += [f"{each} AS a{n}" for n, each in enumerate(self._some(leaf))]
        grouping = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) >= 0"
        body = f"SELECT {', '.join(listed)} FROM s {any_of(self._rng, windows)}"
        where = self._where(self.expressions.plain())
        return f"{self._to_stream()}({body}{where}{grouping}{self._top(leaf)})"

    def _join(self) -> str:
        sides = [self.expressions.plain(source) for source in ("s", "t")]

        def leaf(kind: str) -> Expression:
            return any_of(self._rng, sides)(kind)

        windows = [any_of(self._rng, joined_windows) for _ in sides]
        if self._rng.random() < 0.5:
            windows = any_of(self._rng, [["[UNBOUNDED]", "[NOW]"], windows[:1] * 2])
        column = any_of(self._rng, list(columns))
        wheres = [f"s.{column} = t.{column}", self.expressions.text("bool", leaf)]
        where = " AND ".join(wheres[: int(self._rng.integers(1, 3))])
        listed = ", ".join(f"{each} AS a{n}" for n, each in enumerate(self._some(leaf)))
        froms = f"s {windows[0]}, t {windows[1]}"
        return f"{self._to_stream()}(SELECT {listed} FROM {froms} WHERE {where})"

    def _union(self) -> str:
        kind = any_of(self._rng, list(literals))
        selects: list[str] = []
        for stream in ("s", "t"):
            leaf = self.expressions.plain()
            shown = self.expressions.text(kind, leaf)
            window = any_of(self._rng, windows)
            selects.append(f"SELECT {shown} AS a FROM {stream} {window}{self._where(leaf)}")
        return f"{self._to_stream()}({' UNION ALL '.join(selects)})"
