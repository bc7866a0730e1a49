"""The file of a checkpoint: what it is of, and the pieces of a snapshot.

A file is the magic number and the version of the format, a header, the pieces, and an end that
says how many pieces there are. Header and pieces each come with their length and checksum. A file
without its end, or with a checksum that does not match, was cut off or is damaged; nothing of it is
used. The pieces are those that hosts send each other (`orchestrator.host.shell.wire`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from orchestrator.records.checkpoints import StoredCheckpoint

MAGIC = b"VVCP"

FORMAT = 1
"""The newest format that this version writes and reads. Golden files hold every one."""

_begin = struct.Struct(">4sH")
_piece = struct.Struct(">QI")

END = 2**64 - 1
"""In the place of a piece's length."""

MOST_PIECE_BYTES = 1 << 32


class CheckpointRefused(Exception):
    """A checkpoint that cannot be used, or a folder that takes none. Its text says why."""


class CheckpointHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint is of.

    Attributes
    ----------
    cluster, cluster_id
        Name of the cluster, and the number that tells clusters of one name apart.
    query, fragment
        The fragment.
    program
        Fingerprint of its statement, with the columns of its inputs.
    vivace
        The version that wrote it, for people.
    wire
        How its pieces are encoded (`records.versions`).
    stored
        Positions and time.
    """

    cluster: str
    cluster_id: str
    query: str
    fragment: str
    program: str
    vivace: str
    wire: int
    stored: StoredCheckpoint


_heads = msgspec.msgpack.Decoder(CheckpointHead)


def write(head: CheckpointHead, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a file, each made when it is asked for."""
    yield _begin.pack(MAGIC, FORMAT)
    count = 0
    for part in chain([msgspec.msgpack.encode(head)], pieces):
        yield _piece.pack(len(part), zlib.crc32(part)) + part
        count += 1
    yield _piece.pack(END, count)


def read(content: bytes) -> tuple[CheckpointHead, list[bytes]]:
    """What a file is of, and its pieces.

    Raises
    ------
    CheckpointRefused
        It is none of this format, cut off or damaged.
    """
    parts = _parts(content)
    head = _head(next(parts, b""))
    return head, list(parts)


def read_head(content: bytes) -> CheckpointHead:
    """What a file is of; the pieces are not looked at.

    Raises
    ------
    CheckpointRefused
        As `read`.
    """
    return _head(next(_parts(content), b""))


def _head(encoded: bytes) -> CheckpointHead:
    try:
        return _heads.decode(encoded)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CheckpointRefused(f"is damaged: its header cannot be read ({error})") from error


def _parts(content: bytes) -> Iterator[bytes]:
    view = memoryview(content)
    if len(view) < _begin.size or bytes(view[:4]) != MAGIC:
        raise CheckpointRefused("is damaged, or no checkpoint: it does not begin like one")
    _, version = _begin.unpack_from(view)
    if version > FORMAT:
        raise CheckpointRefused(
            f"has format {version}, and this version of Vivace reads up to {FORMAT}: a newer "
            "version wrote it. Start that version"
        )
    at, count = _begin.size, 0
    while True:
        if len(view) - at < _piece.size:
            raise CheckpointRefused("is damaged: it is cut off")
        length, checksum = _piece.unpack_from(view, at)
        at += _piece.size
        if length == END:
            break
        if length > len(view) - at or length > MOST_PIECE_BYTES:
            raise CheckpointRefused("is damaged: it is cut off")
        piece = bytes(view[at : at + length])
        if zlib.crc32(piece) != checksum:
            raise CheckpointRefused(f"is damaged: the checksum of piece {count} does not match")
        yield piece
        at, count = at + length, count + 1
    if checksum != count or at != len(view):
        raise CheckpointRefused("is damaged: it has other pieces than were written")
