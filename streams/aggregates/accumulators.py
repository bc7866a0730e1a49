"""Aggregate functions over a changing set of values.

Sums are exact: every float is a whole multiple of a power of two, at least 2⁻¹⁰⁷⁴. A sum of floats
is kept as a whole number of such units, as small as the values need, and rounded once, when it is
read. The result depends neither on the order of the values nor on values that have left, so a
replayed or restored engine agrees to the bit. So does a standard deviation, whose squares are
summed in the same way.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Protocol, Self

from streams.aggregates.contenders import Contenders
from streams.arithmetic.exact_sums import correct_root
from streams.arithmetic.exact_texts import LEAST_SQUARE_EXPONENT, exact_number, exact_text
from streams.plan.program import ENDS, EXACT_SUMS, EXTREMES, AggregatePlan
from streams.vectors.state import SnapshotError, in_bytes

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
    """Exact sum, or mean, of integers or floats.

    Parameters
    ----------
    scale
        The least unit that it may need is 2⁻ˢᶜᵃˡᵉ: 0 of integers.
    mean
        It is divided by the number of values.
    """

    __slots__ = ("_mean", "bits", "count", "scale", "total")

    def __init__(self, *, scale: int, mean: bool = False) -> None:
        self.scale = scale
        self._mean = mean
        self.count: int = 0
        self.total: int = 0
        """In units of 2⁻ᵇⁱᵗˢ."""
        self.bits = 0

    def enter(self, value: Any) -> None:
        """Add a value."""
        units = self.units(value) if self.scale else value
        self.count += 1
        self.total += units

    def leave(self, value: Any) -> None:
        """Take a value back."""
        units = self.units(value) if self.scale else value
        self.count -= 1
        self.total -= units

    def units(self, value: Any) -> int:
        """A float in units; makes them smaller if it has to be."""
        numerator, denominator = value.as_integer_ratio()
        # The denominator is a power of two, at most 2¹⁰⁷⁴.
        self.refine(denominator.bit_length() - 1)
        return numerator << self.bits - (denominator.bit_length() - 1)

    def refine(self, bits: int) -> None:
        """Have units of 2⁻ᵇⁱᵗˢ at most."""
        if bits > self.bits:
            self.total <<= bits - self.bits
            self.bits = bits

    def result(self) -> Any:
        """The sum or mean, rounded once; NULL for no values or if out of range."""
        if not self.count:
            return None
        if not self.scale and not self._mean:
            return self.total if -(2**63) <= self.total < 2**63 else None
        divisor = self.count if self._mean else 1
        try:
            # Division of whole numbers rounds correctly whatever their size. Floats have one zero:
            # not the one with a sign, which a small negative mean may give.
            return self.total / (divisor << self.bits) + 0.0
        except OverflowError:
            return None

    def copy(self) -> Sum:
        """Another with the same total."""
        return Sum(scale=self.scale, mean=self._mean).continued(self)

    def continued(self, other: Sum) -> Self:
        """With the total of another one."""
        self.count, self.total, self.bits = other.count, other.total, other.bits
        return self

    def save(self) -> Any:
        """Count, and total in the smallest units, whatever units were used.

        The total has more bits than msgpack's integers.
        """
        return [self.count, in_bytes(self.total << self.scale - self.bits)]

    def load(self, saved: Any) -> None:
        """Count and total."""
        match saved:
            case [int(count), bytes(total)]:
                self.count = count
                self.total = int.from_bytes(total, "big", signed=True)
            case _:
                raise SnapshotError(f"not a sum: {saved!r}")
        zeros = (self.total & -self.total).bit_length() - 1 if self.total else self.scale
        unused = min(zeros, self.scale)
        self.total >>= unused
        self.bits = self.scale - unused


class ExactSum(Sum):
    """The sum of numbers, of their squares, or of such sums: not rounded but passed on as a text.

    `streams.arithmetic.exact_texts` explains these texts.
    """

    __slots__ = ("_squared",)

    def __init__(self, *, squared: bool) -> None:
        super().__init__(scale=-LEAST_SQUARE_EXPONENT)
        self._squared = squared

    def units(self, value: Any) -> int:
        """A number or a text in units."""
        if isinstance(value, str):
            total, exponent = exact_number(value)
        else:
            total, denominator = value.as_integer_ratio()
            exponent = 1 - denominator.bit_length()
            if self._squared:
                total, exponent = total * total, 2 * exponent
        self.refine(-exponent)
        return total << exponent + self.bits

    def result(self) -> Any:
        """The text; NULL for no values."""
        return exact_text(self.total, -self.bits) if self.count else None

    def copy(self) -> ExactSum:
        """Another with the same total."""
        return ExactSum(squared=self._squared).continued(self)


class Deviation(Sum):
    """Exact standard deviation of a sample of integers or floats, rounded once."""

    __slots__ = ("_squares",)

    def __init__(self, *, scale: int) -> None:
        super().__init__(scale=scale)
        self._squares: int = 0
        """The sum of the squares, in squares of the units of the sum."""

    def enter(self, value: Any) -> None:
        """Add a value."""
        units: int = self.units(value) if self.scale else value
        self.count += 1
        self.total += units
        self._squares += units * units

    def leave(self, value: Any) -> None:
        """Take a value back."""
        units: int = self.units(value) if self.scale else value
        self.count -= 1
        self.total -= units
        self._squares -= units * units

    def refine(self, bits: int) -> None:
        """Have units of 2⁻ᵇⁱᵗˢ at most."""
        if bits > self.bits:
            self._squares <<= 2 * (bits - self.bits)
            super().refine(bits)

    def result(self) -> Any:
        """The root of the variance; NULL for fewer than two values or if out of range."""
        count, total = self.count, self.total
        if count < 2:
            return None
        dividend, divisor = count * self._squares - total * total, count * (count - 1)
        return correct_root(dividend, divisor, self.bits)

    def copy(self) -> Deviation:
        """Another of the same values."""
        made = Deviation(scale=self.scale).continued(self)
        made._squares = self._squares
        return made

    def save(self) -> Any:
        """The sum; the sum of the squares in the smallest units."""
        return [super().save(), in_bytes(self._squares << 2 * (self.scale - self.bits))]

    def load(self, saved: Any) -> None:
        """The sum, and that of the squares."""
        match saved:
            case [[*total], bytes(squares)]:
                super().load(total)
                # The units of a sum may be coarser than those of the values.
                super().refine(self.scale)
                self._squares = int.from_bytes(squares, "big")
            case _:
                raise SnapshotError(f"not a deviation: {saved!r}")


class EndAccumulator:
    """The first or the last value, in the order of their identities. Keeps all values."""

    __slots__ = ("_last", "_stays", "_values")

    def __init__(self, *, last: bool, stays: bool) -> None:
        self._last = last
        self._stays = stays
        self._values: OrderedDict[int, Any] = OrderedDict()
        """Identity of its row → value; identities rise."""

    def enter(self, value: Any) -> None:
        """Add a value with its identity."""
        identity, one = value
        if self._stays and self._values:
            if not self._last:
                return
            self._values.clear()
        self._values[identity] = one

    def leave(self, value: Any) -> None:
        """Take the value of an identity out."""
        del self._values[value[0]]

    def result(self) -> Any:
        """The first or last value; NULL for no values."""
        order: Iterator[int] = reversed(self._values) if self._last else iter(self._values)
        identity = next(order, None)
        return None if identity is None else self._values[identity]

    def copy(self) -> EndAccumulator:
        """Another with the same values."""
        made = EndAccumulator(last=self._last, stays=self._stays)
        made._values = self._values.copy()
        return made

    def save(self) -> Any:
        """Identities and values in order."""
        return [list(self._values), list(self._values.values())]

    def load(self, saved: Any) -> None:
        """Identities and values in order."""
        match saved:
            case [[*identities], [*values]] if len(identities) == len(values):
                self._values = OrderedDict(zip(map(int, identities), values, strict=True))
            case _:
                raise SnapshotError(f"not the values of an end: {saved!r}")


class ExtremeAccumulator:
    """Least or greatest value: a heap, whose values that have left are taken out later.

    If no value leaves, the best one is all that is kept.
    """

    __slots__ = ("_gone", "_greatest", "_stays", "_values")

    def __init__(self, *, greatest: bool, stays: bool) -> None:
        self._greatest = greatest
        self._stays = stays
        self._values: list[Any] = []
        """A heap, with the values that have left and are not the first one."""
        self._gone: list[Any] = []
        """A heap of these."""

    def enter(self, value: Any) -> None:
        """Add a value."""
        rank = self._rank(value)
        if not self._stays:
            heappush(self._values, rank)
        elif not self._values:
            self._values.append(rank)
        elif rank < self._values[0]:
            self._values[0] = rank

    def leave(self, value: Any) -> None:
        """Take a value out, now or when it is the first one."""
        heappush(self._gone, self._rank(value))
        while self._gone and self._gone[0] == self._values[0]:
            heappop(self._gone)
            heappop(self._values)
        if len(self._gone) > len(self._values) // 2 + FEW_GONE:
            # Sorted lists are heaps.
            self._values, self._gone = self._left(), []

    def _rank(self, value: Any) -> Any:
        """What is less for the better value; its own inverse."""
        if not self._greatest:
            return value
        return _Reversed(value) if isinstance(value, str) else -value

    def _left(self) -> list[Any]:
        """The ranks of all values that have not left, in order."""
        left: list[Any] = []
        gone = sorted(self._gone)
        place = 0
        for rank in sorted(self._values):
            if place < len(gone) and gone[place] == rank:
                place += 1
            else:
                left.append(rank)
        return left

    def _value(self, rank: Any) -> Any:
        if not self._greatest:
            return rank
        return rank.text if isinstance(rank, _Reversed) else -rank

    def result(self) -> Any:
        """The least or greatest value; NULL for no values."""
        return self._value(self._values[0]) if self._values else None

    def copy(self) -> ExtremeAccumulator:
        """Another with the same values."""
        made = ExtremeAccumulator(greatest=self._greatest, stays=self._stays)
        made._values, made._gone = list(self._values), list(self._gone)
        return made

    def save(self) -> Any:
        """The values, the best one first."""
        return [self._value(rank) for rank in self._left()]

    def load(self, saved: Any) -> None:
        """The values, in any order."""
        match saved:
            case [*values]:
                self._values = sorted(map(self._rank, values))
            case _:
                raise SnapshotError(f"not the values of an extreme: {saved!r}")


FEW_GONE = 32
"""So many values that have left may stay in a heap, and half as many as there are others."""


class _Reversed:
    """A text that is less than the texts before it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class DistinctAccumulator:
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

    def copy(self) -> DistinctAccumulator:
        """Another with the same values."""
        made = DistinctAccumulator(self._aggregate.copy())
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


