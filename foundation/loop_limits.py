"""How often a loop may come round within a millisecond, and how many tuples it may make of one.

Records and manifests name these limits. They stand here, since whoever reads records imports
neither a parser nor numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEFAULT_STEPS, MOST_STEPS = 1000, 60_000
"""Instants of a millisecond: unless told otherwise, and at most. 65,536 can be told apart, and
windows need a few to lose what the last of them brought."""

DEFAULT_TUPLES = 1_000_000
"""Tuples of a millisecond, unless told otherwise: some hundred megabytes."""


class Beyond(Enum):
    """What happens if a millisecond of a loop has more instants or tuples than it may."""

    ERROR = "error"
    """The loop cannot be evaluated."""
    CUT = "cut"
    """Tuples that `<NOW>` would delay further, and those that would be too many, are dropped, and
    counted."""


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """What a loop may do.

    Attributes
    ----------
    steps
        Most instants of a millisecond in which tuples are delayed by `<NOW>`.
    tuples
        Most tuples that its streams may have in a millisecond, together; and most rows that the
        change of a join may have at an instant.
    """

    steps: int = DEFAULT_STEPS
    tuples: int = DEFAULT_TUPLES
    beyond: Beyond = Beyond.ERROR
