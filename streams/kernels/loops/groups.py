"""GROUP BY of the loop machine (`streams.aggregates`), one instant a step.

A group's row has the number of its rows in the word AT, and in LEFT the instant, counted, at which
it was touched last. Its keys, the states of its aggregates and its row as it was shown last follow:
whether there is one, which aggregates are NULL, and their values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streams.kernels.loops.expressions import evaluate, floats, words
from streams.kernels.loops.layout import (
    AGGREGATE,
    AT,
    AVG_FLOAT,
    AVG_INT,
    BEST,
    CAPACITY,
    CHANGE,
    COUNT,
    COUNT_ALL,
    DONE,
    FIRST,
    FREE,
    HASH,
    ID,
    INSTANTS,
    KEY_NULLS,
    KEY_NUMBER,
    KEY_STEPS,
    KEYS,
    KNOWN,
    LEFT,
    LIVE,
    NODE_AFTER,
    NODE_BEFORE,
    NODE_ID,
    NODE_RANK,
    NODE_VALUE,
    NULLS,
    NUMBER_OF,
    RANK_FLOAT,
    RANK_ID,
    REGISTERS,
    REVERSED,
    SHOWN,
    SOURCE,
    SOURCE_COUNT,
    SOURCES,
    SUM_INT,
    TABLE,
    TAIL,
    TOUCHED,
    VALUES,
    Memory,
)
from streams.kernels.loops.sums import (
    add_float,
    add_int,
    float_sum,
    mean_of_ints,
    whole_sum,
)
from streams.kernels.loops.tables import (
    add_key,
    address,
    compact,
    copy_words,
    drop_key,
    equal_words,
    find_key,
    lacks,
    room_to_find,
)
from streams.kernels.machine_code import kernel

_int = types.int64


@kernel(_int(_int, _int, _int), nogil=True)
def rank_of(value: int, identity: int, ranked: int) -> int:
    """Less for the better value."""
    rank = identity if ranked & 3 == RANK_ID else value
    if ranked & 3 == RANK_FLOAT:
        # Bits of floats in the order of the floats.
        rank = rank ^ ((rank >> 63) & 0x7FFFFFFFFFFFFFFF)
    return ~rank if ranked & REVERSED else rank


@kernel(types.void(words, _int, _int), nogil=True)
def free_node(m: Memory, pool: int, place: int) -> None:
    """Give a place of a pool up."""
    m[address(m, pool, place) + NODE_AFTER] = m[pool + FREE]
    m[pool + FREE] = place
    m[pool + LIVE] -= 1


@kernel(_int(words, _int), nogil=True)
def new_node(m: Memory, pool: int) -> int:
    """A free place of a pool, which has one."""
    m[pool + LIVE] += 1
    place = m[pool + FREE]
    if place >= 0:
        m[pool + FREE] = m[address(m, pool, place) + NODE_AFTER]
        return place
    m[pool + TAIL] += 1
    return m[pool + TAIL] - 1


@kernel(types.void(words, _int, _int, _int), nogil=True)
def drop_last(m: Memory, pool: int, ends: int, place: int) -> None:
    """Take the last contender out of a list."""
    before = m[address(m, pool, place) + NODE_BEFORE]
    m[ends + 1] = before
    if before < 0:
        m[ends] = -1
    else:
        m[address(m, pool, before) + NODE_AFTER] = -1
    free_node(m, pool, place)


@kernel(types.void(words, _int, _int, _int, _int, _int, _int), nogil=True)
def contend(
    m: Memory, pool: int, ends: int, identity: int, value: int, ranked: int, stays: int
) -> None:
    """Add a value to a list of contenders, whose ends are given."""
    rank = rank_of(value, identity, ranked)
    if stays and m[ends] >= 0 and rank >= m[address(m, pool, m[ends]) + NODE_RANK]:
        return
    while m[ends + 1] >= 0:
        last = m[ends + 1]
        if not stays and m[address(m, pool, last) + NODE_RANK] < rank:
            break
        drop_last(m, pool, ends, last)
    place = new_node(m, pool)
    node = address(m, pool, place)
    m[node + NODE_ID] = identity
    m[node + NODE_RANK] = rank
    m[node + NODE_VALUE] = value
    m[node + NODE_BEFORE] = m[ends + 1]
    m[node + NODE_AFTER] = -1
    if m[ends + 1] < 0:
        m[ends] = place
    else:
        m[address(m, pool, m[ends + 1]) + NODE_AFTER] = place
    m[ends + 1] = place


@kernel(types.void(words, _int, _int, _int), nogil=True)
def give_up(m: Memory, pool: int, ends: int, identity: int) -> None:
    """Take the value of a row out of a list."""
    first = m[ends]
    if first < 0 or m[address(m, pool, first) + NODE_ID] != identity:
        return
    after = m[address(m, pool, first) + NODE_AFTER]
    m[ends] = after
    if after < 0:
        m[ends + 1] = -1
    else:
        m[address(m, pool, after) + NODE_BEFORE] = -1
    free_node(m, pool, first)


@kernel(types.void(words, floats, _int, _int, _int), nogil=True)
def fold(m: Memory, f: Memory, plan: int, row: int, group: int) -> None:
    """Add a row of a change to a group's aggregates, or take it out."""
    sign = 1 if m[row + LEFT] else -1
    m[group + AT] += sign
    one = m[plan + FIRST]
    for _ in range(m[plan + NUMBER_OF]):
        what, state = m[one], group + m[one + 3]
        if what != COUNT_ALL:
            evaluate(m, f, m[one + 1], m[one + 2])
            value = m[REGISTERS]
            if m[KNOWN]:
                if what == COUNT:
                    m[state] += sign
                elif what <= AVG_INT:
                    add_int(m, state, value, sign)
                elif what <= AVG_FLOAT:
                    add_float(m, state, value, sign)
                elif sign > 0:
                    contend(m, m[one + 6], state, m[row + ID], value, m[one + 4], m[one + 5])
                else:
                    give_up(m, m[one + 6], state, m[row + ID])
        one += AGGREGATE


