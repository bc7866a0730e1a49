"""Relations of the loop machine, and their joins (`streams.operators.relation`, `.join`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streams.kernels.loops.expressions import floats, holds, words
from streams.kernels.loops.layout import (
    AT,
    BASE,
    CAPACITY,
    CURSORS,
    DONE,
    FEW_ROWS,
    FIRST_ID,
    FIRST_PLACE,
    FOREVER,
    HEAD,
    ID,
    INDEXED,
    INDEXED_AT,
    JOINS_TOO_MANY,
    LAST_PLACE,
    LEFT,
    LINKS,
    LIVE,
    MOVED,
    NEEDS,
    NEXT_PLACE,
    NOW,
    NULLS,
    SOURCES,
    STALE,
    TAIL,
    TUPLES,
    VALUES,
    WIDTH,
    Memory,
)
from streams.kernels.loops.tables import (
    address,
    copy_words,
    equal_words,
    lacks,
    place_of_id,
    room_in_relation,
)
from streams.kernels.loops.windows import give
from streams.kernels.machine_code import kernel

_int = types.int64
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
LINK = len(LINKS)
NO_PLACE = 1 << 40
"""Beyond all places."""


@kernel(_int(words, floats, _int, _int, _int, _int, _int), nogil=True)
def filter_change(
    m: Memory, f: Memory, source: int, change: int, begin: int, end: int, size: int
) -> int:
    """The part of a change for whose rows a condition is true."""
    if m[source + TAIL] > m[change + CAPACITY]:
        return lacks(m, change, m[source + TAIL])
    m[change + TAIL] = 0
    for place in range(m[source + TAIL]):
        row = address(m, source, place)
        m[SOURCES] = row
        if holds(m, f, begin, end):
            give(m, change, row, m[row + LEFT], size)
    return DONE


@kernel(_int(words, _int, _int, _int), nogil=True)
def relate(m: Memory, change: int, relation: int, size: int) -> int:
    """Apply a change to a relation; its rows have identities."""
    now, count = m[NOW], m[change + TAIL]
    if count == 0:
        return DONE
    if room_in_relation(m, relation, count, now) != DONE:
        return lacks(m, relation, m[relation + LIVE] + count)
    for place in range(count):
        row = address(m, change, place)
        if m[row + LEFT]:
            to = address(m, relation, m[relation + TAIL])
            copy_words(m, row, to, size)
            m[to + AT] = now
            m[to + LEFT] = FOREVER
            m[relation + TAIL] += 1
            m[relation + LIVE] += 1
    for place in range(count):
        row = address(m, change, place)
        if not m[row + LEFT]:
            held = address(m, relation, place_of_id(m, relation, m[row + ID]))
            m[held + LEFT] = now
            m[relation + LIVE] -= 1
    return DONE


@kernel(_int(words, _int, _int, _int, _int), nogil=True)
def identify(m: Memory, source: int, change: int, relation: int, size: int) -> int:
    """Apply a change without identities to a relation, and give it identities.

    Of equal rows the oldest one leaves. A row that comes and leaves at once is in no change.
    """
    now, count = m[NOW], m[source + TAIL]
    if count > m[change + CAPACITY]:
        return lacks(m, change, count)
    m[change + TAIL] = 0
    if count == 0:
        return DONE
    if room_in_relation(m, relation, count, now) != DONE:
        return lacks(m, relation, m[relation + LIVE] + count)
    begin = m[relation + TAIL]
    for place in range(count):
        row = address(m, source, place)
        if m[row + LEFT]:
            to = address(m, relation, m[relation + TAIL])
            copy_words(m, row, to, size)
            m[to + ID] = m[relation + FIRST_ID]
            m[to + AT] = now
            m[to + LEFT] = FOREVER
            m[relation + FIRST_ID] += 1
            m[relation + TAIL] += 1
            m[relation + LIVE] += 1
    for place in range(count):
        row = address(m, source, place)
        if m[row + LEFT]:
            continue
        held = address(m, relation, m[relation + HEAD])
        while m[held + LEFT] != FOREVER or not equal_words(
            m, row + NULLS, held + NULLS, size - NULLS
        ):
            held += m[relation + WIDTH]
        m[held + LEFT] = now
        m[relation + LIVE] -= 1
        if m[held + AT] < now:
            give(m, change, held, 0, size)
    for place in range(begin, m[relation + TAIL]):
        held = address(m, relation, place)
        if m[held + LEFT] == FOREVER:
            give(m, change, held, 1, size)
    return DONE


# A join in a program: the number of sources and the change of the join; the change and the relation
# of each source; then, for each source that changes, the steps to the others: the source, whether
# its old rows count, how many pairs of columns must be equal and where these are listed, how many
# conditions must be true and where these are, and an index of its relation by these columns, or 0.

STEP_WORDS = 7


@kernel(_int(words, floats, _int), nogil=True)
def _matches(m: Memory, f: Memory, step: int) -> int:
    """Whether the row that is at hand of a step's source matches those before."""
    row = m[SOURCES + m[step]]
    pair = m[step + 3]
    for _ in range(m[step + 2]):
        # Another source, the column there, and here.
        other = m[SOURCES + m[pair]]
        if m[row + VALUES + m[pair + 2]] != m[other + VALUES + m[pair + 1]]:
            return 0
        if (m[row + NULLS] >> m[pair + 2]) & 1 or (m[other + NULLS] >> m[pair + 1]) & 1:
            return 0
        pair += 3
    condition = m[step + 5]
    for _ in range(m[step + 4]):
        if not holds(m, f, m[condition], m[condition + 1]):
            return 0
        condition += 2
    return 1


