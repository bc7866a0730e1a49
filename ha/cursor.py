"""The position of a reader in a stream.

A reader (an input of a replica, or a sink) receives each tuple exactly once. Two replicas of a
fragment may both act as primary for a while, and a secondary that takes over sends again what was
not acknowledged. Both are harmless, because replicas produce the same tuples with the same sequence
numbers. The cursor keeps the part of each chunk that lies after its position, drops and counts the
rest, and notices a gap between its position and the chunk.

*Discontinuity.* A stream that begins anew has a new generation and new sequence numbers, and a
stream may have a hole that no producer can fill. A cursor stops at both. Only a sink or a primary
lets its cursor cross; a secondary stops and takes the primary's state instead, so that replicas
cannot diverge there. Timestamps that were complete before a crossing stay complete: tuples
of the new generation up to the cursor's `floor_ms` are filtered out.

*Departure.* Behind a discontinuity, a stream may go on in the same generation, and differ from what
was sent of it before (`ha.messages.Data`). After a departure a cursor refuses chunks of the other
history.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ha.beginning import Beginning
from ha.messages import Data
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position

REMEMBERED_CLAIMS = 32
"""At most two for each acknowledgement: mostly those of more than a second."""


class Receipt(Enum):
    """How a cursor judged received data."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """Everything in it was received before, or is filtered after a crossing."""
    GAP = "gap"
    """It does not continue what was received, or the cursor has no position yet."""
    STALE = "stale"
    """It belongs to an earlier generation of the producer's state."""
    RESET = "reset"
    """It belongs to a newer generation, to which the cursor has not crossed."""
    DIFFERS = "differs"
    """It departs before the cursor's position, and belongs to another history than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A receipt and the part of the chunk that was new, if there is any."""

    receipt: Receipt
    chunk: Chunk | None = None
    moved: bool = False
    """Whether the chunk does not continue the tuples received before: reading began in the middle
    of the stream, or the cursor has crossed a discontinuity."""