@kernel(types.void(words, floats, _int, _int, _int), nogil=True)
def results(m: Memory, f: Memory, plan: int, group: int, to: int) -> None:
    """Write the aggregates of a group: which are NULL, then their values."""
    nulls: Any = np.int64(0)
    one = m[plan + FIRST]
    for place in range(m[plan + NUMBER_OF]):
        what, state = m[one], group + m[one + 3]
        m[KNOWN] = 1
        if what == COUNT_ALL:
            m[REGISTERS] = m[group + AT]
        elif what == COUNT:
            m[REGISTERS] = m[state]
        elif what == BEST:
            m[KNOWN] = np.int64(m[state] >= 0)
            if m[KNOWN]:
                m[REGISTERS] = m[address(m, m[one + 6], m[state]) + NODE_VALUE]
        elif m[state] == 0:
            m[KNOWN] = 0
        elif what == SUM_INT:
            whole_sum(m, state)
        elif what == AVG_INT:
            mean_of_ints(m, f, state, m[state])
        else:
            float_sum(m, f, state, m[state] if what == AVG_FLOAT else 1)
        if m[KNOWN]:
            m[to + 1 + place] = m[REGISTERS]
        else:
            m[to + 1 + place] = 0
            nulls |= np.int64(1) << place
        one += AGGREGATE
    m[to] = nulls


@kernel(types.void(words, _int, _int, _int, _int), nogil=True)
def show(m: Memory, plan: int, group: int, shown: int, enters: int) -> None:
    """Append a group's row to the change; `shown` is where its aggregates are."""
    keys, change = m[plan + KEY_NUMBER], m[plan + CHANGE]
    to = address(m, change, m[change + TAIL])
    m[change + TAIL] += 1
    m[to + ID] = 0
    m[to + AT] = 0
    m[to + LEFT] = enters
    m[to + NULLS] = m[group + NULLS] | (m[shown] << keys)
    copy_words(m, group + VALUES, to + VALUES, keys)
    copy_words(m, shown + 1, to + VALUES + keys, m[plan + NUMBER_OF])


@kernel(_int(words, _int, _int), nogil=True)
def room_for_groups(m: Memory, plan: int, added: int) -> int:
    """Have room for what so many changes may need."""
    table, change, touched = m[plan + TABLE], m[plan + CHANGE], m[plan + TOUCHED]
    if m[table + TAIL] + added > m[table + CAPACITY]:
        if 4 * (m[table + LIVE] + added) > 3 * m[table + CAPACITY]:
            return lacks(m, table, m[table + LIVE] + added)
        compact(m, table)
    if room_to_find(m, table, added) != DONE:
        return lacks(m, m[table + HASH], 2 * m[table + CAPACITY])
    if 2 * added > m[change + CAPACITY]:
        return lacks(m, change, 2 * added)
    if added > m[touched + CAPACITY]:
        return lacks(m, touched, added)
    one = m[plan + FIRST]
    for _ in range(m[plan + NUMBER_OF]):
        if m[one] == BEST and m[m[one + 6] + LIVE] + added > m[m[one + 6] + CAPACITY]:
            return lacks(m, m[one + 6], m[m[one + 6] + LIVE] + added)
        one += AGGREGATE
    return DONE


