"""The store's interface: typed records under paths, each with a version, and sessions.

The paths below `/vivace/<cluster>`:

    cluster                  ClusterRecord        settings that all processes must agree on
    clocks                   ClocksRecord         the cluster's clock
    issued                   IssuedRecord         by how much first epochs are raised
    leader                   LeaderRecord         ephemeral: the coordinator that leads
    candidates/<name>        CandidateRecord      ephemeral: a coordinator
    problems                 ProblemsRecord       ephemeral: what hinders the one that leads
    loads                    LoadsRecord          ephemeral: how busy it finds nodes and machines
    figures/<query>          FiguresRecord        ephemeral: a query's costs, its plan's promises
    durations                DurationsRecord      how long recoveries and moves took
    automation               AutomationRecord     what people want of moves that nobody asks for
    proposal                 ProposedMoves        such moves, as the leader proposes them
    nodes/<node>             NodeRecord           ephemeral: a live host
    services/<name>          ServicesRecord       ephemeral: what Spark, ZooKeeper take
    streams/<name>           StreamRecord
    running-streams/<name>   RunningStreamRecord  what the leader has decided of a stream
    queries/<name>           QueryRecord
    running-queries/<name>   RunningQueryRecord   how a query runs, decided when it was applied
    requests/<name>          RequestRecord        ephemeral: what a client asks the leader for
    proposals/<name>         ProposalRecord       what the leader responds, and carries out
    fragments/<q>.<f>        FragmentRecord
    savepoints/<name>        SavepointRecord      a named set of checkpoints that is kept
    cordons/<node>           CordonRecord         nothing new is placed on the node
    links/<source>:<target>  DisturbedLink        until the drill is over, or its time
    strikes/<process>        StrikeRecord         how a host or coordinator is to fail
    turns/<name>             TurnRecord           ephemeral: a process that waits to leave
    maintenance/slot         SlotRecord           the process that may leave, until it is replaced
    moves/<name>             MovePlan             replicas to be moved, and how far that is
    assignments/<node>       Assignment
    claims/<node>            NameClaim            who may call itself by a host's name
    checks/<name>            EdgeCheck            ephemeral: what a site is to look at for a client
    trials/<name>            HostTrial            ephemeral: statements that a host is to try
    operations/<name>        OperationRecord      what the HTTP API carries out, and its result
    tokens/<id>              TokenRecord          of the HTTP API: role, expiry, digest
    webs/<name>              WebRecord            ephemeral: a process of the HTTP API
    history/<e|m|r>-<number> HistoryEvent         bounded; r: with a drill's report, m: with moves

Every change of a record names the version that it rests on, 0 included; no call changes a record
whatever its version. Two writers therefore never overwrite each other: one of them gets a
`VersionConflict`, reads again and decides again.

A process may assume in each session state (kazoo's names, verbatim):

- `CONNECTED`: a record that is read was in the store at that moment; a record that is written
  stays written.
- `SUSPENDED`: the server does not answer. Every call raises `StoreUnavailable` at once. The
  session's ephemeral records may or may not still exist. The process must not act as their owner (a
  leader publishes nothing), and it need not stop either (a host goes on with its assignment). A
  write that was under way may or may not have happened; its version tells later.
- `LOST`: the session is over, and its ephemeral records are gone or about to go. `CONNECTED` after
  `LOST` is a new session, in which the process must create its ephemeral records again and be
  elected again. A process that is cut off learns of `LOST` only when it reaches a server again, so
  other processes may act on its absence while it is still `SUSPENDED`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from orchestrator.errors import EXIT_REFUSED, EXIT_UNREACHABLE, VivaceError
from orchestrator.records import (
    Assignment,
    AutomationRecord,
    CheckpointsRecord,
    ClocksRecord,
    ClusterRecord,
    CordonRecord,
    DisturbedLink,
    DurationsRecord,
    EdgeCheck,
    FiguresRecord,
    FragmentRecord,
    HistoryEvent,
    HostTrial,
    IssuedRecord,
    LoadsRecord,
    MovePlan,
    NameClaim,
    NodeRecord,
    OperationRecord,
    PauseRecord,
    ProposalRecord,
    ProposedMoves,
    QueryRecord,
    Record,
    RequestRecord,
    RunningQueryRecord,
    RunningStreamRecord,
    SavepointRecord,
    ServicesRecord,
    SlotRecord,
    StreamRecord,
    StrikeRecord,
    TokenRecord,
    TurnRecord,
    WebRecord,
)
from orchestrator.records.versions import FIRST, RECORDS, Versions, this_version

R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)


class LeaderRecord(Record, frozen=True, kw_only=True):
    """`/leader` (ephemeral): the coordinator that leads."""

    candidate: str


class CandidateRecord(Record, frozen=True, kw_only=True):
    """`/candidates/<name>` (ephemeral): a coordinator that runs, whether it leads or not."""

    versions: Versions = FIRST


class ProblemsRecord(Record, frozen=True, kw_only=True):
    """`/problems` (ephemeral): why the leader could not do all that was asked for."""

    problems: tuple[str, ...]


Condition = tuple[str, int]
"""A path, and the version that its record must have."""


class SessionState(Enum):
    """kazoo's connection states."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


