"""Windows of the loop machine (`streams.operators.window`), one instant a step.

A window has a log of its rows, and gives the change of its relation: rows that leave, then rows
that enter, each by their identities. A row that would do both at one instant does neither.
"""

from __future__ import annotations

from numba import types

from streams.kernels.loops.expressions import words
from streams.kernels.loops.layout import (
    AT,
    CAPACITY,
    DONE,
    EVALUATED,
    FIRST_ID,
    FROM,
    HASH,
    HEAD,
    ID,
    KEY_NULLS,
    KEYS,
    LEFT,
    LIVE,
    NOW,
    NULLS,
    TAIL,
    UNTIL,
    VALUES,
    WIDTH,
    Memory,
)
from streams.kernels.loops.tables import (
    add_key,
    address,
    copy_words,
    drop_key,
    find_anew,
    find_key,
    lacks,
    read_row,
    room_behind,
    room_to_find,
)
from streams.kernels.machine_code import kernel

_int = types.int64


@kernel(types.void(words, _int, _int, _int, _int), nogil=True)
def give(m: Memory, change: int, row: int, enters: int, size: int) -> None:
    """Append a row to a change, which has room for it."""
    to = address(m, change, m[change + TAIL])
    copy_words(m, row, to, size)
    m[to + LEFT] = enters
    m[change + TAIL] += 1


@kernel(types.void(words, _int, _int, _int, _int, _int), nogil=True)
def _arrive(m: Memory, stream: int, place: int, to: int, places: int, count: int) -> None:
    """Make a row of a window of one of its stream."""
    now = m[NOW]
    read_row(m, address(m, stream, place), to, places, count, now)
    m[to + ID] = m[stream + FIRST_ID] + place - m[stream + FROM]
    m[to + AT] = now
    m[to + LEFT] = 1


@kernel(_int(words, _int, _int, _int, _int), nogil=True)
def unbounded_window(m: Memory, change: int, stream: int, places: int, count: int) -> int:
    """`[UNBOUNDED]`: rows that arrive."""
    arrived = m[stream + UNTIL] - m[stream + FROM]
    if arrived > m[change + CAPACITY]:
        return lacks(m, change, arrived)
    m[change + TAIL] = 0
    for place in range(m[stream + FROM], m[stream + UNTIL]):
        _arrive(m, stream, place, address(m, change, m[change + TAIL]), places, count)
        m[change + TAIL] += 1
    m[EVALUATED] |= arrived
    return DONE


@kernel(_int(words, _int, _int, _int, _int, _int, _int, _int), nogil=True)
def row_window(
    m: Memory,
    log: int,
    change: int,
    stream: int,
    places: int,
    count: int,
    length: int,
    rows: int,
) -> int:
    """`[RANGE t]`, `[NOW]` and `[ROWS n]`, of which rows leave in the order in which they came.

    Either the length, in instants, or the number of rows is 0.
    """
    arrived = m[stream + UNTIL] - m[stream + FROM]
    head, held = m[log + HEAD], m[log + TAIL] - m[log + HEAD]
    gone = hidden = 0
    if length:
        while gone < held and m[address(m, log, head + gone) + AT] + length <= m[NOW]:
            gone += 1
    else:
        excess = max(held + arrived - rows, 0)
        gone = min(excess, held)
        hidden = excess - gone
    m[change + TAIL] = 0
    if arrived + gone == 0:
        return DONE
    if arrived + gone > m[change + CAPACITY]:
        return lacks(m, change, arrived + gone)
    if room_behind(m, log, arrived) != DONE:
        return lacks(m, log, held + arrived)
    size = VALUES + count
    for place in range(m[log + HEAD], m[log + HEAD] + gone):
        give(m, change, address(m, log, place), 0, size)
    m[log + HEAD] += gone
    for place in range(m[stream + FROM] + hidden, m[stream + UNTIL]):
        to = address(m, log, m[log + TAIL])
        _arrive(m, stream, place, to, places, count)
        m[log + TAIL] += 1
        give(m, change, to, 1, size)
    m[EVALUATED] = 1
    return DONE


# PARTITION BY: rows of a key are linked. A key's row has how many there are and the first one's
# place in the words AT and LEFT, the last one's after the keys. A row of the window has the next
# one's place and its key's after its values. LEFT is 1, or 2 of a row that leaves, or 0.


@kernel(_int(words, _int, _int, _int, _int), nogil=True)
def _find(m: Memory, row: int, by: int, count: int, keys: int) -> int:
    """The place of a row's key, which is noted at `KEYS`; -1 for none."""
    nulls = 0
    for key in range(count):
        column = m[by + key]
        m[KEYS + key] = m[row + VALUES + column]
        nulls |= ((m[row + NULLS] >> column) & 1) << key
    m[KEY_NULLS] = nulls
    return find_key(m, keys, count)


