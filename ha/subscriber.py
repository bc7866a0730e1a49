"""What a producer knows of a host that reads its stream."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ha.messages import ANY_BYTES, EVERY_TUPLE, Columns
from streams.vectors.chunk import NO_WATERMARK, Position

OVERDUE_AFTER = 3
"""Acknowledgement intervals after which output is offered that a subscriber has not acknowledged.
An acknowledgement takes one interval, the way there and back less than two. A subscriber that
acknowledges more rarely is granted as many of its own intervals."""

MOST_ACK_INTERVALS = 4
"""A host acknowledges each stream within so many intervals, however many it reads."""

REMEMBERED_INTERVALS = OVERDUE_AFTER * MOST_ACK_INTERVALS


@dataclass(slots=True)
class Subscriber:
    """A host that reads the stream.

    Attributes
    ----------
    acknowledged, sent
        The cuts up to which it has acknowledged output, and has been sent output.
    feed
        Whether even a standby sends it output.
    patient
        Whether output is kept for it while it is away.
    demanded
        The cut up to which its readers that may hold the producer up have processed output; None if
        there are no such readers.
    room_bytes
        Its credit: bytes that it takes beyond the processed output.
    processed_bytes
        Bytes of all output up to the processed position, counted from the log's first chunk.
    heard_us
        When it last said how far it is; None: not yet, but it was told to be there.
    received_ms, furthest, lagging
        As in `Ack`.
    is_heard, silent, pace
        Whether it has acknowledged something in this acknowledgement interval of the producer's
        host; for how many intervals it has not; and how many it took for its last acknowledgement
        with news.
    told_ms
        Up to where it had received output when it last acknowledged.
    batch
        As in `Ack`.
    columns
        As in `Subscribe`.
    reread_from
        Beginning of the piece that the source last read again for it.
    ends_ms, sents_ms
        Of each of the last acknowledgement intervals: the watermark up to which it should have been
        sent output, and the watermark up to which it was.
    is_reached
        Whether it says in time that it has received what it was sent.
    is_away
        Whether the connection to it broke, and nothing has come from it since.
    start, asked
        From where on it was sent output, and the number of the request that was answered so.
    awaits
        As in `Subscribe`.
    """

    acknowledged: Position
    sent: Position
    start: Position
    feed: bool = False
    patient: bool = False
    demanded: Position | None = None
    room_bytes: int = ANY_BYTES
    processed_bytes: int = 0
    heard_us: int | None = None
    received_ms: int | None = None
    furthest: Position | None = None
    lagging: Position | None = None
    batch: int = EVERY_TUPLE
    columns: Columns | None = None
    reread_from: Position | None = None
    is_heard: bool = False
    silent: int = 0
    pace: int = 1
    told_ms: int = NO_WATERMARK
    ends_ms: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED_INTERVALS))
    sents_ms: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED_INTERVALS))
    is_reached: bool = True
    is_away: bool = False
    asked: int = 0
    awaits: bool = False

    def repeats(self, start: Position, first: int, number: int, *, awaits: bool) -> bool:
        """Whether a request is one that was answered already, and so has nothing to be sent again.

        What was sent since is under way. If some of that was lost, the host finds a gap, or is
        offered it.

        Parameters
        ----------
        start
            From where on the host would be sent output.
        first, number, awaits
            As in `Subscribe`.
        """
        return (
            first <= self.asked < number
            and self.start == start
            and not start.is_before(self.acknowledged)
            and self.awaits == awaits
            and not self.is_away
        )

    @property
    def heard_ms(self) -> int:
        """Up to where it has said that it has the output."""
        acknowledged_ms, received_ms = self.acknowledged.watermark_ms, self.received_ms
        return acknowledged_ms if received_ms is None else max(acknowledged_ms, received_ms)

    @property
    def caught_up(self) -> Position:
        """Up to where its readers that have received least have processed output."""
        return self.lagging or self.demanded or self.acknowledged

    def end_interval(self) -> bool:
        """Count an acknowledgement interval of the producer's host as over.

        Returns whether the subscriber has had the time to acknowledge what was there a while ago,
        and has not. It is granted that time by how often it acknowledges.
        """
        self.silent += 1
        heard_ms = self.heard_ms
        if self.is_heard:
            if heard_ms != self.told_ms:
                # What says nothing new is repeated more rarely.
                self.pace = min(self.silent, MOST_ACK_INTERVALS)
            self.told_ms = heard_ms
            self.is_heard, self.silent = False, 0
        granted = OVERDUE_AFTER * self.pace
        self.is_reached = len(self.sents_ms) < granted or heard_ms >= self.sents_ms[-granted]
        return len(self.ends_ms) >= granted and heard_ms < self.ends_ms[-granted]
