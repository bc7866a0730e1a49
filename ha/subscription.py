"""The consumer's side of a stream: a host's subscription, which its readers' cursors share.

A host subscribes once to each stream that it reads, at every replica of the producing fragment, and
acknowledges to every replica what all its readers have processed. Each replica thus keeps the
tuples that the host lacks; only the primary sends. Requests are repeated until answered.

A host that lacks output asks for it. If a producer has sent output that did not arrive, the host
subscribes there again from its position. If a standby has output that does not come from the
primary, the host asks the standby to feed it. A host that has yet to process received tuples lacks
nothing: producers send no more than it has room for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field

from ha.backlog import Backlog
from ha.beginning import Beginning
from ha.cursor import StreamCursor
from ha.messages import ANY_BYTES, EVERY_TUPLE, Ack, Columns, Data, Offer, Subscribe, Subscribed
from ha.pace import Pace
from streams.vectors.chunk import NO_WATERMARK, Position

RETRY_US = 300_000
"""Longer than any round trip, and short compared with the start of a replacement executor."""

STALLED_US = 200_000
"""How long a host that lacks output which a standby has already waits for the primary."""

MUCH_SHARE = 1 / 8
"""Share of a host's credit. More is acknowledged in the next interval ..."""

SPENT_SHARE = 1 / 2
"""... and more than this as soon as it is processed."""

REPEATED_US = 200_000
"""How often an acknowledgement is repeated that says nothing new: it may have been lost, and a
producer that hears nothing for a second no longer waits for this host."""

PATIENCE_US = 15_000_000
"""How long a host that lacks tuples waits for a producer that neither responds nor sends, before it
counts the tuples as lost."""

STANDBY_PATIENCE_US = 1_000_000
"""How long a standby waits for such a producer. Its primary may have the tuples, and then gives it
the state."""


@dataclass(slots=True)
class ProducerLink:
    """State of a subscription at one producer.

    Attributes
    ----------
    asked_us
        When the newest request was sent.
    waits_since_us
        When the oldest unanswered request was sent, or when data came from the producer last. None:
        no request is unanswered.
    start
        Position in `generation` from which the producer keeps its output for this host; None until
        it has answered.
    feed, fed_after_ms
        Whether it was asked to send even as a standby, and up to where the reader that was furthest
        behind had received the stream then.
    asked_from_start
        Whether the last request named no position, because one reader has none. The answer then
        says nothing about readers that have one.
    has_answered
        Whether it has answered since the newest reader came. It has then said where a reader
        begins that begins from nothing, and has nothing earlier for it.
    asked, first
        How many requests were sent, and from which of them on all were the same.
    least
        Responses to requests before this number say nothing about where a reader goes on.
    """

    asked_us: int | None = None
    waits_since_us: int | None = None
    start: Position | None = None
    generation: int = 0
    feed: bool = False
    fed_after_ms: int = NO_WATERMARK
    asked_from_start: bool = False
    has_answered: bool = False
    asked: int = 0
    first: int = 0
    least: int = 0

    def ask_anew(self) -> None:
        """As `ask_again`, for a reader that goes back.

        A request is repeated until it is answered, so several may be under way.
        """
        self.least, self.waits_since_us = self.asked + 1, None
        self.ask_again()

    def ask_again(self) -> None:
        """Have the next request sent at once, whatever was answered."""
        self.asked_us, self.start = None, None
        self.has_answered = False


def _never(_reader: str) -> bool:
    return False


