"""Encodes messages as frames, and decodes them.

The first frame is a version byte and a msgpack header (msgspec, strictly typed: nothing is ever
unpickled or evaluated). Rows follow as Arrow IPC record batches, one a frame, without their schema:
the receiver knows the stream's schema. Frames that cannot be decoded, or that decode to an invalid
chunk, raise `WireError`; the caller counts and drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import get_args

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import ipc

from ha.messages import Data, Message, Snapshot
from streams.chunk import Chunk, Position
from streams.state import SavedState
from topology.arrays import IntArray

WIRE_VERSION = 1

SchemaOf = Callable[[str], pa.Schema | None]
"""Finds a stream's schema; None for a stream that the host neither reads nor produces."""


class WireError(ValueError):
    """Frames that are not a message of this version."""


class UnknownStream(WireError):
    """A message about a stream that this host does not, or no longer, read or produce."""


class ChunkHeader(msgspec.Struct, frozen=True, array_like=True):
    """A chunk without its rows; watermarks and ingestion times are little-endian int64."""

    first_seq: int
    watermarks_ms: bytes
    ingestion_times_us: bytes


class DataHeader(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """`Data` without its rows."""

    stream: str
    epoch: int
    generation: int
    chunk: ChunkHeader


class SnapshotHeader(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """`Snapshot` without the log's rows and the state's pieces, which follow as frames."""

    fragment: str
    epoch: int
    generation: int
    inputs: dict[str, tuple[int, Position]]
    log_base: Position
    log: tuple[ChunkHeader, ...]
    consumers: tuple[tuple[str, Position, bool], ...]


class Bodiless(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Any message that consists of a header only."""

    kind: str
    body: msgspec.Raw


BODILESS: dict[str, type[Message]] = {
    kind.__name__: kind for kind in get_args(Message) if kind not in (Data, Snapshot)
}

Header = DataHeader | SnapshotHeader | Bodiless

_headers: msgspec.msgpack.Decoder[Header] = msgspec.msgpack.Decoder(Header)
_encoder = msgspec.msgpack.Encoder()


def encode(message: Message) -> list[bytes]:
    """Frames of a message."""
    return list(encode_frames(message))


def encode_frames(message: Message) -> Iterator[bytes]:
    """Frames of a message, each made when it is asked for: a snapshot has many, and large ones."""
    match message:
        case Data():
            yield _header_frame(
                DataHeader(
                    message.stream,
                    message.epoch,
                    message.generation,
                    _chunk_header(message.chunk),
                )
            )
            yield _rows(message.chunk)
        case Snapshot():
            yield _header_frame(
                SnapshotHeader(
                    message.fragment,
                    message.epoch,
                    message.generation,
                    message.inputs,
                    message.log_base,
                    tuple(_chunk_header(chunk) for chunk in message.log),
                    message.consumers,
                )
            )
            for chunk in message.log:
                yield _rows(chunk)
            yield from message.state.pieces()
        case _:
            body = msgspec.Raw(_encoder.encode(message))
            yield _header_frame(Bodiless(type(message).__name__, body))


def _header_frame(header: Header) -> bytes:
    return bytes([WIRE_VERSION]) + _encoder.encode(header)


def decode(frames: Sequence[bytes], schema_of: SchemaOf) -> Message:
    """The message that frames hold.

    Raises
    ------
    WireError
        If they hold none; the message names the fault.
    """
    if not frames or not frames[0] or frames[0][0] != WIRE_VERSION:
        version = frames[0][0] if frames and frames[0] else None
        raise WireError(f"wire version {version!r}, expected {WIRE_VERSION}")
    try:
        header = _headers.decode(memoryview(frames[0])[1:])
        return _message(header, frames[1:], schema_of)
    except WireError:
        raise
    except Exception as error:
        # Damage may show as any error of the libraries that read the frames.
        raise WireError(repr(error)) from error


def _message(header: Header, bodies: Sequence[bytes], schema_of: SchemaOf) -> Message:
    match header:
        case DataHeader():
            (body,) = bodies
            return Data(
                stream=header.stream,
                epoch=header.epoch,
                generation=header.generation,
                chunk=_chunk(header.chunk, body, _known(header.stream, schema_of)),
            )
        case SnapshotHeader():
            schema = _known(header.fragment, schema_of)
            count = len(header.log)
            chunks = zip(header.log, bodies[:count], strict=True)
            return Snapshot(
                fragment=header.fragment,
                epoch=header.epoch,
                generation=header.generation,
                state=SavedState.of(bodies[count:]),
                inputs=header.inputs,
                log_base=header.log_base,
                log=tuple(_chunk(chunk, body, schema) for chunk, body in chunks),
                consumers=header.consumers,
            )
        case Bodiless(kind=kind):
            if bodies or kind not in BODILESS:
                raise WireError(f"{kind!r} with {len(bodies)} more frames")
            return msgspec.msgpack.decode(header.body, type=BODILESS[kind])


def _known(stream: str, schema_of: SchemaOf) -> pa.Schema:
    schema = schema_of(stream)
    if schema is None:
        raise UnknownStream(f"stream {stream!r} is neither read nor produced here")
    return schema


def _chunk_header(chunk: Chunk) -> ChunkHeader:
    return ChunkHeader(
        chunk.first_seq,
        chunk.watermarks_ms.astype("<i8").tobytes(),
        chunk.ingestion_times_us.astype("<i8").tobytes(),
    )


def _rows(chunk: Chunk) -> bytes:
    # Most chunks contain no rows at all; an empty frame costs nothing.
    return chunk.rows.serialize().to_pybytes() if chunk.rows.num_rows else b""


def _chunk(header: ChunkHeader, body: bytes, schema: pa.Schema) -> Chunk:
    if body:
        rows = ipc.read_record_batch(pa.py_buffer(body), schema)
        rows.validate(full=True)
    else:
        rows = pa.RecordBatch.from_pylist([], schema=schema)
    chunk = Chunk(
        first_seq=header.first_seq,
        rows=rows,
        watermarks_ms=_integers(header.watermarks_ms),
        ingestion_times_us=_integers(header.ingestion_times_us),
    )
    chunk.check(schema)
    return chunk


def _integers(encoded: bytes) -> IntArray:
    return np.frombuffer(encoded, dtype="<i8").astype(np.int64, copy=False)
