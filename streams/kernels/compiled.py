"""The kernels of panes, compiled by numba when this module is imported.

Each function has one signature, so nothing is ever compiled while a stream is evaluated. (To call
one that has two takes twenty times as long: numba looks for the right one.) The machine code is
kept on disk (`streams.kernels.machine_code`): only the first import after an installation compiles.
`streams.kernels.reference` has the same functions in numpy and says what each does; both give the
same bits. There is neither fast-math nor a parallel loop.

Places in arrays that cannot be negative are unsigned numbers in loops over tuples: numba then need
not look whether they count from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from foundation.arrays import BoolArray, FloatArray, IntArray
from streams.arithmetic.exact_sums import DIGIT_BITS, DIGIT_MASK, EXTRA_DIGITS, LEAST_EXPONENT
from streams.kernels import compiled_loops, compiled_texts
from streams.kernels.machine_code import kernel
from streams.vectors.arrays import Bits, Bytes, Codes
from streams.vectors.vector import Array

_codes = types.Array(types.int32, 1, "C")
_read_codes = types.Array(types.int32, 1, "C", readonly=True)
_ints = types.Array(types.int64, 1, "C")
_read_ints = types.Array(types.int64, 1, "C", readonly=True)
_digits = types.Array(types.int64, 2, "C")
_read_digits = types.Array(types.int64, 2, "C", readonly=True)
_floats = types.Array(types.float64, 1, "C")
_read_floats = types.Array(types.float64, 1, "C", readonly=True)
_bits = types.Array(types.uint64, 1, "C")
_read_bits = types.Array(types.uint64, 1, "C", readonly=True)
_bytes = types.Array(types.uint8, 1, "C")
_read_bytes = types.Array(types.uint8, 1, "C", readonly=True)
_flags = types.Array(types.boolean, 1, "C")
_read_flags = types.Array(types.boolean, 1, "C", readonly=True)
_int = types.int64
_two = types.Tuple((types.int64, types.int64))
_three = types.Tuple((types.int64, types.int64, types.int64))

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LENGTH = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)

newest_rows = compiled_loops.newest_rows
chain_rows = compiled_loops.chain_rows
fill_pairs = compiled_loops.fill_pairs
link_rows = compiled_loops.link_rows
fill_pairs_until = compiled_loops.fill_pairs_until
keep_contenders = compiled_loops.keep_contenders
extend_sessions = compiled_loops.extend_sessions
end_sessions = compiled_loops.end_sessions
sum_texts = compiled_texts.sum_texts


@kernel(types.uint64(_read_bytes, types.uint64), inline="always")
def _word(data: Bytes, first: Any) -> Any:
    """Eight bytes as a number, the first one lowest."""
    word = np.uint64(data[first])
    word |= np.uint64(data[first + np.uint64(1)]) << np.uint64(8)
    word |= np.uint64(data[first + np.uint64(2)]) << np.uint64(16)
    word |= np.uint64(data[first + np.uint64(3)]) << np.uint64(24)
    word |= np.uint64(data[first + np.uint64(4)]) << np.uint64(32)
    word |= np.uint64(data[first + np.uint64(5)]) << np.uint64(40)
    word |= np.uint64(data[first + np.uint64(6)]) << np.uint64(48)
    word |= np.uint64(data[first + np.uint64(7)]) << np.uint64(56)
    return word


@kernel(types.uint64(types.uint64, types.uint64), inline="always")
def _mixed(hashed: Any, word: Any) -> Any:
    """A hash with eight more bytes. Different words give different hashes."""
    hashed = (hashed ^ word) * _MULTIPLIER
    return hashed ^ (hashed >> _SHIFT)


@kernel(types.uint64(_int), inline="always")
def _home_shift(places: Any) -> Any:
    """As `arrays.home_shift`."""
    shift = np.uint64(64)
    while places > 1:
        places >>= 1
        shift -= _ONE
    return shift


@kernel(_int(_read_bits, _read_flags, _bits), nogil=True)
def pack(words: Bits, wanted: BoolArray, out: Bits) -> int:
    """Put wanted values together."""
    count: Any = np.uint64(0)
    for place in range(len(words)):
        # The next wanted one overwrites one that is not: this way there is no branch.
        out[count] = words[place]
        count += np.uint64(wanted[place])
    return int(count)


@kernel(_two(_read_ints, _read_flags, _codes, _ints, _codes, _int, _int), nogil=True)
def code_ints(
    keys: IntArray,
    wanted: BoolArray,
    table: Codes,
    known: IntArray,
    out: Codes,
    begin: int,
    count: int,
) -> tuple[int, int]:
    """Number integers."""
    mask, shift = np.uint64(len(table) - 1), _home_shift(len(table))
    room = min(len(table) // 2, len(known))
    every = len(wanted) == 0
    for place in range(begin, len(keys)):
        if not every and not wanted[place]:
            out[place] = -1
            continue
        key = keys[place]
        at = (np.uint64(key) * _MULTIPLIER) >> shift
        while True:
            code = table[at]
            if code < 0:
                if count >= room:
                    return place, count
                known[count] = key
                table[at] = count
                out[place] = count
                count += 1
                break
            if known[np.uint32(code)] == key:
                out[place] = code
                break
            at = (at + _ONE) & mask
    return len(keys), count


@kernel(
    _three(
        _read_codes,
        _read_bytes,
        _read_flags,
        _codes,
        _bits,
        _ints,
        _bytes,
        _codes,
        _int,
        _int,
    ),
    nogil=True,
)
def code_texts(
    offsets: Codes,
    data: Bytes,
    wanted: BoolArray,
    table: Codes,
    hashes: Bits,
    ends: IntArray,
    texts: Bytes,
    out: Codes,
    begin: int,
    count: int,
) -> tuple[int, int, int]:
    """Number texts."""
    mask, shift = len(table) - 1, _home_shift(len(table))
    room = min(len(table) // 2, len(hashes))
    every = len(wanted) == 0
    used = ends[count]
    for place in range(begin, len(offsets) - 1):
        if not every and not wanted[place]:
            out[place] = -1
            continue
        first = np.uint64(offsets[place])
        length = np.int64(offsets[place + 1]) - np.int64(offsets[place])
        hashed = np.uint64(length) * _LENGTH
        whole = length >> 3
        for step in range(whole):
            hashed = _mixed(hashed, _word(data, first + np.uint64(8 * step)))
        rest = length & 7
        if rest or not length:
            begin_rest = first + np.uint64(8 * whole)
            if begin_rest + np.uint64(8) <= np.uint64(len(data)):
                # Eight bytes at once, of which the last ones belong to the next text.
                word = _word(data, begin_rest) & (
                    (np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1)
                )
            else:
                word = np.uint64(0)
                for step in range(rest):
                    byte = np.uint64(data[begin_rest + np.uint64(step)])
                    word |= byte << np.uint64(8 * step)
            hashed = _mixed(hashed, word)
        at = np.int64(hashed >> shift)
        while True:
            code = table[at]
            if code < 0:
                if count >= room or used + length > len(texts):
                    return place, count, int(length)
                for step in range(length):
                    texts[used + step] = data[first + np.uint64(step)]
                used += length
                hashes[count] = hashed
                table[at] = count
                out[place] = count
                count += 1
                ends[count] = used
                break
            if hashes[code] == hashed:
                start = ends[code]
                same = ends[code + 1] - start == length
                # Short texts of one length are equal if their hashes are.
                if same and length > 8:
                    for step in range(length):
                        if texts[start + step] != data[first + np.uint64(step)]:
                            same = False
                            break
                if same:
                    out[place] = code
                    break
            at = (at + 1) & mask
    return len(offsets) - 1, count, 0


@kernel(_int(_read_codes, _codes, _codes, _ints, _codes, _int, _int, _int), nogil=True)
def assign_slots(
    codes: Codes,
    slot_of: Codes,
    pane_codes: Codes,
    rows: IntArray,
    out: Codes,
    begin: int,
    end: int,
    count: int,
) -> int:
    """Give groups places in a pane; count tuples."""
    for place in range(begin, end):
        code = codes[place]
        if code < 0:
            out[place] = -1
            continue
        slot = slot_of[np.uint32(code)]
        if slot < 0:
            slot = count
            slot_of[code] = slot
            pane_codes[count] = code
            rows[count] = 0
            count += 1
        rows[np.uint32(slot)] += 1
        out[place] = slot
    return count


@kernel(_int(_read_codes, _flags, _codes, _int, _int, _int), nogil=True)
def note_pairs(
    pairs: Codes, noted: BoolArray, listed: Codes, begin: int, end: int, count: int
) -> int:
    """List the pairs of a pane."""
    for place in range(begin, end):
        pair = pairs[place]
        if pair >= 0 and not noted[pair]:
            noted[pair] = True
            listed[count] = pair
            count += 1
    return count


@kernel(types.void(_read_codes, _read_flags, _ints, _int, _int), nogil=True)
def count_nulls(slots: Codes, valid: BoolArray, nulls: IntArray, begin: int, end: int) -> None:
    """Count NULLs."""
    for place in range(begin, end):
        slot = slots[place]
        if slot >= 0 and not valid[place]:
            nulls[slot] += 1


@kernel(types.void(_read_codes, _read_ints, _read_flags, _digits, _int, _int), nogil=True)
def sum_ints(
    slots: Codes, values: IntArray, valid: BoolArray, digits: IntArray, begin: int, end: int
) -> None:
    """Add integers."""
    every = len(valid) == 0
    for place in range(begin, end):
        slot = slots[place]
        if slot >= 0 and (every or valid[place]):
            value, row = values[place], np.uint32(slot)
            digits[row, 0] += value & DIGIT_MASK
            digits[row, 1] += value >> DIGIT_BITS


@kernel(_int(_read_codes, _read_bits, _read_flags, _digits, _int, _int, _int), nogil=True)
def sum_floats(
    slots: Codes,
    values: Bits,
    valid: BoolArray,
    digits: IntArray,
    lowest: int,
    begin: int,
    end: int,
) -> int:
    """Add floats exactly."""
    every = len(valid) == 0
    width = digits.shape[1]
    for place in range(begin, end):
        slot = slots[place]
        if slot < 0 or not (every or valid[place]):
            continue
        bits = np.int64(values[place])
        exponent = (bits >> 52) & 0x7FF
        fraction = bits & 0xFFFFFFFFFFFFF
        if exponent:
            fraction |= 0x10000000000000
            exponent -= 1
        elif fraction == 0:
            continue
        digit = (exponent >> 5) - lowest
        if digit < 0 or digit + 3 >= width:
            return place
        shift = exponent & 31
        # All ones for a negative float: signs that take turns must not be branches.
        sign = bits >> 63
        fraction = (fraction ^ sign) - sign
        rest = fraction >> (DIGIT_BITS - shift)
        row, lowest_of = np.uint32(slot), np.uint32(digit)
        digits[row, lowest_of] += (fraction << shift) & DIGIT_MASK
        digits[row, lowest_of + np.uint32(1)] += rest & DIGIT_MASK
        digits[row, lowest_of + np.uint32(2)] += rest >> DIGIT_BITS
    return end


def _keep_extremes(
    slots: Codes,
    values: Array,
    valid: BoolArray,
    best: Array,
    greatest: bool,
    begin: int,
    end: int,
) -> None:
    """Keep the greatest or least numbers."""
    every = len(valid) == 0
    for place in range(begin, end):
        slot = slots[place]
        if slot >= 0 and (every or valid[place]):
            value, row = values[place], np.uint32(slot)
            if greatest:
                best[row] = max(best[row], value)
            else:
                best[row] = min(best[row], value)


extreme_ints, extreme_floats = (
    kernel(
        types.void(_read_codes, values, _read_flags, best, types.boolean, _int, _int), nogil=True
    )(_keep_extremes)
    for values, best in ((_read_ints, _ints), (_read_floats, _floats))
)


@kernel(types.void(_digits), nogil=True)
def pass_carries_on(digits: IntArray) -> None:
    """Pass carries on."""
    for row in range(len(digits)):
        carry = np.int64(0)
        for place in range(digits.shape[1] - 1):
            digit = digits[row, place] + carry
            carry = digit >> DIGIT_BITS
            digits[row, place] = digit & DIGIT_MASK
        if digits.shape[1]:
            digits[row, digits.shape[1] - 1] += carry


@kernel(types.void(_digits, _read_codes, _read_digits, _int), nogil=True)
def add_digits(totals: IntArray, codes: Codes, digits: IntArray, sign: int) -> None:
    """Add sums to others."""
    for row in range(len(codes)):
        code = np.uint32(codes[row])
        for place in range(digits.shape[1]):
            totals[code, place] += sign * digits[row, place]


@kernel(types.void(_read_digits, _int, _read_ints, _floats, _flags), nogil=True)
def round_sums(
    digits: IntArray, exponent: int, divisors: IntArray, out: FloatArray, fits: BoolArray
) -> None:
    """Divide sums and round them correctly."""
    count, width = digits.shape
    length = width + EXTRA_DIGITS + 2
    work = np.empty(length + 3, dtype=np.int64)
    exponent -= DIGIT_BITS * EXTRA_DIGITS
    bits_of = out.view(np.int64)
    for row in range(count):
        fits[row] = True
        divisor = divisors[row]
        # Digits below 2³², of the magnitude.
        work[:] = 0
        carry = np.int64(0)
        for place in range(width):
            digit = digits[row, place] + carry
            carry = digit >> DIGIT_BITS
            work[EXTRA_DIGITS + place] = digit & DIGIT_MASK
        work[EXTRA_DIGITS + width] = carry & DIGIT_MASK
        carry = carry >> DIGIT_BITS
        work[EXTRA_DIGITS + width + 1] = carry & DIGIT_MASK
        negative = carry < 0
        if negative:
            carry = np.int64(1)
            for place in range(length):
                digit = (DIGIT_MASK - work[place]) + carry
                carry = digit >> DIGIT_BITS
                work[place] = digit & DIGIT_MASK
        # The quotient; a remainder only says that it is not exact.
        rest = np.int64(0)
        highest = -1
        for place in range(length - 1, -1, -1):
            whole = (rest << DIGIT_BITS) | work[place]
            if divisor != 1:
                work[place] = whole // divisor
                rest = whole - work[place] * divisor
            if highest < 0 and work[place]:
                highest = place
        if highest < 0:
            out[row] = 0.0
            continue
        top = highest * DIGIT_BITS
        leading = work[highest]
        while leading > 1:
            leading >>= 1
            top += 1
        cut = max(top - 52, LEAST_EXPONENT - exponent)
        at, shift = cut >> 5, cut & 31
        mantissa = np.int64(0)
        if at < length:
            mantissa = (work[at] | (work[at + 1] << DIGIT_BITS)) >> shift
            if shift:
                # The sign bit may have come along: keep the bits that belong here.
                mantissa &= (np.int64(1) << (64 - shift)) - 1
                mantissa |= work[at + 2] << (64 - shift)
        half = cut - 1
        if (work[half >> 5] >> (half & 31)) & 1:
            odd = (mantissa & 1) != 0 or rest != 0
            if not odd:
                odd = (work[half >> 5] & ((np.int64(1) << (half & 31)) - 1)) != 0
                place = (half >> 5) - 1
                while not odd and place >= 0:
                    odd = work[place] != 0
                    place -= 1
            if odd:
                mantissa += 1
        if mantissa < (np.int64(1) << 52):
            bits_of[row] = mantissa
        else:
            biased = cut + exponent - LEAST_EXPONENT + 1
            bits = (np.int64(biased) << 52) + mantissa - (np.int64(1) << 52)
            if biased >= 0x7FF or bits >= np.int64(0x7FF0000000000000):
                fits[row] = False
                out[row] = 0.0
                continue
            bits_of[row] = bits
        if negative:
            out[row] = -out[row]
        out[row] += 0.0
