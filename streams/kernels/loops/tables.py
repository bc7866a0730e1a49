"""Tables of the loop machine: room for rows, and rows that are found by keys.

A kernel that lacks room says so (`NEEDS`) before it has changed anything; the caller gives the
table more, and runs it once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streams.kernels.loops.expressions import words
from streams.kernels.loops.layout import (
    BASE,
    CAPACITY,
    DONE,
    HASH,
    HEAD,
    ID,
    KEY_COUNT,
    KEY_NULLS,
    KEYS,
    LEFT,
    LIVE,
    MOVED,
    NEEDED,
    NEEDS,
    NEEDY,
    NULLS,
    STALE,
    STEP_BITS,
    TAIL,
    USED,
    VALUES,
    WIDTH,
    Memory,
)
from streams.kernels.machine_code import kernel

_int = types.int64
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@kernel(_int(words, _int, _int), nogil=True)
def lacks(m: Memory, table: int, rows: int) -> int:
    """Note that a table needs room for so many rows."""
    m[NEEDY] = table
    m[NEEDED] = rows
    return NEEDS


@kernel(_int(words, _int, _int), nogil=True)
def address(m: Memory, table: int, place: int) -> int:
    """Where a row lies."""
    return m[table + BASE] + place * m[table + WIDTH]


@kernel(types.void(words, _int, _int, _int), nogil=True)
def copy_words(m: Memory, source: int, to: int, count: int) -> None:
    """Copy words."""
    for word in range(count):
        m[to + word] = m[source + word]


@kernel(_int(words, _int, _int, _int), nogil=True)
def equal_words(m: Memory, one: int, other: int, count: int) -> int:
    """Whether as many words are equal."""
    for word in range(count):
        if m[one + word] != m[other + word]:
            return 0
    return 1


@kernel(_int(words, _int, _int), nogil=True)
def room_behind(m: Memory, table: int, added: int) -> int:
    """Have room at the end of a table whose rows go from its beginning."""
    head, tail, capacity = m[table + HEAD], m[table + TAIL], m[table + CAPACITY]
    if head == tail:
        head = tail = m[table + HEAD] = m[table + TAIL] = 0
    if tail + added <= capacity:
        return DONE
    if 4 * (tail - head + added) > 3 * capacity:
        return lacks(m, table, tail - head + added)
    width, base = m[table + WIDTH], m[table + BASE]
    for word in range((tail - head) * width):
        m[base + word] = m[base + head * width + word]
    m[table + HEAD] = 0
    m[table + TAIL] = tail - head
    return DONE


@kernel(types.void(words, _int, _int, _int, _int, _int), nogil=True)
def read_row(m: Memory, source: int, to: int, places: int, count: int, now: int) -> None:
    """Copy columns of a stream's row; place -1 is the timestamp."""
    nulls: Any = np.int64(0)
    for column in range(count):
        place = m[places + column]
        if place < 0:
            m[to + VALUES + column] = now >> STEP_BITS
        else:
            m[to + VALUES + column] = m[source + VALUES + place]
            nulls |= ((m[source + NULLS] >> place) & 1) << column
    m[to + NULLS] = nulls


# Rows that are found by their first values and the NULLs among them.


@kernel(_int(words, _int, _int, _int), nogil=True)
def _slot_of(m: Memory, hashes: int, nulls: int, first: int) -> int:
    """Where to begin to look; of the keys at `first`."""
    hashed = np.uint64(nulls) * _MULTIPLIER
    for key in range(m[hashes + KEY_COUNT]):
        hashed = (hashed ^ np.uint64(m[first + key])) * _MULTIPLIER
        hashed ^= hashed >> _SHIFT
    return int(hashed & np.uint64(m[hashes + CAPACITY] - 1))


@kernel(_int(words, _int, _int), nogil=True)
def find_key(m: Memory, table: int, count: int) -> int:
    """The place of the row with the keys at `KEYS`; -1 for none."""
    hashes = m[table + HASH]
    base, mask = m[hashes + BASE], m[hashes + CAPACITY] - 1
    at = _slot_of(m, hashes, m[KEY_NULLS], KEYS)
    while m[base + at] != 0:
        if m[base + at] > 0:
            row = address(m, table, m[base + at] - 1)
            if m[row + NULLS] == m[KEY_NULLS] and equal_words(m, row + VALUES, KEYS, count):
                return m[base + at] - 1
        at = (at + 1) & mask
    return -1


