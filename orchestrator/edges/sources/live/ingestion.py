"""The way of a live source's tuples from its readers to the host: order, number, keep.

Readers (connections, requests, files) parse on threads of their own and `push` batches. One thread
a stream (`orchestrator.edges.sources.live.live_input`) takes all batches that have come, brings
their tuples into order, numbers those with complete timestamps, and has the journal keep them. Then
it tells the readers, and wakes the host's loop, which asks for the numbered tuples. While one
commit is being written, the next batches gather.

*Once.* A batch may carry the name of its client and a number. A batch whose number the client has
used before is not taken in again; the journal remembers that too. So a client that got no answer
sends the batch again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.edges.sources.live.journal import Clients, Commit, Journal, differ
from orchestrator.edges.sources.live.journal_entries import Batch
from orchestrator.edges.sources.live.orderer import (
    ANY_BYTES,
    EventTime,
    Orderer,
    Refusals,
    Released,
)
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from orchestrator.records import WaitingInput
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position

PIECE_BYTES = 4 * 2**20
"""Greatest size of one emission or commit, unless one timestamp has more."""


class Full(Exception):
    """There is no room for a batch now; the client should try again."""

    def __init__(self, why: str = "consumers do not follow") -> None:
        super().__init__(why)


class OtherRows(Exception):
    """A batch with other rows has been taken in under the same client and number."""

    def __init__(self, client: str, number: int) -> None:
        super().__init__(
            f"other rows entered before under {client}, number {number}: give each batch a key or "
            "a number of its own"
        )


@dataclass(slots=True)
class Push:
    """A batch on its way in.

    Attributes
    ----------
    rows
        With the stream's schema; once it was taken in, those that entered.
    arrived_us
        When it came, cluster clock.
    client, number
        Its client, and its number among that client's batches. None: it cannot be told from an
        equal batch.
    places
        Further names → numbers that the journal is to remember with it, as if of clients.
    confirms
        Whether somebody waits for the outcome.
    until_ms
        Once it was taken in: the watermark at which all its tuples have entered.
    late_ms
        Timestamps of the tuples that came too late.
    digest
        Of the rows as they came; None: batches of that number all count as the same.
    """

    rows: pa.RecordBatch
    arrived_us: int
    client: str = ""
    number: int = 0
    size_bytes: int = 0
    places: Sequence[tuple[str, int]] = ()
    confirms: bool = True
    until_ms: int = NO_WATERMARK
    late_ms: IntArray | None = None
    digest: int | None = None
    outcome: BatchOutcome | None = None
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """The outcome of a batch, which is in the journal by now, if there is one.

    Attributes
    ----------
    accepted
        Tuples that the site has for good. They enter in the order of event time, and may wait.
    late, ahead
        Tuples that did not enter, by reason.
    repeated
        Whether the batch had come before, so that nothing entered.
    undecided
        Tuples whose timestamps consumers had already when the site was started again. Those that
        had come before are in the results, the others were late. Nobody can tell which are which.
    waiting
        Tuples of the stream, of any client, that had not entered at that time.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    repeated: bool = False
    undecided: int = 0
    waiting: int = 0

    def __add__(self, other: BatchOutcome) -> BatchOutcome:
        return BatchOutcome(
            accepted=self.accepted + other.accepted,
            late=self.late + other.late,
            ahead=self.ahead + other.ahead,
            repeated=self.repeated or other.repeated,
            undecided=self.undecided + other.undecided,
            waiting=other.waiting,
        )


def _nobody_told(_refused: Refusals, _client: str, _number: int) -> None:
    pass


