"""Loops that keep open sessions.

`streams.kernels.reference` runs it as it stands, `streams.kernels.compiled_loops` compiles it.
"""

from __future__ import annotations

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrays import Codes

LAST_MS, LAST_ID, FIRST_ID, ROWS, KEY, BEFORE, AFTER = range(7)
"""What is known of a session: the timestamp and the identity of its last tuple; the identity of the
first tuple that counts, and how many count; its key; its neighbours in the list of sessions."""

COLUMNS = AFTER + 1

FIRST, LAST = 0, 1
"""The ends of the list, in which sessions are in the order of their last tuples."""


def extend_sessions(
    keys: Codes,
    times_ms: IntArray,
    wanted: BoolArray,
    first_id: int,
    gap_ms: int,
    sessions: IntArray,
    open_of: Codes,
    ends: IntArray,
    free: Codes,
    count: int,
    slots: Codes,
) -> int:
    """Add tuples to the sessions of their keys; begin new ones.

    Parameters
    ----------
    keys, times_ms
        Of the tuples; times never fall.
    wanted
        Which tuples count; empty: all. The others make sessions longer too.
    first_id
        Identity of the first tuple.
    gap_ms
        A session ends so long after its last tuple.
    sessions, ends
        Shape (places, COLUMNS), and the ends of the list, -1 for none.
    open_of
        Key → the place of its session; -1 for none.
    free, count
        Free places, at least as many as there are tuples; how many they are.
    slots
        Takes the place of each tuple's session; -1 for tuples that do not count.

    Returns
    -------
    int
        The new count of free places.
    """
    for place in range(len(keys)):
        key, at_ms = keys[place], times_ms[place]
        slot = open_of[key]
        if slot >= 0 and at_ms - sessions[slot, LAST_MS] < gap_ms:
            # It becomes the last of the list.
            before, after = sessions[slot, BEFORE], sessions[slot, AFTER]
            if before >= 0:
                sessions[before, AFTER] = after
            else:
                ends[FIRST] = after
            if after >= 0:
                sessions[after, BEFORE] = before
            else:
                ends[LAST] = before
        else:
            count -= 1
            slot = free[count]
            open_of[key] = slot
            sessions[slot, KEY] = key
            sessions[slot, FIRST_ID], sessions[slot, ROWS] = -1, 0
        last = ends[LAST]
        sessions[slot, BEFORE], sessions[slot, AFTER] = last, -1
        if last >= 0:
            sessions[last, AFTER] = slot
        else:
            ends[FIRST] = slot
        ends[LAST] = slot
        sessions[slot, LAST_MS] = at_ms
        sessions[slot, LAST_ID] = first_id + place
        slots[place] = -1
        if len(wanted) == 0 or wanted[place]:
            slots[place] = slot
            if sessions[slot, ROWS] == 0:
                sessions[slot, FIRST_ID] = first_id + place
            sessions[slot, ROWS] += 1
    return count


def end_sessions(
    last_ms: int, sessions: IntArray, open_of: Codes, ends: IntArray, ended: Codes
) -> int:
    """Take the sessions out whose last tuple came until a timestamp.

    Parameters
    ----------
    last_ms
        The timestamp.
    sessions, open_of, ends
        As in `extend_sessions`.
    ended
        Takes their places, in the order of their last tuples.

    Returns
    -------
    int
        How many they are.
    """
    count = 0
    slot = ends[FIRST]
    while slot >= 0 and sessions[slot, LAST_MS] <= last_ms:
        key = sessions[slot, KEY]
        if open_of[key] == slot:
            open_of[key] = -1
        ended[count] = slot
        count += 1
        slot = sessions[slot, AFTER]
    ends[FIRST] = slot
    if slot >= 0:
        sessions[slot, BEFORE] = -1
    else:
        ends[LAST] = -1
    return count