@kernel(types.void(words, _int, _int), nogil=True)
def note_key(m: Memory, table: int, place: int) -> None:
    """Let a row, which no other one is equal to, be found."""
    hashes = m[table + HASH]
    base, mask = m[hashes + BASE], m[hashes + CAPACITY] - 1
    row = address(m, table, place)
    at = _slot_of(m, hashes, m[row + NULLS], row + VALUES)
    while m[base + at] > 0:
        at = (at + 1) & mask
    if m[base + at] == 0:
        m[hashes + USED] += 1
    m[base + at] = place + 1


@kernel(_int(words, _int, _int), nogil=True)
def add_key(m: Memory, table: int, count: int) -> int:
    """Append a row with the keys at `KEYS`, its other words being 0; there is room for it."""
    place = m[table + TAIL]
    m[table + TAIL] += 1
    m[table + LIVE] += 1
    row = address(m, table, place)
    for word in range(m[table + WIDTH]):
        m[row + word] = 0
    m[row + ID] = 1
    m[row + NULLS] = m[KEY_NULLS]
    copy_words(m, KEYS, row + VALUES, count)
    note_key(m, table, place)
    return place


@kernel(types.void(words, _int, _int), nogil=True)
def drop_key(m: Memory, table: int, place: int) -> None:
    """Let a row be dead, and not be found any more."""
    hashes = m[table + HASH]
    base, mask = m[hashes + BASE], m[hashes + CAPACITY] - 1
    row = address(m, table, place)
    at = _slot_of(m, hashes, m[row + NULLS], row + VALUES)
    while m[base + at] != place + 1:
        at = (at + 1) & mask
    m[base + at] = -1
    m[row + ID] = 0
    m[table + LIVE] -= 1


@kernel(types.void(words, _int), nogil=True)
def find_anew(m: Memory, table: int) -> None:
    """Make the hashes of a table anew."""
    hashes = m[table + HASH]
    for at in range(m[hashes + CAPACITY]):
        m[m[hashes + BASE] + at] = 0
    m[hashes + USED] = 0
    m[hashes + STALE] = 0
    for place in range(m[table + TAIL]):
        if m[address(m, table, place) + ID]:
            note_key(m, table, place)


@kernel(_int(words, _int, _int), nogil=True)
def room_to_find(m: Memory, table: int, added: int) -> int:
    """Have hashes for more rows, for which the table has room."""
    hashes = m[table + HASH]
    if m[hashes + CAPACITY] < 2 * m[table + CAPACITY]:
        return lacks(m, hashes, 2 * m[table + CAPACITY])
    if m[hashes + STALE] or 4 * (m[hashes + USED] + added) > 3 * m[hashes + CAPACITY]:
        find_anew(m, table)
    return DONE


@kernel(types.void(words, _int), nogil=True)
def compact(m: Memory, table: int) -> None:
    """Move the living rows of a table with keys together, in their order."""
    width, count = m[table + WIDTH], 0
    for place in range(m[table + TAIL]):
        row = address(m, table, place)
        if m[row + ID]:
            if count < place:
                copy_words(m, row, address(m, table, count), width)
            count += 1
    m[table + TAIL] = count
    find_anew(m, table)


# Relations: rows in the order of their identities, with the instants at which they came and left.


@kernel(_int(words, _int, _int, _int), nogil=True)
def room_in_relation(m: Memory, table: int, added: int, now: int) -> int:
    """Have room for more rows: rows that left before go if there is none."""
    head, tail = m[table + HEAD], m[table + TAIL]
    while head < tail and m[address(m, table, head) + LEFT] < now:
        head += 1
    if head == tail:
        m[table + MOVED] += head > 0
        head = tail = m[table + TAIL] = 0
    m[table + HEAD] = head
    if tail + added <= m[table + CAPACITY]:
        return DONE
    if 4 * (m[table + LIVE] + added) > 3 * m[table + CAPACITY]:
        return lacks(m, table, m[table + LIVE] + added)
    width, count = m[table + WIDTH], 0
    for place in range(head, tail):
        row = address(m, table, place)
        if m[row + LEFT] >= now:
            if count < place:
                copy_words(m, row, address(m, table, count), width)
            count += 1
    m[table + HEAD] = 0
    m[table + TAIL] = count
    m[table + MOVED] += 1
    return DONE


@kernel(_int(words, _int, _int), nogil=True)
def place_of_id(m: Memory, table: int, identity: int) -> int:
    """The place of the first row whose identity is not less."""
    low, high = m[table + HEAD], m[table + TAIL]
    while low < high:
        middle = (low + high) >> 1
        if m[address(m, table, middle) + ID] < identity:
            low = middle + 1
        else:
            high = middle
    return low
