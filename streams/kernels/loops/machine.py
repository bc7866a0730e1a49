"""The loop machine: instants, one after the other (`streams.evaluate.loops`).

At an instant every statement is evaluated once, in an order in which producers come before those
that read them without delay. Its program is a list of instructions: windows, then, if any of them
has anything to do, what computes the relation from their changes, then what the stream gives.

The machine can be left after each instant, and where a table lacks room before each instruction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streams.kernels.loops.expressions import evaluate, floats, holds, words
from streams.kernels.loops.groups import group_by
from streams.kernels.loops.layout import (
    AT,
    AT_INSTRUCTION,
    AT_MEMBER,
    CAPACITY,
    CHECK,
    CUTS,
    DELAY,
    DONE,
    DROPPED,
    EMIT,
    EVALUATED,
    EXPIRIES,
    EXPIRY_COUNT,
    EXPORT_COUNT,
    EXPORTS,
    EXTERNAL_COUNT,
    EXTERNALS,
    FAILED,
    FAILS,
    FILTER,
    FIRST_ID,
    FOREVER,
    FROM,
    GIVEN,
    GROUP,
    HEAD,
    ID,
    IDENTIFY,
    INSTANTS,
    INSTRUCTION,
    JOIN,
    KNOWN,
    LAST_STEP,
    LEAVES,
    LEFT,
    LENGTH,
    MADE,
    MADE_AT,
    MEMBER_COUNT,
    MEMBERS,
    NEEDS,
    NOW,
    NULLS,
    NUMBER,
    ORDER,
    OUT,
    PARTITION_WINDOW,
    PROGRAM,
    PROJECT,
    QUEUE,
    RANGE_WINDOW,
    REGISTERS,
    RELATE,
    ROWS_WINDOW,
    RUNNING,
    SEQUENCE,
    SKIPS,
    SOURCES,
    STEP_BITS,
    STEPS,
    TAIL,
    TOO_LARGE,
    TUPLES,
    UNBOUNDED_WINDOW,
    UNTIL,
    VALUES,
    Memory,
)
from streams.kernels.loops.relations import filter_change, identify, join, relate
from streams.kernels.loops.tables import (
    address,
    copy_words,
    equal_words,
    lacks,
    room_behind,
)
from streams.kernels.loops.windows import partition_window, row_window, unbounded_window
from streams.kernels.machine_code import kernel

_int = types.int64
FEW_CHANGES = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@kernel(_int(words, floats, _int), nogil=True)
def project(m: Memory, f: Memory, pc: int) -> int:
    """Append a change of a SELECT to that of its union.

    Arguments: the change that it reads, the number of sources, the change that it gives, whether it
    is the first of the union, steps of HAVING (begin, end; equal for none), number of outputs,
    where their steps are.
    """
    source, sources, change, first = m[pc + 1], m[pc + 2], m[pc + 3], m[pc + 4]
    if first:
        m[change + TAIL] = 0
    if m[change + TAIL] + m[source + TAIL] > m[change + CAPACITY]:
        return lacks(m, change, m[change + TAIL] + m[source + TAIL])
    for place in range(m[source + TAIL]):
        row = address(m, source, place)
        m[SOURCES] = row
        if sources > 1:
            copy_words(m, row + VALUES, SOURCES, sources)
        if m[pc + 5] < m[pc + 6] and not holds(m, f, m[pc + 5], m[pc + 6]):
            continue
        to = address(m, change, m[change + TAIL])
        nulls: Any = np.int64(0)
        steps = m[pc + 8]
        for output in range(m[pc + 7]):
            evaluate(m, f, m[steps], m[steps + 1])
            m[to + VALUES + output] = m[REGISTERS]
            nulls |= (1 - m[KNOWN]) << output
            steps += 2
        m[to + ID] = 0
        m[to + AT] = 0
        m[to + LEFT] = m[row + LEFT]
        m[to + NULLS] = nulls
        m[change + TAIL] += 1
    return DONE


@kernel(_int(words, _int, _int), nogil=True)
def hash_of(m: Memory, row: int, size: int) -> int:
    """A hash of a row's values and NULLs."""
    hashed = np.uint64(0)
    for word in range(NULLS, size):
        hashed = (hashed ^ np.uint64(m[row + word])) * _MULTIPLIER
        hashed ^= hashed >> _SHIFT
    return int(hashed >> np.uint64(1))


