"""Checkpoints of fragments: where they are kept, and what each is of."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from foundation.bounds import MAX_NUMBER, EventTime, Name, Number
from orchestrator.records.base import Record

CHECKPOINT_EVERY_MS = 30_000.0
CHECKPOINTS_KEPT = 2
RETAINED_BYTES = 1 << 30
"""Defaults of `StateSpec`."""


class StateSpec(Record, frozen=True, kw_only=True):
    """Where checkpoints are kept, how often they are taken, and how much is kept for them."""

    folder: str
    """A folder, or a URI that `pyarrow.fs` understands, which all hosts and coordinators reach."""
    every_ms: float = CHECKPOINT_EVERY_MS
    """Time between two checkpoints of a fragment."""
    keep: int = CHECKPOINTS_KEPT
    """How many sets of checkpoints are kept with which all queries could resume."""
    retain_bytes: int = RETAINED_BYTES
    """How much of a stream a journal keeps because a checkpoint may need it, at most."""


class StoredPosition(Record, frozen=True, kw_only=True):
    """A cut through a stream, as `streams.vectors.chunk.Position` has it."""

    next_seq: Number
    watermark_ms: EventTime


class StoredCheckpoint(Record, frozen=True, kw_only=True):
    """A checkpoint of a fragment that is kept as a whole.

    Attributes
    ----------
    name
        Of its file; the name of the savepoint and `/state`, if it lies in one.
    at_us
        When it was taken, cluster clock, µs.
    generation
        Of the fragment's state.
    inputs
        Input → generation and position before which everything is contained.
    log_base, output
        The output that it contains: from one cut to the other.
    bytes
        Its size.
    """

    name: Name
    at_us: int
    generation: Number
    inputs: dict[Name, tuple[Number, StoredPosition]]
    log_base: StoredPosition
    output: StoredPosition
    bytes: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] = 0


class CheckpointsRecord(Record, frozen=True, kw_only=True):
    """`/checkpoints/<query>.<fragment>`: those that may be needed, the oldest first."""

    query: str
    fragment: str
    stored: tuple[StoredCheckpoint, ...] = ()

    @property
    def key(self) -> str:
        """Name of the record in the store."""
        return f"{self.query}.{self.fragment}"


class Restoration(Record, frozen=True, kw_only=True):
    """That a fragment has gone on from a checkpoint.

    Attributes
    ----------
    epoch
        In which it did: replicas from before are over.
    checkpoint
        Its name.
    """

    epoch: int
    checkpoint: str