@cache
def _decoder(of: type[Any]) -> msgspec.json.Decoder[Any]:
    """The decoder of a type of records, made when its key or folder is named.

    All are named when this module is imported, by one thread: if two decode a type that msgspec
    does not know yet at the same time, the process may die of it (SIGSEGV).
    """
    return msgspec.json.Decoder(of, strict=True)


@dataclass(frozen=True, slots=True)
class Key(Generic[R_co]):
    """Path of one record below the cluster's root, and its type."""

    path: str
    type: type[R_co]

    def __post_init__(self) -> None:
        _decoder(self.type)


@dataclass(frozen=True, slots=True)
class RecordFolder(Generic[R_co]):
    """A path whose children are all records of one type."""

    path: str
    type: type[R_co]

    def __post_init__(self) -> None:
        _decoder(self.type)

    def key(self, name: str) -> Key[R_co]:
        """The key of a record in this folder.

        Raises
        ------
        ValueError
            The name cannot be the last part of a path.
        """
        if not name or "/" in name or name in (".", ".."):
            raise ValueError(f"{name!r} cannot name a record in {self.path}")
        return Key(f"{self.path}/{name}", self.type)


CLUSTER = Key("cluster", ClusterRecord)
CLOCKS = Key("clocks", ClocksRecord)
ISSUED = Key("issued", IssuedRecord)
LEADER = Key("leader", LeaderRecord)
CANDIDATES = RecordFolder("candidates", CandidateRecord)
PROBLEMS = Key("problems", ProblemsRecord)
LOADS = Key("loads", LoadsRecord)
DURATIONS = Key("durations", DurationsRecord)
AUTOMATION = Key("automation", AutomationRecord)
PROPOSAL = Key("proposal", ProposedMoves)
FIGURES = RecordFolder("figures", FiguresRecord)
NODES = RecordFolder("nodes", NodeRecord)
SERVICES = RecordFolder("services", ServicesRecord)
STREAMS = RecordFolder("streams", StreamRecord)
RUNNING_STREAMS = RecordFolder("running-streams", RunningStreamRecord)
QUERIES = RecordFolder("queries", QueryRecord)
RUNNING_QUERIES = RecordFolder("running-queries", RunningQueryRecord)
REQUESTS = RecordFolder("requests", RequestRecord)
PROPOSALS = RecordFolder("proposals", ProposalRecord)
FRAGMENTS = RecordFolder("fragments", FragmentRecord)
CHECKPOINTS = RecordFolder("checkpoints", CheckpointsRecord)
SAVEPOINTS = RecordFolder("savepoints", SavepointRecord)
PAUSES = RecordFolder("pauses", PauseRecord)
CORDONS = RecordFolder("cordons", CordonRecord)
MOVES = RecordFolder("moves", MovePlan)
TURNS = RecordFolder("turns", TurnRecord)
MAINTENANCE = RecordFolder("maintenance", SlotRecord)
LINKS = RecordFolder("links", DisturbedLink)
STRIKES = RecordFolder("strikes", StrikeRecord)
ASSIGNMENTS = RecordFolder("assignments", Assignment)
CLAIMS = RecordFolder("claims", NameClaim)
CHECKS = RecordFolder("checks", EdgeCheck)
TRIALS = RecordFolder("trials", HostTrial)
OPERATIONS = RecordFolder("operations", OperationRecord)
WEBS = RecordFolder("webs", WebRecord)
TOKENS = RecordFolder("tokens", TokenRecord)
HISTORY = RecordFolder("history", HistoryEvent)

