"""The kernel that keeps lists of contenders, compiled by numba.

`streams.panes.reference_contenders` has the same function in Python and says what it does.
`streams.panes.compiled` says how kernels are compiled.
"""

from __future__ import annotations

from numba import njit, types

from streams.panes.arrays import Codes
from streams.panes.reference_contenders import (
    AFTER,
    BEFORE,
    FIRST,
    IDENTITY,
    LAST,
    OWNER,
    RANK,
    VALUE,
)
from topology.arrays import BoolArray, IntArray

_read_codes = types.Array(types.int32, 1, "C", readonly=True)
_ints = types.Array(types.int64, 1, "C")
_read_ints = types.Array(types.int64, 1, "C", readonly=True)
_table = types.Array(types.int64, 2, "C")
_flags = types.Array(types.boolean, 1, "C")
_read_flags = types.Array(types.boolean, 1, "C", readonly=True)
_int = types.int64


@njit(
    [
        _int(
            *(_read_ints, _read_codes, _read_flags, _read_ints, _read_ints, _read_ints),
            *(_read_flags, types.boolean, _table, _table, _ints, _int, _ints, _flags),
        )
    ],
    cache=True,
    nogil=True,
)
def keep_contenders(
    steps: IntArray,
    codes: Codes,
    inserted: BoolArray,
    ids: IntArray,
    ranks: IntArray,
    values: IntArray,
    valid: BoolArray,
    stays: bool,
    contenders: IntArray,
    ends: IntArray,
    free: IntArray,
    count: int,
    out: IntArray,
    known: BoolArray,
) -> int:
    """Keep contenders."""
    length = len(steps)
    for place in range(length):
        step = steps[place]
        code = codes[step]
        first, last = ends[code, FIRST], ends[code, LAST]
        counts = len(valid) == 0 or valid[place]
        left = counts and not inserted[place]
        if left and first >= 0 and contenders[first, IDENTITY] == ids[place]:
            contenders[first, OWNER] = -1
            free[count] = first
            count += 1
            first = contenders[first, AFTER]
            if first < 0:
                last = first
            else:
                contenders[first, BEFORE] = -1
        if counts and inserted[place]:
            rank = ranks[place]
            if not stays or first < 0 or rank < contenders[first, RANK]:
                while last >= 0 and (stays or contenders[last, RANK] >= rank):
                    contenders[last, OWNER] = -1
                    free[count] = last
                    count += 1
                    last = contenders[last, BEFORE]
                count -= 1
                made = free[count]
                contenders[made, IDENTITY] = ids[place]
                contenders[made, RANK] = rank
                contenders[made, VALUE] = values[place]
                contenders[made, OWNER] = code
                contenders[made, BEFORE] = last
                contenders[made, AFTER] = -1
                if last < 0:
                    first = made
                else:
                    contenders[last, AFTER] = made
                last = made
        ends[code, FIRST], ends[code, LAST] = first, last
        if place + 1 == length or steps[place + 1] != step:
            known[step] = first >= 0
            out[step] = contenders[first, VALUE] if first >= 0 else 0
    return count
