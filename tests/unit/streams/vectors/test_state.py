"""Pieces of snapshots: equal rows are cut alike."""

from __future__ import annotations

import numpy as np

from streams.vectors.state import piece_rows
from streams.vectors.vector import Frame, Vector


def test_texts_that_nulls_hide_do_not_count() -> None:
    """A restored relation does not have them, and its snapshot has the same pieces."""
    known = np.array([True, False])
    hidden, restored = (
        Frame((Vector(np.array(["a", text], dtype=np.object_), known),), 2)
        for text in ("x" * 1_000_000, "")
    )
    assert piece_rows(hidden) == piece_rows(restored)
