"""Following a stream's tuples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.view import read_view
from orchestrator.errors import InvalidInput
from orchestrator.host.observer import Observer
from streams.chunk import TIMESTAMP
from topology.suggestions import nearest

POLL_S = 0.5
"""How long one look at the stream takes at most; Ctrl-C is noticed that often."""


class TailRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tuple: its sequence number in the stream, its event timestamp, and column → value."""

    seq: int
    timestamp_ms: int
    values: dict[str, object]


class TailBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples that came together; `lost` are missing before the first of them."""

    lost: int
    rows: tuple[TailRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A stream that is followed.

    Attributes
    ----------
    columns
        Column → type.
    batches
        The tuples, from the oldest one that is still kept. Reading it connects to the stream;
        closing it, or reaching the limit, disconnects.
    """

    columns: Mapping[str, str]
    batches: Iterator[TailBatch]


def tail(cluster: Cluster, stream: str, limit: int | None = None) -> Tail:
    """Follow a stream from outside, or one that a query makes.

    Parameters
    ----------
    limit
        End after so many tuples; None: never.

    Raises
    ------
    InvalidInput
        There is no such stream.
    """
    known = read_view(cluster.store).dataflow.columns
    if stream not in known:
        raise InvalidInput(
            "command line", "STREAM", stream, "is not a stream here", nearest(stream, known)
        )
    return Tail(columns=known[stream], batches=_batches(cluster, stream, limit))


def _batches(cluster: Cluster, stream: str, limit: int | None) -> Iterator[TailBatch]:
    left = limit
    with Observer(cluster.reach, [stream]) as observer:
        while left is None or left > 0:
            for delivery in observer.poll(POLL_S):
                rows = delivery.chunk.rows.to_pylist()[:left]
                if left is not None:
                    left -= len(rows)
                first = delivery.chunk.first_seq
                yield TailBatch(
                    lost=delivery.lost,
                    rows=tuple(_row(seq, row) for seq, row in enumerate(rows, first)),
                )


def _row(seq: int, values: dict[str, object]) -> TailRow:
    timestamp_ms = values.pop(TIMESTAMP)
    assert isinstance(timestamp_ms, int)
    return TailRow(seq=seq, timestamp_ms=timestamp_ms, values=values)
