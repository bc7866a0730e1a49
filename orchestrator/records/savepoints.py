"""Savepoints: sets of checkpoints that are kept under a name until somebody deletes them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from foundation.bounds import MAX_NUMBER, Name, Number
from orchestrator.records.base import Record


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


class SavepointRecord(Record, frozen=True, kw_only=True):
    """`/savepoints/<name>`: a savepoint, and the journal of its creation.

    A client writes that it wants one. The leader chooses the checkpoints, and copies them one after
    the other. A new leader goes on after the last one that is noted here.

    Attributes
    ----------
    asked_us, ended_us
        When it was asked for, and when it was kept or had failed, cluster clock, µs.
    by
        Who asked for it.
    pieces
        Its checkpoints, once they are chosen.
    left_out
        Fragment that it has no checkpoint of → why.
    basis
        Path of what it rests on → the store's number of its creation, and its version.
    why
        Why it failed.
    emptied
        Whether the files of one that failed are removed.
    """

    name: Name
    asked_us: Number
    by: str = ""
    state: SavepointState = SavepointState.WANTED
    pieces: tuple[SavepointPiece, ...] = ()
    left_out: dict[str, str] = {}
    basis: dict[str, tuple[int, int]] = {}
    ended_us: int | None = None
    why: str = ""
    emptied: bool = False

    @property
    def bytes(self) -> int:
        """The size of all pieces."""
        return sum(each.bytes for each in self.pieces)

    @property
    def copied_bytes(self) -> int:
        """How much of it is copied."""
        return sum(each.bytes for each in self.pieces if each.crc32 is not None)
