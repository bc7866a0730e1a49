"""Reads record batches that other processes have written, and refuses all that we never write.

A frame is one encapsulated message of Arrow's IPC format: a continuation marker, the length of the
metadata, the metadata as a flatbuffer, and the body. Arrow's reader checks the flatbuffer, and
`validate` the values. It would also decompress a body, whose size then says nothing about the
memory that it takes, and accept metadata that means nothing here. The fields concerned are
therefore looked at first, where Arrow's reader looks for them (`Message.fbs` of Apache Arrow 1.0
and later). The table `Message` has the fields version, kind of header, header, length of the body,
custom metadata. The table `RecordBatch` has length, nodes, buffers, compression, variadic counts.
"""

from __future__ import annotations

import struct

import pyarrow as pa
from pyarrow import ipc

CONTINUATION = b"\xff\xff\xff\xff"
DICTIONARY, RECORD_BATCH = 2, 3
"""Numbers of kinds of Arrow's messages."""

_prefix = struct.Struct("<4si")
_u16 = struct.Struct("<H")
_i32 = struct.Struct("<i")
_u32 = struct.Struct("<I")
_i64 = struct.Struct("<q")
_five = struct.Struct("<5H")
_buffer = struct.Struct("<qq")


class FrameRefused(ValueError):
    """Bytes that are not a record batch as this software writes them."""


class CompressedFrame(FrameRefused):
    """A record batch with a compressed body."""


def read_batch(frame: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """The record batch in a frame.

    Raises
    ------
    FrameRefused
        It is damaged, compressed, a dictionary, or has metadata.
    """
    try:
        _check(frame)
        batch = ipc.read_record_batch(pa.py_buffer(frame), schema)
        batch.validate(full=True)
    except FrameRefused:
        raise
    except (pa.ArrowException, OSError, struct.error, ValueError, IndexError) as error:
        raise FrameRefused(f"rows cannot be read: {error}") from error
    return batch


def decompressed_bytes(frame: bytes | memoryview) -> int:
    """What the buffers of a message say that they take once they are decompressed; else 0.

    Raises
    ------
    FrameRefused
        The message is damaged.
    """
    try:
        _, size = _prefix.unpack_from(frame)
        table = memoryview(frame)[_prefix.size : _prefix.size + size]
        body = memoryview(frame)[_prefix.size + size :]
        message = _u32.unpack_from(table)[0]
        _, kind, header, _, _ = _fields(table, message)
        if not header or table[message + kind] not in (DICTIONARY, RECORD_BATCH):
            return 0
        batch = _behind(table, message + header)
        if table[message + kind] == DICTIONARY:
            batch = _behind(table, batch + _fields(table, batch)[1])
        _, _, buffers, compression, _ = _fields(table, batch)
        if not buffers or not compression:
            return 0
        vector = _behind(table, batch + buffers)
        end = vector + 4 + _buffer.size * _u32.unpack_from(table, vector)[0]
        places = _buffer.iter_unpack(table[vector + 4 : end])
        # Each begins with its decompressed length; -1: it is not compressed.
        return sum(max(_i64.unpack_from(body, at)[0], length) for at, length in places if length)
    except (struct.error, IndexError) as error:
        raise FrameRefused(f"a message cannot be read: {error}") from error


def _behind(table: memoryview, at: int) -> int:
    """Where the offset at a place of a flatbuffer points to."""
    return at + _u32.unpack_from(table, at)[0]


def _check(frame: bytes | memoryview) -> None:
    """Refuse a frame that holds something other than plain rows."""
    marker, size = _prefix.unpack_from(frame)
    if marker != CONTINUATION or not 0 < size <= len(frame) - _prefix.size:
        raise FrameRefused("rows do not begin as a message of Arrow's format does")
    table = memoryview(frame)[_prefix.size : _prefix.size + size]
    message = _u32.unpack_from(table)[0]
    _, kind, header, length, metadata = _fields(table, message)
    if not kind or not header or table[message + kind] != RECORD_BATCH:
        raise FrameRefused("a frame holds something other than rows")
    if metadata:
        raise FrameRefused("rows have metadata")
    body = _i64.unpack_from(table, message + length)[0] if length else 0
    if body != len(frame) - _prefix.size - size:
        raise FrameRefused(f"rows of {body} bytes are announced, others came")
    batch = _behind(table, message + header)
    at, _, _, compression, variadic = _fields(table, batch)
    if compression:
        raise CompressedFrame("rows are compressed")
    if variadic:
        raise FrameRefused("rows have a layout that no stream has")
    rows = _i64.unpack_from(table, batch + at)[0] if at else 0
    # No column takes less than a bit.
    if not 0 <= rows <= 8 * max(body, 1):
        raise FrameRefused(f"{rows} rows in {body} bytes")


def _fields(table: memoryview, at: int) -> tuple[int, ...]:
    """Where the first five fields of the flatbuffer's table at `at` lie, from there; 0: absent."""
    directory = at - _i32.unpack_from(table, at)[0]
    if directory < 0:
        raise FrameRefused("a table in the metadata lies outside of it")
    present = min((_u16.unpack_from(table, directory)[0] - 4) // 2, 5)
    if present == 5:
        return _five.unpack_from(table, directory + 4)
    offsets = [_u16.unpack_from(table, directory + 4 + 2 * n)[0] for n in range(present)]
    return (*offsets, *[0] * (5 - len(offsets)))