@kernel(types.void(words, _int, _int, _int, _int, _int), nogil=True)
def enter_partition(m: Memory, log: int, place: int, by: int, count: int, keys: int) -> None:
    """Link a row to the others of its key; there is room for a new key."""
    row = address(m, log, place)
    links = row + m[log + WIDTH] - 2
    found = _find(m, row, by, count, keys)
    if found < 0:
        found = add_key(m, keys, count)
    key = address(m, keys, found)
    m[links] = -1
    m[links + 1] = found
    if m[key + AT]:
        m[address(m, log, m[key + VALUES + count]) + m[log + WIDTH] - 2] = place
    else:
        m[key + LEFT] = place
    m[key + VALUES + count] = place
    m[key + AT] += 1


@kernel(_int(words, _int, _int, _int), nogil=True)
def _leave_first(m: Memory, log: int, keys: int, key: int) -> int:
    """Take the first row of a key out; its place."""
    first = m[key + LEFT]
    row = address(m, log, first)
    m[row + LEFT] = 2
    m[key + LEFT] = m[row + m[log + WIDTH] - 2]
    m[key + AT] -= 1
    return first


@kernel(types.void(words, _int, _int, _int, _int), nogil=True)
def link_anew(m: Memory, log: int, by: int, count: int, keys: int) -> None:
    """Move the rows of a window together, and make its keys anew."""
    width, kept = m[log + WIDTH], 0
    for place in range(m[log + HEAD], m[log + TAIL]):
        row = address(m, log, place)
        if m[row + LEFT]:
            if kept < place:
                copy_words(m, row, address(m, log, kept), width)
            kept += 1
    m[log + HEAD] = 0
    m[log + TAIL] = m[log + LIVE] = kept
    m[keys + TAIL] = m[keys + LIVE] = 0
    find_anew(m, keys)
    for place in range(kept):
        enter_partition(m, log, place, by, count, keys)


@kernel(_int(words, _int, _int, _int, _int, _int, _int, _int, _int, _int, _int, _int), nogil=True)
def partition_window(
    m: Memory,
    log: int,
    change: int,
    stream: int,
    places: int,
    count: int,
    rows: int,
    length: int,
    by: int,
    key_count: int,
    keys: int,
    leaving: int,
) -> int:
    """`[PARTITION BY … ROWS n]`, and with `RANGE t`, whose length is 0 if it has none."""
    arrived = m[stream + UNTIL] - m[stream + FROM]
    now = m[NOW]
    m[change + TAIL] = 0
    expired, at = 0, m[log + HEAD]
    if length:
        while at < m[log + TAIL] and m[address(m, log, at) + AT] + length <= now:
            expired += m[address(m, log, at) + LEFT]
            at += 1
    if arrived + expired == 0:
        return DONE
    if 2 * arrived + expired > m[change + CAPACITY]:
        return lacks(m, change, 2 * arrived + expired)
    if arrived + expired > m[leaving + CAPACITY]:
        return lacks(m, leaving, arrived + expired)
    if m[log + TAIL] + arrived > m[log + CAPACITY]:
        if 4 * (m[log + LIVE] + arrived) > 3 * m[log + CAPACITY]:
            return lacks(m, log, m[log + LIVE] + arrived)
        link_anew(m, log, by, key_count, keys)
    if m[keys + TAIL] + arrived > m[keys + CAPACITY]:
        if 4 * (m[keys + LIVE] + arrived) > 3 * m[keys + CAPACITY]:
            return lacks(m, keys, m[keys + LIVE] + arrived)
        link_anew(m, log, by, key_count, keys)
    if room_to_find(m, keys, arrived) != DONE:
        return lacks(m, m[keys + HASH], 2 * m[keys + CAPACITY])
    begin, left = m[log + TAIL], 0
    for place in range(m[stream + FROM], m[stream + UNTIL]):
        row_place = m[log + TAIL]
        row = address(m, log, row_place)
        _arrive(m, stream, place, row, places, count)
        m[log + TAIL] += 1
        enter_partition(m, log, row_place, by, key_count, keys)
        key = address(m, keys, m[row + m[log + WIDTH] - 1])
        if m[key + AT] > rows:
            m[address(m, leaving, left)] = _leave_first(m, log, keys, key)
            left += 1
    if expired:
        for place in range(m[log + HEAD], m[log + TAIL]):
            row = address(m, log, place)
            if m[row + AT] + length > now:
                break
            if m[row + LEFT] == 1:
                key_place = m[row + m[log + WIDTH] - 1]
                key = address(m, keys, key_place)
                m[address(m, leaving, left)] = _leave_first(m, log, keys, key)
                left += 1
                if m[key + AT] == 0:
                    drop_key(m, keys, key_place)
    gone = m[address(m, leaving, 0) : address(m, leaving, left)]
    gone.sort()
    size = VALUES + count
    for which in range(left):
        row = address(m, log, gone[which])
        m[row + LEFT] = 0
        if m[row + AT] < now:
            give(m, change, row, 0, size)
    for place in range(begin, m[log + TAIL]):
        row = address(m, log, place)
        if m[row + LEFT]:
            give(m, change, row, 1, size)
    m[log + LIVE] += arrived - left
    while m[log + HEAD] < m[log + TAIL] and not m[address(m, log, m[log + HEAD]) + LEFT]:
        m[log + HEAD] += 1
    if m[log + HEAD] == m[log + TAIL]:
        m[log + HEAD] = m[log + TAIL] = 0
    m[EVALUATED] = 1
    return DONE
