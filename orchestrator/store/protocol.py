"""What a store is: typed records under paths, each with a version, and sessions.

The paths below `/vivace/<cluster>`:

    cluster                  ClusterRecord        what all processes agree on
    leader                   LeaderRecord         ephemeral: the coordinator that leads
    problems                 ProblemsRecord       ephemeral: what hinders the one that leads
    nodes/<node>             NodeRecord           ephemeral: a live host
    streams/<name>           StreamRecord
    queries/<name>           QueryRecord
    plans/<query>            PlanRecord           until the leader has carried it out
    fragments/<q>.<f>        FragmentRecord
    assignments/<node>       Assignment
    history/e-<sequence>     HistoryEvent         bounded

Every change of a record names the version it was read under, 0 included; there is no way to say
"whatever is there". Two writers therefore never overwrite each other: one of them gets a
`VersionConflict`, reads again and thinks again.

What may be assumed in each session state (kazoo's names, verbatim):

- `CONNECTED`: what is read was true when it was read; what is written is written.
- `SUSPENDED`: the server does not answer. Nothing can be read or written, every call raises
  `StoreUnavailable` at once. Ephemeral records may or may not still be there: this process must
  not act as their owner (a leader publishes nothing), and need not stop either (a host goes on
  with what it has). A write that was under way may or may not have happened; versions sort it out.
- `LOST`: the session is over, its ephemeral records are gone or about to go. `CONNECTED` after it
  is a new session: whoever owned ephemeral records must create them again, and be elected again.
  A cut-off process learns of `LOST` only when it reaches a server again, so that others may
  already act on its absence while it is still `SUSPENDED`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol, TypeVar

import msgspec

from orchestrator.errors import EXIT_REFUSED, EXIT_UNREACHABLE, VivaceError
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    FragmentRecord,
    HistoryEvent,
    NodeRecord,
    PlanRecord,
    QueryRecord,
    Record,
    StreamRecord,
)

R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)


class LeaderRecord(Record, frozen=True, kw_only=True):
    """`/leader` (ephemeral): the coordinator that leads."""

    candidate: str


class ProblemsRecord(Record, frozen=True, kw_only=True):
    """`/problems` (ephemeral): why the leader could not do all that was asked for."""

    problems: tuple[str, ...]


class SessionState(Enum):
    """kazoo's connection states."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class Key(Generic[R_co]):
    """Path of one record below the cluster's root, and the type found there."""

    path: str
    type: type[R_co]


@dataclass(frozen=True, slots=True)
class Folder(Generic[R_co]):
    """A path whose children are all records of one type."""

    path: str
    type: type[R_co]

    def key(self, name: str) -> Key[R_co]:
        """The record of that name.

        Raises
        ------
        ValueError
            The name cannot be the last part of a path.
        """
        if not name or "/" in name or name in (".", ".."):
            raise ValueError(f"{name!r} cannot name a record in {self.path}")
        return Key(f"{self.path}/{name}", self.type)


CLUSTER = Key("cluster", ClusterRecord)
LEADER = Key("leader", LeaderRecord)
PROBLEMS = Key("problems", ProblemsRecord)
NODES = Folder("nodes", NodeRecord)
STREAMS = Folder("streams", StreamRecord)
QUERIES = Folder("queries", QueryRecord)
PLANS = Folder("plans", PlanRecord)
FRAGMENTS = Folder("fragments", FragmentRecord)
ASSIGNMENTS = Folder("assignments", Assignment)
HISTORY = Folder("history", HistoryEvent)