MOST_BYTES = 900_000
"""Of a record that has no bound of its own: ZooKeeper takes no more than 1 MiB."""


UNTRIMMED_SHARE = 1 / 20
"""By how much of its bound one writer lets the history grow beyond it. Dropping events begins with
listing all of them, and a failure makes events by the hundred."""


MOST_REPORTS = 200
"""Drills whose reports the history keeps. A drill makes dozens of other events, which would soon
push its report out."""

MOST_MOVE_PLANS = 100
"""Plans of moves that the history keeps as they ended, for the same reason."""


def fragment_key(query: str, fragment: str) -> Key[FragmentRecord]:
    """Key of a fragment's record."""
    return FRAGMENTS.key(f"{query}.{fragment}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned(Generic[R_co]):
    """A record as it was read.

    Attributes
    ----------
    version
        An update or deletion that rests on this reading must pass it.
    created
        The store's number of the change that created the record. It rises with every change of the
        store, and so tells a record from one that was deleted before and had the same path.
    """

    record: R_co
    version: int
    created: int = 0

    @property
    def report(self) -> tuple[int, int]:
        """Orders all that was ever written at the path, whatever clocks say."""
        return self.created, self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """A condition of a write: the record at `key` still has this version.

    ZooKeeper checks the condition and writes in one transaction. A process that was paused between
    two steps of its own therefore changes nothing that rests on what it knew before.
    """

    key: Key[Record]
    version: int


class StoreError(VivaceError):
    """Base of a store's refusals; `path` is the full path of the record."""

    exit_status = EXIT_REFUSED

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class VersionConflict(StoreError):
    """Another process changed the record since it was read."""


class RecordExists(StoreError):
    """The record to be created exists already."""


class RecordMissing(StoreError):
    """The record to be changed or deleted does not exist."""


class RecordInvalid(StoreError):
    """The data at a path is not a record of the path's type.

    Attributes
    ----------
    version
        Version of the broken record, with which it can be deleted.
    needs
        Which records a version must read to act on it, if the record says so; else 1.
    """

    def __init__(self, path: str, problem: str, version: int, needs: int = 1) -> None:
        super().__init__(path, problem)
        self.version = version
        self.needs = needs


class PreconditionFailed(StoreError):
    """The record that a write was to rest on has changed, or is gone; nothing was written."""


class StoreFailed(StoreError):
    """The server refused a call for a reason that a store does not know."""


class AccessDenied(StoreError):
    """The cluster's secret gives no access to the record."""


class StoreUnavailable(StoreError):
    """The session is not `CONNECTED`, or was suspended during the call.

    A write may or may not have happened.
    """

    exit_status = EXIT_UNREACHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[R]):
    """A folder's records by name; those that cannot be decoded are listed as `invalid`."""

    records: dict[str, Versioned[R]]
    invalid: tuple[RecordInvalid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """An event and its place in the order of all events."""

    sequence: int
    event: HistoryEvent


class Watch(Protocol):
    """A subscription to changes."""

    def cancel(self) -> None:
        """End the subscription."""
        ...


class Store(ABC):
    """A store. Methods may be called from any thread.

    Every method but `state`, `session`, `on_state`, `watch` and `close` raises
    `StoreUnavailable` unless the session is `CONNECTED`. Subclasses provide the calls that read and
    write bytes at paths.

    Parameters
    ----------
    root
        Put before the path of every record.
    history_limit
        Events kept in the audit trail.

    Attributes
    ----------
    state
        State of the session, with the meaning given at the top of this module.
    session
        Number of the present session; another one after `LOST`, 0 between two sessions.
    records
        The newest records that it reads.
    """

    def __init__(self, root: str, history_limit: int) -> None:
        self._root = root
        self._history_limit = history_limit
        self._untrimmed = history_limit
        self.state = SessionState.LOST
        self.session = 0
        self.records = RECORDS
        self._listeners: list[Callable[[SessionState], None]] = []
        self._decoded: dict[str, dict[str, tuple[tuple[bytes, int, int], Versioned[Any]]]] = {}

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        """Call back at each change of state, on the store's thread: set a flag, do not block."""
        self._listeners.append(callback)

    def get(self, key: Key[R]) -> Versioned[R] | None:
        """Read a record; None if there is none. Raises `RecordInvalid`."""
        path = self._path(key)
        try:
            data, version, created = self._read(path)
        except RecordMissing:
            return None
        return decode(path, data, key.type, version, created, self.records)

    def list(self, folder: RecordFolder[R]) -> Listing[R]:
        """Read a folder. A record that is as it was at the last reading is not decoded again."""
        path = self._path(folder)
        before = self._decoded.get(path, {})
        decoded: dict[str, tuple[tuple[bytes, int, int], Versioned[Any]]] = {}
        invalid: list[RecordInvalid] = []
        for name, data, version, created in self._read_all(path):
            key = (data, version, created)
            known = before.get(name)
            try:
                if known is None or known[0] != key:
                    full_path = f"{path}/{name}"
                    known = (
                        key,
                        decode(full_path, data, folder.type, version, created, self.records),
                    )
            except RecordInvalid as broken:
                invalid.append(broken)
            else:
                decoded[name] = known
        self._decoded[path] = decoded
        records = {name: record for name, (_, record) in decoded.items()}
        return Listing(records=records, invalid=tuple(invalid))

    def create(
        self,
        key: Key[R],
        record: R,
        *,
        ephemeral: bool = False,
        precondition: Precondition | None = None,
    ) -> int:
        """Create a record and return its version, which is 0.

        Raises `RecordExists` or `PreconditionFailed`.

        An ephemeral record disappears with the session. A record of an earlier session that still
        exists raises `RecordExists` too: delete it under its version, then create the new one.
        """
        self._create(
            self._path(key),
            encode(record),
            ephemeral=ephemeral,
            precondition=self._condition(precondition),
        )
        return 0

    def update(
        self, key: Key[R], record: R, version: int, *, precondition: Precondition | None = None
    ) -> int:
        """Replace a record and return its new version.

        Raises `VersionConflict` or `RecordMissing`, or `PreconditionFailed`.
        """
        path = self._path(key)
        _check_version(path, version)
        return self._write(path, encode(record), version, self._condition(precondition))

    def delete(
        self, key: Key[R], version: int, *, precondition: Precondition | None = None
    ) -> None:
        """Delete a record.

        Raises `VersionConflict` or `RecordMissing`, or `PreconditionFailed`.
        """
        path = self._path(key)
        _check_version(path, version)
        self._delete(path, version, self._condition(precondition))

    def append_history(self, event: HistoryEvent) -> int:
        """Append to the audit trail; now and then, drop the oldest events beyond its bound.

        Those with the report of a drill, and those with a plan of moves, have bounds of their own.
        Returns the event's sequence number.
        """
        folder = self._path(HISTORY)
        name = "r-" if event.report is not None else "m-" if event.moves is not None else "e-"
        created = self._create(f"{folder}/{name}", encode(event), sequence=True)
        self._untrimmed += 1
        if self._untrimmed < self._history_limit * UNTRIMMED_SHARE:
            return _sequence(created)
        self._untrimmed = 0
        names = self._names(folder)
        limits = {"e-": self._history_limit, "r-": MOST_REPORTS, "m-": MOST_MOVE_PLANS}
        for prefix, limit in limits.items():
            for name in [each for each in names if each.startswith(prefix)][:-limit]:
                # Entries are never updated: their version is 0. Another writer may have dropped it.
                with suppress(RecordMissing):
                    self._delete(f"{folder}/{name}", 0, None)
        return _sequence(created)

    def history(self) -> tuple[HistoryEntry, ...]:
        """The audit trail, oldest first."""
        entries = [
            HistoryEntry(sequence=_sequence(name), event=found.record)
            for name, found in self.list(HISTORY).records.items()
        ]
        return tuple(sorted(entries, key=lambda entry: entry.sequence))

    @abstractmethod
    def watch(self, where: RecordFolder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Call back when a record, or a record in a folder, may have changed.

        The callback runs on the store's thread without the changed record: it sets a flag, and the
        caller reads again. Several changes may come as one call, but no change is missed: after a
        reconnection the callback runs in any case. The watch lasts until it is cancelled.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session; its ephemeral records disappear at once."""

    @abstractmethod
    def _names(self, folder: str) -> Sequence[str]:
        """Names in a folder, in order; none if there is no such folder."""

    @abstractmethod
    def _read(self, path: str) -> tuple[bytes, int, int]:
        """Data, version and number of the creation of a record. Raises `RecordMissing`."""

    @abstractmethod
    def _read_all(self, folder: str) -> Iterator[tuple[str, bytes, int, int]]:
        """Name, and what `_read` returns, of each record in a folder, in order of their names."""

    @abstractmethod
    def _create(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        precondition: Condition | None = None,
    ) -> str:
        """Create a record; its path, to which a number was appended if it is one of a sequence."""

    @abstractmethod
    def _write(self, path: str, data: bytes, version: int, precondition: Condition | None) -> int:
        """Replace a record's data; the new version."""

    @abstractmethod
    def _delete(self, path: str, version: int, precondition: Condition | None) -> None:
        """Delete a record."""

    def _condition(self, precondition: Precondition | None) -> Condition | None:
        if precondition is None:
            return None
        path = self._root + precondition.key.path
        _check_version(path, precondition.version)
        return path, precondition.version

    def _path(self, where: Key[R] | RecordFolder[R]) -> str:
        """Full path of a record that is about to be read or written."""
        path = self._root + where.path
        if self.state is not SessionState.CONNECTED:
            raise StoreUnavailable(path, f"the session is {self.state.value}")
        return path

    def _become(self, state: SessionState) -> None:
        self.state = state
        for listener in [*self._listeners]:
            listener(state)


def _check_version(path: str, version: int) -> None:
    # To ZooKeeper, −1 means any version; this store does not offer that.
    assert version >= 0, f"{path}: version {version}"


def _sequence(path: str) -> int:
    """The number at the end of a sequential name."""
    return int(path.rsplit("-", 1)[1])


_encoder = msgspec.json.Encoder()


def encode(record: Record) -> bytes:
    """A record as JSON, as the store keeps it.

    Raises
    ------
    ValueError
        It has a number that is not finite, which nobody could read.
    """
    data = _encoder.encode(record)
    if record.needs > 1:
        data = b'%s,"needs":%d}' % (data[:-1], record.needs)
    if b"null" in data:
        try:
            _decoder(type(record)).decode(data)
        except msgspec.ValidationError as error:
            raise ValueError(f"{record} cannot be kept: {error}") from None
    return data


class _Needing(msgspec.Struct):
    """What a stored record says of its readers, beside its fields."""

    needs: int = 1


_needing = msgspec.json.Decoder(_Needing)

_OTHER_VERSION = (
    "Another version of Vivace than this one ({}) wrote it. Either go on with that version, or end "
    "the cluster with `vivace down`, start it with `vivace up` in another --data folder, and apply "
    "its streams and queries again"
)


def decode(
    path: str, data: bytes, type: type[R], version: int, created: int = 0, reads: int = RECORDS
) -> Versioned[R]:
    """Decode a record, whose types are checked strictly.

    Parameters
    ----------
    reads
        The newest records that are read.

    Raises
    ------
    RecordInvalid
        Naming the path and the problem.
    """
    try:
        if b'"needs":' in data and (needs := _needing.decode(data).needs) > reads:
            problem = f"needs a version that reads records {needs}, and this one reads {reads}"
            raise RecordInvalid(
                path,
                f"{problem}. {_OTHER_VERSION.format(this_version().product)}",
                version,
                needs,
            )
        record = _decoder(type).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = f"is not a {type.__name__}: {error}"
        if "missing required field" in problem:
            problem += f". {_OTHER_VERSION.format(this_version().product)}"
        raise RecordInvalid(path, problem, version) from error
    return Versioned(record=record, version=version, created=created)
