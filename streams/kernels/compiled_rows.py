"""Kernels over whole rows, compiled by numba: newest rows of each key, and pairs of equal keys.

`streams.kernels.reference_rows` has the same functions in Python and says what each does.
`streams.kernels.compiled` says how kernels are compiled.
"""

from __future__ import annotations

from numba import njit, types

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrays import Codes

_codes = types.Array(types.int32, 1, "C")
_ints = types.Array(types.int64, 1, "C")
_read_ints = types.Array(types.int64, 1, "C", readonly=True)
_flags = types.Array(types.boolean, 1, "C")
_int = types.int64
_two = types.Tuple((types.int64, types.int64))
_three = types.Tuple((types.int64, types.int64, types.int64))


@njit(
    [_two(_codes, _read_ints, _int, _ints, _ints, _ints, _flags, _ints, _ints, _ints)],
    cache=True,
    nogil=True,
)
def newest_rows(
    codes: Codes,
    times_ms: IntArray,
    most: int,
    entered: IntArray,
    row_of: IntArray,
    touched: IntArray,
    shown: BoolArray,
    before: IntArray,
    removed: IntArray,
    removed_by: IntArray,
) -> tuple[int, int]:
    """Keep the newest rows of each key."""
    gone = changed = 0
    for row in range(len(codes)):
        code = codes[row]
        count = entered[code]
        entered[code] = count + 1
        slot = code * most + count % most
        old = row_of[slot]
        row_of[slot] = row
        shown[row] = True
        before[row] = -1
        if old < 0:
            touched[changed] = slot
            changed += 1
        if count < most:
            continue
        if old >= 0 and times_ms[old] == times_ms[row]:
            shown[old] = False
            before[row] = before[old]
            continue
        if old < 0:
            old = -2 - slot
        before[row] = old
        removed[gone] = old
        removed_by[gone] = row
        gone += 1
    return gone, changed


@njit(
    [
        types.void(
            _codes, _read_ints, _read_ints, _codes, _read_ints, _read_ints, _codes, _codes, _codes
        )
    ],
    cache=True,
    nogil=True,
)
def chain_rows(
    left: Codes,
    left_begins: IntArray,
    left_ends: IntArray,
    right: Codes,
    right_begins: IntArray,
    right_ends: IntArray,
    heads: Codes,
    following: Codes,
    first: Codes,
) -> None:
    """Find the first row of the left for each of the right, and those that follow it."""
    for part in range(len(left_begins)):
        for row in range(left_ends[part] - 1, left_begins[part] - 1, -1):
            code = left[row]
            if code >= 0:
                following[row] = heads[code]
                heads[code] = row
        for row in range(right_begins[part], right_ends[part]):
            code = right[row]
            if code >= 0:
                first[row] = heads[code]
        for row in range(left_begins[part], left_ends[part]):
            code = left[row]
            if code >= 0:
                heads[code] = -1


@njit([_three(_codes, _codes, _int, _int, _ints, _ints)], cache=True, nogil=True)
def fill_pairs(
    first: Codes, following: Codes, row: int, other: int, left: IntArray, right: IntArray
) -> tuple[int, int, int]:
    """Write pairs down, until there is no room or no pair any more."""
    count = 0
    while row < len(first):
        while other >= 0:
            if count == len(left):
                return count, row, other
            left[count] = other
            right[count] = row
            count += 1
            other = following[other]
        row += 1
        if row < len(first):
            other = first[row]
    return count, row, -1


@njit([types.void(_codes, _int, _codes, _codes, _codes)], cache=True, nogil=True)
def link_rows(codes: Codes, begin: int, heads: Codes, tails: Codes, following: Codes) -> None:
    """Link each row to the next one with its key."""
    for place in range(len(codes)):
        code = codes[place]
        row = begin + place
        if heads[code] < 0:
            heads[code] = row
        else:
            following[tails[code]] = row
        tails[code] = row


@njit([_three(_codes, _codes, _ints, _read_ints, _int, _int, _ints, _ints)], cache=True, nogil=True)
def fill_pairs_until(
    first: Codes,
    following: Codes,
    entered_ms: IntArray,
    at_ms: IntArray,
    row: int,
    other: int,
    left: IntArray,
    right: IntArray,
) -> tuple[int, int, int]:
    """Write pairs down whose row of the left has come."""
    count = 0
    while row < len(first):
        while other >= 0 and entered_ms[other] <= at_ms[row]:
            if count == len(left):
                return count, row, other
            left[count] = other
            right[count] = row
            count += 1
            other = following[other]
        row += 1
        if row < len(first):
            other = first[row]
    return count, row, -1