class StreamCursor:
    """The position of a reader in one stream.

    Attributes
    ----------
    position
        The cut before which everything has been received. None until a producer has answered, if
        the reader started without a position of its own.
    generation
        That the position belongs to; 0 without a position.
    epoch
        The newest that any producer has mentioned in this generation.
    floor_ms
        Nothing with this timestamp or an earlier one is accepted, whatever its number.
    repeated_tuples
        Tuples dropped because they had been received before.
    crossing
        Whether it has crossed a discontinuity, and nothing from beyond has been accepted. What the
        reader has processed is then no position of the new numbering.
    began_at
        Where it began to read, or where it went on after the last discontinuity that it crossed;
        None if it continues from a state and has crossed none since.
    started
        As `began_at`, but also where it went on from a state; None: nowhere yet.
    begins
        From where its reader needs the stream, if the reader begins from nothing; None: from the
        beginning of what producers keep.
    lost
        Tuples that this reader would have needed and no producer had; None: nobody knows how many.
    claims
        Positions that its host has lately told producers: received ones, and processed ones.
    kept
        The cut before which a sink has kept everything for good, in `generation`; None for a reader
        that loses its state when its host ends, and before a sink has received anything.
    """

    def __init__(self) -> None:
        self.claims: deque[Position] = deque(maxlen=REMEMBERED_CLAIMS)
        self.reset()

    def reset(self) -> None:
        """Start over, without a position."""
        self.position: Position | None = None
        self.generation = 0
        self.epoch = 0
        self.floor_ms = NO_WATERMARK
        self.repeated_tuples = 0
        self.provisional = False
        self.kept: Position | None = None
        self.began_at: Position | None = None
        self.started: Position | None = None
        self.begins: Beginning | None = None
        self.lost: int | None = 0
        self.crossing = self._moved = False
        self.claims.clear()

    def claim(self, *positions: Position | None) -> None:
        """Note positions that producers are told."""
        for position in positions:
            if position is not None and position not in (*self.claims,)[-2:]:
                self.claims.append(position)

    def has_claimed(self, had: Position) -> bool:
        """Whether producers were told this position.

        Positions that the cursor has passed since it began to read, and no longer remembers, count.
        """
        if had in self.claims:
            return True
        is_forgotten = bool(self.claims) and had.is_before(self.claims[0])
        return is_forgotten and self.started is not None and self.started.is_before(had)

    @property
    def seeks(self) -> bool:
        """Whether some producer may yet have more for the beginning of its reader, if it begins
        from nothing."""
        return self.begins is not None and (self.position is None or self.provisional)

    @property
    def complete_ms(self) -> int:
        """Up to where the stream is complete for the reader, whatever generation it came from."""
        received_ms = NO_WATERMARK if self.position is None else self.position.watermark_ms
        return max(received_ms, self.floor_ms)

    def start(self, position: Position, generation: int, *, provisional: bool = False) -> None:
        """Move to `position` of `generation`, as a snapshot or a producer's answer has it.

        A producer's answer is `provisional` until data arrives: another replica's log may begin
        later.
        """
        if generation != self.generation:
            # A former generation may have come to a greater epoch, which nobody recorded.
            self.epoch = 0
        self.position = position
        self.provisional = provisional
        self.generation = generation
        self.kept = None
        self.began_at = self.started = position
        self.crossing = False
        self._moved = True
        self.claims.clear()

    def resume(self, position: Position, generation: int) -> None:
        """Continue after `position`, up to which the reader has processed everything."""
        self.start(position, generation)
        self.began_at = None
        self._moved = False

    def cross(self, position: Position, generation: int) -> None:
        """Continue with a new generation, whose output begins at `position` or is kept from there.

        Timestamps that were complete in the old generation stay complete.
        """
        if self.position is not None:
            self.floor_ms = max(self.floor_ms, self.position.watermark_ms)
        self.start(position, generation)
        self.crossing = True

    @property
    def has_filtered_all(self) -> bool:
        """Whether it has crossed a discontinuity and filtered everything that was complete before.

        Nothing new may ever follow: the stream may be at its end.
        """
        return (
            self.crossing
            and self.position is not None
            and self.position.watermark_ms >= self.floor_ms
        )

    def arrive(self) -> Position:
        """Count the crossing as over: returns where the reader goes on in the new numbering."""
        assert self.position is not None
        self.crossing = self._moved = False
        return self.position

    def stand_at(self, chunk: Chunk, generation: int) -> Received:
        """Receive a chunk without tuples, for which a producer's answer to a subscription stands.

        It is accepted if the reader waits for the tuple that follows. The answer of another
        producer may still place the reader elsewhere.
        """
        position, moved = self.position, self._moved
        if position is None or self.crossing or generation != self.generation:
            return Received(receipt=Receipt.STALE)
        if chunk.first_seq != position.next_seq:
            return Received(receipt=Receipt.GAP)
        if not moved and not position.is_before(chunk.end):
            return Received(receipt=Receipt.DUPLICATE)
        self.position, self._moved = chunk.end, False
        return Received(receipt=Receipt.ACCEPTED, chunk=chunk, moved=moved)

    def skip_to(self, chunk: Chunk) -> int:
        """Cross a hole: move to just before `chunk`, and return the number of tuples skipped.

        For tuples that no producer keeps any more.
        """
        before = self.position or Position()
        self.position = Position(next_seq=chunk.first_seq, watermark_ms=before.watermark_ms)
        self.began_at = self.position
        self.crossing = self._moved = True
        return chunk.first_seq - before.next_seq

    def receive(self, data: Data) -> Received:
        """Receive the part of `data` that is new."""
        position = self.position
        if position is None:
            return Received(receipt=Receipt.GAP)
        if data.generation != self.generation:
            stale = data.generation < self.generation
            return Received(receipt=Receipt.STALE if stale else Receipt.RESET)
        self.epoch = max(self.epoch, data.epoch)
        departs = data.departs_ms is not None and data.departs_ms < position.watermark_ms
        if departs and data.chunk.contradicts(position):
            return Received(receipt=Receipt.DIFFERS)
        chunk = data.chunk.after(position)
        repeated = min(max(position.next_seq - data.chunk.first_seq, 0), data.chunk.rows.num_rows)
        self.repeated_tuples += repeated
        if chunk is None:
            return Received(receipt=Receipt.DUPLICATE)
        if chunk.first_seq != position.next_seq:
            return Received(receipt=Receipt.GAP)
        self.position = chunk.end
        self.provisional = False
        if (rest := past(chunk, self.floor_ms)) is None:
            return Received(receipt=Receipt.DUPLICATE)
        moved = self._moved or rest is not chunk
        self.crossing = self._moved = False
        return Received(receipt=Receipt.ACCEPTED, chunk=rest, moved=moved)


def past(chunk: Chunk, floor_ms: int) -> Chunk | None:
    """The part of a chunk with timestamps after `floor_ms`; None if there is none."""
    if floor_ms < chunk.earliest_ms:
        return chunk
    known = int(np.searchsorted(chunk.timestamps, floor_ms, side="right"))
    return chunk.after(Position(next_seq=chunk.first_seq + known, watermark_ms=floor_ms))
