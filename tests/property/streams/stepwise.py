"""The engine's semantics timestamp by timestamp: which rows are emitted, and in which order.

It recomputes windows from their definition and joins by trying all combinations. Only the
expressions are the engine's, evaluated for one row at a time. `oracle.py` shares not even those,
but knows no order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np

from streams.expressions.typed import Typed, evaluator
from streams.language.ast import ToStream, Window
from streams.plan.program import AggregatePlan, GroupPlan, Program, SelectPlan, TopPlan, WindowPlan
from streams.vectors.chunk import NO_WATERMARK
from streams.vectors.vector import Vector, fillers, storage
from tests.property.streams.oracle import Ranking, deviation

Values = tuple[Any, ...]
Held = tuple[int, int, Values]
"""Identity, timestamp, values that the program reads."""
Change = tuple[bool, Values]
"""Whether the row is inserted, and the row."""


class Stepwise:
    """Evaluates a program on all tuples of its inputs."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._held: list[list[Held]] = [[] for _ in program.windows]
        self._rows: list[list[Held]] = [[] for _ in program.windows]
        """The rows in each window, and those that have not entered yet."""
        self._sources: dict[tuple[int, int], list[Values]] = {}
        self._groups: list[dict[Values, list[Values]]] = [{} for _ in program.selects]
        self._shown: list[dict[Values, Values]] = [{} for _ in program.selects]
        self._tops: list[dict[Values, list[tuple[Any, Values]]]] = [{} for _ in program.selects]
        self._relation: list[Values] = []
        self._releases: frozenset[int] = frozenset()

    def run(
        self, inputs: Mapping[str, Sequence[tuple[int, Values]]], until_ms: int
    ) -> Iterator[tuple[int, Values]]:
        """Timestamps and rows of the output."""
        arriving: dict[int, dict[str, list[Held]]] = {}
        for stream, tuples in inputs.items():
            for identity, (timestamp_ms, row) in enumerate(tuples):
                at = arriving.setdefault(timestamp_ms, {})
                at.setdefault(stream, []).append((identity, timestamp_ms, tuple(map(_read, row))))
        waiting = sorted(arriving)
        self._releases = frozenset(self._released(waiting, until_ms))
        periodic = self._program.releases is not None
        now_ms = NO_WATERMARK
        while True:
            now_ms = min(waiting[:1] + self._firing(now_ms), default=until_ms + 1)
            if now_ms > until_ms:
                return
            arrived = arriving.pop(now_ms, {})
            waiting = sorted(arriving)
            changed = [
                plan.slide_ms is None
                and plan.session_ms is None
                and any(_moves(plan, held) for held in arrived.get(plan.stream, []))
                for plan in self._program.windows
            ]
            for index, plan in enumerate(self._program.windows):
                self._rows[index] += arrived.get(plan.stream, [])
            if any(changed) or now_ms in self._firing(now_ms - 1):
                for row in self._step(now_ms):
                    if not periodic or now_ms in self._releases:
                        yield now_ms, row

    def _released(self, times_ms: Sequence[int], until_ms: int) -> Iterator[int]:
        """The releases of a periodic program whose tuples have these timestamps."""
        plan = self._program.releases
        if plan is None or not times_ms:
            return
        begin_ms = times_ms[0] + plan.begins_ms
        end_ms = until_ms if plan.ends_ms is None else min(until_ms, times_ms[0] + plan.ends_ms)
        for at_ms in range(begin_ms, end_ms + 1):
            if (at_ms - plan.offset_ms) % plan.period_ms == 0:
                yield at_ms

    def _firing(self, after_ms: int) -> list[int]:
        """Timestamps at which rows leave windows by their age, and boundaries of windows."""
        found: list[int] = [*self._releases]
        for plan, rows, held in zip(self._program.windows, self._rows, self._held, strict=True):
            if plan.session_ms is not None:
                found += [end_ms + late for end_ms in _ends(plan, rows) for late in (0, 1)]
            elif plan.slide_ms is not None:
                for _, at_ms, _ in rows:
                    found += boundaries(plan, at_ms)
            elif held and plan.range_ms is not None:
                found.append(held[0][1] + plan.range_ms)
        return [at_ms for at_ms in found if at_ms > after_ms]

    def _step(self, timestamp_ms: int) -> list[Values]:
        deltas: list[list[Change]] = []
        for index, plan in enumerate(self._program.windows):
            before, after = self._held[index], _window(plan, self._rows[index], timestamp_ms)
            self._held[index] = after
            if plan.session_ms is not None:
                ends = _ends(plan, self._rows[index])
                self._rows[index] = [
                    held
                    for held, end_ms in zip(self._rows[index], ends, strict=True)
                    if end_ms >= timestamp_ms
                ]
            elif plan.slide_rows is not None:
                pass
            elif plan.slide_ms is None:
                self._rows[index] = list(after)
            else:
                self._rows[index] = [
                    held
                    for held in self._rows[index]
                    if any(at_ms > timestamp_ms for at_ms in boundaries(plan, held[1])[-1:])
                ]
            kept = {identity for identity, *_ in after}
            was = {identity for identity, *_ in before}
            removed = [(False, row) for identity, _, row in before if identity not in kept]
            deltas.append(
                removed + [(True, row) for identity, _, row in after if identity not in was]
            )
        changes = [
            change
            for index, plan in enumerate(self._program.selects)
            for change in self._select(index, plan, deltas)
        ]
        return self._to_stream(changes)

    def _select(
        self, select: int, plan: SelectPlan, deltas: Sequence[list[Change]]
    ) -> list[Change]:
        own: list[list[Change]] = []
        for source in plan.sources:
            kinds = self._program.read_kinds(self._program.windows[source.window].stream)
            condition = source.condition
            own.append(
                [
                    change
                    for change in deltas[source.window]
                    if condition is None or _value(condition, change[1], kinds) is True
                ]
            )
        kinds = [
            kind
            for source in plan.sources
            for kind in self._program.read_kinds(self._program.windows[source.window].stream)
        ]
        changes = own[0] if len(own) == 1 else self._join(select, plan, own, kinds)
        if plan.group is not None:
            changes = self._aggregate(select, plan.group, changes, kinds)
            kinds = [one.kind for one in (*plan.group.keys, *plan.group.aggregates)]
        if plan.having is not None:
            having = plan.having
            changes = [one for one in changes if _value(having, one[1], kinds) is True]
        if plan.top is not None:
            return self._top(select, plan, plan.top, changes, kinds)
        return [
            (inserted, tuple(_value(one, row, kinds) for one in plan.outputs))
            for inserted, row in changes
        ]

    def _top(
        self,
        select: int,
        plan: SelectPlan,
        top: TopPlan,
        changes: list[Change],
        kinds: Sequence[str],
    ) -> list[Change]:
        partitions = self._tops[select]
        before: dict[Values, list[Values]] = {}
        for inserted, row in changes:
            key = tuple(_value(one, row, kinds) for one in top.partition_by)
            shown = tuple(_value(one, row, kinds) for one in plan.outputs)
            ranked = [(_value(by.expression, row, kinds), by.ascending) for by in top.by]
            rank = [
                *(Ranking(*one) for one in ranked),
                *(Ranking(cell, True) for cell in shown),
            ]
            rows = partitions.setdefault(key, [])
            before.setdefault(key, [row for _, row in rows[: top.rows]])
            if inserted:
                rows.append((rank, shown))
            else:
                rows.remove((rank, shown))
            rows.sort(key=lambda one: one[0])
        removed: list[Change] = []
        added: list[Change] = []
        for key, was in before.items():
            now = [row for _, row in partitions[key][: top.rows]]
            removed += [(False, row) for row in _without(was, now)]
            added += [(True, row) for row in _without(now, was)]
        return removed + added

    def _join(
        self, select: int, plan: SelectPlan, own: list[list[Change]], kinds: Sequence[str]
    ) -> list[Change]:
        old = [self._sources.get((select, index), []) for index in range(len(own))]
        new = [list(rows) for rows in old]
        for rows, changes in zip(new, own, strict=True):
            for inserted, row in changes:
                if inserted:
                    rows.append(row)
                else:
                    rows.remove(row)
        joined: list[Change] = []
        for first, changes in enumerate(own):
            for inserted, row in changes:
                sides = [new[index] if index < first else old[index] for index in range(len(own))]
                sides[first] = [row]
                for combination in product(*sides):
                    together = tuple(value for part in combination for value in part)
                    if all(_value(one, together, kinds) is True for one in plan.conjuncts):
                        joined.append((inserted, together))
        for index, rows in enumerate(new):
            self._sources[select, index] = rows
        return joined

    def _aggregate(
        self, select: int, group: GroupPlan, changes: list[Change], kinds: Sequence[str]
    ) -> list[Change]:
        groups, shown = self._groups[select], self._shown[select]
        touched: dict[Values, None] = {}
        if not group.keys and () not in groups:
            groups[()] = []
            touched[()] = None
        for inserted, row in changes:
            key = tuple(_value(one, row, kinds) for one in group.keys)
            touched[key] = None
            if inserted:
                groups.setdefault(key, []).append(row)
            else:
                groups[key].remove(row)
        removed: list[Change] = []
        added: list[Change] = []
        for key in touched:
            before = shown.pop(key, None)
            rows = groups[key]
            after = (*key, *(_aggregated(one, rows, kinds) for one in group.aggregates))
            if group.keys and not rows:
                del groups[key]
            else:
                shown[key] = after
            if before == shown.get(key):
                continue
            if before is not None:
                removed.append((False, before))
            if key in shown:
                added.append((True, after))
        return removed + added

    def _to_stream(self, changes: list[Change]) -> list[Values]:
        inserted = [row for entering, row in changes if entering]
        removed = [row for entering, row in changes if not entering]
        if self._program.to_stream is ToStream.RSTREAM:
            self._relation += inserted
            for row in removed:
                self._relation.remove(row)
            return list(self._relation)
        if self._program.to_stream is ToStream.DSTREAM:
            inserted, removed = removed, inserted
        cancelling = Counter(removed)
        emitted: list[Values] = []
        for row in inserted:
            if cancelling[row]:
                cancelling[row] -= 1
            else:
                emitted.append(row)
        return emitted


