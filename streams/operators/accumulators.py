"""Aggregate functions over a changing set of values.

Sums are exact: every float is a whole multiple of a power of two, at least 2⁻¹⁰⁷⁴. A sum of floats
is kept as a whole number of such units, as small as the values need, and rounded once, when it is
read. The result depends neither on the order of the values nor on values that have left, so a
replayed or restored engine agrees to the bit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Protocol

from streams.program import AggregatePlan
from streams.state import SnapshotError

SCALE_BITS = 1074
"""The least positive float is 2⁻¹⁰⁷⁴."""


class Accumulator(Protocol):
    """An aggregate over the values, none of them NULL, that entered and have not left."""

    def enter(self, value: Any) -> None: ...

    def leave(self, value: Any) -> None: ...

    def result(self) -> Any:
        """None for NULL."""
        ...

    def copy(self) -> Accumulator:
        """One that goes its own way from here."""
        ...

    def save(self) -> Any:
        """As values that msgspec writes."""
        ...

    def load(self, saved: Any) -> None:
        """Continue from saved values."""
        ...


class Count:
    """How many values."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def enter(self, value: Any) -> None:
        """One more."""
        self._count += 1

    def leave(self, value: Any) -> None:
        """One fewer."""
        self._count -= 1

    def result(self) -> int:
        """The number; 0 for none."""
        return self._count

    def copy(self) -> Count:
        """Another with the same number."""
        made = Count()
        made._count = self._count
        return made

    def save(self) -> Any:
        """The number."""
        return self._count

    def load(self, saved: Any) -> None:
        """The number."""
        if not isinstance(saved, int):
            raise SnapshotError(f"not a count: {saved!r}")
        self._count = saved


class Sum:
    """Exact sum, or mean, of integers or floats."""

    __slots__ = ("_bits", "_count", "_mean", "_of_floats", "_total")

    def __init__(self, *, of_floats: bool, mean: bool) -> None:
        self._of_floats = of_floats
        self._mean = mean
        self._count = 0
        self._total = 0
        """In units of 1 (integers) or 2⁻ᵇⁱᵗˢ (floats)."""
        self._bits = 0

    def enter(self, value: Any) -> None:
        """Add a value."""
        units = self._units(value) if self._of_floats else value
        self._count += 1
        self._total += units

    def leave(self, value: Any) -> None:
        """Take a value back."""
        units = self._units(value) if self._of_floats else value
        self._count -= 1
        self._total -= units

    def _units(self, value: float) -> int:
        """A float in units; makes them smaller if it has to be."""
        numerator, denominator = value.as_integer_ratio()
        # The denominator is a power of two, at most 2¹⁰⁷⁴.
        finer = denominator.bit_length() - 1 - self._bits
        if finer > 0:
            self._total <<= finer
            self._bits += finer
            return numerator
        return numerator << -finer

    def result(self) -> int | float | None:
        """The sum or mean, rounded once; NULL for no values or if out of range."""
        if not self._count:
            return None
        if not self._of_floats and not self._mean:
            return self._total if -(2**63) <= self._total < 2**63 else None
        divisor = self._count if self._mean else 1
        try:
            # Division of whole numbers rounds correctly whatever their size. Of the two zeros that
            # a small negative mean may give, the one without a sign.
            return self._total / (divisor << self._bits) + 0.0
        except OverflowError:
            return None

    def copy(self) -> Sum:
        """Another with the same total."""
        made = Sum(of_floats=self._of_floats, mean=self._mean)
        made._count, made._total, made._bits = self._count, self._total, self._bits
        return made

    def save(self) -> Any:
        """Count, and total in the smallest units, whatever units were used.

        The total has more bits than msgpack's integers.
        """
        total = self._total << SCALE_BITS - self._bits if self._of_floats else self._total
        length = total.bit_length() // 8 + 1
        return [self._count, total.to_bytes(length, "big", signed=True)]

    def load(self, saved: Any) -> None:
        """Count and total."""
        match saved:
            case [int(count), bytes(total)]:
                self._count = count
                self._total = int.from_bytes(total, "big", signed=True)
            case _:
                raise SnapshotError(f"not a sum: {saved!r}")
        if self._of_floats:
            zeros = (self._total & -self._total).bit_length() - 1 if self._total else SCALE_BITS
            unused = min(zeros, SCALE_BITS)
            self._total >>= unused
            self._bits = SCALE_BITS - unused


class Extreme:
    """Least or greatest value. Keeps all values in order."""

    __slots__ = ("_at", "_values")

    def __init__(self, *, greatest: bool) -> None:
        self._at = -1 if greatest else 0
        self._values: list[Any] = []

    def enter(self, value: Any) -> None:
        """Put a value in its place."""
        insort(self._values, value)

    def leave(self, value: Any) -> None:
        """Take a value out."""
        del self._values[bisect_left(self._values, value)]

    def result(self) -> Any:
        """The least or greatest value; NULL for no values."""
        if not self._values:
            return None
        found = self._values[self._at]
        # Equal zeros are one value, whichever came first.
        return 0.0 if found == 0 and isinstance(found, float) else found

    def copy(self) -> Extreme:
        """Another with the same values."""
        made = Extreme(greatest=self._at == -1)
        made._values = list(self._values)
        return made

    def save(self) -> Any:
        """The values in order."""
        return list(self._values)

    def load(self, saved: Any) -> None:
        """The values in order."""
        match saved:
            case [*values]:
                self._values = values
            case _:
                raise SnapshotError(f"not the values of an extreme: {saved!r}")


class Distinct:
    """An aggregate over the different values."""

    __slots__ = ("_aggregate", "_count_of")

    def __init__(self, aggregate: Accumulator) -> None:
        self._aggregate = aggregate
        self._count_of: dict[Any, int] = {}
        """How often each value is there, in order of first appearance."""

    def enter(self, value: Any) -> None:
        """Count a value; pass the first of its kind on."""
        count = self._count_of.get(value, 0)
        self._count_of[value] = count + 1
        if not count:
            self._aggregate.enter(value)

    def leave(self, value: Any) -> None:
        """Count a value less; pass the last of its kind on."""
        count = self._count_of[value] - 1
        if count:
            self._count_of[value] = count
            return
        del self._count_of[value]
        self._aggregate.leave(value)

    def result(self) -> Any:
        """That of the aggregate."""
        return self._aggregate.result()

    def copy(self) -> Distinct:
        """Another with the same values."""
        made = Distinct(self._aggregate.copy())
        made._count_of = dict(self._count_of)
        return made

    def save(self) -> Any:
        """The different values, each with its count."""
        return [[value, count] for value, count in self._count_of.items()]

    def load(self, saved: Any) -> None:
        """The different values, each with its count."""
        match saved:
            case [*pairs]:
                for value, count in pairs:
                    self._count_of[value] = int(count)
                    self._aggregate.enter(value)
            case _:
                raise SnapshotError(f"not different values: {saved!r}")


def accumulator(plan: AggregatePlan) -> Accumulator:
    """A new, empty accumulator for an aggregate."""
    if plan.distinct:
        return Distinct(_accumulator(plan))
    return _accumulator(plan)


def _accumulator(plan: AggregatePlan) -> Accumulator:
    if plan.function == "count" or plan.argument is None:
        return Count()
    if plan.function in ("min", "max"):
        return Extreme(greatest=plan.function == "max")
    return Sum(of_floats=plan.argument.kind == "float", mean=plan.function == "avg")
