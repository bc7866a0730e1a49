"""Messages between hosts. `orchestrator.host.shell.wire` turns them into frames and back.

Every replica of a fragment keeps the fragment's output. A host therefore subscribes to all of
them, once for each stream that it reads, and acknowledges to all of them; only the primary sends.
Messages about a stream carry the *epoch* (fencing number) and the *generation* (life of the
fragment's state) that their sender knows. A deposed primary thus learns of its successor from the
first consumer or peer replica that has heard of it.

The types bound every number, name and count, and the decoder refuses what lies beyond: a peer that
has gone wrong must not bring down this host too. `orchestrator.host.core.access_control` says who
may send which message.

*Credit.* A host says how many bytes of each stream it takes beyond the position that it has
processed (`Subscribe`, `Ack`). A producer sends no more. Position and number are absolute: a
message that is lost or repeated does no harm.

Links deliver in the order of sending. `Control` relies on that: data that it says was sent before
it has arrived before it, or was lost with a connection.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import Meta, Struct, field

from foundation.bounds import MAX_NUMBER, EventTime, Name, Number
from ha.beginning import Beginning
from streams.vectors.chunk import Chunk, Position
from streams.vectors.state import SavedState

T = TypeVar("T")

MOST_ENTRIES = 65_536
"""Fragments and streams that two hosts can have in common, and subscribers of a stream."""

MOST_DIMENSIONS = 16
"""Of a Vivaldi coordinate."""

MOST_SEGMENTS = 16
"""Of a checkpoint's state."""

EVERY_TUPLE = 1
"""The batch of a host that is sent every tuple at once."""

NEVER = MAX_NUMBER
"""The batch of a host that is sent nothing until it asks for it (upstream backup)."""

ANY_BYTES = MAX_NUMBER
"""The credit of a host that states none."""

Columns = Annotated[tuple[Number, ...], Meta(max_length=MOST_ENTRIES)]
"""Places of columns in a stream's rows, rising; without the timestamp's, 0, which always comes."""

Told = Annotated[dict[Name, T], Meta(max_length=MOST_ENTRIES)]
"""What a control message says of each fragment or stream."""


class _Sent(Struct, frozen=True, array_like=True):
    """Base of what travels between hosts: as its fields in their order, without their names."""


class Data(_Sent, frozen=True, kw_only=True):
    """A run of a stream, from a producer to one host that reads it.

    Attributes
    ----------
    departs_ms
        The departure: event time from beyond which the stream may differ from what was sent of this
        generation before. A primary has crossed a discontinuity there, of an input of this fragment
        or of one further up. None: nowhere.
    columns
        Columns that travel, because the receiver has asked for them; it gets NULL for the others.
        None: all.
    whole_bytes
        Memory of the chunk with all columns. Producers count credit by it (`Ack.room_bytes`).
    """

    stream: Name
    epoch: Number
    generation: Number
    chunk: Chunk
    departs_ms: EventTime | None = None
    columns: Columns | None = None
    whole_bytes: Number = 0

    @property
    def counted_bytes(self) -> int:
        """Bytes that it uses up of the receiver's credit."""
        return max(self.whole_bytes, self.chunk.size_bytes)


class Subscribe(_Sent, frozen=True, kw_only=True):
    """A host asks a replica for its output after `position` (None: for all it still keeps).

    Attributes
    ----------
    generation
        Newest generation in which a reader has a position; None if no reader has one.
    feed
        Whether to send even as a standby, because the primary's data does not reach the host.
    patient
        Whether to keep output for the host while it is away, because a sink there reads the stream.
    demands
        Whether a reader there may hold the producer up (`Ack.demanded`).
    room_bytes, batch
        As in `Ack`.
    furthest, departs_ms
        As in `Ack`, of `generation`.
    complete_ms
        Event time up to which the stream is complete for all readers there that have received some
        of it, in any generation; None if no reader has. If some readers may hold the producer up,
        only these count.
    columns
        Columns that some reader there uses; None: all.
    begins
        From where output is needed, if `position` is None because a replica there begins from
        nothing; None: from the beginning of what is kept.
    number
        The answer names it. Requests to a producer have rising numbers, from 1 on.
    first
        The number of the first request that was the same as this one, and has had no answer; its
        own if there was none. 0: the host does not say.
    awaits
        Whether to send nothing before the next request: every reader there has yet to read its
        checkpoint, and would give up what comes meanwhile.
    keeps
        Whether to keep everything: some reader there has yet to read its checkpoint, and nobody
        knows what it needs.
    """

    stream: Name
    position: Position | None
    generation: Number | None
    feed: bool = False
    patient: bool = False
    demands: bool = False
    room_bytes: Number = ANY_BYTES
    batch: Number = EVERY_TUPLE
    furthest: Position | None = None
    departs_ms: EventTime | None = None
    complete_ms: EventTime | None = None
    columns: Columns | None = None
    begins: Beginning | None = None
    number: Number = 0
    first: Number = 0
    awaits: bool = False
    keeps: bool = False


