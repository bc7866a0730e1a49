"""What hosts say to each other. `orchestrator.host.wire` turns these into frames and back.

A stream is served by every copy of the fragment that makes it, so a consumer subscribes to, and
acknowledges to, all of them; only the primary sends. Whoever speaks of a stream also says which
*epoch* (fencing number) and *generation* (life of the fragment's state) it knows, so that a deposed
primary learns of its successor from the first consumer or twin that has heard of it.
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
    """A consumer asks a copy for all that lies after `position` (None: for all it still has)."""

    stream: str
    consumer: str
    position: Position | None
    generation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The copy's answer: nothing from `position` on will be trimmed before it is acknowledged."""

    stream: str
    consumer: str
    position: Position
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """The consumer will not read this stream any more."""

    stream: str
    consumer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Everything before `position` is folded into the consumer's state, and into its output."""

    stream: str
    consumer: str
    position: Position
    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A twin is alive, and knows these epochs of the fragments the two share."""

    epochs: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """A new secondary asks its twin for the fragment's state."""

    fragment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A fragment's state at a cut through its inputs, and the output it still has to keep.

    Attributes
    ----------
    state
        What `streams.engine.FragmentEngine.snapshot` gave.
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
