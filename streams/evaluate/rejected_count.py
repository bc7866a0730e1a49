"""What hosts tell of the tuples that a statement left out."""

from __future__ import annotations

import msgspec


class RejectedCount(msgspec.Struct, frozen=True, kw_only=True):
    """What a statement has rejected since its state began.

    Attributes
    ----------
    tuples, groups
        How many, and how often.
    states
        How often all that windows held was rejected.
    last
        The last of them, in a sentence; empty: none.
    """

    tuples: int = 0
    groups: int = 0
    states: int = 0
    last: str = ""
