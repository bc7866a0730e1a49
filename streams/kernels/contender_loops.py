"""The loop that keeps lists of contenders.

`streams.kernels.reference` runs it as it stands, `streams.kernels.compiled_loops` compiles it.
"""

from __future__ import annotations

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrays import Codes

IDENTITY, RANK, VALUE, OWNER, BEFORE, AFTER = range(6)
"""What is known of a contender: the identity of its row; the less its rank, the better it is; its
value; its group, -1 if the place is free; its neighbours in the group's list, -1 for none."""

COLUMNS = AFTER + 1

FIRST, LAST = 0, 1
"""The ends of a group's list."""


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
    """Keep, for each group, the contenders for the best value of its rows.

    Rows leave in the order in which they came. So a row that is no better than one that came after
    it is never the best again, and is no contender. The first contender is the best one.

    Parameters
    ----------
    steps
        Change → its step; the changes are in the order of their steps, so it never falls.
    codes
        Step → its group.
    inserted, ids, ranks, values, valid
        Of each change: whether the row enters, the row's identity, and its value. `valid` is false
        where the value is NULL; empty: no value is.
    stays
        No row ever leaves: the best contender is the only one.
    contenders, ends
        The lists, shape (places, COLUMNS), and the ends of each group's, shape (groups, 2).
    free, count
        Free places, at least as many as rows enter; how many they are.
    out, known
        Take, for each step, the best value after it, and whether there is one.

    Returns
    -------
    int
        The new count of free places.
    """
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
                while last >= 0 and contenders[last, RANK] >= rank:
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
