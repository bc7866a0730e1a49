"""Messages between hosts. `orchestrator.host.wire` turns them into frames and back.

Every replica of a fragment keeps the fragment's output. A consumer therefore subscribes to all of
them, and acknowledges to all of them; only the primary sends. Messages about a stream carry the
*epoch* (fencing number) and the *generation* (life of the fragment's state) that their sender
knows. A deposed primary thus learns of its successor from the first consumer or peer replica that
has heard of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.chunk import Chunk, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A run of a stream, from its primary to one consumer."""

    stream: str
    epoch: int
    generation: int
    consumer: str
    chunk: Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """A consumer asks a replica for its output after `position` (None: for all it still keeps)."""

    stream: str
    consumer: str
    position: Position | None
    generation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The replica's answer: it keeps its output from `position` on until that is acknowledged."""

    stream: str
    consumer: str
    position: Position
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """The consumer no longer reads this stream."""

    stream: str
    consumer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """The consumer's state and output contain everything before `position`."""

    stream: str
    consumer: str
    position: Position
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The sender is alive, and knows these epochs of the fragments it shares with the receiver."""

    epochs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """A new secondary asks its peer replica for the fragment's state."""

    fragment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A fragment's state at a cut through its inputs, and the output it must still keep.

    Attributes
    ----------
    state
        As `streams.engine.FragmentEngine.snapshot` returned it.
    inputs
        The cut: position in each input, with the input's generation.
    log_base, log
        Where the output log begins, and its chunks from there on.
    consumers
        (node, consumer) and what each of them has acknowledged.
    """

    fragment: str
    epoch: int
    generation: int
    state: bytes
    inputs: dict[str, tuple[int, Position]]
    log_base: Position
    log: tuple[Chunk, ...]
    consumers: tuple[tuple[str, str, Position], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A latency probe."""

    sent_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """A probe's answer, with the answering host's Vivaldi coordinate."""

    sent_us: int
    position_ms: tuple[float, ...] = field(default=())
    error: float = 1.0


Message = (
    Data
    | Subscribe
    | Subscribed
    | Unsubscribe
    | Ack
    | Heartbeat
    | SnapshotRequest
    | Snapshot
    | Ping
    | Pong
)
