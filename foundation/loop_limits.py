"""How often a loop may come round within a millisecond.

Records and manifests name these limits. They stand here, since whoever reads records imports
neither a parser nor numpy.
"""

from __future__ import annotations

from enum import Enum

DEFAULT_STEPS, MOST_STEPS = 1000, 60_000
"""Instants of a millisecond: unless told otherwise, and at most. 65,536 can be told apart, and
windows need a few to lose what the last of them brought."""


class Beyond(Enum):
    """What happens if a millisecond of a loop has more instants than it may."""

    ERROR = "error"
    """The loop cannot be evaluated."""
    CUT = "cut"
    """Tuples that `<NOW>` would delay further are dropped, and counted."""
