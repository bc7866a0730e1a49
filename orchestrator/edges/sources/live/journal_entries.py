"""The entries of a journal's segments as bytes.

entry = length, checksum, header (msgpack), rows, waiting (messages of Arrow's IPC format)
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import msgspec
import pyarrow as pa

from foundation.bounds import EventTime, Number
from streams.vectors.chunk import NO_WATERMARK, Position

PREFIX = struct.Struct("<II")
"""Length and checksum of what follows."""


Batch = tuple[str, int, int | None]
"""Client, number and digest of the rows; None: they are not known."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an entry says besides its tuples.

    Attributes
    ----------
    first_seq, rows
        Number of its first tuple, and how many there are.
    watermarks_ms, ingestion_times_us
        Of its tuples: int64, little-endian. Empty: nothing has become part of the stream.
    rows_bytes, waiting_bytes
        Sizes of what follows.
    complete_ms
        The last watermark of the stream, after it.
    watermark_ms, newest_ms
        As of the orderer, after it. By arrival, the clock may advance its watermark unsaid.
    clients
        Client → the number of its last batch, of those that have sent some in it; in a head, of
        all.
    digests
        Of the rows of these batches, in the same order; None where they are not known. Journals
        had none before.
    whole
        Whether the commit ends with it.
    commit
        Number of the commit in its segment; 0: the head.
    """

    first_seq: Number
    rows: Number = 0
    watermarks_ms: bytes = b""
    ingestion_times_us: bytes = b""
    rows_bytes: Number = 0
    waiting_bytes: Number = 0
    complete_ms: EventTime = NO_WATERMARK
    watermark_ms: EventTime = NO_WATERMARK
    newest_ms: EventTime = NO_WATERMARK
    clients: list[tuple[str, Number]] = []
    digests: list[int | None] = []
    whole: bool = True
    commit: Number = 0

    @property
    def end(self) -> Position:
        """The cut after it."""
        return Position(next_seq=self.first_seq + self.rows, watermark_ms=self.complete_ms)

    @property
    def batches(self) -> Iterator[Batch]:
        """The last batches of clients."""
        for (client, number), digest in zip_longest(self.clients, self.digests):
            yield client, number, digest


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Header)

_marker = msgspec.msgpack.encode("first_seq")
_MARKER_AT = 4 + _encoder.encode(Header(first_seq=0)).index(_marker)
"""What each entry has at this place after its prefix."""

Pieces = Sequence[bytes | pa.Buffer]
"""Bytes that belong together; rows are not copied to join them."""


def packed(header: Header, rows: pa.RecordBatch | None, waiting: pa.RecordBatch | None) -> Pieces:
    """An entry."""
    frames = [b"" if batch is None else batch.serialize() for batch in (rows, waiting)]
    head = _encoder.encode(
        msgspec.structs.replace(header, rows_bytes=len(frames[0]), waiting_bytes=len(frames[1]))
    )
    payload = [len(head).to_bytes(4, "little"), head, *frames]
    checksum = 0
    for piece in payload:
        checksum = zlib.crc32(piece, checksum)
    return [PREFIX.pack(size_of(payload), checksum), *payload]


def size_of(pieces: Pieces) -> int:
    """Their length."""
    return sum(len(piece) for piece in pieces)


def payloads(data: mmap.mmap | bytes, offset: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Entries of a file with their offsets, up to the first that is damaged or incomplete."""
    view = memoryview(data)
    while offset + PREFIX.size <= len(view):
        length, checksum = PREFIX.unpack_from(view, offset)
        payload = view[offset + PREFIX.size : offset + PREFIX.size + length]
        # Where a machine went down, zeros may follow.
        if not length or len(payload) < length or zlib.crc32(payload) != checksum:
            return
        yield offset, payload
        offset += PREFIX.size + length


def is_followed(data: mmap.mmap | bytes, offset: int, commit: int) -> bool:
    """Whether a whole entry of a later commit follows what is no whole entry at an offset.

    A process that was killed, or a machine that lost power, may leave any part of its last commit
    behind. What lies before a later one was written whole, and has been damaged since.

    Parameters
    ----------
    commit
        The one to which what lies at the offset belongs.
    """
    at = data.find(_marker, offset)
    while at >= 0:
        begin = at - _MARKER_AT - PREFIX.size
        found = next(payloads(data, begin), None) if begin > offset else None
        if found is not None and parts(found[1])[0].commit > commit:
            return True
        at = data.find(_marker, at + 1)
    return False


def parts(payload: bytes | memoryview) -> tuple[Header, memoryview, memoryview]:
    """Header, rows and waiting tuples of an entry."""
    view = memoryview(payload)
    begin = 4 + int.from_bytes(view[:4], "little")
    header = _decoder.decode(view[4:begin])
    end = begin + header.rows_bytes
    return header, view[begin:end], view[end : end + header.waiting_bytes]
