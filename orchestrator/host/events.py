"""Events that a host's core handles, and commands that it returns.

The parts of the core gather their commands in an `Outbox`, until the core returns them.
"""

from __future__ import annotations

from collections import Counter, deque

import msgspec
import pyarrow as pa

from ha.messages import Message, Snapshot
from ha.producer import Producer, feed_subscribers
from orchestrator.host.processor_speed import Speed
from orchestrator.records import Assignment, Peer, Skipped
from streams.chunk import Chunk, Position
from topology.arrays import IntArray


class MessageArrived(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a peer, whose identity the transport has verified."""

    sender: str
    message: Message


class PeerLost(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to a peer broke."""

    node: str


class AssignmentReceived(msgspec.Struct, frozen=True, kw_only=True):
    """The store holds a new assignment for this incarnation of the host."""

    assignment: Assignment


class SourceEmitted(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples entered at this host; the stream is complete up to the last watermark."""

    stream: str
    rows: pa.RecordBatch
    watermarks_ms: IntArray
    ingestion_times_us: IntArray


class SourceOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a stream can be read.

    Attributes
    ----------
    position
        What it emits follows this cut. A source that resumes has emitted what lies before it in
        another process.
    """

    stream: str
    position: Position


class SourceFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a stream emits nothing until it is opened again."""

    stream: str


class SourceWaits(msgspec.Struct, frozen=True, kw_only=True):
    """An open source cannot read on, or can again.

    Attributes
    ----------
    for_what
        What it waits for; None: nothing any more.
    """

    stream: str
    for_what: str | None


class SourceReread(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples that entered earlier were read again, for one host that lacks them.

    Attributes
    ----------
    after
        The cut that they follow.
    """

    node: str
    after: Position
    emitted: SourceEmitted


class SourceLocated(msgspec.Struct, frozen=True, kw_only=True):
    """A source has looked up where its stream stood at an event time.

    Attributes
    ----------
    position
        The cut after it, or the first one from which on the stream can be read again.
    """

    stream: str
    after_ms: int
    position: Position


class InputSkipped(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a stream has looked at what it left out when the stream began anew."""

    stream: str
    skipped: Skipped


class Durable(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink has kept for good: everything before a position, in this generation's numbers."""

    generation: int
    position: Position


class SinkOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The sink of a stream takes deliveries.

    Attributes
    ----------
    durable
        What it kept before, maybe in another process; None: nothing, or it does not know.
    """

    stream: str
    durable: Durable | None


class SinkFlushed(msgspec.Struct, frozen=True, kw_only=True):
    """The sink of a stream has kept more for good."""

    stream: str
    durable: Durable


class SinkFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The sink of a stream takes no deliveries until it is opened again."""

    stream: str


class EpochSuperseded(msgspec.Struct, frozen=True, kw_only=True):
    """The store does not accept a takeover here.

    It has another primary for its epoch or a newer one. Or it no longer lists this host's replica:
    the host was out of reach for so long that another one has taken its place.
    """

    fragment: str
    epoch: int
    """That of the takeover, or a newer one."""
    primary: str
    """The node of the primary that the store names."""


class CpuMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """CPU use of the host in cores: 0 … 1 for a single-threaded process; speed of its processor."""

    load: float
    speed: Speed = Speed()


Event = (
    MessageArrived
    | PeerLost
    | AssignmentReceived
    | SourceEmitted
    | SourceOpened
    | SourceFailed
    | SourceWaits
    | SourceReread
    | SourceLocated
    | InputSkipped
    | SinkOpened
    | SinkFlushed
    | SinkFailed
    | EpochSuperseded
    | CpuMeasured
)


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """Send a message to a peer (or to the host itself)."""

    to: str
    message: Message


class SetPeers(msgspec.Struct, frozen=True, kw_only=True):
    """Keep links to these hosts, and accept links from no others."""

    peers: tuple[Peer, ...]


class RecordTakeover(msgspec.Struct, frozen=True, kw_only=True):
    """Record in the store that this host's replica has become primary; its output flows already."""

    query: str
    fragment: str
    epoch: int
    previous: str
    cause: str
    detected_at_us: int


class RecordLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Record in the store that this host's primary has lost its secondary.

    The coordinator then names another one at once, without waiting for the end of a session.
    """

    query: str
    fragment: str
    epoch: int
    """The primary's."""
    lost: str
    """Node of the secondary."""
    cause: str
    detected_at_us: int


class Deliver(msgspec.Struct, frozen=True, kw_only=True):
    """Hand tuples of a stream to its sink: each exactly once, in order."""

    stream: str
    epoch: int
    generation: int = 1
    """Life of the numbering of `chunk`."""
    chunk: Chunk
    lost: int
    """Tuples that are known to be missing immediately before this chunk."""
    arrived_us: int

    @property
    def end(self) -> Durable:
        """What a sink has kept once it has kept this."""
        return Durable(generation=self.generation, position=self.chunk.end)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An entry for the host's log."""

    kind: str
    subject: str
    detail: str


Command = Send | SetPeers | RecordTakeover | RecordLoss | Deliver | Report


class Outbox:
    """Commands of one host, and the messages that it sends to itself.

    Parameters
    ----------
    node
        Name of the host.

    Attributes
    ----------
    to_itself
        Messages between two replicas, sources or sinks of this host, taken so far.
    sent
        Hosts that were sent something since the last heartbeat.
    counters
        Events counted by the host's core, for its record in the store.
    """

    def __init__(self, node: str) -> None:
        self.to_itself: deque[Message] = deque()
        self.counters: Counter[str] = Counter()
        self.sent: set[str] = set()
        self._node = node
        self._commands: list[Command] = []

    def add(self, *commands: Command) -> None:
        """Have commands carried out."""
        self._commands += commands

    def send(self, to: str, message: Message) -> None:
        """Have a message sent."""
        self._commands.append(Send(to=to, message=message))
        if not isinstance(message, Snapshot):
            # A large one is long under way, and the receiver hears nothing of it until it is here.
            self.sent.add(to)

    def report(self, kind: str, subject: str, detail: str) -> None:
        """Have a report logged."""
        self._commands.append(Report(kind=kind, subject=subject, detail=detail))

    def feed(self, producer: Producer) -> None:
        """Send each subscriber of a producer the output that it has not been sent yet."""
        for node, data in feed_subscribers(producer):
            self.send(node, data)

    def take(self) -> list[Command]:
        """Everything gathered since the last call; messages to the host itself stay here."""
        commands: list[Command] = []
        for command in self._commands:
            if isinstance(command, Send) and command.to == self._node:
                self.to_itself.append(command.message)
            else:
                commands.append(command)
        self._commands = []
        return commands