@kernel(types.void(words, _int, _int, _int, _int, _int), nogil=True)
def cancel(m: Memory, change: int, wanted: int, size: int, heads: int, buckets: int) -> None:
    """Put 2 into the word AT of rows that also change the other way: the first of equal ones.

    Parameters
    ----------
    wanted
        1 for rows that enter, 0 for those that leave.
    heads, buckets
        Where places of rows by their hashes may be written, and how many.
    """
    for bucket in range(buckets):
        m[heads + bucket] = -1
    for place in range(m[change + TAIL] - 1, -1, -1):
        row = address(m, change, place)
        m[row + AT] = 0
        if m[row + LEFT] != wanted:
            bucket = heads + hash_of(m, row, size) % buckets
            m[row + ID] = m[bucket]
            m[bucket] = place
    for place in range(m[change + TAIL]):
        row = address(m, change, place)
        if m[row + LEFT] != wanted:
            continue
        link = heads + hash_of(m, row, size) % buckets
        while m[link] >= 0:
            other = address(m, change, m[link])
            if equal_words(m, row + NULLS, other + NULLS, size - NULLS):
                m[row + AT] = 2
                m[link] = m[other + ID]
                break
            link = other + ID


@kernel(_int(words, _int), nogil=True)
def emit(m: Memory, pc: int) -> int:
    """Give what a stream has of a change.

    Arguments: the change, the member, 1 for ISTREAM or 0 for DSTREAM or 2 for RSTREAM, the relation
    of RSTREAM, the number of columns, a table for hashes.
    """
    change, member, what, relation = m[pc + 1], m[pc + 2], m[pc + 3], m[pc + 4]
    size, now, count, against = VALUES + m[pc + 5], m[NOW], 0, 0
    if what == 2:
        for place in range(m[relation + HEAD], m[relation + TAIL]):
            count += int(m[address(m, relation, place) + LEFT] == FOREVER)
    else:
        for place in range(m[change + TAIL]):
            row = address(m, change, place)
            m[row + AT] = 0
            if m[row + LEFT] == what:
                count += 1
            else:
                against += 1
        if count and against:
            hashes = m[pc + 6]
            buckets = 1 if against <= FEW_CHANGES else 2 * against
            if buckets > m[hashes + CAPACITY]:
                return lacks(m, hashes, buckets)
            cancel(m, change, what, size, address(m, hashes, 0), buckets)
            count = 0
            for place in range(m[change + TAIL]):
                row = address(m, change, place)
                count += int(m[row + LEFT] == what and m[row + AT] == 0)
    if count == 0:
        return DONE
    delay = m[member + DELAY]
    to = m[member + QUEUE] if delay else m[member + GIVEN]
    result = DONE
    if m[MADE] + count > m[TUPLES]:
        result = TOO_LARGE
    elif delay == 1 and now & LAST_STEP >= m[STEPS]:
        result = FAILS
    if result != DONE:
        if not m[CUTS]:
            return result
        m[member + DROPPED] += count
        return DONE
    if room_behind(m, to, count) != DONE:
        return NEEDS
    m[MADE] += count
    source, begin, end = change, 0, m[change + TAIL]
    if what == 2:
        source, begin, end = relation, m[relation + HEAD], m[relation + TAIL]
    for place in range(begin, end):
        row = address(m, source, place)
        if what == 2:
            if m[row + LEFT] != FOREVER:
                continue
        elif m[row + LEFT] != what or m[row + AT]:
            continue
        made = address(m, to, m[to + TAIL])
        copy_words(m, row, made, size)
        m[made + AT] = now + delay
        m[to + TAIL] += 1
    if not delay:
        m[to + FROM] = 0
        m[to + UNTIL] = m[to + TAIL]
    return DONE