class Subscribed(_Sent, frozen=True, kw_only=True):
    """The replica's answer: it keeps its output from `position` on until that is acknowledged.

    Attributes
    ----------
    lost
        How many tuples after `Beginning.delivered_ms` lie before `position`, at most; None: nobody
        knows how many.
    request
        The number of the request.
    """

    stream: Name
    position: Position
    epoch: Number
    generation: Number
    lost: Number | None = 0
    request: Number = 0


class Contradiction(_Sent, frozen=True, kw_only=True):
    """The host claims tuples of another history than the producer's, on which others rely.

    Attributes
    ----------
    had
        The position that it has claimed, in a subscription or an acknowledgement.
    departs_ms
        As in `Data`. Tuples up to there are not in doubt.
    """

    stream: Name
    epoch: Number
    generation: Number
    had: Position
    departs_ms: EventTime


class Unsubscribe(_Sent, frozen=True, kw_only=True):
    """The host no longer reads this stream."""

    stream: Name


class Ack(_Sent, frozen=True, kw_only=True):
    """The state and output of all readers on a host contain everything before `position`.

    Attributes
    ----------
    position
        None: some reader has no state yet.
    received_ms
        Watermark up to which all readers have received the stream, processed or not; None if some
        reader has no position in this generation.
    patient
        As in `Subscribe`. An acknowledgement may be the first message that a producer gets from the
        host.
    demanded
        As `position`, but only of the readers that may hold the producer up: primaries, and sinks
        of sites. None if there are none.
    room_bytes
        The host's credit: the output that it takes beyond `demanded`, or beyond `position` if it
        demands nothing.
    batch
        B: output is kept back from the host until at least so many tuples have gathered. Tuples
        that the host acknowledges meanwhile are never sent. If B is greater than 1, only standbys
        read the stream there.
    furthest
        Position up to which the reader that is furthest has received the stream in this generation;
        None if no reader has a position in it.
    departs_ms
        The departure of this generation that the host was told (`Data.departs_ms`).
    lagging
        As `demanded`, or as `position` if nothing is demanded, but only of the readers that have
        received least. A reader that begins behind another one must not wait until that one has
        processed the tuples that it received before.
    """

    position: Position | None
    epoch: Number
    generation: Number
    received_ms: EventTime | None = None
    patient: bool = False
    demanded: Position | None = None
    room_bytes: Number = ANY_BYTES
    batch: Number = EVERY_TUPLE
    furthest: Position | None = None
    departs_ms: EventTime | None = None
    lagging: Position | None = None


class Offer(_Sent, frozen=True, kw_only=True):
    """The end of a producer's output, for one subscriber.

    Attributes
    ----------
    watermark_ms
        Up to which its output is complete.
    sent
        Whether it has sent all of that to this subscriber.
    """

    generation: Number
    epoch: Number
    watermark_ms: EventTime
    sent: bool


class OutputDigest(_Sent, frozen=True, kw_only=True):
    """Digest of a replica's output with event timestamps in one interval (`ha.digest`).

    Attributes
    ----------
    first_seq
        Sequence number of the interval's first tuple.
    rows
        Digest of its tuples.
    """

    generation: Number
    interval: EventTime
    first_seq: Number
    rows: Annotated[int, Meta(ge=0)]


