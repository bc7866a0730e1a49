"""Encodes messages as frames, and decodes them.

The first frame is a byte, the wire that the link speaks (`records.versions`), and a msgpack header
(msgspec, strictly typed: nothing is ever unpickled or evaluated). Rows follow as Arrow IPC record
batches, one a frame, without their schema: the receiver knows the stream's schema. Frames that
cannot be decoded, or that decode to an invalid chunk, raise `WireError`; the caller counts and
drops them. So do compressed rows, whose size would not say what memory they take, and numbers and
names beyond the bounds of `foundation.bounds`.

*A new wire.* Messages and headers are arrays: a reader of an older wire ignores the fields that
come last, and a newer one takes their defaults where they are missing. So a field is added at the
end, with a default. What an older reader must not overlook depends on the wire that the link
speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, get_args

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

from foundation.arrays import IntArray
from foundation.bounds import MAX_NUMBER, EventTime, Name, Number
from ha.messages import MOST_ENTRIES, Columns, Data, Heartbeat, Message, Snapshot
from orchestrator.records.versions import LEAST_WIRE, WIRE_VERSION
from streams.vectors.arrow_frame import CompressedFrame, read_batch
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, joined, widened
from streams.vectors.state import PIECE_ROWS, SavedState

PORTION_CHUNKS = 256
"""Most chunks of an output log that a snapshot contains as one."""

FEW_TIMES = 16
"""So few times are written as they are: looking for runs takes longer than it saves."""

MOST_IN_RUNS = 4096
"""More times are written as they are, and so are those of a snapshot's log, which has many chunks:
a few bytes must not say that there are billions."""

SchemaOf = Callable[[str], pa.Schema | None]
"""Finds a stream's schema; None for a stream that the host neither reads nor produces."""


class WireError(ValueError):
    """Frames that are not a message of this version."""


class CompressedRows(WireError):
    """Rows that are compressed: no host of this version sends such."""


class UnknownStream(WireError):
    """A message about a stream that this host does not, or no longer, read or produce."""


class ChunkHeader(msgspec.Struct, frozen=True, array_like=True):
    """A chunk without its rows.

    Watermarks and ingestion times, `watermarks` of each, are little-endian int64: one after the
    other, or as runs if these are shorter (`_times`).
    """

    first_seq: Number
    watermarks: Number
    watermarks_ms: bytes
    ingestion_times_us: bytes