@dataclass(slots=True)
class Subscription:
    """One host's subscriptions to all producers of a stream.

    Attributes
    ----------
    stream
        Name of the stream.
    readers
        Reader → its cursor.
    reads
        Reader → the columns that it uses; one that is not named uses all.
    columns
        Those that some reader uses; None: all.
    patient
        Whether producers keep output while this host is away.
    demands
        Tells whether a reader may hold the producers up now. A standby does once it takes over.
    awaits
        Tells whether a reader gives up all that comes now: it has yet to read its checkpoint.
    room_bytes
        How much the host takes beyond what its readers have processed.
    least_generation
        Generations before this one are over. A producer that still names one has not heard of that.
    received_bytes
        Bytes that have arrived since the last acknowledgement, as producers count them: with all
        columns.
    times_whole
        Ratio of these bytes to those that really came, in the newest chunk with rows.
    paces
        Reader of which this host takes as much as it processes within a time → what has come.
    batch
        Least batch that its readers need, as in `Ack`.
    stood_in
        Whether a standby was asked to feed this host, and the primary has not fed it since.
    confirmed
        Whether every producer has answered.
    backlog
        What has arrived and readers that rest have yet to take.
    departure
        The newest generation that is said to depart from what was sent of it before, and the event
        time from which on (`ha.messages.Data`); None: none.
    """

    stream: str
    readers: Mapping[str, StreamCursor] = field(default_factory=dict[str, StreamCursor])
    reads: Mapping[str, Columns] = field(default_factory=dict[str, Columns])
    columns: Columns | None = None
    patient: bool = False
    demands: Callable[[str], bool] = _never
    awaits: Callable[[str], bool] = _never
    room_bytes: int = ANY_BYTES
    least_generation: int = 0
    received_bytes: int = 0
    times_whole: float = 1.0
    paces: dict[str, Pace] = field(default_factory=dict[str, Pace])
    batch: int = EVERY_TUPLE
    stood_in: bool = False
    confirmed: bool = False
    backlog: Backlog = field(default_factory=Backlog)
    departure: tuple[int, int] | None = None
    _links: dict[str, ProducerLink] = field(default_factory=dict[str, ProducerLink])
    _moved_us: int = 0
    _acks_sent: tuple[list[tuple[str, Ack]], int] | None = None
    """The last acknowledgements, and when they were sent."""

    @property
    def demanding(self) -> list[str]:
        """The readers that may hold the producers up."""
        return [reader for reader in self.readers if self.demands(reader)]

    @property
    def producers(self) -> tuple[str, ...]:
        """Nodes subscribed to, in the order of the assignment: the primary first."""
        return tuple(self._links)

    @property
    def is_answered(self) -> bool:
        """Whether some producer has answered the last request."""
        return any(link.start is not None for link in self._links.values())

    @property
    def has_spent_room(self) -> bool:
        """Whether so much has arrived that producers may have to wait before the next interval."""
        return self.received_bytes >= max(SPENT_SHARE * self.room_bytes, 1)

    @property
    def has_received_much(self) -> bool:
        """Whether so much has arrived that producers should learn soon what they may send."""
        return self.received_bytes >= MUCH_SHARE * self.room_bytes

    @property
    def epoch(self) -> int:
        """The newest that any reader has heard of."""
        return max((cursor.epoch for cursor in self.readers.values()), default=0)

    def use(self, producers: tuple[str, ...], renewed: set[str]) -> list[str]:
        """Subscribe to exactly these nodes; returns the nodes unsubscribed from.

        Nodes in `renewed` have new processes, which know of no subscription.
        """
        left = [node for node in self._links if node not in producers]
        self._links = {
            node: ProducerLink() if node in renewed else self._links.get(node, ProducerLink())
            for node in producers
        }
        self._note_confirmed()
        return left

    def read_by(
        self,
        readers: Mapping[str, StreamCursor],
        *,
        patient: bool,
        reads: Mapping[str, Columns] | None = None,
    ) -> None:
        """Serve exactly these readers. A new one must be sent output that the others have had."""
        known = set(map(id, self.readers.values()))
        self.backlog.leave(
            name for name, cursor in self.readers.items() if readers.get(name) is not cursor
        )
        self.readers, self.patient, self.reads = readers, patient, reads or {}
        self.columns = None
        if readers.keys() <= self.reads.keys():
            self.columns = tuple(sorted({place for each in self.reads.values() for place in each}))
        if any(id(cursor) not in known for cursor in readers.values()):
            self.ask_again()

    def lacks_columns(self, reader: str, data: Data) -> bool:
        """Whether a reader uses columns that this data does not have.

        The producer sent it before it heard of the reader, for other readers of this host that use
        fewer columns. Data without rows counts, too: rows that follow may lack the same columns,
        and if the reader moved past this data, nobody would keep those rows for it.
        """
        sent = data.columns
        if sent is None or sent == self.columns:
            return False
        used = self.reads.get(reader)
        return used is None or not set(used).issubset(sent)

    def count(self, data: Data) -> None:
        """Count received bytes against the credit that the host has given."""
        self.received_bytes += data.counted_bytes
        for pace in self.paces.values():
            pace.came(data)
        if data.chunk.rows.num_rows:
            self.times_whole = data.counted_bytes / data.chunk.size_bytes

    def use_batch(self, batch: int) -> None:
        """Be sent output in batches of so many tuples.

        Producers learn of a greater number by the next acknowledgement. They learn of a lesser one
        at once, because some reader needs the output that they keep back.
        """
        if batch < self.batch:
            self.ask_again()
        self.batch = batch

    def begin_generation(self, least: int) -> None:
        """Note that generations before this one are over.

        Producers that have answered for such a generation are asked again: the founder of the new
        one does not know a host that has nothing to acknowledge.
        """
        if least <= self.least_generation:
            return
        self.least_generation = least
        for link in self._links.values():
            if link.start is not None and link.generation < least:
                link.ask_again()
        self._note_confirmed()

    def ask_again(self) -> None:
        """Subscribe to every producer again, from where the readers are now."""
        for link in self._links.values():
            link.ask_again()
        self._note_confirmed()

    def ask_anew(self) -> None:
        """As `ask_again`, for a reader that has gone back."""
        for link in self._links.values():
            link.ask_anew()
        self._note_confirmed()

    def _note_confirmed(self) -> None:
        answered = [link.start is not None for link in self._links.values()]
        self.confirmed = bool(answered) and all(answered)

    def requests(self, now_us: int) -> list[tuple[str, Subscribe]]:
        """Requests that are due, each with the node to send it to; none without a reader."""
        if not self.readers:
            return []
        return [
            (node, self._ask(link, now_us, repeats=link.asked_us is not None))
            for node, link in self._links.items()
            if link.start is None and (link.asked_us is None or now_us - link.asked_us >= RETRY_US)
        ]

    def answered(self, node: str, answer: Subscribed) -> list[str]:
        """Note a producer's answer; returns the readers that learn of a newer generation by it.

        A reader without a position starts at the position in the answer. Replicas trim at different
        times, so what they answer differs. Until data arrives, the latest position counts, because
        the replica that sends may have trimmed older output. For a reader that begins from nothing
        the earliest counts, because it needs all that anybody has.
        """
        link = self._links.get(node)
        if link is None or answer.generation < self.least_generation:
            return []
        if answer.request < link.least:
            return []
        link.start, link.generation = answer.position, answer.generation
        link.waits_since_us = None
        self._note_confirmed()
        behind: list[str] = []
        for reader, cursor in self.readers.items():
            if self.awaits(reader):
                continue
            if cursor.position is None or (
                cursor.provisional
                and answer.generation == cursor.generation
                and _is_better(answer.position, cursor.position, cursor.begins)
            ):
                cursor.start(answer.position, answer.generation, provisional=True)
                cursor.lost = answer.lost
            elif answer.generation > cursor.generation and self._feeds(node):
                behind.append(reader)
            cursor.epoch = max(cursor.epoch, answer.epoch)
        if link.asked_from_start and self._passes_over(answer):
            link.ask_again()
            self._note_confirmed()
        link.has_answered = True
        return behind

    def _passes_over(self, answer: Subscribed) -> bool:
        """Whether a producer's answer begins beyond the position of some reader.

        The request named no position, because one reader had none. The producer may have older
        output after all, for instance by reading its source again. Now that every reader has a
        position, the host can ask for that, once. At the end of a stream, no chunk would ever show
        that something is missing.
        """
        if any(cursor.generation != answer.generation for cursor in self.readers.values()):
            return False
        reached = [each for *_, each in self._reached() if each is not None]
        return any(each.next_seq < answer.position.next_seq for each in reached)

    def heard(self, node: str, generation: int, now_us: int) -> None:
        """Note that data has come from `node`: it lives, and will answer, however slow it is."""
        link = self._links.get(node)
        if link is None or link.waits_since_us is None or generation < self.least_generation:
            return
        link.waits_since_us = now_us

    def accepted(self, node: str, now_us: int) -> list[tuple[str, Subscribe]]:
        """Note that new data has come from `node`.

        If it is the primary's, no standby needs to feed this host any more: returns the requests
        that tell them.
        """
        self._moved_us = now_us
        if node != next(iter(self._links), None):
            return []
        self.stood_in = False
        fed = [(other, link) for other, link in self._links.items() if link.feed and other != node]
        for _, link in fed:
            link.feed = False
        return [(other, self._ask(link, now_us)) for other, link in fed]

    def repeated(self, node: str, until_ms: int, now_us: int) -> list[tuple[str, Subscribe]]:
        """Note that data has come from `node` that was here before, up to a watermark.

        If `node` is the primary and the data is what a standby was asked for, the standby need not
        feed this host any more. A standby may be nearer than the primary, so that its data
        always comes first.
        """
        fed = [link for link in self._links.values() if link.feed]
        if not fed or until_ms <= max(link.fed_after_ms for link in fed):
            return []
        return self.accepted(node, now_us) if node == next(iter(self._links)) else []

    def missing(self, node: str, now_us: int) -> Subscribe | None:
        """The request to send to `node` after a gap.

        None while an answer is awaited, or if `node` has answered that it keeps no more.
        """
        link = self._links.get(node)
        if link is None or link.start is None or self.has_gap(node):
            return None
        return self._ask(link, now_us)

    def readers_before(self, generation: int, epoch: int) -> list[str]:
        """The readers that know only an earlier epoch of a generation."""
        return [
            reader
            for reader, cursor in self.readers.items()
            if cursor.generation == generation and 0 < cursor.epoch < epoch
        ]

    def learn_departure(self, data: Data) -> None:
        """Note the departure that a producer's data names."""
        if data.departs_ms is None:
            return
        generation, known_ms = self.departure or (0, data.departs_ms)
        if data.generation > generation:
            known_ms = data.departs_ms
        if data.generation >= generation:
            self.departure = data.generation, min(known_ms, data.departs_ms)

    def _departs_ms(self, generation: int | None) -> int | None:
        known, departs_ms = self.departure or (0, None)
        return departs_ms if known == generation else None

    def _received(self, generation: int | None) -> list[Position | None]:
        """Up to where each reader has received a generation; None: nothing of it."""
        return [
            reached if cursor.generation == generation else None
            for _, cursor, reached in self._reached()
        ]

    def offered(
        self,
        node: str,
        offer: Offer,
        now_us: int,
        *,
        busy: bool = False,
        stopped: Container[str] = (),
    ) -> list[tuple[str, Subscribe]]:
        """Note where a producer's output ends; returns requests for what has not arrived.

        Links deliver in order, so output that the producer has sent before was lost if it is not
        here. Output that a standby has is asked for once the primary has had time to send it. If
        the primary itself has not sent it, what it has sent last was lost.

        Parameters
        ----------
        busy
            Whether the readers have yet to process received tuples: producers may have stopped
            sending for want of room.
        stopped
            Readers that take nothing before they get a state.
        """
        link = self._links.get(node)
        if link is None or link.start is None:
            return []
        if not self._lacks(offer, stopped):
            return []
        if offer.sent:
            return [(node, self._ask(link, now_us))]
        if busy:
            self._moved_us = now_us
        if now_us - self._moved_us < STALLED_US:
            return []
        if node != next(iter(self._links)):
            if link.feed:
                return []
            self._have_fed(link)
        return [(node, self._ask(link, now_us))]

    def is_kept_from(self, offer: Offer) -> bool:
        """Whether a producer offers output that it keeps back from this host.

        It does if a primary elsewhere does not receive that output, or if its log fills up.
        """
        return self.batch != EVERY_TUPLE and not offer.sent and self._lacks(offer)

    def unrecoverable(self, reader: str, now_us: int, patience_us: int = PATIENCE_US) -> bool:
        """Whether no producer keeps the tuples that a reader lacks next.

        A producer that has neither answered nor sent anything for `patience_us` counts as one that
        lacks them too.
        """
        cursor = self.readers[reader]
        if cursor.position is None:
            return False
        beyond: list[bool] = []
        for link in self._links.values():
            if link.start is None:
                since_us = link.waits_since_us
                beyond.append(since_us is not None and now_us - since_us >= patience_us)
            else:
                beyond.append(
                    link.generation != cursor.generation
                    or (
                        not link.asked_from_start and link.start.next_seq > cursor.position.next_seq
                    )
                )
        return bool(beyond) and all(beyond)

    def begins_for(self, reader: str) -> Position | None:
        """Where the stream goes on for a reader, if all producers begin beyond its position.

        None if a producer has not answered, or may have the tuples that the reader lacks next.
        """
        cursor = self.readers[reader]
        reached = self.backlog.end_for(reader) or cursor.position
        starts: list[Position] = []
        for link in self._links.values():
            if link.start is None or link.asked_from_start or link.generation != cursor.generation:
                return None
            starts.append(link.start)
        begins = min(starts, key=lambda start: start.next_seq, default=None)
        if reached is None or begins is None or begins.next_seq <= reached.next_seq:
            return None
        return begins

    def has_gap(self, node: str) -> bool:
        """Whether `node` has answered that it no longer keeps all that a reader lacks."""
        link = self._links.get(node)
        return (
            link is not None
            and link.start is not None
            and not link.asked_from_start
            and any(
                reached is not None
                and link.generation == cursor.generation
                and link.start.next_seq > reached.next_seq
                for _, cursor, reached in self._reached()
            )
        )

    def ask_others(self, node: str, now_us: int) -> list[tuple[str, Subscribe]]:
        """Requests that have every other producer feed this host, since `node` has a hole.

        A producer that was asked before and has not filled the hole may have started over since. It
        is asked again after `RETRY_US`.
        """
        others = [
            (n, link)
            for n, link in self._links.items()
            if n != node
            and not (link.feed and link.asked_us is not None and now_us - link.asked_us < RETRY_US)
        ]
        for _, link in others:
            self._have_fed(link)
        return [(other, self._ask(link, now_us)) for other, link in others]

    def acks(self, processed: Mapping[str, Position | None]) -> list[tuple[str, Ack]]:
        """Acknowledgements of what the readers have processed, with the nodes to send them to.

        Parameters
        ----------
        processed
            Of each reader, the position before which it needs nothing; None if it needs all.
        """
        demanding = self.demanding
        counting = demanding or [*self.readers]
        generations = {self.readers[reader].generation for reader in counting}
        # Who has just begun, or crossed a discontinuity, has processed nothing, and needs all that
        # follows.
        counted = {
            reader: processed[reader] or (self.readers[reader].began_at if demanding else None)
            for reader in counting
        }
        least = _least([*counted.values()])
        if least is None or len(generations) != 1:
            return []
        (generation,) = generations
        everybody = [
            processed[reader] if cursor.generation == generation else None
            for reader, cursor in self.readers.items()
        ]
        for reader, cursor, reached in self._reached():
            cursor.claim(processed[reader], reached)
        received = self._received(generation)
        least_received = _least(received)
        ack = Ack(
            position=_least(everybody),
            received_ms=None if least_received is None else least_received.watermark_ms,
            epoch=self.epoch,
            generation=generation,
            patient=self.patient,
            demanded=least if demanding else None,
            room_bytes=self.room_bytes,
            batch=self.batch,
            furthest=_furthest(received),
            departs_ms=self._departs_ms(generation),
            lagging=self._lagging(counted),
        )
        return [(node, ack) for node, link in self._links.items() if link.start is not None]

    def _lagging(self, processed: Mapping[str, Position | None]) -> Position | None:
        """What those have processed of some readers that have received least."""
        reached = {reader: at for reader, _, at in self._reached() if reader in processed}
        least = _least([*reached.values()])
        return _least([processed[reader] for reader, at in reached.items() if at == least])

    def acks_due(self, acks: list[tuple[str, Ack]], now_us: int) -> bool:
        """Whether to send acknowledgements now: they say something new, or it has been a while."""
        if self._acks_sent is not None:
            told, told_us = self._acks_sent
            if told == acks and now_us - told_us < REPEATED_US:
                return False
        self._acks_sent = acks, now_us
        return True

    def _reached(self) -> Iterator[tuple[str, StreamCursor, Position | None]]:
        """Each reader, its cursor, and up to where the host has the stream for it."""
        for reader, cursor in self.readers.items():
            yield reader, cursor, self.backlog.end_for(reader) or cursor.position

    def _lacks(self, offer: Offer, stopped: Container[str] = ()) -> bool:
        """Whether some reader has not received all of a producer's output."""
        return any(
            offer.generation > cursor.generation
            or (
                offer.generation == cursor.generation
                and reached is not None
                and offer.watermark_ms > reached.watermark_ms
            )
            for reader, cursor, reached in self._reached()
            if reader not in stopped
        )

    def _have_fed(self, link: ProducerLink) -> None:
        """Ask a producer to send even as a standby, from the next request on."""
        had = [reached for *_, reached in self._reached() if reached is not None]
        link.feed = self.stood_in = True
        link.fed_after_ms = min((each.watermark_ms for each in had), default=NO_WATERMARK)

    def _feeds(self, node: str) -> bool:
        """Whether `node` is the primary, as far as this host knows, or was asked to send."""
        return self._links[node].feed or node == next(iter(self._links))

    def _ask(self, link: ProducerLink, now_us: int, *, repeats: bool = False) -> Subscribe:
        """Subscribe at a producer, from where the reader that is furthest behind needs output.

        A producer that does not know this host yet takes that for acknowledged.

        Parameters
        ----------
        repeats
            Whether the last request has had no answer: one who has heard it need not send again
            what it has sent since.
        """
        link.start, link.asked_us = None, now_us
        link.asked += 1
        if not repeats:
            link.first = link.asked
        self.confirmed = False
        self._moved_us = max(self._moved_us, now_us)
        if link.waits_since_us is None:
            link.waits_since_us = now_us
        everybody = [*self._reached()]
        # Who awaits its state asks once it has that.
        asking = [each for each in everybody if not self.awaits(each[0])]
        awaits, keeps = not asking, len(asking) < len(everybody)
        asking = asking or everybody
        generations = {cursor.generation for _, cursor, _ in asking}
        positions = [
            None
            if cursor.seeks and not link.has_answered
            else (reached if cursor.kept is None else cursor.kept)
            for _, cursor, reached in asking
        ]
        for _, cursor, reached in self._reached():
            cursor.claim(reached)
        known = [position for position in positions if position is not None]
        whole = len(known) < len(positions) or len(generations) != 1
        link.asked_from_start = whole and bool(known)
        generation = max(generations) if known else None
        demanding = self.demanding
        counting = demanding or [*self.readers]
        complete = {self.readers[reader].complete_ms for reader in counting} - {NO_WATERMARK}
        return Subscribe(
            stream=self.stream,
            position=None if whole else min(known, key=_watermark_ms),
            generation=generation,
            feed=link.feed,
            patient=self.patient,
            demands=bool(demanding),
            room_bytes=self.room_bytes,
            batch=self.batch,
            furthest=_furthest(self._received(generation)),
            departs_ms=self._departs_ms(generation),
            complete_ms=min(complete, default=None),
            columns=self.columns,
            begins=self._begins() if whole else None,
            number=link.asked,
            first=link.first,
            awaits=awaits,
            keeps=keeps,
        )

    def _begins(self) -> Beginning | None:
        """Where the readers that begin from nothing need the stream from."""
        found = [
            cursor.begins
            for cursor in self.readers.values()
            if cursor.seeks and cursor.begins is not None
        ]
        if not found:
            return None
        return Beginning(
            after_ms=min(each.after_ms for each in found),
            delivered_ms=min(each.delivered_ms for each in found),
        )


def _is_better(offered: Position, begins_at: Position, begins: Beginning | None) -> bool:
    """Whether a reader begins at an offered position rather than where it would begin."""
    if begins is None:
        return begins_at.is_before(offered)
    return offered.is_before(begins_at)


def _watermark_ms(position: Position) -> int:
    return position.watermark_ms


def _furthest(positions: list[Position | None]) -> Position | None:
    """The position after all others that are known; None if none is."""
    known = (position for position in positions if position is not None)
    return max(known, key=_watermark_ms, default=None)


def _least(positions: list[Position | None]) -> Position | None:
    """The position before all others; None if one is unknown."""
    least: Position | None = None
    for position in positions:
        if position is None:
            return None
        if least is None or position.watermark_ms < least.watermark_ms:
            least = position
    return least
