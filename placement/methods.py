"""Names of the methods of placement, for records, which clients read without numpy."""

from __future__ import annotations

from enum import Enum


class Method(Enum):
    """How operators are placed.

    `PAPER` stands for the methods as they are printed: Algorithms 1 to 3 and §4.5 of reliable
    placement, and where the primaries that come of it leave too little time, the program of
    deadline placement, §5.2.
    """

    VIVACE = "vivace"
    PAPER = "paper"
