"""Window operators: from a stream to a relation. What they have in common.

Rows are identified by their sequence number in the stream. At an instant a window lets the rows
go that are too old or too many, and takes in those that arrived.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from streams.state import State
from streams.vector import Delta, Frame, concat_frames
from topology.arrays import IntArray

ALL_INSERTED_UP_TO = 4096
_all_true = np.ones(ALL_INSERTED_UP_TO, dtype=np.bool_)
_no_ids: IntArray = np.empty(0, dtype=np.int64)


class Window(Protocol):
    """A window on one stream."""

    def step(self, timestamp_ms: int, arrived: Frame, first_seq: int) -> Delta:
        """Come to an instant later than all before, at which tuples may have arrived."""
        ...

    def next_expiry_ms(self) -> int | None:
        """The next instant at which a row leaves because of its age, if nothing else happens."""
        ...

    def save(self) -> State:
        """What it remembers."""
        ...

    def load(self, state: State) -> None:
        """Go on from what was saved; only on a new window."""
        ...


def arrivals(arrived: Frame, first_seq: int) -> Delta:
    """Rows that came and none that went."""
    count = arrived.length
    inserted = _all_true[:count] if count <= ALL_INSERTED_UP_TO else np.ones(count, dtype=np.bool_)
    return Delta(arrived, inserted, np.arange(first_seq, first_seq + count, dtype=np.int64))


def replaced(gone: Frame, gone_ids: IntArray, came: Delta) -> Delta:
    """Rows that went, then rows that came."""
    if not gone.length:
        return came
    assert isinstance(came.rows, Frame)
    rows = concat_frames([gone, came.rows]) if came.rows.length else gone
    inserted = np.zeros(rows.length, dtype=np.bool_)
    inserted[gone.length :] = True
    came_ids = _no_ids if came.ids is None else came.ids
    return Delta(rows, inserted, np.concatenate([gone_ids, came_ids]))
