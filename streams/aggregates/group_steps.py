"""The steps of a pass: the changes of one group at one timestamp each.

What is kept of groups is computed after each step, in arrays over all steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foundation.arrays import BoolArray, IntArray
from streams.vectors.arrays import Codes
from streams.vectors.vector import Array, Positions


class Steps(NamedTuple):
    """The steps of a pass, in the order of their groups, then of time.

    Attributes
    ----------
    of
        Change → its step.
    order, starts
        The changes in the order of their steps; where each step starts in it.
    codes, times_ms
        Of each step: its group, its timestamp.
    first
        Of each step: the place of its first change.
    begins
        Where a group begins: whether the step before is not the same group's.
    """

    of: Codes
    order: Positions
    starts: Positions
    codes: Codes
    times_ms: IntArray
    first: Positions
    begins: BoolArray


def steps_of(codes: Codes, times_ms: IntArray, *, grouped: bool) -> Steps:
    """The steps of changes with these groups and timestamps, which never fall.

    `grouped` is false if all are of one group.
    """
    order = np.argsort(codes, kind="stable") if grouped else np.arange(len(codes))
    by_group, at_ms = codes[order], times_ms[order]
    other = np.ones(len(order), dtype=np.bool_)
    other[1:] = by_group[1:] != by_group[:-1]
    starts = other.copy()
    starts[1:] |= at_ms[1:] != at_ms[:-1]
    of: Codes = np.empty(len(order), dtype=np.int32)
    of[order] = np.cumsum(starts) - 1
    (places,) = starts.nonzero()
    first = order[places]
    return Steps(of, order, places, by_group[places], at_ms[places], first, other[places])


def along(steps: Steps, added: Array, totals: Array) -> Array:
    """Totals after each step, from what steps add and the groups' totals before the pass."""
    along = np.cumsum(added, axis=0)
    (begins,) = steps.begins.nonzero()
    # What the steps of former groups have added is taken out again.
    base = totals[steps.codes[begins]] - along[begins] + added[begins]
    return along + np.repeat(base, np.diff(begins, append=len(added)), axis=0)


def shifted(steps: Steps, after: Array, first: Array) -> Array:
    """What was before each step, from what is after it; of first steps of groups it is given."""
    before = np.empty_like(after)
    before[1:] = after[:-1]
    before[steps.begins] = first
    return before
