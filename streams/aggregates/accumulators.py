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
from typing import Any, Protocol

from streams.aggregates.contenders import Contenders
from streams.aggregates.exact_sum import ExactSum
from streams.arithmetic.exact_sums import correct_root
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
    """Exact sum, or mean, of integers or floats."""

    __slots__ = ("_mean", "_of_floats", "bits", "count", "total")

    def __init__(self, *, of_floats: bool, mean: bool) -> None:
        self._of_floats = of_floats
        self._mean = mean
        self.count = 0
        self.total = 0
        """In units of 1 (integers) or 2⁻ᵇⁱᵗˢ (floats)."""
        self.bits = 0

    def enter(self, value: Any) -> None:
        """Add a value."""
        units = self.units(value) if self._of_floats else value
        self.count += 1
        self.total += units

    def leave(self, value: Any) -> None:
        """Take a value back."""
        units = self.units(value) if self._of_floats else value
        self.count -= 1
        self.total -= units

    def units(self, value: float) -> int:
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

    def result(self) -> int | float | None:
        """The sum or mean, rounded once; NULL for no values or if out of range."""
        if not self.count:
            return None
        if not self._of_floats and not self._mean:
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
        made = Sum(of_floats=self._of_floats, mean=self._mean)
        made.count, made.total, made.bits = self.count, self.total, self.bits
        return made

    def save(self) -> Any:
        """Count, and total in the smallest units, whatever units were used.

        The total has more bits than msgpack's integers.
        """
        total = self.total << SCALE_BITS - self.bits if self._of_floats else self.total
        return [self.count, in_bytes(total)]

    def load(self, saved: Any) -> None:
        """Count and total."""
        match saved:
            case [int(count), bytes(total)]:
                self.count = count
                self.total = int.from_bytes(total, "big", signed=True)
            case _:
                raise SnapshotError(f"not a sum: {saved!r}")
        if self._of_floats:
            zeros = (self.total & -self.total).bit_length() - 1 if self.total else SCALE_BITS
            unused = min(zeros, SCALE_BITS)
            self.total >>= unused
            self.bits = SCALE_BITS - unused


class Deviation:
    """Exact standard deviation of a sample of integers or floats, rounded once."""

    __slots__ = ("_of_floats", "_squares", "_sum")

    def __init__(self, *, of_floats: bool) -> None:
        self._of_floats = of_floats
        self._sum = Sum(of_floats=of_floats, mean=False)
        self._squares = 0
        """The sum of the squares, in squares of the units of the sum."""

    def enter(self, value: Any) -> None:
        """Add a value."""
        square = self._square(value)
        self._squares += square
        self._sum.enter(value)

    def leave(self, value: Any) -> None:
        """Take a value back."""
        square = self._square(value)
        self._squares -= square
        self._sum.leave(value)

    def _square(self, value: Any) -> int:
        """In squares of the sum's units, which it makes as small as the value needs."""
        if not self._of_floats:
            return value * value
        bits = self._sum.bits
        units = self._sum.units(value)
        self._squares <<= 2 * (self._sum.bits - bits)
        return units * units

    def result(self) -> float | None:
        """The root of the variance; NULL for fewer than two values or if out of range."""
        count, total = self._sum.count, self._sum.total
        if count < 2:
            return None
        dividend, divisor = count * self._squares - total * total, count * (count - 1)
        return correct_root(dividend, divisor, self._sum.bits)

    def copy(self) -> Deviation:
        """Another of the same values."""
        made = Deviation(of_floats=self._of_floats)
        made._sum, made._squares = self._sum.copy(), self._squares
        return made

    def save(self) -> Any:
        """The sum; the sum of the squares in the smallest units."""
        finer = 2 * (SCALE_BITS - self._sum.bits) if self._of_floats else 0
        squares = self._squares << finer
        return [self._sum.save(), in_bytes(squares)]

    def load(self, saved: Any) -> None:
        """The sum, and that of the squares."""
        match saved:
            case [[*total], bytes(squares)]:
                self._sum.load(total)
                self._squares = int.from_bytes(squares, "big")
            case _:
                raise SnapshotError(f"not a deviation: {saved!r}")
        if self._of_floats:
            # The units of a sum may be coarser than those of the values.
            self._sum.refine(SCALE_BITS)


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
    if plan.function == "stddev":
        return Deviation(of_floats=plan.argument.kind == "float")
    if plan.function in EXACT_SUMS:
        return ExactSum(squared=plan.function == "exact_squares")
    return Sum(of_floats=plan.argument.kind == "float", mean=plan.function == "avg")