@kernel(_int(words, _int, _int), nogil=True)
def _is_indexed(m: Memory, step: int, relation: int) -> int:
    """Whether rows of a step's source are found by an index."""
    return int(m[step + 6] > 0 and m[relation + TAIL] - m[relation + HEAD] > FEW_ROWS)


@kernel(_int(words, _int, _int), nogil=True)
def _bring_up(m: Memory, step: int, relation: int) -> int:
    """Have all rows of a relation in the index of a step."""
    index, capacity = m[step + 6], m[relation + CAPACITY]
    if m[index + CAPACITY] < capacity:
        return lacks(m, index, capacity)
    base, width = m[index + BASE], m[index + WIDTH]
    if m[index + STALE] or m[index + INDEXED_AT] != m[relation + MOVED]:
        for bucket in range(m[index + CAPACITY]):
            m[base + bucket * width + FIRST_PLACE] = -1
        m[index + STALE] = 0
        m[index + INDEXED_AT] = m[relation + MOVED]
        m[index + INDEXED] = m[relation + HEAD]
    mask = np.uint64(m[index + CAPACITY] - 1)
    for place in range(m[index + INDEXED], m[relation + TAIL]):
        row, pair = address(m, relation, place), m[step + 3]
        hashed = np.uint64(0)
        for _ in range(m[step + 2]):
            hashed = (hashed ^ np.uint64(m[row + VALUES + m[pair + 2]])) * _MULTIPLIER
            hashed ^= hashed >> _SHIFT
            pair += 3
        bucket = base + int(hashed & mask) * width
        if m[bucket + FIRST_PLACE] < 0:
            m[bucket + FIRST_PLACE] = place
        else:
            m[base + m[bucket + LAST_PLACE] * width + NEXT_PLACE] = place
        m[bucket + LAST_PLACE] = place
        m[base + place * width + NEXT_PLACE] = -1
    m[index + INDEXED] = m[relation + TAIL]
    return DONE


@kernel(_int(words, _int), nogil=True)
def _first_place(m: Memory, step: int) -> int:
    """The first place of a step's index that may match the rows before; -1 for none."""
    index, pair = m[step + 6], m[step + 3]
    hashed = np.uint64(0)
    for _ in range(m[step + 2]):
        other = m[SOURCES + m[pair]]
        hashed = (hashed ^ np.uint64(m[other + VALUES + m[pair + 1]])) * _MULTIPLIER
        hashed ^= hashed >> _SHIFT
        pair += 3
    bucket = int(hashed & np.uint64(m[index + CAPACITY] - 1))
    return m[m[index + BASE] + bucket * m[index + WIDTH] + FIRST_PLACE]


@kernel(_int(words, floats, _int), nogil=True)
def join(m: Memory, f: Memory, plan: int) -> int:
    """The change of a join: pairs of changes of a source with rows of the others.

    Sources before it are as they are now, sources after it as they were. Rows of the result are
    addresses of rows.
    """
    sources, change, now = m[plan], m[plan + 1], m[NOW]
    steps = plan + 2 + 2 * sources
    m[change + TAIL] = 0
    for first in range(sources):
        delta = m[plan + 2 + 2 * first]
        begin = steps + first * (sources - 1) * STEP_WORDS
        if m[delta + TAIL]:
            for depth in range(sources - 1):
                step = begin + depth * STEP_WORDS
                relation = m[plan + 3 + 2 * m[step]]
                if _is_indexed(m, step, relation) and _bring_up(m, step, relation) != DONE:
                    return NEEDS
        for place in range(m[delta + TAIL]):
            row = address(m, delta, place)
            m[SOURCES + first] = row
            depth: Any = 0
            m[CURSORS] = -1
            while depth >= 0:
                step = begin + depth * STEP_WORDS
                relation = m[plan + 3 + 2 * m[step]]
                at = m[CURSORS + depth]
                width, links = m[relation + WIDTH], 0
                if _is_indexed(m, step, relation):
                    links = m[m[step + 6] + BASE]
                    at = _first_place(m, step) if at < 0 else m[links + at * LINK + NEXT_PLACE]
                    at = NO_PLACE if at < 0 else at
                else:
                    at = m[relation + HEAD] if at < 0 else at + 1
                held = m[relation + BASE] + at * width
                until, found = m[relation + TAIL], False
                while at < until:
                    if m[step + 1]:
                        seen = m[held + AT] < now and m[held + LEFT] >= now
                    else:
                        seen = m[held + LEFT] > now
                    if seen:
                        m[SOURCES + m[step]] = held
                        if _matches(m, f, step):
                            found = True
                            break
                    if links:
                        at = m[links + at * LINK + NEXT_PLACE]
                        at = NO_PLACE if at < 0 else at
                        held = m[relation + BASE] + at * width
                    else:
                        at += 1
                        held += width
                if not found:
                    depth -= 1
                    continue
                m[CURSORS + depth] = at
                if depth < sources - 2:
                    depth += 1
                    m[CURSORS + depth] = -1
                    continue
                if m[change + TAIL] == m[TUPLES]:
                    return JOINS_TOO_MANY
                if m[change + TAIL] == m[change + CAPACITY]:
                    return lacks(m, change, 2 * m[change + CAPACITY])
                to = address(m, change, m[change + TAIL])
                m[to + ID] = 0
                m[to + AT] = 0
                m[to + LEFT] = m[row + LEFT]
                m[to + NULLS] = 0
                for source in range(sources):
                    m[to + VALUES + source] = m[SOURCES + source]
                m[change + TAIL] += 1
    return DONE
