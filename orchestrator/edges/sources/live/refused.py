"""What the live streams of one host refuse, handed to those that ask for it.

See `orchestrator.edges.sources.side_streams`.
"""

from __future__ import annotations

import contextlib
import threading
from enum import Enum
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.live.ingestion import Full
from streams.vectors.reserved import TIMESTAMP

if TYPE_CHECKING:
    from orchestrator.edges.sources.live.live_input import LiveInput
    from orchestrator.edges.sources.live.orderer import Refusals

MOST_ROWS = 1000
"""Tuples of a batch too far ahead that are written out; all are counted."""

SHOWN_CHARS = 1000
"""Of something refused."""


class SideStream(Enum):
    """What a side stream holds."""

    LATE = "late"
    REJECTED = "rejected"


REJECTED_COLUMNS = {"kind": "string", "reason": "string", "what": "string"}


class SideStreams:
    """The open side streams of one host, by stream; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[tuple[str, SideStream], LiveInput] = {}

    def open(self, stream: str, side: SideStream, opened: LiveInput) -> None:
        """Take in what a stream refuses."""
        with self._lock:
            self._opened[stream, side] = opened

    def close(self, stream: str, side: SideStream, opened: LiveInput) -> None:
        """Do so no more."""
        with self._lock:
            if self._opened.get((stream, side)) is opened:
                del self._opened[stream, side]

    def keep(self, stream: str, refused: Refusals, client: str, number: int) -> None:
        """Keep the refused tuples of a batch; returns when the journals have them, if there are
        any."""
        if (
            refused.late_rows is not None
            and (late := self._get(stream, SideStream.LATE)) is not None
        ):
            rows = refused.late_rows
            columns = [*rows.columns, rows.column(0)]
            schema = late.schema
            _push(late, pa.RecordBatch.from_arrays(columns, schema=schema), client, number)
        rejected = self._get(stream, SideStream.REJECTED)
        if refused.ahead_rows is not None and rejected is not None:
            reason = "the timestamp lies further ahead of the clock than maxAhead allows"
            whats = [_shown(row) for row in refused.ahead_rows.slice(0, MOST_ROWS).to_pylist()]
            _push(rejected, _rejections("ahead", reason, whats), client, number)

    def note(self, stream: str, kind: str, reason: str, what: str) -> None:
        """Keep something that could not be read; whoever tells it does not wait."""
        if (rejected := self._get(stream, SideStream.REJECTED)) is not None:
            with contextlib.suppress(Full, DriverError):
                rows = _rejections(kind, reason, [what[:SHOWN_CHARS]])
                rejected.push(rows, waits=False, confirms=False)

    def _get(self, stream: str, side: SideStream) -> LiveInput | None:
        with self._lock:
            return self._opened.get((stream, side))


def _push(opened: LiveInput, rows: pa.RecordBatch, client: str, number: int) -> None:
    with contextlib.suppress(Full, DriverError):
        # Consumers of the side stream must not hold up the stream itself.
        prompt = not opened.waits_for_consumers
        opened.push(rows, client=client, number=number, waits=False, confirms=prompt)


def _rejections(kind: str, reason: str, whats: list[str]) -> pa.RecordBatch:
    count = len(whats)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([0] * count, pa.int64()),
            pa.array([kind] * count, pa.string()),
            pa.array([reason] * count, pa.string()),
            pa.array(whats, pa.string()),
        ],
        names=[TIMESTAMP, *REJECTED_COLUMNS],
    )


def _shown(row: dict[str, object]) -> str:
    return msgspec.json.encode(row).decode()[:SHOWN_CHARS]
