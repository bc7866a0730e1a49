"""What sources and sinks tell the host that runs them, and what it hands them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.records import Skipped
from streams.vectors.chunk import Chunk, Position


class SourceEmitted(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples entered at this host; the stream is complete up to the last watermark."""

    stream: str
    rows: pa.RecordBatch
    watermarks_ms: IntArray
    ingestion_times_us: IntArray


class SourceOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a stream can be read.

    Attributes
    ----------
    position
        What it emits follows this cut. A source that resumes has emitted what lies before it in
        another process.
    """

    stream: str
    position: Position


class SourceFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a stream emits nothing until it is opened again."""

    stream: str


class SourceWaits(msgspec.Struct, frozen=True, kw_only=True):
    """An open source cannot read on, or can again.

    Attributes
    ----------
    for_what
        What it waits for; None: nothing any more.
    """

    stream: str
    for_what: str | None


class SourceReread(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples that entered earlier were read again, for one host that lacks them.

    Attributes
    ----------
    after
        The cut that they follow.
    """

    node: str
    after: Position
    emitted: SourceEmitted


class SourceLocated(msgspec.Struct, frozen=True, kw_only=True):
    """A source has looked up where its stream stood at an event time.

    Attributes
    ----------
    position
        The cut after it, or the first one from which on the stream can be read again.
    """

    stream: str
    after_ms: int
    position: Position


class InputSkipped(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a stream has looked at what it left out when the stream began anew."""

    stream: str
    skipped: Skipped


class Durable(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink has kept for good: everything before a position, in this generation's numbers."""

    generation: int
    position: Position


class SinkOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The sink of a stream takes deliveries.

    Attributes
    ----------
    durable
        What it kept before, maybe in another process; None: nothing, or it does not know.
    """

    stream: str
    durable: Durable | None


class SinkFlushed(msgspec.Struct, frozen=True, kw_only=True):
    """The sink of a stream has kept more for good."""

    stream: str
    durable: Durable


class SinkFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The sink of a stream takes no deliveries until it is opened again."""

    stream: str


EdgeEvent = (
    SourceEmitted
    | SourceOpened
    | SourceFailed
    | SourceWaits
    | SourceReread
    | SourceLocated
    | InputSkipped
    | SinkOpened
    | SinkFlushed
    | SinkFailed
)


class Deliver(msgspec.Struct, frozen=True, kw_only=True):
    """Hand tuples of a stream to its sink: each exactly once, in order."""

    stream: str
    epoch: int
    generation: int = 1
    """Life of the numbering of `chunk`."""
    chunk: Chunk
    lost: int
    """Tuples that are known to be missing immediately before this chunk."""
    late: tuple[int, ...] = ()
    """Tuples that were dropped because they were late, by watermark of the chunk; empty: none. The
    chunk has no others then, and is numbered as what follows them."""
    arrived_us: int

    @property
    def end(self) -> Durable:
        """What a sink has kept once it has kept this."""
        return Durable(generation=self.generation, position=self.chunk.end)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A part of a stream that its source must read again for a host: a piece of it will do."""

    stream: str
    node: str
    after: Position
    until: Position