class DataHeader(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """`Data` without its rows."""

    stream: Name
    epoch: Number
    generation: Number
    chunk: ChunkHeader
    departs_ms: EventTime | None
    columns: Columns | None
    whole_bytes: Number


class SnapshotHeader(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`Snapshot` without its log and its state's pieces, which follow as frames.

    The log is written as `log` chunks, each as the frame of its header and the frame of its rows.
    """

    fragment: Name
    epoch: Number
    generation: Number
    inputs: Annotated[dict[Name, tuple[Number, Position]], Meta(max_length=MOST_ENTRIES)]
    log_base: Position
    log: Number
    consumers: Annotated[
        tuple[tuple[Name, Position, bool, bool], ...], Meta(max_length=MOST_ENTRIES)
    ]
    departs_ms: EventTime | None


@dataclass(frozen=True, slots=True)
class UnreadSnapshot:
    """A snapshot of which the output log is yet to be decoded.

    Attributes
    ----------
    snapshot
        The snapshot, with an empty log.
    log
        The log's chunks, each decoded when it is asked for. Raises `WireError`.
    """

    snapshot: Snapshot
    log: Iterator[Chunk]


class Bodiless(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Any message that consists of a header only."""

    kind: Name
    body: msgspec.Raw


BODILESS: dict[str, msgspec.msgpack.Decoder[Message]] = {
    kind.__name__: msgspec.msgpack.Decoder(kind)
    for kind in get_args(Message)
    if kind not in (Data, Snapshot)
}
"""Name → how its body is decoded."""

Header = DataHeader | SnapshotHeader | Bodiless

_headers: msgspec.msgpack.Decoder[Header] = msgspec.msgpack.Decoder(Header)
_chunk_headers = msgspec.msgpack.Decoder(ChunkHeader)
_encoder = msgspec.msgpack.Encoder()


def encode(message: Message, wire: int = WIRE_VERSION) -> list[bytes]:
    """Frames of a message, for a link that speaks this wire."""
    return list(encode_frames(message, wire))


def encode_frames(message: Message, wire: int = WIRE_VERSION) -> Iterator[bytes]:
    """Frames of a message, each made when it is asked for: a snapshot has many, and large ones."""
    match message:
        case Data():
            yield _header_frame(
                DataHeader(
                    message.stream,
                    message.epoch,
                    message.generation,
                    _chunk_header(message.chunk),
                    message.departs_ms,
                    message.columns,
                    message.whole_bytes,
                ),
                wire,
            )
            yield _rows(message.chunk, message.columns)
        case Snapshot():
            log = list(_portions(message.log))
            yield _header_frame(
                SnapshotHeader(
                    message.fragment,
                    message.epoch,
                    message.generation,
                    message.inputs,
                    message.log_base,
                    len(log),
                    message.consumers,
                    message.departs_ms,
                ),
                wire,
            )
            for portion in log:
                chunk = joined(portion)
                yield _encoder.encode(_chunk_header(chunk, as_runs=False))
                yield _rows(chunk)
            yield from message.state.pieces()
        case _:
            body = msgspec.Raw(_encoder.encode(message))
            yield _header_frame(Bodiless(type(message).__name__, body), wire)


def measured(
    frames: Iterator[bytes], clock_us: Callable[[], float], tell: Callable[[int, float, bool], None]
) -> Iterator[bytes]:
    """The same frames.

    Parameters
    ----------
    tell
        Told after each frame the size of all so far, bytes, how long making them took, µs, and
        whether there are no more.
    """
    size_bytes, took_us = 0, 0.0
    while True:
        began_us = clock_us()
        frame = next(frames, None)
        took_us += clock_us() - began_us
        if frame is None:
            break
        size_bytes += len(frame)
        tell(size_bytes, took_us, False)
        yield frame
    tell(size_bytes, took_us, True)


def as_received(message: Message) -> Message:
    """What a receiver gets of a message: data without the columns that do not travel."""
    if not isinstance(message, Data) or message.columns is None:
        return message
    chunk = message.chunk
    came = chunk.rows.select([0, *message.columns])
    rows = widened(came, chunk.rows.schema, message.columns)
    return msgspec.structs.replace(message, chunk=replace(chunk, rows=rows))


def is_data(frames: Sequence[bytes]) -> bool:
    """Whether frames are, if they are a message at all, `Data`; says so without decoding them."""
    # The version, the array's length, the tag.
    head = frames[0][:3] if frames else b""
    return len(head) == 3 and _spoken(head[0]) and head[2] == 0


def is_heartbeat(frames: Sequence[bytes]) -> bool:
    """Whether frames are, if they are a message at all, a `Heartbeat`; as `is_data`."""
    return len(frames) == 1 and frames[0].startswith(_HEARTBEATS)


def _spoken(wire: int) -> bool:
    return LEAST_WIRE <= wire <= WIRE_VERSION


def _header_frame(header: Header, wire: int) -> bytes:
    return bytes([wire]) + _encoder.encode(header)


_HEARTBEATS = tuple(
    _header_frame(Bodiless(Heartbeat.__name__, msgspec.Raw(b"")), wire)
    for wire in range(LEAST_WIRE, WIRE_VERSION + 1)
)
"""How every `Heartbeat` begins."""


def decode(frames: Sequence[bytes], schema_of: SchemaOf) -> Message:
    """The message that frames hold.

    Raises
    ------
    WireError
        If they hold none; the message names the fault.
    """
    found = begin_decoding(frames, schema_of)
    if isinstance(found, UnreadSnapshot):
        return msgspec.structs.replace(found.snapshot, log=tuple(found.log))
    return found


def begin_decoding(frames: Sequence[bytes], schema_of: SchemaOf) -> Message | UnreadSnapshot:
    """The message that frames hold; of a snapshot, as much as takes no longer than a small one.

    Raises
    ------
    WireError
        If they hold none; the message names the fault.
    """
    if not frames or not frames[0] or not _spoken(frames[0][0]):
        wire = frames[0][0] if frames and frames[0] else None
        raise WireError(f"wire {wire!r}; this version speaks {LEAST_WIRE} to {WIRE_VERSION}")
    try:
        header = _headers.decode(memoryview(frames[0])[1:])
        return _message(header, frames[1:], schema_of)
    except Exception as error:
        raise _fault(error) from error


def _message(
    header: Header, bodies: Sequence[bytes], schema_of: SchemaOf
) -> Message | UnreadSnapshot:
    match header:
        case DataHeader():
            (body,) = bodies
            return Data(
                stream=header.stream,
                epoch=header.epoch,
                generation=header.generation,
                chunk=_chunk(header.chunk, body, _known(header.stream, schema_of), header.columns),
                departs_ms=header.departs_ms,
                columns=header.columns,
                whole_bytes=header.whole_bytes,
            )
        case SnapshotHeader():
            schema = _known(header.fragment, schema_of)
            frames = 2 * header.log
            if not 0 <= frames <= len(bodies):
                raise WireError(f"{len(bodies)} frames after a snapshot with {header.log} chunks")
            snapshot = Snapshot(
                fragment=header.fragment,
                epoch=header.epoch,
                generation=header.generation,
                state=SavedState.of(bodies[frames:]),
                inputs=header.inputs,
                log_base=header.log_base,
                log=(),
                consumers=header.consumers,
                departs_ms=header.departs_ms,
            )
            return UnreadSnapshot(snapshot, _log(bodies[:frames], schema))
        case Bodiless(kind=kind):
            if bodies or kind not in BODILESS:
                raise WireError(f"{kind!r} with {len(bodies)} more frames")
            return BODILESS[kind].decode(header.body)


def _portions(log: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
    """Runs of chunks that are written as one: as a chunk each, a long log would take too long."""
    begin = rows = 0
    for at, chunk in enumerate(log):
        rows += chunk.rows.num_rows
        if at > begin and (rows > PIECE_ROWS or at - begin == PORTION_CHUNKS):
            yield log[begin:at]
            begin, rows = at, chunk.rows.num_rows
    if log:
        yield log[begin:]


def _log(frames: Sequence[bytes], schema: pa.Schema) -> Iterator[Chunk]:
    for header, body in zip(frames[::2], frames[1::2], strict=True):
        try:
            found = _chunk_headers.decode(header)
            if {len(found.watermarks_ms), len(found.ingestion_times_us)} != {8 * found.watermarks}:
                raise WireError("watermarks of a log come one by one")
            yield _chunk(found, body, schema)
        except Exception as error:
            raise _fault(error) from error


def _fault(error: Exception) -> WireError:
    """What to say of an error: damage may show as any of the libraries that read the frames."""
    if isinstance(error, WireError):
        return error
    return (CompressedRows if isinstance(error, CompressedFrame) else WireError)(repr(error))


def _known(stream: str, schema_of: SchemaOf) -> pa.Schema:
    schema = schema_of(stream)
    if schema is None:
        raise UnknownStream(f"stream {stream!r} is neither read nor produced here")
    return schema


def _chunk_header(chunk: Chunk, *, as_runs: bool = True) -> ChunkHeader:
    written = _times if as_runs else _one_by_one
    return ChunkHeader(
        chunk.first_seq,
        len(chunk.watermarks_ms),
        written(chunk.watermarks_ms),
        written(chunk.ingestion_times_us),
    )


def _one_by_one(times: IntArray) -> bytes:
    return times.astype("<i8").tobytes()


def _times(times: IntArray) -> bytes:
    """Times, or the first one and then runs of equal distances: how far, and how often.

    Watermarks of a clock, and times at which many tuples entered together, are few runs.
    """
    if FEW_TIMES < len(times) <= MOST_IN_RUNS:
        distances = times[1:] - times[:-1]
        (ends,) = (distances[1:] != distances[:-1]).nonzero()
        count = len(ends) + 1
        if 1 + 2 * count < len(times):
            bounds = np.empty(count + 1, dtype=np.int64)
            bounds[0], bounds[1:-1], bounds[-1] = 0, ends + 1, len(distances)
            runs = np.empty(1 + 2 * count, dtype="<i8")
            runs[0] = times[0]
            runs[1::2] = distances[bounds[:-1]]
            runs[2::2] = bounds[1:] - bounds[:-1]
            return runs.tobytes()
    return _one_by_one(times)


def _read_times(encoded: bytes, count: int) -> IntArray:
    """Times that `_times` has written."""
    found = np.frombuffer(encoded, dtype="<i8").astype(np.int64, copy=False)
    if len(found) == count:
        return found
    distances, lengths = found[1::2], found[2::2]
    if (
        not 1 < len(found) < count <= MOST_IN_RUNS
        or len(distances) != len(lengths)
        or not 1 <= lengths.min() <= lengths.max() < count
        or lengths.sum() != count - 1
    ):
        raise WireError(f"{len(found)} numbers for {count} watermarks")
    times = np.empty(count, dtype=np.int64)
    times[0], times[1:] = found[0], distances.repeat(lengths)
    return times.cumsum()


def _rows(chunk: Chunk, columns: Columns | None = None) -> bytes:
    # Most chunks contain no rows at all; an empty frame costs nothing.
    if not chunk.rows.num_rows:
        return b""
    rows = chunk.rows if columns is None else chunk.rows.select([0, *columns])
    return rows.serialize().to_pybytes()


def _chunk(
    header: ChunkHeader, body: bytes, schema: pa.Schema, columns: Columns | None = None
) -> Chunk:
    came = schema if columns is None else _narrowed(schema, columns)
    rows = read_batch(body, came) if body else _no_rows(schema)
    if body and columns is not None:
        rows = widened(rows, schema, columns)
    chunk = Chunk(
        first_seq=header.first_seq,
        rows=rows,
        watermarks_ms=_read_times(header.watermarks_ms, header.watermarks),
        ingestion_times_us=_read_times(header.ingestion_times_us, header.watermarks),
    )
    chunk.check(schema)
    _check_bounds(chunk)
    return chunk


@lru_cache(maxsize=1024)
def _narrowed(schema: pa.Schema, columns: Columns) -> pa.Schema:
    """The timestamp and some columns of a schema."""
    if any(place >= len(schema) for place in columns) or not _rises((0, *columns)):
        raise WireError(f"columns {columns} of a stream with {len(schema)}")
    return pa.schema([schema.field(place) for place in (0, *columns)])


def _rises(places: Sequence[int]) -> bool:
    return all(before < place for before, place in pairwise(places))


@lru_cache
def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _check_bounds(chunk: Chunk) -> None:
    """Refuse numbers and times that later sums could not hold."""
    if chunk.next_seq > MAX_NUMBER:
        raise WireError(f"sequence numbers up to {chunk.next_seq}")
    times_us = chunk.ingestion_times_us
    if times_us.min() < 0 or times_us.max() > MAX_NUMBER:
        raise WireError(f"ingestion times of {times_us.min()} to {times_us.max()} µs")
    if chunk.watermarks_ms[0] <= NO_WATERMARK:
        raise WireError(f"watermark {chunk.watermarks_ms[0]} ms lies before all timestamps")
    if chunk.rows.num_rows and chunk.timestamps[0] <= NO_WATERMARK:
        raise WireError(f"timestamp {chunk.timestamps[0]} ms lies before all others")
