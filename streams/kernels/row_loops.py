"""Loops over whole rows: the newest rows of each key, and pairs of equal keys.

`streams.kernels.reference` runs them as they stand, `streams.kernels.compiled_loops` compiles them.
"""

from __future__ import annotations

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrays import Codes


def newest_rows(
    codes: Codes,
    times_ms: IntArray,
    most: int,
    entered: IntArray,
    row_of: IntArray,
    touched: IntArray,
    shown: BoolArray,
    before: IntArray,
    removed: IntArray,
    removed_by: IntArray,
) -> tuple[int, int]:
    """Keep the newest rows of each key.

    A row is named by its place in the batch; one from before the batch by -2 minus its slot.

    Parameters
    ----------
    codes, times_ms
        The key and the timestamp of each row of a batch.
    most
        How many rows of a key are kept. The slots of a key are used in turn.
    entered
        Key → number of rows that it has had.
    row_of
        Slot → the row that took it in this batch; -1 for none.
    touched
        Takes the slots that rows of this batch took.
    shown
        Takes whether the row is among the newest at the end of its timestamp.
    before
        Takes the row that this one replaces at its timestamp, or -1. Only for `most` = 1.
    removed, removed_by
        Take the rows that left, and the rows that pushed them out.

    Returns
    -------
    tuple
        How many rows left, and how many slots were touched.
    """
    gone = changed = 0
    for row in range(len(codes)):
        code = codes[row]
        count = entered[code]
        entered[code] = count + 1
        slot = code * most + count % most
        old = row_of[slot]
        row_of[slot] = row
        shown[row] = True
        before[row] = -1
        if old < 0:
            touched[changed] = slot
            changed += 1
        if count < most:
            continue
        if old >= 0 and times_ms[old] == times_ms[row]:
            shown[old] = False
            before[row] = before[old]
            continue
        if old < 0:
            old = -2 - slot
        before[row] = old
        removed[gone] = old
        removed_by[gone] = row
        gone += 1
    return gone, changed


def chain_rows(
    left: Codes,
    left_begins: IntArray,
    left_ends: IntArray,
    right: Codes,
    right_begins: IntArray,
    right_ends: IntArray,
    heads: Codes,
    following: Codes,
    first: Codes,
) -> None:
    """Find the first row of the left for each of the right, and those that follow it.

    Parameters
    ----------
    left, right
        The keys of rows; -1 for those that match none.
    left_begins, left_ends, right_begins, right_ends
        The rows of each part. Only rows of one part match.
    heads
        Key → -1.
    following
        Takes, for each row of the left, the next one with its key; -1 for none.
    first
        Takes, for each row of the right, the first one of the left with its key. Rows of no part
        keep what is there.
    """
    for part in range(len(left_begins)):
        for row in range(left_ends[part] - 1, left_begins[part] - 1, -1):
            code = left[row]
            if code >= 0:
                following[row] = heads[code]
                heads[code] = row
        for row in range(right_begins[part], right_ends[part]):
            code = right[row]
            if code >= 0:
                first[row] = heads[code]
        for row in range(left_begins[part], left_ends[part]):
            code = left[row]
            if code >= 0:
                heads[code] = -1


def fill_pairs(
    first: Codes, following: Codes, row: int, other: int, left: IntArray, right: IntArray
) -> tuple[int, int, int]:
    """Write pairs down, until there is no room or no pair any more.

    Parameters
    ----------
    first, following
        As `chain_rows` leaves them.
    row, other
        The pair to begin with: a row of the right, and one of the left or -1.
    left, right
        Take the pairs, ordered by the rows of the right, then by those of the left.

    Returns
    -------
    tuple
        The number of pairs, and the pair to go on with. The end is reached if the row of the right
        is past the last one.
    """
    count = 0
    while row < len(first):
        while other >= 0:
            if count == len(left):
                return count, row, other
            left[count] = other
            right[count] = row
            count += 1
            other = following[other]
        row += 1
        if row < len(first):
            other = first[row]
    return count, row, -1


def link_rows(codes: Codes, begin: int, heads: Codes, tails: Codes, following: Codes) -> None:
    """Link each row to the next one with its key.

    Parameters
    ----------
    codes
        The keys of rows that come after all others.
    begin
        The first of these rows.
    heads, tails
        Key → its first and its last row; -1 for none.
    following
        Row → the next one with its key; -1 for none.
    """
    for place in range(len(codes)):
        code = codes[place]
        row = begin + place
        if heads[code] < 0:
            heads[code] = row
        else:
            following[tails[code]] = row
        tails[code] = row


def fill_pairs_until(
    first: Codes,
    following: Codes,
    entered_ms: IntArray,
    at_ms: IntArray,
    row: int,
    other: int,
    left: IntArray,
    right: IntArray,
) -> tuple[int, int, int]:
    """As `fill_pairs`, but for rows of the left that have come until the right's timestamp.

    Parameters
    ----------
    entered_ms
        Row of the left → when it came; never falls along `following`.
    at_ms
        Row of the right → its timestamp.
    """
    count = 0
    while row < len(first):
        while other >= 0 and entered_ms[other] <= at_ms[row]:
            if count == len(left):
                return count, row, other
            left[count] = other
            right[count] = row
            count += 1
            other = following[other]
        row += 1
        if row < len(first):
            other = first[row]
    return count, row, -1
