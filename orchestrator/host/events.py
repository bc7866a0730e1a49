"""What happens to a host, and what it asks its surroundings to do."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ha.messages import Message
from orchestrator.records import Assignment, DriverSpec, Peer
from streams.chunk import Chunk
from topology.arrays import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageArrived:
    """A peer's message, authenticated as the peer's."""

    sender: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLost:
    """The connection to a peer broke."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived:
    """The store has this assignment for this incarnation of the host."""

    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEmitted:
    """Tuples entered here from outside; every instant up to the last mark is closed."""

    stream: str
    rows: pa.RecordBatch
    watermarks_ms: IntArray
    ingestion_times_us: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSuperseded:
    """The store knows a newer primary than this host's copy."""

    fragment: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReplaced:
    """The store does not know this host as a holder of a copy (any more).

    It was out of reach for so long that another has taken its place: what it holds may have holes.
    """

    fragment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMeasured:
    """CPUs in use by the host, 0 … 1 for a single-threaded process."""

    load: float


Event = (
    MessageArrived
    | PeerLost
    | AssignmentReceived
    | SourceEmitted
    | EpochSuperseded
    | ReplicaReplaced
    | CpuMeasured
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a message to a peer (or to the host itself)."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPeers:
    """Keep links to these hosts, and accept links from these only."""

    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTakeover:
    """Tell the store that this host's copy is primary now; the data already flows."""

    query: str
    fragment: str
    epoch: int
    previous: str
    cause: str
    detected_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Hand tuples to whoever wanted the stream; each exactly once, in order."""

    stream: str
    epoch: int
    chunk: Chunk
    lost: int
    """Tuples that are known to be missing just before this chunk."""
    arrived_us: int
    sink: DriverSpec | None = None
    """Who takes it, if the query names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Something an operator should be able to read in the host's log."""

    kind: str
    subject: str
    detail: str


Command = Send | SetPeers | RecordTakeover | Deliver | Report