class Kept:
    """A naive aggregate: keeps all values, and aggregates them when it is asked."""

    __slots__ = ("_plan", "_values")

    def __init__(self, plan: AggregatePlan) -> None:
        self._plan = plan
        self._values: deque[Any] = deque()
        """In the order in which they entered."""

    def enter(self, value: Any) -> None:
        """Keep a value."""
        self._values.append(value)

    def leave(self, value: Any) -> None:
        """Give an equal value up, the oldest one."""
        self._values.remove(value)

    def result(self) -> Any:
        """The aggregate of all values."""
        found = accumulator(self._plan, stays=True, in_order=False)
        for value in self._values:
            found.enter(value)
        return found.result()

    def copy(self) -> Kept:
        """Another with the same values."""
        made = Kept(self._plan)
        made._values = self._values.copy()
        return made

    def save(self) -> Any:
        """The values."""
        return list(self._values)

    def load(self, saved: Any) -> None:
        """The values."""
        match saved:
            case [*values]:
                # Values of `first` and `last` come with their identities.
                pairs = takes_identities(self._plan, in_order=False)
                self._values = deque(tuple(one) if pairs else one for one in values)
            case _:
                raise SnapshotError(f"not the values of an aggregate: {saved!r}")


def takes_identities(plan: AggregatePlan, *, in_order: bool) -> bool:
    """Whether an aggregate takes its values with the identities of their rows."""
    return plan.function in ENDS or (in_order and plan.function in EXTREMES)


def accumulator(plan: AggregatePlan, *, stays: bool, in_order: bool) -> Accumulator:
    """A new, empty accumulator for an aggregate.

    Parameters
    ----------
    plan
        The aggregate.
    stays
        No value will ever leave.
    in_order
        Values leave in the order in which they came.
    """
    if plan.distinct:
        return DistinctAccumulator(_accumulator(plan, stays=stays, in_order=in_order))
    return _accumulator(plan, stays=stays, in_order=in_order)


def _accumulator(plan: AggregatePlan, *, stays: bool, in_order: bool) -> Accumulator:
    if plan.function == "count" or plan.argument is None:
        return Count()
    if in_order and takes_identities(plan, in_order=True):
        return Contenders(plan.function, stays=stays)
    if plan.function in EXTREMES:
        return ExtremeAccumulator(greatest=plan.function == "max", stays=stays)
    if plan.function in ENDS:
        return EndAccumulator(last=plan.function == "last", stays=stays)
    if plan.function in EXACT_SUMS:
        return ExactSum(squared=plan.function == "exact_squares")
    scale = SCALE_BITS if plan.argument.kind == "float" else 0
    if plan.function == "stddev":
        return Deviation(scale=scale)
    return Sum(scale=scale, mean=plan.function == "avg")