@kernel(_int(words), nogil=True)
def next_instant(m: Memory) -> int:
    """When a tuple arrives, a row leaves because of its age, or a delayed tuple is due."""
    at: Any = np.int64(FOREVER)
    for place in range(m[EXTERNAL_COUNT]):
        stream = m[m[EXTERNALS] + place]
        if m[stream + HEAD] < m[stream + TAIL]:
            at = min(at, m[address(m, stream, m[stream + HEAD]) + AT])
    for place in range(m[EXPIRY_COUNT]):
        log, length = m[m[EXPIRIES] + 2 * place], m[m[EXPIRIES] + 2 * place + 1]
        if m[log + HEAD] < m[log + TAIL]:
            at = min(at, m[address(m, log, m[log + HEAD]) + AT] + length)
    for place in range(m[MEMBER_COUNT]):
        member = m[m[MEMBERS] + place]
        if m[member + DELAY]:
            queue = m[member + QUEUE]
            if m[queue + HEAD] < m[queue + TAIL]:
                at = min(at, m[address(m, queue, m[queue + HEAD]) + AT])
    return at


@kernel(_int(words), nogil=True)
def begin_instant(m: Memory) -> int:
    """Have the tuples of an instant arrive."""
    now = m[NOW]
    for place in range(m[MEMBER_COUNT]):
        member = m[m[MEMBERS] + place]
        if m[member + DELAY]:
            queue, given, due = m[member + QUEUE], m[member + GIVEN], 0
            at = m[queue + HEAD]
            while at < m[queue + TAIL] and m[address(m, queue, at) + AT] <= now:
                at += 1
                due += 1
            if due > m[given + CAPACITY]:
                return lacks(m, given, due)
    for place in range(m[MEMBER_COUNT]):
        member = m[m[MEMBERS] + place]
        given = m[member + GIVEN]
        m[given + FROM] = m[given + UNTIL] = m[given + HEAD] = m[given + TAIL] = 0
        if m[member + DELAY]:
            queue, size = m[member + QUEUE], m[given + 2]
            while m[queue + HEAD] < m[queue + TAIL]:
                row = address(m, queue, m[queue + HEAD])
                if m[row + AT] > now:
                    break
                copy_words(m, row, address(m, given, m[given + TAIL]), size)
                m[queue + HEAD] += 1
                m[given + TAIL] += 1
            m[given + UNTIL] = m[given + TAIL]
    for place in range(m[EXTERNAL_COUNT]):
        stream = m[m[EXTERNALS] + place]
        m[stream + FIRST_ID] += m[stream + UNTIL] - m[stream + FROM]
        m[stream + FROM] = m[stream + HEAD]
        while m[stream + HEAD] < m[stream + TAIL]:
            if m[address(m, stream, m[stream + HEAD]) + AT] > now:
                break
            m[stream + HEAD] += 1
        m[stream + UNTIL] = m[stream + HEAD]
    return DONE


@kernel(_int(words), nogil=True)
def end_instant(m: Memory) -> int:
    """Give the exported tuples of an instant; count all of streams."""
    sequence = m[SEQUENCE]
    if m[sequence + TAIL] + m[EXPORT_COUNT] > m[sequence + CAPACITY]:
        return lacks(m, sequence, m[sequence + TAIL] + m[EXPORT_COUNT])
    for place in range(m[EXPORT_COUNT]):
        member = m[m[EXPORTS] + place]
        out, given = m[member + OUT], m[member + GIVEN]
        if m[out + TAIL] + m[given + TAIL] > m[out + CAPACITY]:
            return lacks(m, out, m[out + TAIL] + m[given + TAIL])
    for place in range(m[EXPORT_COUNT]):
        member = m[m[EXPORTS] + place]
        out, given = m[member + OUT], m[member + GIVEN]
        count = m[given + TAIL]
        if count == 0:
            continue
        for row in range(count):
            copy_words(m, address(m, given, row), address(m, out, m[out + TAIL]), m[given + 2])
            m[address(m, out, m[out + TAIL]) + AT] = m[NOW]
            m[out + TAIL] += 1
        entry = address(m, sequence, m[sequence + TAIL])
        m[entry] = place
        m[entry + 1] = count
        m[sequence + TAIL] += 1
    for place in range(m[MEMBER_COUNT]):
        given = m[m[m[MEMBERS] + place] + GIVEN]
        m[given + FIRST_ID] += m[given + TAIL]
    return DONE


