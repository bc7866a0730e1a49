"""Savepoints: sets of checkpoints that are kept under a name until somebody deletes them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from foundation.bounds import MAX_NUMBER, Name, Number
from orchestrator.records.base import Record
from orchestrator.records.checkpoints import StoredPosition


class SavepointState(Enum):
    """How far a savepoint is."""

    WANTED = "wanted"
    """Fragments are to write checkpoints for it."""
    COPYING = "copying"
    """Its checkpoints are chosen, and are being copied."""
    KEPT = "kept"
    """It can be used."""
    FAILED = "failed"
    """It did not come about, and nothing of it is left."""
    DELETED = "deleted"
    """Its files are being removed."""


class SavepointPiece(Record, frozen=True, kw_only=True):
    """The checkpoint of one fragment in a savepoint.

    Attributes
    ----------
    fragment
        `<query>.<fragment>`.
    checkpoint
        Name of the file that it is copied from.
    at_us
        When it was taken, cluster clock, µs.
    bytes
        Its size.
    crc32
        Checksum of the whole file; None: it has yet to be copied.
    """

    fragment: str
    checkpoint: Name
    at_us: int
    bytes: Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
    crc32: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None


class SavedFile(Record, frozen=True, kw_only=True):
    """A file of a savepoint, with its size and the checksum of all of it."""

    name: str
    bytes: Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
    crc32: Annotated[int, Meta(ge=0, le=2**32 - 1)]


class JournalCopy(Record, frozen=True, kw_only=True):
    """A copy of a stream's journal in a savepoint, by the site that has the stream.

    Attributes
    ----------
    savepoint, asked_us
        Name of the savepoint, and when it was asked for.
    files
        As they are called in the journal; none: the source keeps no files.
    begin, end
        From where to where the stream can be read again from the copy.
    why
        Why it could not be made; empty: it was.
    """

    savepoint: str
    asked_us: int
    files: tuple[SavedFile, ...] = ()
    begin: StoredPosition | None = None
    end: StoredPosition | None = None
    why: str = ""


class SavepointRecord(Record, frozen=True, kw_only=True):
    """`/savepoints/<name>`: a savepoint, and the journal of its creation.

    A client writes that it wants one. The leader chooses the checkpoints, and saves them one after
    the other. A new leader goes on after the last one that is noted here.

    Attributes
    ----------
    asked_us, ended_us
        When it was asked for, and when it was kept or had failed, cluster clock, µs.
    by
        Who asked for it.
    pieces
        Its checkpoints, once they are chosen.
    journals
        Stream whose site is to copy its journal → the copy; None: it has yet to.
    left_out
        Fragment that it has no checkpoint of → why.
    basis
        Path of what it rests on → the store's number of its creation, and its version.
    why
        Why it failed.
    emptied
        Whether the files of one that failed are removed.
    departed
        Query of which other results have come since than its states here lead to, under the same
        numbers → how that came, a clause.
    """

    name: Name
    asked_us: Number
    by: str = ""
    state: SavepointState = SavepointState.WANTED
    pieces: tuple[SavepointPiece, ...] = ()
    journals: dict[str, JournalCopy | None] = {}
    left_out: dict[str, str] = {}
    basis: dict[str, tuple[int, int]] = {}
    ended_us: int | None = None
    why: str = ""
    emptied: bool = False
    departed: dict[str, str] = {}

    @property
    def bytes(self) -> int:
        """The size of all pieces, and of the journals that are copied."""
        return sum(each.bytes for each in self.pieces) + self._journal_bytes

    @property
    def copied_bytes(self) -> int:
        """How much of it is copied."""
        copied = sum(each.bytes for each in self.pieces if each.crc32 is not None)
        return copied + self._journal_bytes

    def is_copying(self, fragment: str) -> bool:
        """Whether the checkpoint of a fragment is chosen, and the savepoint not kept yet."""
        copying = self.state is SavepointState.COPYING
        return copying and any(each.fragment == fragment for each in self.pieces)

    @property
    def _journal_bytes(self) -> int:
        found = [each for each in self.journals.values() if each is not None]
        return sum(file.bytes for each in found for file in each.files)
