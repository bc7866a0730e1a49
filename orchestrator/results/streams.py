"""Tuples that were sent into a stream, and those that were read from it."""

from __future__ import annotations

from typing import Any

from orchestrator.records import StreamRecord
from orchestrator.results.result import Result


class StreamEntry(Result, frozen=True, kw_only=True):
    """A stream that clients send to, and the site that has it, where it listens."""

    stream: StreamRecord
    site: str
    address: str


class SentDocument(Result, frozen=True, kw_only=True):
    """What became of the tuples.

    Attributes
    ----------
    accepted, late, ahead, undecided, waiting
        As in `vivace.Sent`.
    skipped
        Lines that could not be read and were left out.
    """

    stream: str
    accepted: int
    late: int
    ahead: int
    undecided: int = 0
    waiting: int = 0
    skipped: int = 0


class TailRow(Result, frozen=True, kw_only=True):
    """A tuple: its sequence number in the stream, its event timestamp, and column → value."""

    seq: int
    timestamp_ms: int
    values: dict[str, Any]


class TailBatch(Result, frozen=True, kw_only=True):
    """Tuples of one generation that came together; `lost` are missing before the first of them."""

    lost: int
    rows: tuple[TailRow, ...]
    generation: int = 1

    @property
    def id(self) -> str | None:
        """Of its last tuple, among those of all generations; None: it has none."""
        return f"{self.generation}-{self.rows[-1].seq}" if self.rows else None


class SentLines(Result, frozen=True, kw_only=True):
    """Lines that were sent, and those that were left out because they cannot be read.

    Attributes
    ----------
    left_out
        With the header before them, as a file of them would have it.
    """

    sent: SentDocument
    left_out: str = ""


class TailEvent(Result, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a stream that is followed: one of its fields is there.

    Attributes
    ----------
    columns
        Column → type; the first event.
    batch
        Tuples.
    remark
        Why no tuple comes.
    """

    columns: dict[str, str] | None = None
    batch: TailBatch | None = None
    remark: str | None = None