@kernel(types.void(words, _int, _int), nogil=True)
def touch(m: Memory, plan: int, place: int) -> None:
    """Note that a group has changed at this instant."""
    group, touched = address(m, m[plan + TABLE], place), m[plan + TOUCHED]
    if m[group + LEFT] != m[INSTANTS] + 1:
        m[group + LEFT] = m[INSTANTS] + 1
        m[address(m, touched, m[touched + TAIL])] = place
        m[touched + TAIL] += 1


@kernel(_int(words, _int), nogil=True)
def new_group(m: Memory, plan: int) -> int:
    """A group with the keys at hand."""
    place = add_key(m, m[plan + TABLE], m[plan + KEY_NUMBER])
    group = address(m, m[plan + TABLE], place)
    one = m[plan + FIRST]
    for _ in range(m[plan + NUMBER_OF]):
        if m[one] == BEST:
            m[group + m[one + 3]] = -1
            m[group + m[one + 3] + 1] = -1
        one += AGGREGATE
    return place


@kernel(types.void(words, floats, _int), nogil=True)
def show_all(m: Memory, f: Memory, plan: int) -> None:
    """Let the rows of all groups be what was shown last."""
    table, shown_at = m[plan + TABLE], m[plan + SHOWN]
    for place in range(m[table + TAIL]):
        group = address(m, table, place)
        results(m, f, plan, group, group + shown_at + 1)
        m[group + shown_at] = 1


@kernel(_int(words, floats, _int), nogil=True)
def group_by(m: Memory, f: Memory, plan: int) -> int:
    """The change of the groups' rows: first those that go, then those that come."""
    source, table, touched = m[plan + SOURCE], m[plan + TABLE], m[plan + TOUCHED]
    keys, number, sources = m[plan + KEY_NUMBER], m[plan + NUMBER_OF], m[plan + SOURCE_COUNT]
    change, shown_at = m[plan + CHANGE], m[plan + SHOWN]
    m[change + TAIL] = 0
    m[touched + TAIL] = 0
    if m[source + TAIL] == 0 and (keys or m[table + LIVE]):
        return DONE
    if room_for_groups(m, plan, m[source + TAIL] + 1) != DONE:
        return 2
    if keys == 0:
        m[KEY_NULLS] = 0
        if m[table + LIVE] == 0:
            touch(m, plan, new_group(m, plan))
    for place in range(m[source + TAIL]):
        row = address(m, source, place)
        m[SOURCES] = row
        if sources > 1:
            copy_words(m, row + VALUES, SOURCES, sources)
        nulls: Any = np.int64(0)
        steps = m[plan + KEY_STEPS]
        for key in range(keys):
            evaluate(m, f, m[steps], m[steps + 1])
            m[KEYS + key] = m[REGISTERS]
            nulls |= (1 - m[KNOWN]) << key
            steps += 2
        m[KEY_NULLS] = nulls
        found = find_key(m, table, keys)
        if found < 0:
            found = new_group(m, plan)
        touch(m, plan, found)
        fold(m, f, plan, row, address(m, table, found))
    # What is touched has the group's place, whether its row changes, which aggregates are NULL,
    # and their values.
    for which in range(m[touched + TAIL]):
        after = address(m, touched, which)
        group = address(m, table, m[after])
        m[after + 1] = 0
        if keys and m[group + AT] == 0:
            if m[group + shown_at]:
                show(m, plan, group, group + shown_at + 1, 0)
            drop_key(m, table, m[after])
            continue
        results(m, f, plan, group, after + 2)
        if m[group + shown_at]:
            if equal_words(m, group + shown_at + 1, after + 2, number + 1):
                continue
            show(m, plan, group, group + shown_at + 1, 0)
        m[after + 1] = 1
    for which in range(m[touched + TAIL]):
        after = address(m, touched, which)
        if m[after + 1]:
            group = address(m, table, m[after])
            m[group + shown_at] = 1
            copy_words(m, after + 2, group + shown_at + 1, number + 1)
            show(m, plan, group, group + shown_at + 1, 1)
    return DONE
