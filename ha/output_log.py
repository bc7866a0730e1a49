"""The producer's side of a stream: an output buffer, and how it feeds the stream's subscribers.

Every source and every replica of a fragment is a *producer*. It numbers its output and keeps it in
an *output log* until all consumers have acknowledged it: tuples that some consumer may still need.
A primary keeps them to send them again after a broken link, a secondary to send them after a
takeover (reliable placement, §3.3: Q counts such tuples of an upstream primary).

*Credit.* A subscriber is sent no more than it has room for (`Ack.room_bytes`), but always one chunk
if its readers that have received least have processed all that it was sent: so whoever waits for
output gets some. A producer whose output lies beyond the room of a subscriber that *demands* it is
held up (`OutputLog.is_held_up`): it evaluates nothing until the subscriber has room again.
Primaries and the sinks of sites demand output, standbys and observers do not.

*Batches.* A host where only standbys read may be sent output in batches (Semi-Active Standby;
reliable placement, §4.6): output is kept back from it until `Ack.batch` tuples have gathered, and
tuples that it acknowledges meanwhile are never sent. Output that is kept back is in the log like
all other output, so the host can have it at any time by subscribing anew. The producer offers it
to the host in two cases: a primary elsewhere does not receive it, so that the standby must evaluate
it instead; or the log *fills* for the host, so that it would have to be dropped soon. The standby
then takes every tuple of all its inputs: of one alone it could evaluate nothing.

*Bound.* The log is bounded in bytes. Output that somebody demands is never dropped; the producer is
held up instead. Output that nobody demands is dropped beyond the bound, oldest chunks first, even
if a subscriber has not acknowledged it. Its tuples are counted. A subscriber that asks for them
later is told where the log begins, and a standby then takes its primary's state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Set
from itertools import pairwise
from operator import is_

import pyarrow as pa

from foundation.arrays import IntArray
from ha.beginning import Beginning
from ha.errors import InvariantViolation
from ha.messages import ANY_BYTES, EVERY_TUPLE, Ack, Columns
from ha.subscriber import Subscriber
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position

DEFAULT_CAPACITY_BYTES = 64 * 1024 * 1024
"""Until a host divides its budget (`ha.memory`)."""

FILLING_SHARE = 1 / 2
"""Of the log's bound. With more in it that a subscriber has not acknowledged, it fills."""

DEFAULT_LINGER_US = 2_000_000
"""Output is kept for at least this long, even if all known consumers have acknowledged it. The
secondary does not know a consumer that has just subscribed to the primary until an assignment or
an acknowledgement arrives. If the primary dies before that, the consumer still finds the output it
lacks at the secondary."""

CREDIT_US = 1_000_000
"""How long a subscriber's credit holds a producer up after its last acknowledgement: 20 intervals.
A dead or cut off consumer must not stop the others; after that time it only has output kept."""

REMEMBERED_CUTS = 4096
"""Where chunks began that were dropped: by these, tuples are counted that nobody can have now."""

DEMAND_US = 3_000_000
"""How long the demand of a host that acknowledges nothing counts, unless a sink there reads the
stream. After that time the peer replica has long taken over."""


