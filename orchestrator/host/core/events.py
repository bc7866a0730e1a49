"""Events that a host's core handles, and commands that it returns.

The parts of the core gather their commands in an `Outbox`, until the core returns them.
"""

from __future__ import annotations

from collections import Counter, deque

import msgspec

from ha.messages import Message, Snapshot
from ha.producer import Producer, feed_subscribers
from orchestrator.edges.events import Deliver, EdgeEvent
from orchestrator.records import Assignment, Peer
from orchestrator.records.checkpoints import StoredCheckpoint
from orchestrator.records.speed import Speed


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


class CheckpointWritten(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint is kept for good."""

    fragment: str
    stored: StoredCheckpoint


class CheckpointFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint could not be kept."""

    fragment: str
    why: str


class CheckpointRead(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint from which a replica is to go on."""

    fragment: str
    name: str
    snapshot: Snapshot


class CheckpointUnreadable(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint from which a replica is to go on cannot be used."""

    fragment: str
    name: str
    why: str


class CpuMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """CPU use of the host in cores: 0 … 1 for a single-threaded process; speed of its processor."""

    load: float
    speed: Speed = Speed()


CheckpointEvent = CheckpointWritten | CheckpointFailed | CheckpointRead | CheckpointUnreadable

Event = (
    MessageArrived
    | PeerLost
    | AssignmentReceived
    | EdgeEvent
    | EpochSuperseded
    | CpuMeasured
    | CheckpointEvent
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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An entry for the host's log."""

    kind: str
    subject: str
    detail: str


class WriteCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Keep a snapshot of a replica for good, beside all else."""

    query: str
    fragment: str
    program: str
    """Fingerprint of the statement (`orchestrator.host.core.replica_manager.fingerprint`)."""
    snapshot: Snapshot
    stored: StoredCheckpoint
    """Without its size."""


class ReadCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Read the checkpoint from which a replica is to go on, beside all else."""

    query: str
    fragment: str
    programs: tuple[str, ...]
    """Fingerprints of the statements that it may be of."""
    name: str


Command = (
    Send
    | SetPeers
    | RecordTakeover
    | RecordLoss
    | Deliver
    | Report
    | WriteCheckpoint
    | ReadCheckpoint
)


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