def _moves(plan: WindowPlan, held: Held) -> bool:
    """Whether a window changes with a tuple."""
    return plan.slide_rows is None or (held[0] + 1) % plan.slide_rows == 0


def _without(rows: list[Values], others: list[Values]) -> list[Values]:
    """Rows, each as often as it occurs more often than in the others."""
    left = Counter(others)
    found: list[Values] = []
    for row in reversed(rows):
        if left[row]:
            left[row] -= 1
        else:
            found.append(row)
    return found[::-1]


def _ends(plan: WindowPlan, rows: list[Held]) -> list[int]:
    """When the session of each row ends."""
    assert plan.session_ms is not None
    ends: list[int] = []
    following: dict[Values, tuple[int, int]] = {}
    for _, at_ms, row in reversed(rows):
        key = tuple(row[index] for index in plan.partition_by)
        later_ms, end_ms = following.get(key, (at_ms + plan.session_ms, 0))
        if later_ms - at_ms >= plan.session_ms:
            end_ms = at_ms + plan.session_ms
        following[key] = at_ms, end_ms
        ends.append(end_ms)
    return ends[::-1]


def _window(plan: WindowPlan, rows: list[Held], timestamp_ms: int) -> list[Held]:
    if plan.session_ms is not None:
        ends = _ends(plan, rows)
        return [held for held, end_ms in zip(rows, ends, strict=True) if end_ms == timestamp_ms]
    if plan.slide_rows is not None:
        rows = rows[: len(rows) // plan.slide_rows * plan.slide_rows]
    if plan.rows is not None:
        newest = Counter[Values]()
        kept: list[Held] = []
        for held in reversed(rows):
            key = tuple(held[2][index] for index in plan.partition_by)
            newest[key] += 1
            if newest[key] <= plan.rows:
                kept.append(held)
        rows = kept[::-1]
    if plan.slide_ms is not None:
        timestamp_ms -= (timestamp_ms - plan.offset_ms) % plan.slide_ms
        rows = [held for held in rows if held[1] <= timestamp_ms]
    if plan.range_ms is not None:
        rows = [held for held in rows if held[1] > timestamp_ms - plan.range_ms]
    return rows


def boundaries(plan: WindowPlan | Window, at_ms: int) -> list[int]:
    """The boundaries at which a window that slides shows a tuple, and the one after them."""
    assert plan.slide_ms is not None
    assert plan.range_ms is not None
    first = at_ms + (plan.offset_ms - at_ms) % plan.slide_ms
    end = at_ms + plan.range_ms
    last = end + (plan.offset_ms - end) % plan.slide_ms
    return list(range(first, last + 1, plan.slide_ms)) if first < last else []


_choices: Mapping[str, Callable[[list[Any]], Any]] = {
    "min": min,
    "max": max,
    "first": itemgetter(0),
    "last": itemgetter(-1),
}


def _aggregated(plan: AggregatePlan, rows: Sequence[Values], kinds: Sequence[str]) -> Any:
    values: list[Any] = [
        1 if plan.argument is None else _value(plan.argument, row, kinds) for row in rows
    ]
    values = [value for value in values if value is not None]
    if plan.distinct:
        values = list(dict.fromkeys(values))
    if plan.function == "count":
        return len(values)
    if not values:
        return None
    if plan.function in ("min", "max", "first", "last"):
        return _choices[plan.function](values)
    if plan.function == "stddev":
        return deviation(values)
    if plan.function.startswith("exact"):
        numbers = [_exact(one) if isinstance(one, str) else Fraction(one) for one in values]
        power = 2 if plan.function == "exact_squares" else 1
        return _in_hexadecimal(sum((one**power for one in numbers), Fraction()))
    total = sum(map(Fraction, values)) / (len(values) if plan.function == "avg" else 1)
    if plan.kind == "int":
        return int(total) if -(2**63) <= total < 2**63 else None
    try:
        # A small negative mean is rounded to −0.0.
        return float(total) + 0.0
    except OverflowError:
        return None


def _read(value: Any) -> Any:
    """A value of an input: floats have one zero, and are NULL if they are not finite."""
    if not isinstance(value, float):
        return value
    return value + 0.0 if math.isfinite(value) else None


def _exact(text: str) -> Fraction:
    """The number that an exact sum stands for; 0 for a text that is none."""
    significand, _, exponent = text.partition("p")
    written = significand.removeprefix("-"), exponent.removeprefix("-")
    if not all(written) or set(written[0]) - set("0123456789abcdef"):
        return Fraction()
    # No exact sum has an exponent of more digits.
    if set(written[1]) - set("0123456789") or len(written[1]) > 4:
        return Fraction()
    number = int(significand, 16) * Fraction(2) ** int(exponent)
    return number if abs(number) < 2**2112 else Fraction()


def _in_hexadecimal(number: Fraction) -> str:
    exponent = 1 - number.denominator.bit_length()
    significand = number.numerator
    while significand and not significand % 2:
        significand, exponent = significand // 2, exponent + 1
    return f"{significand:x}p{exponent}"


def _value(expression: Typed, row: Values, kinds: Sequence[str]) -> Any:
    """An expression over one row; None is NULL."""
    columns = [
        Vector(
            np.array([fillers[kind] if value is None else value], dtype=storage[kind]),
            np.array([False]) if value is None else None,
        )
        for value, kind in zip(row, kinds, strict=True)
    ]
    with np.errstate(all="ignore"):
        return evaluator(expression)(columns).filled_to(1).to_list()[0]