@kernel(_int(words, floats, _int), nogil=True)
def perform(m: Memory, f: Memory, pc: int) -> int:
    """Carry out an instruction."""
    what = m[pc]
    if what in (RANGE_WINDOW, ROWS_WINDOW):
        length, rows = (m[pc + 6], 0) if what == RANGE_WINDOW else (0, m[pc + 6])
        return row_window(m, m[pc + 1], m[pc + 2], m[pc + 3], m[pc + 4], m[pc + 5], length, rows)
    if what == CHECK:
        return DONE if m[EVALUATED] else SKIPS
    if what == PROJECT:
        return project(m, f, pc)
    if what == EMIT:
        return emit(m, pc)
    if what == JOIN:
        return join(m, f, m[pc + 1])
    if what == RELATE:
        return relate(m, m[pc + 1], m[pc + 2], m[pc + 3])
    if what == IDENTIFY:
        return identify(m, m[pc + 1], m[pc + 2], m[pc + 3], m[pc + 4])
    if what == FILTER:
        return filter_change(m, f, m[pc + 1], m[pc + 2], m[pc + 3], m[pc + 4], m[pc + 5])
    if what == GROUP:
        return group_by(m, f, m[pc + 1])
    if what == UNBOUNDED_WINDOW:
        return unbounded_window(m, m[pc + 2], m[pc + 3], m[pc + 4], m[pc + 5])
    if what == PARTITION_WINDOW:
        return partition_window(
            *(m, m[pc + 1], m[pc + 2], m[pc + 3], m[pc + 4], m[pc + 5]),
            *(m[pc + 6], m[pc + 7], m[pc + 8], m[pc + 9], m[pc + 10], m[pc + 11]),
        )
    return FAILS


@kernel(_int(words, floats, _int, _int), nogil=True)
def run(m: Memory, f: Memory, until: int, most: int) -> int:
    """Evaluate instants up to one, but no more than so many.

    Returns
    -------
    int
        `DONE`; `LEAVES` if there are more; `NEEDS` if a table needs room, and the same is to be
        asked for once more; `FAILS` if a millisecond has more instants than it may, `TOO_LARGE` if
        it has more tuples, `JOINS_TOO_MANY` if a join has more rows: that of the member `FAILED`.
    """
    evaluated = 0
    while True:
        if not m[RUNNING]:
            at = next_instant(m)
            if at > until:
                return DONE
            if evaluated == most:
                return LEAVES
            m[NOW] = at
            if at >> STEP_BITS != m[MADE_AT]:
                m[MADE], m[MADE_AT] = 0, at >> STEP_BITS
            if begin_instant(m) != DONE:
                return NEEDS
            m[RUNNING] = 1
            m[AT_MEMBER] = m[AT_INSTRUCTION] = 0
            m[EVALUATED] = 0
        while m[AT_MEMBER] < m[MEMBER_COUNT]:
            member = m[m[ORDER] + m[AT_MEMBER]]
            while m[AT_INSTRUCTION] < m[member + LENGTH]:
                pc = m[member + PROGRAM] + m[AT_INSTRUCTION] * INSTRUCTION
                result = perform(m, f, pc)
                if result == SKIPS:
                    break
                if result != DONE:
                    m[FAILED] = m[member + NUMBER]
                    return result
                m[AT_INSTRUCTION] += 1
            m[AT_MEMBER] += 1
            m[AT_INSTRUCTION] = 0
            m[EVALUATED] = 0
        if end_instant(m) != DONE:
            return NEEDS
        m[INSTANTS] += 1
        m[RUNNING] = 0
        evaluated += 1