def fragment_key(query: str, fragment: str) -> Key[FragmentRecord]:
    """Where a fragment's record lies."""
    return FRAGMENTS.key(f"{query}.{fragment}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned(Generic[R_co]):
    """A record as it was read.

    Attributes
    ----------
    version
        What an update or deletion that rests on this reading must pass.
    """

    record: R_co
    version: int


class StoreError(VivaceError):
    """Base of what a store refuses; `path` is the full path of the record meant."""

    exit_status = EXIT_REFUSED

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class VersionConflict(StoreError):
    """Somebody else changed the record since it was read."""


class RecordExists(StoreError):
    """The record that was to be created is there already."""


class RecordMissing(StoreError):
    """The record that was to be changed or deleted is not there."""


class RecordInvalid(StoreError):
    """What lies at a path is not a record of the type that belongs there.

    Attributes
    ----------
    version
        Version of the broken znode, for who wants to delete it.
    """

    def __init__(self, path: str, problem: str, version: int) -> None:
        super().__init__(path, problem)
        self.version = version


class AccessDenied(StoreError):
    """The cluster's secret does not open this record."""


class StoreUnavailable(StoreError):
    """The session is not `CONNECTED`, or stopped being so during the call.

    A write may or may not have happened.
    """

    exit_status = EXIT_UNREACHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[R]):
    """A folder's records by name; what could not be decoded is reported, never dropped silently."""

    records: dict[str, Versioned[R]]
    invalid: tuple[RecordInvalid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """An event and its place in the order of all events."""

    sequence: int
    event: HistoryEvent


class Watch(Protocol):
    """A standing request to be told of changes."""

    def cancel(self) -> None:
        """Be told no more."""
        ...


class Store(Protocol):
    """What both stores do. Methods may be called from any thread.

    Every method but `state`, `session`, `on_state`, `watch` and `close` raises
    `StoreUnavailable` unless the session is `CONNECTED`.
    """

    @property
    def state(self) -> SessionState:
        """State of the session; what it means stands at the top of this module."""
        ...

    @property
    def session(self) -> int:
        """Number of the present session; a new one after `LOST`, 0 between two."""
        ...

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        """Be told of each change of state, on the store's thread: set a flag, do not block."""
        ...

    def get(self, key: Key[R]) -> Versioned[R] | None:
        """Read a record; None if there is none. Raises `RecordInvalid`."""
        ...

    def list(self, folder: Folder[R]) -> Listing[R]:
        """Read a folder."""
        ...

    def create(self, key: Key[R], record: R, *, ephemeral: bool = False) -> int:
        """Create a record and return its version. Raises `RecordExists`.

        An ephemeral record goes with the session. One that an earlier session left behind is in
        the way all the same: its successor deletes it under its version, then creates its own.
        """
        ...

    def update(self, key: Key[R], record: R, version: int) -> int:
        """Replace a record and return its new version.

        Raises `VersionConflict` or `RecordMissing`.
        """
        ...

    def delete(self, key: Key[R], version: int) -> None:
        """Delete a record. Raises `VersionConflict` or `RecordMissing`."""
        ...

    def append_history(self, event: HistoryEvent) -> int:
        """Add to the audit trail, drop what exceeds its bound, and return the sequence number."""
        ...

    def history(self) -> tuple[HistoryEntry, ...]:
        """The audit trail, oldest first."""
        ...

    def watch(self, where: Folder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Be told that a record, or something in a folder, may have changed.

        The callback runs on the store's thread and says only *that*, not what: it sets a flag and
        the caller reads again. Several changes may come as one call, none is missed: after a
        reconnection it is called once in any case. The watch re-arms itself until cancelled.
        """
        ...

    def close(self) -> None:
        """End the session; its ephemeral records go at once."""
        ...


_encoder = msgspec.json.Encoder()


def encode(record: Record) -> bytes:
    """A record as the store keeps it."""
    return _encoder.encode(record)


def decode(path: str, data: bytes, type: type[R], version: int) -> Versioned[R]:
    """What the store keeps as a record, strictly.

    Raises
    ------
    RecordInvalid
        Naming the path and what is wrong.
    """
    try:
        record = msgspec.json.decode(data, type=type, strict=True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordInvalid(path, f"is not a {type.__name__}: {error}", version) from error
    return Versioned(record=record, version=version)
