"""The kernels of panes in numpy: what each computes, without numba.

Parameters that several have in common:

slots
    For each tuple, the place of its group in the pane; -1 for a tuple that does not count.
valid
    False where a value is NULL; empty: no value is.
begin, end
    The tuples to take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray, FloatArray, IntArray
from streams.arithmetic import exact_sums
from streams.arithmetic.exact_sums import (
    DIGIT_BITS,
    DIGIT_MASK,
    SPAN,
    rounded,
    split,
    total_of,
)
from streams.kernels import contender_loops, reference_texts, row_loops, session_loops
from streams.vectors.arrays import Bits, Bytes, Codes, home_shift
from streams.vectors.vector import Array

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MULTIPLIER = 0x9E3779B97F4A7C15
_LENGTH = 0xD6E8FEB86659FD93
_WORD = 0xFFFFFFFFFFFFFFFF


def _in_python(loop: Callable[_P, _R]) -> Callable[_P, _R]:
    """A loop over the elements of arrays, uncompiled.

    Elements of memory views are numbers of Python. To work with those of numpy's arrays takes three
    times as long.
    """

    over_views: Callable[..., _R] = loop

    def run(*given: _P.args, **_: _P.kwargs) -> _R:
        return over_views(*[one.data if isinstance(one, np.ndarray) else one for one in given])

    return run


newest_rows = _in_python(row_loops.newest_rows)
chain_rows = _in_python(row_loops.chain_rows)
fill_pairs = _in_python(row_loops.fill_pairs)
link_rows = _in_python(row_loops.link_rows)
fill_pairs_until = _in_python(row_loops.fill_pairs_until)
keep_contenders = _in_python(contender_loops.keep_contenders)
extend_sessions = _in_python(session_loops.extend_sessions)
end_sessions = _in_python(session_loops.end_sessions)
pass_carries_on = exact_sums.pass_carries_on
sum_texts = reference_texts.sum_texts


def pack(words: Bits, wanted: BoolArray, out: Bits) -> int:
    """Put values of 64 bits that are wanted one after the other.

    Parameters
    ----------
    words, wanted
        The values, and which of them to take.
    out
        Takes them; as long as `words`. What lies behind them is lost.

    Returns
    -------
    int
        How many they are.
    """
    kept = words[wanted]
    out[: len(kept)] = kept
    return len(kept)


def code_ints(
    keys: IntArray,
    wanted: BoolArray,
    table: Codes,
    known: IntArray,
    out: Codes,
    begin: int,
    count: int,
) -> tuple[int, int]:
    """Number integers in the order of their first appearance, from the place `begin` on.

    Parameters
    ----------
    keys, wanted
        The integers, and which of them count; empty: all.
    table, known, count
        Hash table of codes, at most half full; the integer of each code; how many there are.
    out
        Takes the codes; -1 for integers that do not count.

    Returns
    -------
    tuple
        The place of the first integer for which there is no room, or the end, and the new count.
    """
    mask, room = len(table) - 1, min(len(table) // 2, len(known))
    shift = home_shift(len(table))
    chosen = _chosen(wanted, len(keys))
    chosen[:begin] = False
    out[begin:][~chosen[begin:]] = -1
    places = chosen.nonzero()[0]
    different, first, inverse = np.unique(keys[places], return_index=True, return_inverse=True)
    codes = np.zeros(len(different), dtype=np.int32)
    for nth in np.argsort(first).tolist():
        key = int(different[nth])
        at = ((key & _WORD) * _MULTIPLIER & _WORD) >> shift
        while table[at] >= 0 and known[table[at]] != key:
            at = (at + 1) & mask
        if table[at] < 0:
            if count >= room:
                stop = int(places[first[nth]])
                done = places < stop
                out[places[done]] = codes[inverse[done]]
                return stop, count
            known[count], table[at] = key, count
            count += 1
        codes[nth] = table[at]
    out[places] = codes[inverse]
    return len(keys), count


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
    """As `code_ints`, of texts.

    Parameters
    ----------
    offsets, data
        The texts, as Arrow holds them.
    hashes, ends, texts
        Of each code: hash, where its text ends; the texts one after the other. `ends` begins with
        0.

    Returns
    -------
    tuple
        As `code_ints`, then the bytes for which room is needed.
    """
    mask, room = len(table) - 1, min(len(table) // 2, len(hashes))
    shift = home_shift(len(table))
    chosen = _chosen(wanted, len(offsets) - 1)
    chosen[:begin] = False
    out[begin:][~chosen[begin:]] = -1
    places = chosen.nonzero()[0]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    column = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    encoded = column.take(pa.array(places)).dictionary_encode()
    inverse = encoded.indices.to_numpy(zero_copy_only=False)
    different: list[bytes] = encoded.dictionary.to_pylist()
    codes = np.zeros(len(different), dtype=np.int32)
    for nth, text in enumerate(different):
        hashed = _hash(text)
        at = hashed >> shift
        while (code := int(table[at])) >= 0:
            if texts[ends[code] : ends[code + 1]].tobytes() == text:
                break
            at = (at + 1) & mask
        if code < 0:
            used = int(ends[count])
            if count >= room or used + len(text) > len(texts):
                stop = int(places[(inverse == nth).argmax()])
                done = places < stop
                out[places[done]] = codes[inverse[done]]
                return stop, count, len(text)
            texts[used : used + len(text)] = np.frombuffer(text, np.uint8)
            hashes[count], table[at] = hashed, count
            code, count = count, count + 1
            ends[count] = used + len(text)
        codes[nth] = code
    out[places] = codes[inverse]
    return len(offsets) - 1, count, 0


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
    """Give the groups of a pane places in the order of their first tuples; count the tuples.

    Parameters
    ----------
    codes
        Of the tuples' groups; -1 for tuples that do not count.
    slot_of
        Code → place in the pane; -1 for a group that has none yet.
    pane_codes, rows, count
        The pane's groups by their places; the tuples of each; how many groups there are.
    out
        Takes the slots.

    Returns
    -------
    int
        The new count.
    """
    these = codes[begin:end]
    counted = these >= 0
    fresh = these[counted & (slot_of[these] < 0)]
    different, first = np.unique(fresh, return_index=True)
    added = different[first.argsort()]
    slot_of[added] = np.arange(count, count + len(added))
    pane_codes[count : count + len(added)] = added
    rows[count : count + len(added)] = 0
    out[begin:end] = np.where(counted, slot_of[these], -1)
    np.add.at(rows, out[begin:end][counted], 1)
    return count + len(added)


def note_pairs(
    pairs: Codes, noted: BoolArray, listed: Codes, begin: int, end: int, count: int
) -> int:
    """List the pairs of a pane in the order of their first tuples.

    Parameters
    ----------
    pairs
        Of the tuples; -1 for tuples that do not count.
    noted
        Pair → whether it is listed.
    listed, count
        The pairs, and how many there are.

    Returns
    -------
    int
        The new count.
    """
    these = pairs[begin:end]
    fresh = these[(these >= 0) & ~noted[these]]
    different, first = np.unique(fresh, return_index=True)
    added = different[first.argsort()]
    noted[added] = True
    listed[count : count + len(added)] = added
    return count + len(added)


def count_nulls(slots: Codes, valid: BoolArray, nulls: IntArray, begin: int, end: int) -> None:
    """Count the tuples whose value is NULL."""
    these = slots[begin:end]
    np.add.at(nulls, these[(these >= 0) & ~valid[begin:end]], 1)


def sum_ints(
    slots: Codes, values: IntArray, valid: BoolArray, digits: IntArray, begin: int, end: int
) -> None:
    """Add integers to sums in two digits."""
    slot, added = _counted(slots, values, valid, begin, end)
    np.add.at(digits[:, 0], slot, added & DIGIT_MASK)
    np.add.at(digits[:, 1], slot, added >> DIGIT_BITS)


def sum_floats(
    slots: Codes,
    values: Bits,
    valid: BoolArray,
    digits: IntArray,
    lowest: int,
    begin: int,
    end: int,
) -> int:
    """Add floats, given by their bits, to exact sums whose first digit is the `lowest`-th.

    Returns the place of the first float that needs a digit which is not there, or the end.
    """
    these = slots[begin:end]
    counted = these >= 0
    if len(valid):
        counted = counted & valid[begin:end]
    positions, fraction, negative = split(values[begin:end])
    counted = counted & (fraction != 0)
    digit = (positions >> 5) - lowest
    outside = counted & ((digit < 0) | (digit + SPAN > digits.shape[1]))
    stop = int(outside.argmax()) if outside.any() else end - begin
    counted[stop:] = False
    slot, digit = these[counted], digit[counted]
    shift, fraction = positions[counted] & 31, fraction[counted] * (1 - 2 * negative[counted])
    rest = fraction >> (DIGIT_BITS - shift)
    parts = ((fraction << shift) & DIGIT_MASK, rest & DIGIT_MASK, rest >> DIGIT_BITS)
    for offset, part in enumerate(parts):
        np.add.at(digits, (slot, digit + offset), part)
    return begin + stop


def extreme_ints(
    slots: Codes,
    values: Array,
    valid: BoolArray,
    best: Array,
    greatest: bool,
    begin: int,
    end: int,
) -> None:
    """Keep the greatest or least numbers, integers or floats."""
    slot, kept = _counted(slots, values, valid, begin, end)
    (np.maximum if greatest else np.minimum).at(best, slot, kept)


extreme_floats = extreme_ints


def add_digits(totals: IntArray, codes: Codes, digits: IntArray, sign: int) -> None:
    """Add the sums of different groups to those that they have, or subtract them (sign -1)."""
    totals[codes] += sign * digits


def round_sums(
    digits: IntArray, exponent: int, divisors: IntArray, out: FloatArray, fits: BoolArray
) -> None:
    """Divide exact sums and round them, once and correctly.

    Parameters
    ----------
    digits, exponent
        The sums, whose first digits count 2^exponent.
    divisors
        From 1 to below `LARGEST_DIVISOR`.
    out, fits
        Take the floats, and whether they are in range: else the float is 0.
    """
    for place, divisor in enumerate(divisors.tolist()):
        found = rounded(total_of(digits[place]), exponent, divisor)
        fits[place] = found is not None
        out[place] = 0.0 if found is None else found


def _hash(text: bytes) -> int:
    """A hash, which tells texts of one length up to eight bytes apart."""
    hashed = len(text) * _LENGTH & _WORD
    for begin in range(0, max(len(text), 1), 8):
        hashed ^= int.from_bytes(text[begin : begin + 8], "little")
        hashed = hashed * _MULTIPLIER & _WORD
        hashed ^= hashed >> DIGIT_BITS
    return hashed


def _chosen(wanted: BoolArray, length: int) -> BoolArray:
    return wanted.copy() if len(wanted) else np.ones(length, dtype=np.bool_)


def _counted(
    slots: Codes, values: Array, valid: BoolArray, begin: int, end: int
) -> tuple[Codes, Array]:
    """The slots and values that count."""
    these = slots[begin:end]
    counted = these >= 0
    if len(valid):
        counted = counted & valid[begin:end]
    return these[counted], values[begin:end][counted]