class OutputLog:
    """Sequence-numbered output of one stream, with its consumers.

    Parameters
    ----------
    schema
        Of the rows.
    base
        Position at which the log begins; the first appended tuple gets `base.next_seq`.
    capacity_bytes
        The bound: greatest memory of output that nobody demands.
    linger_us
        How much longer than needed output is kept, measured in ingestion times.
    rereadable
        Whether the source can read output again from before the log's beginning. A host may then
        subscribe from there. It is sent nothing from the log until `reread` has brought it to the
        log's beginning.

    Attributes
    ----------
    capacity_bytes
        As given; it changes when the host divides its budget anew.
    base
        The cut before which all output has been trimmed.
    end
        The cut after the newest tuple.
    subscribers
        Node → what it has acknowledged and has been sent, in the order of subscription.
    retained
        The cut from which on the source can read output again, if it can.
    located
        Event time → the cut after it, if it was looked up for a reader that begins before the log.
    is_read
        Whether there are consumers, subscribed or not.
    readers
        The hosts with consumers. Until all of them have subscribed, nobody knows what they lack,
        and output is kept up to the bound.
    overflowed_tuples
        Tuples dropped because the log was full, though some subscriber may have needed them.
    """

    def __init__(
        self,
        schema: pa.Schema,
        base: Position | None = None,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        linger_us: int = DEFAULT_LINGER_US,
        *,
        rereadable: bool = False,
    ) -> None:
        self.schema = schema
        self.base: Position = base or Position()
        self.end: Position = self.base
        self._chunks: deque[Chunk] = deque()
        self._ends: deque[tuple[int, int]] = deque()
        """Of each chunk, its watermark and the size of everything appended up to its end."""
        self._appended_bytes = self._dropped_bytes = 0
        self.capacity_bytes = capacity_bytes
        self._linger_us = linger_us
        self._rereadable = rereadable
        self.retained = Position()
        self.located: dict[int, Position] = {}
        self._dropped: deque[Position] = deque(maxlen=REMEMBERED_CUTS)
        """Where chunks began that were dropped."""
        self.subscribers: dict[str, Subscriber] = {}
        self.overflowed_tuples = 0
        self.is_read = True
        self.readers: Set[str] = frozenset()
        self._kept_whole = False
        self._unheard: set[str] = set()
        """Subscribers that a checkpoint names, and that have said nothing since."""
        self._passed: Position | None = None
        """Standbys may keep nothing from before there."""
        self._checked: tuple[Chunk, ...] = ()

    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks kept, oldest first."""
        return tuple(self._chunks)

    @property
    def size_bytes(self) -> int:
        """The memory of what is kept."""
        return self._appended_bytes - self._dropped_bytes

    def append(
        self, rows: pa.RecordBatch, watermarks_ms: IntArray, ingestion_times_us: IntArray
    ) -> Chunk:
        """Number the rows and keep them."""
        chunk = Chunk(
            first_seq=self.end.next_seq,
            rows=rows,
            watermarks_ms=watermarks_ms,
            ingestion_times_us=ingestion_times_us,
        )
        self.extend(chunk)
        return chunk

    def extend(self, chunk: Chunk) -> None:
        """Keep a chunk that is numbered already, such as one from a peer replica's snapshot."""
        if chunk.first_seq != self.end.next_seq or chunk.watermarks_ms[0] <= self.end.watermark_ms:
            raise InvariantViolation(
                f"log ends at {self.end}, chunk begins at sequence {chunk.first_seq} "
                f"with watermark {chunk.watermarks_ms[0]}"
            )
        self._chunks.append(chunk)
        self._appended_bytes += chunk.size_bytes
        self.end = chunk.end
        self._ends.append((chunk.watermark_ms, self._appended_bytes))
        self._drop_beyond_capacity()

    def bound(self, capacity_bytes: int) -> None:
        """Keep no more than so much beyond what is demanded."""
        self.capacity_bytes = capacity_bytes
        self._drop_beyond_capacity()

    def subscribe(
        self,
        node: str,
        position: Position | None,
        *,
        feed: bool = False,
        patient: bool = False,
        demands: bool = False,
        room_bytes: int = ANY_BYTES,
        batch: int = EVERY_TUPLE,
        columns: Columns | None = None,
        now_us: int | None = None,
        first: int = 0,
        number: int = 0,
        awaits: bool = False,
        keeps: bool = False,
    ) -> Position:
        """Subscribe a host from `position` on, or from where output can be had if that is later.

        A host that subscribes again is sent everything from there on again, unless it repeats a
        request that has been answered (`Subscriber.repeats`).
        """
        start = position or self._begins
        earliest = self.base
        if self._rereadable and self.retained.is_before(self.base):
            earliest = self.retained
        if start.is_before(earliest):
            start = earliest
        # What a host has received, and asks no more for, it has not acknowledged yet.
        known = self.subscribers.get(node)
        if known is not None and known.repeats(start, first, number, awaits=awaits):
            known.asked, known.heard_us = number, now_us
            return start
        behind = known is not None and known.acknowledged.is_before(start)
        acknowledged = known.acknowledged if known is not None and behind else start
        if keeps:
            acknowledged = min(acknowledged, self.base, key=_watermark_ms)
        self._unheard.discard(node)
        demanded = (acknowledged if keeps else start) if demands else None
        if known is not None and known.demanded is not None and demands:
            demanded = min(known.demanded, start, key=_watermark_ms)
        self.subscribers[node] = Subscriber(
            acknowledged=acknowledged,
            sent=start,
            start=start,
            feed=feed,
            patient=patient,
            demanded=demanded,
            room_bytes=room_bytes,
            processed_bytes=self._bytes_until(acknowledged if demanded is None else demanded),
            heard_us=now_us,
            batch=batch,
            columns=self._existing(columns),
            asked=number,
            awaits=awaits,
        )
        return start

    def _existing(self, columns: Columns | None) -> Columns | None:
        """Columns that a host has asked for; all, if the stream has no such columns."""
        rest = range(1, len(self.schema))
        if columns is None or any(place not in rest for place in columns):
            return None
        found = tuple(sorted(set(columns)))
        return None if len(found) == len(rest) else found

    @property
    def _begins(self) -> Position:
        """Where subscribers without a position begin: where every replica has the output."""
        passed = self._passed
        return self.base if passed is None or passed.is_before(self.base) else passed

    def begin(self, begins: Beginning) -> Position | None:
        """Where a reader begins that needs output after an event time; None: look up the cut.

        Standbys may keep no output from there (`pass_on`). That is accepted: it matters only if one
        takes over at this moment.
        """
        after_ms = begins.after_ms
        if not self._rereadable or after_ms >= self.base.watermark_ms:
            return self._position_at(after_ms)
        if after_ms <= self.retained.watermark_ms:
            return self.retained
        return self.located.get(after_ms)

    def count_lost(self, begins: Beginning, start: Position) -> int | None:
        """How many tuples with undelivered results lie before a reader's beginning, at most.

        None if there may be some, and nobody knows how many any more.
        """
        delivered_ms = begins.delivered_ms
        if delivered_ms == NO_WATERMARK or start.watermark_ms <= delivered_ms:
            return 0
        known = bisect_right(self._dropped, delivered_ms, key=_watermark_ms)
        return start.next_seq - self._dropped[known - 1].next_seq if known else None

    @property
    def demanding(self) -> list[str]:
        """The subscribers that may hold the producer up: primaries and sinks read there."""
        return [node for node, each in self.subscribers.items() if each.demanded is not None]

    def unsubscribe(self, node: str) -> None:
        """Keep nothing for a host any more."""
        self.subscribers.pop(node, None)
        self._trim()

    def acknowledge(self, node: str, position: Position) -> None:
        """Note that a subscriber needs nothing before `position`."""
        subscriber = self.subscribers[node]
        if subscriber.acknowledged.is_before(position):
            subscriber.acknowledged = position
        if subscriber.sent.is_before(position):
            # Output up to there was kept back, and need not be sent any more.
            subscriber.sent = position
        self._trim()

    def grant(self, node: str, ack: Ack, now_us: int) -> None:
        """Note a subscriber's demand and credit."""
        self._unheard.discard(node)
        subscriber = self.subscribers[node]
        demanded, before = ack.demanded, subscriber.demanded
        if demanded is not None and before is not None and demanded.is_before(before):
            demanded = before
        subscriber.demanded, subscriber.room_bytes = demanded, ack.room_bytes
        subscriber.lagging = ack.lagging
        subscriber.heard_us, subscriber.is_heard = now_us, True
        subscriber.is_away = False
        subscriber.batch = ack.batch
        self._credit(subscriber)
        self._drop_beyond_capacity()

    def _credit(self, subscriber: Subscriber) -> None:
        processed = subscriber.demanded or subscriber.acknowledged
        # Output that was dropped is not processed: a subscriber gains no room by that.
        if not processed.is_before(self.base):
            subscriber.processed_bytes = self._bytes_until(processed)

    def _bytes_until(self, cut: Position) -> int:
        """Size of all chunks that end at a cut or before it."""
        if not cut.is_before(self.end):
            return self._appended_bytes
        ended = bisect_right(self._ends, (cut.watermark_ms, self._appended_bytes))
        return self._ends[ended - 1][1] if ended else self._dropped_bytes

    def lost_sight_of(self, node: str, now_us: int) -> None:
        """Note that the connection to a subscriber broke: its credit holds nobody up any more.

        Its demand counts for `DEMAND_US`, because it may come back.
        """
        if (subscriber := self.subscribers.get(node)) is not None:
            subscriber.heard_us, subscriber.room_bytes = now_us, ANY_BYTES
            subscriber.is_away = True

    def restrict(self, readers: Set[str]) -> None:
        """Keep output for these hosts only: any other has been replaced, or reads no more.

        Such a host may not know that yet, or its message that it left was lost.
        """
        for node in self.subscribers.keys() - readers:
            del self.subscribers[node]
        self._trim()

    def lapse(self, now_us: int) -> None:
        """End the demand of hosts that have been silent for long."""
        for subscriber in self.subscribers.values():
            if subscriber.heard_us is None:
                subscriber.heard_us = now_us
            if not subscriber.patient and now_us - subscriber.heard_us > DEMAND_US:
                subscriber.demanded = None
        self._drop_beyond_capacity()

    def is_held_up(self, now_us: int, *, by_credit: bool) -> bool:
        """Whether nothing may be appended until somebody who demands output has processed some."""
        return self.room_bytes(now_us, by_credit=by_credit) < 0

    def room_bytes(self, now_us: int, *, by_credit: bool) -> int:
        """How many bytes may be appended until somebody who demands output has processed some.

        Negative: so many bytes too many were appended already.

        Parameters
        ----------
        by_credit
            Whether the credit of the subscribers counts. Otherwise only the log's bound does: it
            must not be full of demanded output.
        """
        room_bytes = self.capacity_bytes
        if self._is_kept_whole:
            room_bytes -= self.size_bytes
        for subscriber in self.subscribers.values():
            if subscriber.demanded is None:
                continue
            most_bytes = self.capacity_bytes
            heard_us = now_us if subscriber.heard_us is None else subscriber.heard_us
            if by_credit and now_us - heard_us <= CREDIT_US:
                most_bytes = min(most_bytes, subscriber.room_bytes)
            beyond_bytes = self._appended_bytes - subscriber.processed_bytes
            room_bytes = min(room_bytes, most_bytes - beyond_bytes)
        return room_bytes

    def contradicts(self, position: Position) -> bool:
        """Whether a position belongs to another history: here another number of tuples precedes it.

        Of the time before the log's beginning, only the number of tuples is known.
        """
        return self._position_at(position.watermark_ms).contradicts(position)

    def _position_at(self, watermark_ms: int) -> Position:
        """The cut up to a watermark, or the nearest one if that lies outside of the log."""
        if watermark_ms < self.base.watermark_ms:
            return self.base
        if watermark_ms >= self.end.watermark_ms:
            return self.end
        ended = bisect_right(self._ends, (watermark_ms, self._appended_bytes))
        if ended == len(self._chunks):
            return Position(next_seq=self.end.next_seq, watermark_ms=watermark_ms)
        chunk = self._chunks[ended]
        before = int(chunk.timestamps.searchsorted(watermark_ms, side="right"))
        return Position(next_seq=chunk.first_seq + before, watermark_ms=watermark_ms)

    def take_unsent(self, node: str) -> list[Chunk]:
        """The chunks a subscriber has not been sent yet; they count as sent from now on."""
        subscriber = self.subscribers[node]
        if subscriber.awaits or (self._rereadable and subscriber.sent.is_before(self.base)):
            return []
        if not subscriber.sent.is_before(self.end) or self._withholds(subscriber):
            return []
        fresh = list(self._after(subscriber.sent))
        until_bytes = subscriber.processed_bytes + subscriber.room_bytes
        if self._appended_bytes > until_bytes:
            fresh = self._within(fresh, subscriber, until_bytes)
            subscriber.sent = fresh[-1].end if fresh else subscriber.sent
            return fresh
        subscriber.sent = self.end
        return fresh

    def _withholds(self, subscriber: Subscriber) -> bool:
        """Whether output is kept back from a subscriber until more of it has gathered."""
        if subscriber.batch == EVERY_TUPLE or subscriber.demanded is not None:
            return False
        return self.end.next_seq - subscriber.sent.next_seq < subscriber.batch

    def _within(self, fresh: list[Chunk], subscriber: Subscriber, until_bytes: int) -> list[Chunk]:
        """The chunks that a subscriber has room for; one if a reader there has nothing left."""
        count = sum(end_bytes <= until_bytes for _, end_bytes in list(self._ends)[-len(fresh) :])
        if not count and not subscriber.caught_up.is_before(subscriber.sent):
            count = 1
        return fresh[:count]

    def wanted(self) -> Iterator[tuple[str, Position]]:
        """Hosts that lack output from before the log's beginning, and where each one stands.

        A host with two pieces to process is left out. So no more than two are under way, however
        much the host lacks.
        """
        if not self._rereadable:
            return
        for node, subscriber in self.subscribers.items():
            if subscriber.awaits:
                continue
            if subscriber.sent.is_before(subscriber.acknowledged):
                subscriber.sent = subscriber.acknowledged
            if subscriber.sent.is_before(self.retained):
                # It finds a hole, and asks where the output begins.
                subscriber.sent = self.retained
            before = subscriber.reread_from
            if subscriber.sent.is_before(self.base) and (
                before is None or not subscriber.caught_up.is_before(before)
            ):
                yield node, subscriber.sent

    def reread(self, node: str, after: Position, chunk: Chunk) -> Chunk | None:
        """Take output that the source has read again: returns the part that a host has room for.

        That part counts as sent. None if the host stands elsewhere now. Two pieces may be under way
        to it.
        """
        subscriber = self.subscribers.get(node)
        if subscriber is None or subscriber.sent != after:
            return None
        piece = chunk.beginning(subscriber.room_bytes // 2)
        subscriber.reread_from, subscriber.sent = after, piece.end
        return piece

    def fills_for(self, node: str) -> bool:
        """Whether it keeps so much for a subscriber that it must soon drop some of that for
        good."""
        if self._rereadable:
            return False
        kept_bytes = self._appended_bytes - self._bytes_until(self.subscribers[node].acknowledged)
        return kept_bytes > FILLING_SHARE * self.capacity_bytes

    @property
    def reaches_all(self) -> bool:
        """Whether everybody who demands output receives what was sent."""
        return all(s.is_reached for s in self.subscribers.values() if s.demanded is not None)

    def keep_whole(self) -> None:
        """Drop nothing until every reader has subscribed, also those that a checkpoint names: some
        go back as far as the log begins, and some have more than it knows of."""
        self._kept_whole, self._unheard = True, set(self.subscribers)

    @property
    def _is_kept_whole(self) -> bool:
        self._kept_whole = self._kept_whole and self.awaits_readers
        return self._kept_whole

    @property
    def awaits_readers(self) -> bool:
        """Whether some reader has yet to subscribe."""
        return not self.readers <= self.subscribers.keys() - self._unheard

    @property
    def acknowledged_by_all(self) -> Position | None:
        """The cut up to which every subscriber has acknowledged output.

        None if a reader may have yet to subscribe.
        """
        if self.awaits_readers:
            return None
        cuts = (each.acknowledged for each in self.subscribers.values())
        return min(cuts, key=_watermark_ms, default=None if self.is_read else self.end)

    def pass_on(self, cut: Position) -> None:
        """Note that standbys may keep nothing from before a cut: no reader begins there."""
        self._passed = cut

    def skip_to(self, end: Position) -> None:
        """Continue after a cut beyond the log's end; no consumer needs output from before.

        The log then begins there.
        """
        self._chunks.clear()
        self._ends.clear()
        self._dropped.append(self.base)
        self._dropped_bytes = self._appended_bytes
        self.base = self.end = end
        for subscriber in self.subscribers.values():
            subscriber.processed_bytes = self._appended_bytes

    def rewind(self) -> None:
        """Count only acknowledged output as sent, so that a new primary sends the rest again."""
        for subscriber in self.subscribers.values():
            begin = subscriber.acknowledged
            # What lies before the log is read again, if it can be.
            begins_here = not self._rereadable and begin.is_before(self.base)
            subscriber.sent = self.base if begins_here else begin

    def _after(self, cut: Position) -> Iterator[Chunk]:
        # Unsent chunks lie at the end of the log.
        fresh: list[Chunk] = []
        for chunk in reversed(self._chunks):
            rest = chunk.after(cut)
            if rest is None:
                break
            fresh.append(rest)
        return reversed(fresh)

    def _trim(self) -> None:
        self._drop_acknowledged()
        self._drop_beyond_capacity()

    def _drop_acknowledged(self) -> None:
        if not self.subscribers or self.awaits_readers:
            return
        needed_ms = min(s.acknowledged.watermark_ms for s in self.subscribers.values())
        while self._chunks and self._chunks[0].watermark_ms <= needed_ms:
            newest, oldest = self._chunks[-1], self._chunks[0]
            if newest.ingestion_times_us[-1] - oldest.ingestion_times_us[-1] < self._linger_us:
                return
            self._drop_oldest()

    def _drop_beyond_capacity(self) -> None:
        """Drop the oldest chunks that nobody demands, until the log is no larger than allowed."""
        if self.size_bytes <= self.capacity_bytes or self._is_kept_whole:
            return
        demanded_ms = min(
            (s.demanded.watermark_ms for s in self.subscribers.values() if s.demanded is not None),
            default=self.end.watermark_ms,
        )
        needed_ms = min(
            (s.acknowledged.watermark_ms for s in self.subscribers.values()), default=NO_WATERMARK
        )
        while self.size_bytes > self.capacity_bytes and len(self._chunks) > 1:
            oldest = self._chunks[0]
            if oldest.watermark_ms > demanded_ms:
                return
            if oldest.watermark_ms > needed_ms and not self._rereadable:
                self.overflowed_tuples += oldest.rows.num_rows
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._dropped.append(self.base)
        self.base = self._chunks.popleft().end
        _, self._dropped_bytes = self._ends.popleft()

    def check_invariants(self) -> None:
        """Raise unless chunks follow each other without gaps; tests call this after every step."""
        chunks = self.chunks()
        if chunks:
            _check_follows(self.base, chunks[0])
        # Chunks do not change: those that followed each other at the last check do so still.
        checked = _same_from_the_first(self._checked, chunks)
        for before, chunk in pairwise(chunks[max(checked - 1, 0) :]):
            _check_follows(before.end, chunk)
        if chunks and checked < len(chunks):
            chunks[-1].check(self.schema)
        self._checked = chunks
        cut = chunks[-1].end if chunks else self.base
        if cut != self.end:
            raise InvariantViolation(f"log ends at {cut}, not at {self.end}")


def _same_from_the_first(before: tuple[Chunk, ...], now: tuple[Chunk, ...]) -> int:
    """How many chunks from the first one on stood in this order before."""
    if not now:
        return 0
    dropped = next((place for place, each in enumerate(before) if each is now[0]), len(before))
    still = before[dropped:]
    return min(len(still), len(now)) if all(map(is_, still, now)) else 0


def _check_follows(cut: Position, chunk: Chunk) -> None:
    if chunk.first_seq != cut.next_seq:
        raise InvariantViolation(f"sequence jumps from {cut.next_seq} to {chunk.first_seq}")
    if chunk.watermarks_ms[0] <= cut.watermark_ms:
        raise InvariantViolation(f"watermark {chunk.watermarks_ms[0]} after {cut.watermark_ms}")


def _watermark_ms(cut: Position) -> int:
    return cut.watermark_ms
