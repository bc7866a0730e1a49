"""Expressions of the loop machine: steps over registers (`streams.expressions` says what each is).

Float results are normalised after each step: floats have one zero, and what is not finite is NULL.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from streams.kernels.loops.layout import (
    ABS_FLOAT,
    ABS_INT,
    ADD_FLOAT,
    ADD_INT,
    AND,
    CEIL,
    CHOOSE,
    COALESCE,
    CONSTANT,
    DIVIDE_FLOAT,
    DIVIDE_INT,
    EQUAL_FLOAT,
    EQUAL_INT,
    FLOOR,
    GREATEST_INT,
    IS_NULL,
    KNOWN,
    LEAST_FLOAT,
    LEAST_INT,
    LESS_EQUAL_FLOAT,
    LESS_EQUAL_INT,
    LESS_FLOAT,
    LESS_INT,
    LOAD,
    MODULO_FLOAT,
    MODULO_INT,
    MULTIPLY_FLOAT,
    MULTIPLY_INT,
    NEGATE_FLOAT,
    NEGATE_INT,
    NOT,
    NULL_IF,
    NULLS,
    OR,
    REGISTERS,
    ROUND,
    SOURCES,
    SQRT,
    STEP,
    SUBTRACT_FLOAT,
    SUBTRACT_INT,
    TO_FLOAT,
    TRUNCATE,
    VALUES,
    Memory,
)
from streams.kernels.machine_code import kernel

words = types.Array(types.int64, 1, "C")
floats = types.Array(types.float64, 1, "C")
_int = types.int64

EXACT = 2**53
PAST_INTEGERS = 2.0**63


@kernel(types.float64(_int, _int), nogil=True)
def quotient(dividend: int, divisor: int) -> float:
    """The quotient of whole numbers, the second of which is not 0, rounded once."""
    if -EXACT <= dividend <= EXACT and -EXACT <= divisor <= EXACT:
        return np.float64(dividend) / np.float64(divisor)
    above, below = np.uint64(dividend), np.uint64(divisor)
    zero, one = np.uint64(0), np.uint64(1)
    if dividend < 0:
        above = zero - above
    if divisor < 0:
        below = zero - below
    whole = above // below
    rest = above - whole * below
    exponent = 0
    # 55 bits of it, or more: two more than a float has. Where the rest is 0, zeros follow.
    if above != zero:
        while whole < (one << np.uint64(54)):
            rest = rest << one
            whole = whole << one
            exponent -= 1
            if rest >= below:
                rest -= below
                whole |= one
    sticky = rest != zero
    while whole >= (one << np.uint64(55)):
        if whole & one:
            sticky = True
        whole = whole >> one
        exponent += 1
    last = whole & np.uint64(3)
    whole = whole >> np.uint64(2)
    if last > np.uint64(2) or (last == np.uint64(2) and (sticky or (whole & one) != zero)):
        whole += one
    found = math.ldexp(np.float64(whole), exponent + 2)
    return -found if (dividend < 0) != (divisor < 0) else found


@kernel(_int(words, floats, _int, types.float64, _int), nogil=True)
def put(m: Memory, f: Memory, to: int, value: float, known: int) -> int:
    """Put a normalised float into a register."""
    if known and math.isfinite(value):
        f[REGISTERS + to] = value + 0.0
        m[KNOWN + to] = 1
    else:
        m[REGISTERS + to] = 0
        m[KNOWN + to] = 0
    return 0


@kernel(_int(words, floats, _int, types.float64, _int), nogil=True)
def put_whole(m: Memory, f: Memory, to: int, value: float, known: int) -> int:
    """Put a float that is whole into a register as an integer; NULL if it does not fit."""
    if known and -PAST_INTEGERS <= value < PAST_INTEGERS:
        m[REGISTERS + to] = np.int64(value)
        m[KNOWN + to] = 1
    else:
        m[REGISTERS + to] = 0
        m[KNOWN + to] = 0
    return 0


@kernel(_int(words, floats, _int, _int), nogil=True)
def evaluate(m: Memory, f: Memory, begin: int, end: int) -> int:
    """Compute an expression over the rows at `SOURCES`; its result is in the first register."""
    pc: Any = begin
    while pc < end:
        what, to, a, b = m[pc], m[pc + 1], m[pc + 2], m[pc + 3]
        pc += STEP
        if what == LOAD:
            row = m[SOURCES + a]
            m[REGISTERS + to] = m[row + VALUES + b]
            m[KNOWN + to] = 1 - ((m[row + NULLS] >> b) & 1)
            continue
        if what == CONSTANT:
            m[REGISTERS + to] = b
            m[KNOWN + to] = a
            continue
        one, other = m[REGISTERS + a], m[REGISTERS + b]
        x, y = f[REGISTERS + a], f[REGISTERS + b]
        known = m[KNOWN + a] & m[KNOWN + b]
        value: Any = np.int64(0)
        if what == TO_FLOAT:
            f[REGISTERS + to] = np.float64(one)
            m[KNOWN + to] = m[KNOWN + a]
            continue
        if what == ADD_FLOAT:
            put(m, f, to, x + y, known)
            continue
        if what == SUBTRACT_FLOAT:
            put(m, f, to, x - y, known)
            continue
        if what == MULTIPLY_FLOAT:
            put(m, f, to, x * y, known)
            continue
        if what == EQUAL_INT:
            value = np.int64(one == other)
        elif what == EQUAL_FLOAT:
            value = np.int64(x == y)
        elif what == LESS_INT:
            value = np.int64(one < other)
        elif what == LESS_FLOAT:
            value = np.int64(x < y)
        elif what == LESS_EQUAL_INT:
            value = np.int64(one <= other)
        elif what == LESS_EQUAL_FLOAT:
            value = np.int64(x <= y)
        elif what == ADD_INT:
            value = one + other
        elif what == SUBTRACT_INT:
            value = one - other
        elif what == MULTIPLY_INT:
            value = one * other
        elif what == NOT:
            value, known = 1 - one, m[KNOWN + a]
        elif what == AND:
            false = (m[KNOWN + a] & (1 - one)) | (m[KNOWN + b] & (1 - other))
            known = false | known
            value = 1 - false
        elif what == OR:
            value = (m[KNOWN + a] & one) | (m[KNOWN + b] & other)
            known = value | known
        elif what == IS_NULL:
            value, known = 1 - m[KNOWN + a], np.int64(1)
        elif what == CHOOSE:
            # The register of the result has what is taken if the condition is not true.
            if m[KNOWN + a] and one:
                value, known = other, m[KNOWN + b]
            else:
                value, known = m[REGISTERS + to], m[KNOWN + to]
        elif what == COALESCE:
            if m[KNOWN + a]:
                value, known = one, np.int64(1)
            else:
                value, known = other, m[KNOWN + b]
        elif what == NULL_IF:
            # The register of the result has the value, `a` whether it is equal.
            value, known = m[REGISTERS + to], m[KNOWN + to]
            if m[KNOWN + a] and one:
                known = np.int64(0)
        elif what == DIVIDE_FLOAT:
            if y == 0.0:
                put(m, f, to, 0.0, 0)
            else:
                put(m, f, to, x / y, known)
            continue
        elif what == DIVIDE_INT:
            if other == 0:
                put(m, f, to, 0.0, 0)
            else:
                put(m, f, to, quotient(one, other), known)
            continue
        elif what == MODULO_INT:
            if other == 0:
                known = np.int64(0)
            elif other != -1:
                value = one % other
                if value != 0 and (one < 0) != (other < 0):
                    value -= other
        elif what == MODULO_FLOAT:
            if y == 0.0:
                put(m, f, to, 0.0, 0)
            else:
                put(m, f, to, np.fmod(x, y), known)
            continue
        elif what == NEGATE_INT:
            value, known = np.int64(0) - one, m[KNOWN + a]
        elif what == NEGATE_FLOAT:
            put(m, f, to, -x, m[KNOWN + a])
            continue
        elif what == ABS_INT:
            value, known = (np.int64(0) - one if one < 0 else one), m[KNOWN + a]
        elif what == ABS_FLOAT:
            put(m, f, to, abs(x), m[KNOWN + a])
            continue
        elif what == SQRT:
            if x < 0.0:
                put(m, f, to, 0.0, 0)
            else:
                put(m, f, to, math.sqrt(x), m[KNOWN + a])
            continue
        elif what == FLOOR:
            put_whole(m, f, to, np.floor(x), m[KNOWN + a])
            continue
        elif what == CEIL:
            put_whole(m, f, to, np.ceil(x), m[KNOWN + a])
            continue
        elif what == TRUNCATE:
            put_whole(m, f, to, np.trunc(x), m[KNOWN + a])
            continue
        elif what == ROUND:
            whole = np.trunc(x)
            if abs(x - whole) >= 0.5:
                whole += math.copysign(1.0, x)
            put(m, f, to, whole, m[KNOWN + a])
            continue
        else:
            # The least or greatest of two; a NULL does not count.
            if what == LEAST_INT:
                better = other < one
            elif what == LEAST_FLOAT:
                better = y < x
            elif what == GREATEST_INT:
                better = other > one
            else:
                better = y > x
            if m[KNOWN + b] and (better or not m[KNOWN + a]):
                value, known = other, np.int64(1)
            else:
                value, known = one, m[KNOWN + a]
        m[REGISTERS + to] = value if known else np.int64(0)
        m[KNOWN + to] = known
    return 0


@kernel(_int(words, floats, _int, _int), nogil=True)
def holds(m: Memory, f: Memory, begin: int, end: int) -> int:
    """Whether a condition is true, neither false nor NULL."""
    evaluate(m, f, begin, end)
    return m[KNOWN] & m[REGISTERS]
