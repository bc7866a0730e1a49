"""Timestamps in a column, as milliseconds since 1970.

One rule for whatever is finer than a millisecond: it is rounded towards the past, before 1970 as
after it. A number counts as it is written in digits, for `1.001` has no equal among binary floats;
of a float that comes as one, the shortest digits that stand for it count.
"""

from __future__ import annotations

import contextlib
import time

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foundation.arrays import FloatArray, IntArray
from orchestrator.edges.sources.formats.column_values import (
    WIDE,
    Unfit,
    converted,
    decoded,
    number_of,
)
from orchestrator.edges.sources.formats.row_form import ISO, UNITS
from orchestrator.edges.sources.formats.time_patterns import for_python

_Decimal = (pa.Decimal128Type, pa.Decimal256Type)

_too_fine = r"(\.\d{3})\d+"
"""A fraction of a second with more digits than milliseconds have."""

_zoned = r"[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
"""ISO timestamps with a zone."""

EXACT, WHOLE = 2.0**40, 2.0**53
"""Floats below these have room for thousandths, and for whole numbers."""

_per_second = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Unit → how many times ten of them are a second."""


def timestamps_ms(column: pa.Array, written: str) -> pa.Array:
    """Timestamps in ms, int64.

    Parameters
    ----------
    written
        `s`, `ms`, `us`, `ns`, `iso`, or a pattern of strptime.

    Raises
    ------
    Unfit
        One is missing, or not of that format.
    """
    column = decoded(column)
    if column.null_count:
        index = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise Unfit("it is empty", index)
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
    if isinstance(column.type, pa.TimestampType):
        unit = column.type.unit
        column = column.cast(pa.int64())
        return converted(column, lambda part: _from_number(part, unit), "is too far")
    if written in UNITS:
        return converted(
            column, lambda part: _from_number(part, written), f"is not of format {written}"
        )
    return converted(column, lambda part: _from_text(part, written), f"is not of format {written}")


def _from_number(column: pa.Array, unit: str) -> pa.Array:
    finer = _per_second[unit] - _per_second["ms"]
    if pa.types.is_integer(column.type):
        whole = column.cast(pa.int64())
        if finer <= 0:
            return pc.multiply_checked(whole, pa.scalar(10**-finer, pa.int64()))
        numbers: IntArray = whole.to_numpy()
        return pa.array(numbers // 10**finer)
    if pa.types.is_floating(column.type):
        if (found := _from_floats(column, finer)) is not None:
            return found
        column = column.cast(pa.string())
    if not pa.types.is_decimal(column.type):
        column = number_of(column)
    if not isinstance(column.type, _Decimal) or column.type.scale + finer < 0:
        column = column.cast(WIDE)
    return _floored(_divided(column, finer))


def _from_floats(column: pa.Array, finer: int) -> pa.Array | None:
    """What the shortest digits of floats say, found without writing them; None if they must be.

    Of two thousandths, no two are the same float here. So a float that is that of a thousandth
    stands for it, and any other lies where its digits do, between the same two.
    """
    if column.type != pa.float64():
        return None
    numbers: FloatArray = column.to_numpy()
    if not np.all(np.abs(numbers) < (WHOLE if finer >= 0 else EXACT)):
        return None
    if finer >= 0:
        return pa.array(np.floor_divide(numbers, 10**finer).astype(np.int64))
    near = np.rint(numbers * 10**-finer)
    return pa.array((near - (near / 10**-finer > numbers)).astype(np.int64))


def _divided(numbers: pa.Array, digits: int) -> pa.Array:
    """Decimals over ten to a power: the same digits with the point elsewhere."""
    assert isinstance(numbers.type, _Decimal)
    is_narrow = isinstance(numbers.type, pa.Decimal128Type)
    scale = numbers.type.scale + digits
    kind = pa.decimal128(38, scale) if is_narrow else pa.decimal256(76, scale)
    return pa.Array.from_buffers(kind, len(numbers), numbers.buffers(), offset=numbers.offset)


def _floored(numbers: pa.Array) -> pa.Array:
    """Decimals as the whole numbers at or before them."""
    kind = numbers.type
    assert isinstance(kind, _Decimal)
    words = numbers.buffers()[1]
    # Arrow takes 40 times as long.
    if words is not None and isinstance(kind, pa.Decimal128Type) and 0 <= kind.scale <= 18:
        halves: npt.NDArray[np.uint64] = np.frombuffer(memoryview(words), dtype=np.uint64)
        pairs = halves.reshape(-1, 2)[numbers.offset : numbers.offset + len(numbers)]
        low = pairs[:, 0]
        high: IntArray = pairs[:, 1].view(np.int64)
        unit: int = 10**kind.scale
        near = np.floor(high * (2.0**64 / unit) + low / float(unit))
        if np.all(np.abs(near) < WHOLE):
            found = near.astype(np.int64)
            # What is left is small, so the lower halves tell it.
            left: IntArray = (low - found.view(np.uint64) * np.uint64(unit)).view(np.int64)
            return pa.array(found + left // unit)
    # Arrow's `floor` gives 0 where the result needs a digit more than there is room for.
    numbers = numbers.cast(pa.decimal256(76, kind.scale))
    if np.any(np.abs(numbers.cast(pa.float64()).to_numpy()) >= 2.0**63):
        raise pa.ArrowInvalid("more milliseconds than an int holds")
    return pc.floor(numbers).cast(pa.int64())


def _from_text(column: pa.Array, pattern: str) -> pa.Array:
    column = column.cast(pa.string())
    if pattern != ISO:
        try:
            checked = for_python(pattern)
        except ValueError as error:
            raise Unfit(f"the pattern {pattern} {error}") from None
        found = pc.strptime(column, format=pattern, unit="s")
        _check_days(column, found, pattern, checked)
        return found.cast(pa.timestamp("ms")).cast(pa.int64())
    for zone in ("UTC", None):
        with contextlib.suppress(pa.ArrowInvalid):
            return _at_ms(column, zone)
    # Some have a zone and some have not, or they are finer than milliseconds.
    coarse = pc.replace_substring_regex(column, _too_fine, r"\1")
    zoned = pc.match_substring_regex(coarse, _zoned)
    nothing = pa.scalar(None, pa.string())
    return pc.coalesce(
        _at_ms(pc.if_else(zoned, coarse, nothing), "UTC"),
        _at_ms(pc.if_else(zoned, nothing, coarse), None),
    )


def _at_ms(texts: pa.Array, zone: str | None) -> pa.Array:
    return texts.cast(pa.timestamp("ms", zone)).cast(pa.int64())


def _check_days(texts: pa.Array, found: pa.Array, pattern: str, checked: str) -> None:
    """Refuse days that no month has: strptime takes the 30 February for a day of March."""
    # One that rolled over is among the first days of a month, or a zone away from them.
    day = pc.day(found)
    doubtful = pc.or_(pc.less_equal(day, 4), pc.greater_equal(day, 28))
    # Written anew, it differs if it has rolled over, or leaves zeros out. Not all can be written.
    with contextlib.suppress(pa.ArrowException, RuntimeError):
        doubtful = pc.and_(doubtful, pc.not_equal(pc.strftime(found, format=pattern), texts))
    for text in pc.unique(texts.filter(doubtful)).to_pylist():
        try:
            time.strptime(text, checked)
        except ValueError as error:
            # Python takes fewer texts: other complaints than this one are its own.
            if "day is out of range" in str(error):
                raise Unfit(str(error)) from None
