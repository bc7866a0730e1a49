"""Takes in one stream exactly once, whoever sends it and however often.

Two copies of a fragment may both believe they are primary for a while, and a secondary that has
taken over sends again whatever was not acknowledged. Both are harmless because copies number their
identical output identically: the receiver keeps the part of each chunk that lies after what it
has, drops the rest (counted), and notices when something is missing in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ha.messages import Data
from streams.chunk import NO_WATERMARK, Chunk, Position


class Receipt(Enum):
    """What became of received data."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE = "stale"
    """From a state of the fragment that has been given up."""
    RESET = "reset"
    """First chunk of a new state of the fragment: numbering starts over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A verdict and, unless nothing is left, the part of the chunk that was new."""

    receipt: Receipt
    chunk: Chunk | None = None
    moved: bool = False
    """Whether the chunk does not follow what was received before: the stream is read from
    somewhere in its middle, or has a hole, or numbers its tuples anew."""


class StreamCursor:
    """Where a consumer stands in one stream.

    Attributes
    ----------
    position
        The cut before which everything has been taken in; None until the first word from a
        producer, when the consumer came without a position of its own.
    generation, epoch
        The newest that any producer has shown, 0 before that.
    repeated_tuples
        Tuples dropped because they had been received before.
    """

    def __init__(self) -> None:
        self.position: Position | None = None
        self.generation = 0
        self.epoch = 0
        self.repeated_tuples = 0
        self.provisional = False
        self._moved = False

    def start(self, position: Position, generation: int, *, provisional: bool = False) -> None:
        """Stand at `position` of `generation`, as a snapshot or a producer's word has it.

        A producer's word is `provisional` until data comes: another copy may begin later.
        """
        self.position = position
        self.provisional = provisional
        self.generation = generation
        self._moved = True

    def receive(self, data: Data) -> Received:
        """Take in what is new of `data`."""
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
        # A new state numbers its output from 0 again; only time tells what is already known.
        if self.position is None:
            return Position()
        known = int(np.searchsorted(chunk.timestamps, self.position.watermark_ms, side="right"))
        return Position(next_seq=chunk.first_seq + known, watermark_ms=self.position.watermark_ms)

    def skip_to(self, chunk: Chunk) -> None:
        """Stand just before `chunk`, giving up what lies between: nobody has it any more."""
        watermark_ms = self.position.watermark_ms if self.position else NO_WATERMARK
        self.position = Position(next_seq=chunk.first_seq, watermark_ms=watermark_ms)
        self._moved = True
