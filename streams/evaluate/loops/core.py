"""What both cores of loops have in common: instants, limits, and what a core can be asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from streams.evaluate.protocol import Pass
from streams.plan.loops import LONGEST_MS
from streams.plan.program import STEP_BITS
from streams.vectors.chunk import TIMESTAMP
from streams.vectors.state import Stateful
from streams.vectors.vector import Vector, fillers, storage

LAST_STEP = (1 << STEP_BITS) - 1
"""The last instant of every millisecond, counted within it."""


class LoopError(ValueError):
    """A loop does not come to an end, or meets a timestamp too far away."""


class LoopCore(Protocol):
    """A way to evaluate a loop, with its state."""

    @property
    def instants(self) -> int:
        """How many instants it has evaluated since it was made."""
        ...

    def work(self, given: Pass, most: int) -> pa.RecordBatch | None:
        """Evaluate some more instants of a pass.

        Parameters
        ----------
        given
            The same one until it is done.
        most
            How many instants at most; at least 1.

        Returns
        -------
        pa.RecordBatch or None
            What comes out of the whole pass; None if it is not done.

        Raises
        ------
        LoopError
            A millisecond has more instants or tuples than it may.
        """
        ...

    def cut(self) -> Mapping[str, int]:
        """Statement → tuples that were dropped since a millisecond had too many instants or tuples,
        since this was asked for."""
        ...

    def stateful(self) -> Iterator[tuple[str, Stateful]]:
        """The operators that have state, by name: the same ones for all cores."""
        ...


def instants_of(rows: pa.RecordBatch) -> IntArray:
    """The instants of tuples from outside, at least one.

    Raises
    ------
    LoopError
        A timestamp is too far away.
    """
    times_ms = rows.column(TIMESTAMP).to_numpy(zero_copy_only=False)
    if times_ms[0] <= -LONGEST_MS or times_ms[-1] >= LONGEST_MS:
        far = int(times_ms[0] if times_ms[0] < 0 else times_ms[-1])
        raise LoopError(f"a loop has no timestamps beyond ±{LONGEST_MS} ms, as {far} is")
    return times_ms << STEP_BITS


def last_instant(given: Pass) -> int:
    """The last instant of a pass."""
    return (min(given.until_ms, LONGEST_MS) << STEP_BITS) | LAST_STEP


def too_many(statement: str, steps: int, at: int) -> LoopError:
    """A statement has tuples for itself after the last instant that a millisecond may have."""
    return LoopError(
        f"{statement} has tuples for itself at more than {steps} instants of "
        f"{at >> STEP_BITS} ms: let it give fewer, raise `steps` under `loops`, or write "
        "`beyond: cut` there"
    )


def too_large(statement: str, tuples: int, at: int) -> LoopError:
    """The streams of a loop have more tuples than a millisecond may have."""
    return LoopError(
        f"with those of {statement} the loop has more than {tuples} tuples at {at >> STEP_BITS} "
        "ms: let it give fewer, raise `tuples` under `loops`, or write `beyond: cut` there"
    )


def joins_too_many(statement: str, tuples: int, at: int) -> LoopError:
    """A join has more rows than it may. Half of a relation is none, so nothing can be cut."""
    return LoopError(
        f"a join of {statement} has more than {tuples} rows at an instant of {at >> STEP_BITS} "
        "ms: add a condition to it, or raise `tuples` under `loops`"
    )


def nulls(kind: str, length: int) -> Vector:
    """A column of NULLs."""
    values = np.full(length, fillers[kind], dtype=storage[kind])
    return Vector(values, np.zeros(length, dtype=np.bool_))
