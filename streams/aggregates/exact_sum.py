"""An exact sum that is not rounded but passed on as a text (`streams.arithmetic.exact_texts`)."""

from __future__ import annotations

from typing import Any

from streams.arithmetic.exact_texts import LEAST_SQUARE_EXPONENT, exact_number, exact_text
from streams.vectors.state import SnapshotError, in_bytes


class ExactSum:
    """The sum of numbers, of their squares, or of such sums."""

    __slots__ = ("_bits", "_count", "_squared", "_total")

    def __init__(self, *, squared: bool) -> None:
        self._squared = squared
        self._count = 0
        self._total = 0
        """In units of 2⁻ᵇⁱᵗˢ."""
        self._bits = 0

    def enter(self, value: Any) -> None:
        """Add a value."""
        units = self._units(value)
        self._total += units
        self._count += 1

    def leave(self, value: Any) -> None:
        """Take a value back."""
        units = self._units(value)
        self._total -= units
        self._count -= 1

    def _units(self, value: Any) -> int:
        """A value in units; makes them smaller if it has to be."""
        if isinstance(value, str):
            total, exponent = exact_number(value)
        else:
            total, denominator = value.as_integer_ratio()
            exponent = 1 - denominator.bit_length()
            if self._squared:
                total, exponent = total * total, 2 * exponent
        if -exponent > self._bits:
            self._total <<= -exponent - self._bits
            self._bits = -exponent
        return total << exponent + self._bits

    def result(self) -> str | None:
        """The sum; NULL for no values."""
        return exact_text(self._total, -self._bits) if self._count else None

    def copy(self) -> ExactSum:
        """Another with the same sum."""
        made = ExactSum(squared=self._squared)
        made._count, made._total, made._bits = self._count, self._total, self._bits
        return made

    def save(self) -> Any:
        """Count, and total in the smallest units, whatever units were used."""
        return [self._count, in_bytes(self._total << -LEAST_SQUARE_EXPONENT - self._bits)]

    def load(self, saved: Any) -> None:
        """Count and total."""
        match saved:
            case [int(count), bytes(total)]:
                self._count = count
                self._total = int.from_bytes(total, "big", signed=True)
            case _:
                raise SnapshotError(f"not an exact sum: {saved!r}")
        self._bits = -LEAST_SQUARE_EXPONENT if self._total else 0
        zeros = max((self._total & -self._total).bit_length() - 1, 0)
        unused = min(zeros, self._bits)
        self._total >>= unused
        self._bits -= unused
