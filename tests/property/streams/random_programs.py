"""Random statements with sub-queries, outer joins and operations on relations.

They read the streams `s` and `t`, with the columns that all tests here have. Every statement is
valid: what the language refuses is not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

KINDS = {"k": "string", "i": "int", "x": "float", "b": "bool"}

WINDOWS = (
    *("NOW", "RANGE 3 MILLISECONDS", "RANGE 5 MILLISECONDS", "ROWS 1", "ROWS 3"),
    *("PARTITION BY k ROWS 1", "PARTITION BY b ROWS 2 RANGE 4 MILLISECONDS", "UNBOUNDED"),
    *("RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS", "RANGE 2 MILLISECONDS SLIDE 3 MILLISECONDS"),
    *("ROWS 3 SLIDE 2", "RANGE 1 DAY"),
)
"""Windows of sources that may be joined."""

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Focus(Enum):
    """What most of the statements have."""

    FROM = "sub-queries in FROM"
    OUTER = "outer joins"
    SETS = "operations on relations"
    CONDITIONS = "sub-queries in conditions"


@dataclass(frozen=True)
class Named:
    """A column that can be named, as it is written."""

    text: str
    kind: str


class Programs:
    """Makes statements."""

    windows: Sequence[str] = WINDOWS

    def __init__(self, rng: np.random.Generator, focus: Focus) -> None:
        self._rng = rng
        self._focus = focus
        self._aliases = 0

    def statement(self) -> str:
        """The body of a statement."""
        kinds = [self._one(["string", "int", "float"]) for _ in range(self._below(2) + 1)]
        to_stream = self._one(["ISTREAM", "DSTREAM", "RSTREAM"])
        return f"{to_stream}({self.query(kinds, 2)})"

    def query(self, kinds: Sequence[str], depth: int) -> str:
        """A relation with columns of these types."""
        many = 0.8 if self._focus is Focus.SETS and depth == 2 else 0.15
        if depth == 0 or self._rng.random() > many:
            return self._select(kinds, depth)
        signs = ["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
        parts = [self._select(kinds, depth - 1) for _ in range(self._below(2) + 2)]
        text = parts[0]
        for part in parts[1:]:
            text += f" {self._one(signs)} {part if self._chance(0.7) else f'({part})'}"
        return text

    def _select(
        self, kinds: Sequence[str], depth: int, around: Sequence[Named] = (), *, top: bool = True
    ) -> str:
        sources, columns = self._sources(depth)
        where = [self._condition(columns, depth) for _ in range(self._below(2))]
        grouped = self._chance(0.3)
        if around and self._chance(0.8):
            own, other = self._alike(columns, around)
            sign = "=" if grouped or self._chance(0.6) else self._one(COMPARISONS)
            where.append(f"{own} {sign} {other}")
        text = f" FROM {sources}" + (f" WHERE {' AND '.join(where)}" if where else "")
        if grouped:
            shown, tail = self._grouped(kinds, columns, depth, always=bool(around))
            return shown + text + tail
        items = [
            f"{self._expression(columns, kind, depth)} AS c{n}" for n, kind in enumerate(kinds)
        ]
        distinct = top and self._chance(0.1)
        text = f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(items)}{text}"
        if top and not distinct and self._chance(0.1):
            ranked = self._one([one.text for one in columns])
            text += f" TOP {self._below(2) + 1} BY {ranked}"
        return text

    def _grouped(
        self, kinds: Sequence[str], columns: Sequence[Named], depth: int, *, always: bool
    ) -> tuple[str, str]:
        """The list of a SELECT with groups, and what follows WHERE."""
        key = self._of(columns, self._one(["string", "int"]))
        text = f" GROUP BY {key}" if key[0] == "a" and (always or self._chance(0.8)) else ""
        items: list[str] = []
        for place, kind in enumerate(kinds):
            value = {
                "int": "count(*)",
                "float": f"avg({self._of(columns, 'float')})",
                "string": f"max({self._of(columns, 'string')})",
            }[kind]
            items.append(f"{value} AS c{place}")
        if always and not text:
            text = " GROUP BY 1 + 1"
        if self._chance(0.5):
            test = "count(*) > 1"
            if depth and not always and self._chance(0.6):
                inner = self._select(["int"], 0, top=False)
                test = f"count(*) {self._one(COMPARISONS)} {self._one(['ALL', 'ANY'])} ({inner})"
            text += f" HAVING {test}"
        return f"SELECT {', '.join(items)}", text

    def _sources(self, depth: int) -> tuple[str, list[Named]]:
        text, columns = self._source(depth)
        joins = self._below(2) if self._focus is not Focus.OUTER or depth < 2 else 1
        for _ in range(joins):
            other, more = self._source(depth)
            own, theirs = self._alike(columns, more)
            word = self._one(["JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN"])
            if self._chance(0.2 if self._focus is not Focus.OUTER else 0.0):
                text += f", {other}"
            else:
                condition = f"{own} {'=' if self._chance(0.7) else '<'} {theirs}"
                if self._chance(0.3):
                    condition += f" AND {self._test([*columns, *more])}"
                text += f" {word} {other} ON {condition}"
            columns += more
        return text, columns

    def _source(self, depth: int) -> tuple[str, list[Named]]:
        alias, self._aliases = f"a{self._aliases}", self._aliases + 1
        derived = 0.6 if self._focus is Focus.FROM and depth == 2 else 0.2
        if depth and self._chance(derived):
            kinds = [self._one(["string", "int", "float"]) for _ in range(2)]
            inner = self.query(kinds, depth - 1)
            names = [Named(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)]
            return f"({inner}) AS {alias}", names
        window = self._one(self.windows)
        names = [Named(f"{alias}.{name}", kind) for name, kind in KINDS.items()]
        return f"{self._one(['s', 't'])} [{window}] AS {alias}", names

    def _condition(self, columns: Sequence[Named], depth: int) -> str:
        likely = 0.8 if self._focus is Focus.CONDITIONS else 0.2
        if not depth or not self._chance(likely):
            return self._test(columns)
        test = self._sub_query(columns, depth)
        if self._chance(0.25):
            test = f"({test} OR {self._test(columns)})"
        return f"NOT {test}" if self._chance(0.2) else test

    def _sub_query(self, columns: Sequence[Named], depth: int) -> str:
        kind = self._one(["string", "int", "float"])
        value = self._of(columns, kind)
        form = self._below(4)
        around = columns if self._chance(0.6) else ()
        inner = self._select([kind], depth - 1, around, top=False)
        if form == 0:
            return f"{'NOT ' if self._chance(0.5) else ''}EXISTS ({inner})"
        if form == 1:
            return f"{value} {'NOT ' if self._chance(0.5) else ''}IN ({inner})"
        sign = self._one(COMPARISONS)
        if form == 2:
            return f"{value} {sign} {self._one(['ALL', 'ANY', 'SOME'])} ({inner})"
        equal = self._value_query(kind, columns)
        return f"{value} {sign} {equal}"

    def _value_query(self, kind: str, columns: Sequence[Named]) -> str:
        """A sub-query that stands for a value; it names what is around it in equalities."""
        source, own = self._source(0)
        one, other = self._alike(own, columns)
        where = f" WHERE {one} = {other}" if self._chance(0.6) else ""
        item = self._of(own, kind)
        counted = "count(*)" if kind == "int" else item
        value = self._one([f"max({item})", item, counted])
        having = " HAVING count(*) > 1" if value.startswith(("max", "count")) else ""
        return f"(SELECT {value} FROM {source}{where}{having if self._chance(0.3) else ''})"

    def _test(self, columns: Sequence[Named]) -> str:
        one = columns[self._below(len(columns))]
        if one.kind == "bool":
            return one.text
        if self._chance(0.2):
            return f"{one.text} IS {'NOT ' if self._chance(0.5) else ''}NULL"
        return f"{one.text} {self._one(COMPARISONS)} {self._literal(one.kind)}"

    def _expression(self, columns: Sequence[Named], kind: str, depth: int) -> str:
        found = self._of(columns, kind)
        choice = self._rng.random()
        if choice < 0.1:
            return f"CASE WHEN {self._test(columns)} THEN NULL ELSE {found} END"
        if choice < 0.2 and self._focus is Focus.CONDITIONS and depth:
            return self._value_query(kind, columns)
        if choice < 0.3 and kind == "int":
            return f"{found} + 1"
        return found

    def _of(self, columns: Sequence[Named], kind: str) -> str:
        """A column of a type, or a literal."""
        fitting = [one.text for one in columns if one.kind == kind]
        return self._one(fitting) if fitting else self._literal(kind)

    def _alike(self, one: Sequence[Named], other: Sequence[Named]) -> tuple[str, str]:
        """Columns of one type, of either side."""
        kinds = sorted({each.kind for each in one} & {each.kind for each in other} - {"bool"})
        if not kinds:
            return "1", "1"
        kind = self._one(kinds)
        return self._of(one, kind), self._of(other, kind)

    def _literal(self, kind: str) -> str:
        options = {
            "string": ["'a'", "'b'", "'ç'"],
            "int": ["0", "1", "2", "-4"],
            "float": ["0.5", "1.5", "-2.5"],
            "bool": ["TRUE", "FALSE"],
        }
        return self._one(options[kind])

    def _one(self, options: Sequence[str]) -> str:
        return options[self._below(len(options))]

    def _below(self, count: int) -> int:
        return int(self._rng.integers(count))

    def _chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)
