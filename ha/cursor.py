"""A consumer's cursor in one stream: it receives each tuple exactly once.

Two replicas of a fragment may both act as primary for a while, and a secondary that takes over
sends again what was not acknowledged. Both are harmless, because replicas produce the same tuples
with the same sequence numbers. The cursor keeps the part of each chunk that lies after its
position, drops and counts the rest, and notices a gap between its position and the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ha.messages import Data
from streams.chunk import Chunk, Position


class Receipt(Enum):
    """How a cursor judged received data."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE = "stale"
    """It belongs to an earlier generation of the fragment's state."""
    RESET = "reset"
    """It is the first chunk of a new generation: sequence numbers start over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A receipt and the part of the chunk that was new, if there is any."""

    receipt: Receipt
    chunk: Chunk | None = None
    moved: bool = False
    """Whether the chunk does not continue the tuples received before: reading began in the middle
    of the stream, tuples are missing, or sequence numbers start over."""


class StreamCursor:
    """The position of a consumer in one stream.

    Attributes
    ----------
    position
        The cut before which everything has been received. None until a producer has answered, if
        the consumer started without a position of its own.
    generation, epoch
        The newest that any producer has mentioned; 0 before the first.
    repeated_tuples
        Tuples dropped because they had been received before.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over, without a position."""
        self.position: Position | None = None
        self.generation = 0
        self.epoch = 0
        self.repeated_tuples = 0
        self.provisional = False
        self._moved = False

    def start(self, position: Position, generation: int, *, provisional: bool = False) -> None:
        """Move to `position` of `generation`, as a snapshot or a producer's answer has it.

        A producer's answer is `provisional` until data arrives: another replica's log may begin
        later.
        """
        self.position = position
        self.provisional = provisional
        self.generation = generation
        self._moved = True

    def receive(self, data: Data) -> Received:
        """Receive the part of `data` that is new."""
        if data.generation < self.generation:
            return Received(receipt=Receipt.STALE)
        receipt = Receipt.ACCEPTED
        if data.generation > self.generation:
            if self.generation:
                receipt = Receipt.RESET
            self.start(self._renumbered(data.chunk), data.generation)
        self.epoch = max(self.epoch, data.epoch)
        position = self.position or Position()
        chunk = data.chunk.after(position)
        repeated = min(max(position.next_seq - data.chunk.first_seq, 0), data.chunk.rows.num_rows)
        self.repeated_tuples += repeated
        if chunk is None:
            return Received(receipt=Receipt.DUPLICATE)
        if chunk.first_seq != position.next_seq:
            return Received(receipt=Receipt.GAP)
        self.position = chunk.end
        moved, self._moved = self._moved, False
        self.provisional = False
        return Received(receipt=receipt, chunk=chunk, moved=moved)

    def _renumbered(self, chunk: Chunk) -> Position:
        # A new generation numbers its output from 0 again; timestamps tell which tuples are known.
        if self.position is None:
            return Position()
        known = int(np.searchsorted(chunk.timestamps, self.position.watermark_ms, side="right"))
        return Position(next_seq=chunk.first_seq + known, watermark_ms=self.position.watermark_ms)

    def skip_to(self, chunk: Chunk) -> int:
        """Move to just before `chunk`, and return the number of tuples skipped.

        For tuples that no producer keeps any more.
        """
        before = self.position or Position()
        self.position = Position(next_seq=chunk.first_seq, watermark_ms=before.watermark_ms)
        self._moved = True
        return chunk.first_seq - before.next_seq