class Ingestion:
    """Order, numbers and journal of one live stream: plain code, called by one thread at a time.

    Parameters
    ----------
    schema
        The stream's.
    time
        How event time advances.
    journal
        Keeps the tuples that enter; None: nothing does.
    now_us
        The cluster's clock.
    refuse
        Told the tuples of a batch that do not enter, with its client and number, before the journal
        has the others.
    waiting
        Where tuples wait for their turn; None: as it is made without options.

    Attributes
    ----------
    schema, time
        As given.
    clients
        The last batches of clients.
    end
        The cut after everything that was numbered.
    """

    def __init__(
        self,
        schema: pa.Schema,
        time: EventTime,
        journal: Journal | None,
        now_us: int = 0,
        *,
        refuse: Callable[[Refusals, str, int], None] = _nobody_told,
        waiting: WaitingTuples | None = None,
    ) -> None:
        self.schema = schema
        self.time = time
        self._refuse = refuse
        self._journal = journal
        self._orderer = Orderer(schema, time, waiting or WaitingTuples(schema))
        self.clients = Clients() if journal is None else journal.clients
        self._entered_us = 0
        self.end = Position()
        if journal is not None:
            self.end = journal.end
            left = journal.take_waiting()
            self._orderer.resume(journal.watermark_ms, journal.newest_ms, left, now_us)

    @property
    def is_behind(self) -> bool:
        """Whether something is complete that was too much for the last commit."""
        return self._orderer.is_behind

    @property
    def waiting_bytes(self) -> int:
        """The accepted tuples that wait for their turn."""
        return self._orderer.waiting.size_bytes

    @property
    def waiting(self) -> WaitingInput | None:
        """The tuples that have been accepted and wait for their turn; None: none does."""
        return self._orderer.waiting_input

    @property
    def opens_ms(self) -> int | None:
        """The timestamp that a batch must reach to enter, as so much waits; None: all may enter."""
        until_ms = self._orderer.waiting.opens_ms
        return None if until_ms is None else until_ms + self.time.slack_ms + 1

    @property
    def watermark_ms(self) -> int:
        """Tuples up to it are late."""
        return self._orderer.watermark_ms

    def respond(self, now_us: int) -> None:
        """Note that clients have waited for a commit until now."""
        self._orderer.heard(now_us)

    def take(
        self,
        pushes: list[Push],
        now_us: int,
        most_bytes: int = ANY_BYTES,
        *,
        hears: bool = True,
    ) -> list[Chunk]:
        """Take batches in; returns the parts of the stream that are complete now.

        Parameters
        ----------
        most_bytes
            Size of these parts, unless one timestamp has more. 0: nothing.
        hears
            Whether a client that has sent nothing since the last call counts as silent: it could
            have sent.

        Raises
        ------
        OSError
            The journal cannot be written. The ingestion must be made anew.
        """
        waiting: list[pa.RecordBatch] = []
        clients: list[Batch] = []
        here: dict[tuple[str, int], int | None] = {}
        for push in pushes:
            if push.rows.num_rows:
                # Whoever waits for this commit could not send more.
                self._orderer.heard(now_us)
            if push.client:
                batch = (push.client, push.number, push.digest)
                if self._knows(push, here):
                    continue
                here[push.client, push.number] = push.digest
                clients.append(batch)
            clients += [(*place, None) for place in push.places]
            rows, refused = self._orderer.accept(push.rows, push.arrived_us)
            push.rows, push.outcome = rows, _taken(rows.num_rows, refused)
            if refused.late or refused.ahead:
                self._refuse(refused, push.client, push.number)
            if refused.late_rows is not None:
                push.late_ms = refused.late_rows.column(0).to_numpy()
                push.until_ms = int(push.late_ms.max())
            if rows.num_rows:
                waiting.append(rows)
                push.until_ms = self._orderer.newest_ms
        arrived_us = min((push.arrived_us for push in pushes), default=now_us)
        if not hears:
            self._orderer.excuse(now_us)
        released = self._orderer.release(now_us, most_bytes)
        chunks = [] if released is None else self._numbered(released, arrived_us)
        if self._journal is None:
            for batch in clients:
                self.clients.note(*batch)
        elif waiting or clients or self._must_keep(chunks):
            self._keep(self._journal, chunks, waiting, clients)
        else:
            # Nobody should have to send something to learn that it cannot be kept.
            self._journal.check()
        if chunks:
            self.end = chunks[-1].end
        return chunks

    def _knows(self, push: Push, here: Mapping[tuple[str, int], int | None]) -> bool:
        """Whether a batch has come before, or now in the same commit; it is told so.

        Rows decide whether it is the same, not how they are written: a client may cut them into
        other pieces when it sends them again.
        """
        name = push.client, push.number
        if name in here:
            differs = differ(here[name], push.digest)
        elif self.clients.has(*name):
            differs = self.clients.differs(*name, push.digest)
        else:
            return False
        if differs:
            push.error = OtherRows(*name)
        else:
            push.outcome = BatchOutcome(repeated=True)
            push.until_ms = self._orderer.newest_ms
        return True

    def _must_keep(self, chunks: list[Chunk]) -> bool:
        """Whether another process would have to know.

        A watermark without tuples need not be kept if time goes by arrival: all that arrives later
        has later timestamps.
        """
        if self._orderer.time.by_arrival:
            return any(chunk.rows.num_rows for chunk in chunks)
        return bool(chunks)

    def _keep(
        self,
        journal: Journal,
        chunks: list[Chunk],
        waiting: list[pa.RecordBatch],
        clients: list[Batch],
    ) -> None:
        orderer = self._orderer
        unnumbered = [_later(rows, orderer.watermark_ms) for rows in waiting]
        unnumbered = [rows for rows in unnumbered if rows.num_rows]
        commit = Commit(
            chunks=chunks,
            waiting=pa.concat_batches(unnumbered) if unnumbered else None,
            watermark_ms=orderer.watermark_ms,
            newest_ms=orderer.newest_ms,
            clients=clients,
        )
        journal.append(commit)
        if journal.is_full:
            journal.roll(orderer.waiting.batches())

    def _numbered(self, released: Released, arrived_us: int) -> list[Chunk]:
        """The released tuples in pieces of bounded size, each with the next numbers.

        Their ingestion time is the arrival of the tuple that completed them.
        """
        self._entered_us = max(self._entered_us, arrived_us)
        rows, watermarks_ms = released.rows, released.watermarks_ms
        timestamps: IntArray = rows.column(0).to_numpy(zero_copy_only=False)
        ends = np.searchsorted(timestamps, watermarks_ms, side="right")
        most = _most_rows(rows)
        chunks: list[Chunk] = []
        begin = first = 0
        while first < len(watermarks_ms):
            last = int(np.searchsorted(ends, begin + most, side="right"))
            last = max(last, first + 1)
            end = int(ends[last - 1])
            chunks.append(
                Chunk(
                    first_seq=self.end.next_seq + begin,
                    rows=rows.slice(begin, end - begin),
                    watermarks_ms=watermarks_ms[first:last],
                    ingestion_times_us=np.full(last - first, self._entered_us, dtype=np.int64),
                )
            )
            begin, first = end, last
        return chunks


def _later(rows: pa.RecordBatch, watermark_ms: int) -> pa.RecordBatch:
    later = rows.column(0).to_numpy(zero_copy_only=False) > watermark_ms
    return rows if later.all() else rows.filter(pa.array(later))


def _most_rows(rows: pa.RecordBatch) -> int:
    return max(int(PIECE_BYTES / max(rows.nbytes / max(rows.num_rows, 1), 1)), 1)


def _taken(accepted: int, refused: Refusals) -> BatchOutcome:
    return BatchOutcome(accepted=accepted, late=refused.late, ahead=refused.ahead)
