"""Rows of a window that lie in several segments, looked at in any order."""

from __future__ import annotations

import numpy as np

from streams.operators.row_log import RowLog
from streams.vectors.vector import Frame, Vector


def test_rows_are_found_in_any_order_of_their_positions() -> None:
    """A row that leaves may lie in an earlier segment than one that enters before."""
    log = RowLog(("int",), segment_rows=4)
    numbers = np.arange(11)
    log.append(numbers, numbers * 10, Frame((Vector(numbers * 100, None),), 11))
    positions = log.positions(numbers)
    order = np.array([9, 0, 4, 10, 3, 3, 7])
    given = positions[order]
    assert log.ids(given).tolist() == order.tolist()
    assert log.timestamps(given).tolist() == (order * 10).tolist()
    assert log.rows(given)[0].to_list() == (order * 100).tolist()
    assert log.ids(given[:0]).tolist() == []
