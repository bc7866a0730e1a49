"""The index of a savepoint: all that a cluster needs to go on from it, but for the states.

It is a file of two lines. The first one tells format, length and checksum of the second one, which
is a document in JSON, so that people can read it, too.
"""

from __future__ import annotations

import zlib

import msgspec

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.records import (
    ClusterRecord,
    FragmentRecord,
    JournalCopy,
    QueryRecord,
    RunningQueryRecord,
    RunningStreamRecord,
    SavedFile,
    StoredCheckpoint,
    StreamRecord,
)

FORMAT = 1
"""The newest format that this version writes and reads."""

INDEX = "index.json"
"""Name of the file. It is written last and removed first: without it there is no savepoint."""


def piece_of(fragment: str) -> str:
    """The file of a fragment's state, `<query>.<fragment>`, in every savepoint."""
    return f"{fragment}.piece"


class IndexHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    savepoint_format: int
    bytes: int
    crc32: int


class SavedFragment(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint of a fragment.

    Attributes
    ----------
    fragment
        `<query>.<fragment>`.
    bytes, crc32
        Size and checksum of its file.
    stored
        Positions and time.
    """

    fragment: str
    bytes: int
    crc32: int
    stored: StoredCheckpoint

    @property
    def file(self) -> str:
        """Name of its file in the savepoint."""
        return piece_of(self.fragment)


class SavepointIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What a savepoint is of.

    Attributes
    ----------
    cluster, cluster_id
        Where it was taken.
    vivace, wire
        The version that took it, and how its pieces are encoded.
    asked_us, at_us
        When it was asked for, and when its last file was written, cluster clock, µs.
    settings, streams, running_streams, queries, running_queries, fragments
        The records then.
    numbers
        Path of a stream or query → the number that stands for its creation: generations, and what
        sinks have kept, rest on it.
    greatest
        No number greater than that had been issued or used.
    saved
        The checkpoints.
    left_out
        Fragment without a checkpoint → why. It begins from nothing.
    journals
        Stream → the copy of its site's journal.
    """

    name: str
    cluster: str
    cluster_id: str
    vivace: str
    wire: int
    asked_us: int
    at_us: int
    settings: ClusterRecord
    streams: tuple[StreamRecord, ...]
    running_streams: tuple[RunningStreamRecord, ...]
    queries: tuple[QueryRecord, ...]
    running_queries: tuple[RunningQueryRecord, ...]
    fragments: tuple[FragmentRecord, ...]
    numbers: dict[str, int]
    greatest: int
    saved: tuple[SavedFragment, ...]
    left_out: dict[str, str] = {}
    journals: dict[str, JournalCopy] = {}

    @property
    def bytes(self) -> int:
        """The size of all states and journals."""
        return sum(each.bytes for each in (*self.saved, *self.journal_files))

    @property
    def journal_files(self) -> tuple[SavedFile, ...]:
        """The files of journals, as they are called in the savepoint."""
        return tuple(
            msgspec.structs.replace(file, name=f"{stream}.{file.name}")
            for stream, copy in self.journals.items()
            for file in copy.files
        )

    def of(self, fragment: str) -> SavedFragment | None:
        """The checkpoint of a fragment, `<query>.<fragment>`."""
        return next((each for each in self.saved if each.fragment == fragment), None)


_heads = msgspec.json.Decoder(IndexHead)
_indexes = msgspec.json.Decoder(SavepointIndex)


def written(index: SavepointIndex) -> bytes:
    """The content of an index's file."""
    body = msgspec.json.encode(index)
    head = IndexHead(savepoint_format=FORMAT, bytes=len(body), crc32=zlib.crc32(body))
    return msgspec.json.encode(head) + b"\n" + body + b"\n"


def read(content: bytes) -> SavepointIndex:
    """The index in a file.

    Raises
    ------
    CheckpointRefused
        It is none of this format, cut off or damaged.
    """
    first, _, rest = content.partition(b"\n")
    try:
        head = _heads.decode(first)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CheckpointRefused(f"is damaged, or no index of a savepoint ({error})") from error
    if head.savepoint_format > FORMAT:
        raise CheckpointRefused(
            f"has format {head.savepoint_format}, and this version of Vivace reads up to {FORMAT}: "
            "a newer version wrote it. Start that version"
        )
    body = rest[: head.bytes]
    if len(body) != head.bytes:
        raise CheckpointRefused("is damaged: it is cut off")
    if zlib.crc32(body) != head.crc32:
        raise CheckpointRefused("is damaged: its checksum does not match")
    try:
        return _indexes.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise CheckpointRefused(f"is damaged: it cannot be read ({error})") from error
