"""UNION ALL: the rows of all inputs, each as often as it occurs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streams.vector import Delta, Frame, concat_frames


def union(changes: Sequence[Delta]) -> Delta | None:
    """The change of a union, in the order of its parts; None if nothing changed."""
    some = [change for change in changes if change.rows.length]
    if not some:
        return None
    if len(some) == 1:
        return some[0]
    frames = [change.rows for change in some if isinstance(change.rows, Frame)]
    return Delta(concat_frames(frames), np.concatenate([change.inserted for change in some]))