class Control(_Sent, frozen=True, kw_only=True):
    """Everything that two hosts tell each other regularly; each part may be empty.

    Attributes
    ----------
    epochs
        Fragment with replicas on both hosts → the epoch that the sender knows.
    watermarks_ms
        Fragment with its primary on the sender and its peer replica on the receiver → up to which
        the primary's output is complete.
    digests
        Fragment with replicas on both hosts → the newest digest of the sender's output.
    acks
        Stream that the receiver produces → the sender's acknowledgement.
    offers
        Stream that the sender produces → the end of its output.
    checkpoints
        Fragment with a standby on the sender that is sent batches → output watermark of the newest
        checkpoint that it holds, `NO_WATERMARK` if it holds none.
    standbys
        Fragment with a standby on the sender → the generation of that, and the event time up to
        which its output is complete.
    stalled
        Stream of both sites of which the sender can bring in nothing at present → the epoch that
        the sender knows.
    lag_us
        By how much the sender's ticks have been late lately. The later they are, the less its
        silence proves.
    """

    epochs: Told[Number] = field(default_factory=dict[str, int])
    watermarks_ms: Told[EventTime] = field(default_factory=dict[str, int])
    digests: Told[OutputDigest] = field(default_factory=dict[str, OutputDigest])
    acks: Told[Ack] = field(default_factory=dict[str, Ack])
    offers: Told[Offer] = field(default_factory=dict[str, Offer])
    checkpoints: Told[EventTime] = field(default_factory=dict[str, int])
    standbys: Told[tuple[Number, EventTime]] = field(default_factory=dict[str, tuple[int, int]])
    stalled: Told[Number] = field(default_factory=dict[str, int])
    lag_us: Number = 0


class Heartbeat(_Sent, frozen=True, kw_only=True):
    """A sign of life, for a host that is sent nothing else in a heartbeat interval.

    Attributes
    ----------
    lag_us
        As in `Control`.
    """

    lag_us: Number = 0


class SnapshotRequest(_Sent, frozen=True, kw_only=True):
    """A new secondary asks its peer replica for the fragment's state."""

    fragment: Name


class Snapshot(_Sent, frozen=True, kw_only=True):
    """A fragment's state at a cut through its inputs, and the output it must still keep.

    Attributes
    ----------
    state
        As `streams.evaluate.engine.FragmentEngine.snapshot` returned it.
    inputs
        The cut: position in each input, with the input's generation.
    log_base, log
        Where the output log begins, and its chunks from there on.
    consumers
        Subscribed hosts: name, what it has acknowledged, whether to keep output while it is away,
        and whether it may hold the producer up.
    departs_ms
        Of the output, as in `Data`.
    """

    fragment: Name
    epoch: Number
    generation: Number
    state: SavedState
    inputs: dict[str, tuple[int, Position]]
    log_base: Position
    log: tuple[Chunk, ...]
    consumers: tuple[tuple[str, Position, bool, bool], ...]
    departs_ms: EventTime | None = None


class Checkpoint(_Sent, frozen=True, kw_only=True):
    """A primary's state at a cut, for a standby that is sent only part of its input.

    Every consumer has acknowledged the output up to the cut (`ha.checkpoint`).

    Attributes
    ----------
    inputs
        The cut: generation and position of each input.
    output
        The end of the output.
    base_ms
        Output watermark of the checkpoint that the state is written relative to; None: of none.
    state
        Its segments.
    departs_ms
        Of the output, as in `Data`.
    """

    fragment: Name
    epoch: Number
    generation: Number
    inputs: Annotated[dict[Name, tuple[Number, Position]], Meta(max_length=MOST_ENTRIES)]
    output: Position
    base_ms: EventTime | None
    state: Annotated[tuple[bytes, ...], Meta(max_length=MOST_SEGMENTS)]
    departs_ms: EventTime | None = None


class Ping(_Sent, frozen=True, kw_only=True):
    """A latency probe."""

    sent_us: Number


class Pong(_Sent, frozen=True, kw_only=True):
    """A probe's answer, with the answering host's Vivaldi coordinate.

    Attributes
    ----------
    sent_us
        The probe's.
    answered_us
        The answering machine's monotonic clock.
    """

    sent_us: Number
    answered_us: Number = 0
    position_ms: Annotated[tuple[float, ...], Meta(max_length=MOST_DIMENSIONS)] = ()
    error: float = 1.0


Message = (
    Data
    | Subscribe
    | Subscribed
    | Contradiction
    | Unsubscribe
    | Control
    | Heartbeat
    | SnapshotRequest
    | Snapshot
    | Checkpoint
    | Ping
    | Pong
)
