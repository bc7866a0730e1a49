"""How large a state is, by the rows and groups that operators hold.

Writing a state takes time in proportion to its size, and hosts report sizes all the time. So the
width of an operator's rows is sampled, by writing its first pieces, and sampled again only when it
holds twice as many rows, or half. The size is the number of rows times the width.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from streams.vectors.state import State, Stateful

SAMPLED_PIECES = 3
"""Pieces that are written to learn a width, beside the first one, which may tell other things: a
host stands still for some milliseconds meanwhile."""

CHANGED = 2.0
"""Factor by which the number of rows must have changed for the width to be sampled again."""


class _Sample(NamedTuple):
    """What the rows of an operator took when it held so many, bytes."""

    held: int
    base: int
    width: float


class StateSize:
    """Estimates the size of a state that changes."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}

    def of(self, stateful: Iterable[tuple[str, Stateful]]) -> int:
        """Size of a snapshot of these operators, bytes, to within a factor of two or so."""
        total = 0.0
        for name, operator in stateful:
            held = operator.held()
            known = self._samples.get(name)
            if known is None or not known.held / CHANGED <= held <= known.held * CHANGED:
                known = self._samples[name] = _sampled(operator, held)
            total += known.base + known.width * held
        return round(total)


def _sampled(operator: Stateful, held: int) -> _Sample:
    pieces = iter(operator.save()())
    some = [(_bytes(piece), _rows(piece)) for piece in islice(pieces, 1 + SAMPLED_PIECES)]
    base = sum(size for size, rows in some if not rows)
    with_rows = [each for each in some if each[1]]
    size, rows = sum(each for each, _ in with_rows), sum(each for _, each in with_rows)
    if next(pieces, None) is None:
        # All of it was written.
        return _Sample(held, base if held else base + size, size / held if held else 0.0)
    return _Sample(held, base, size / rows if rows else 0.0)


def _bytes(piece: State) -> int:
    return len(msgspec.msgpack.encode(piece))


def _rows(piece: State) -> int:
    """Rows of a piece; of several frames beside each other, those of the longest."""
    groups = piece.values.get("groups", ())
    return max([len(groups), *(frame.length for frame in piece.frames.values())])
