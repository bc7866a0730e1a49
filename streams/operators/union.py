"""UNION ALL: the rows of all inputs, each as often as it occurs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streams.vectors.vector import Delta, Frame, concat_frames


def union(changes: Sequence[Delta]) -> Delta | None:
    """The change of a union; None if nothing changed.

    Within a timestamp the changes are in the order of the union's parts.
    """
    if len(changes) < 2:
        return changes[0] if changes else None
    rows = concat_frames([change.rows for change in changes if isinstance(change.rows, Frame)])
    inserted = np.concatenate([change.inserted for change in changes])
    times_ms = np.concatenate([change.times_ms for change in changes])
    order = times_ms.argsort(kind="stable")
    return Delta(rows.take(order), inserted[order], times_ms[order])
