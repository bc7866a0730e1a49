"""The store of the simulated world: a server in memory with any number of sessions.

It behaves like `orchestrator.store.ZooKeeperStore` (one test suite runs against both), except that
nothing waits. A watch's callback runs within the call that made the change, in the order in which
watches were set. Sessions are suspended and expired by calls, never by a clock. Records pass
through the same encoding, so that both stores refuse the same records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from orchestrator.records import HistoryEvent, Record
from orchestrator.store.protocol import (
    HISTORY,
    Folder,
    HistoryEntry,
    Key,
    Listing,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    SessionState,
    StoreUnavailable,
    VersionConflict,
    Versioned,
    Watch,
    decode,
    encode,
)

R = TypeVar("R", bound=Record)


@dataclass(slots=True)
class _Entry:
    data: bytes
    version: int = 0
    owner: int = 0
    """Session that an ephemeral record belongs to; 0 for any other record."""


class MemoryServer:
    """The state that all sessions share: records and watches.

    Parameters
    ----------
    history_limit
        Events kept in the audit trail.
    """

    def __init__(self, *, history_limit: int = 1000) -> None:
        self.history_limit = history_limit
        self.entries: dict[str, _Entry] = {}
        self.watches: list[_MemoryWatch] = []
        self.clients: list[MemoryStore] = []
        self.away = False
        self.session_numbers = count(1)
        self.event_numbers = count()

    def connect(self) -> MemoryStore:
        """A new client: connected, unless the server is away."""
        client = MemoryStore(self)
        self.clients.append(client)
        if self.away:
            client.suspend()
        return client

    def go_away(self) -> None:
        """Stop answering; sessions do not expire meanwhile."""
        self.away = True
        for client in self.clients:
            client.suspend()

    def come_back(self) -> None:
        """Answer again; every client continues its session."""
        self.away = False
        for client in list(self.clients):
            client.resume()

    def plant(self, path: str, data: bytes) -> None:
        """Write raw bytes, as somebody with a ZooKeeper shell could."""
        entry = self.entries.get(path)
        version = 0 if entry is None else entry.version + 1
        self.entries[path] = _Entry(data, version)
        self.changed(path)

    def end_session(self, session: int) -> None:
        """Delete the session's ephemeral records."""
        gone = [path for path, entry in self.entries.items() if entry.owner == session]
        for path in gone:
            del self.entries[path]
        for path in gone:
            self.changed(path)

    def changed(self, path: str) -> None:
        """Call the watches of the path."""
        for watch in list(self.watches):
            if watch.sees(path):
                watch.call()


class MemoryStore:
    """One client of a `MemoryServer` (`orchestrator.store.protocol.Store`)."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._state = SessionState.CONNECTED
        self._session = next(server.session_numbers)
        self._expired = False
        self._listeners: list[Callable[[SessionState], None]] = []

    @property
    def state(self) -> SessionState:
        """State of the session."""
        return self._state

    @property
    def session(self) -> int:
        """Number of the session; 0 without one."""
        return self._session

    def suspend(self) -> None:
        """Break the connection; the server keeps the session."""
        if self._state is SessionState.CONNECTED:
            self._become(SessionState.SUSPENDED)

    def expire(self) -> None:
        """End the session; a SUSPENDED client learns of it only on `resume`."""
        self._server.end_session(self._session)
        self._expired = True
        if self._state is SessionState.CONNECTED:
            self._lose()

    def resume(self) -> None:
        """Restore the connection: in the same session, or in a new one if that has expired."""
        if self._state is SessionState.CONNECTED:
            return
        if self._expired:
            if self._state is SessionState.SUSPENDED:
                self._lose()
            self._session = next(self._server.session_numbers)
            self._expired = False
        self._become(SessionState.CONNECTED)
        for watch in [watch for watch in self._server.watches if watch.client is self]:
            watch.call()

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        """Have `callback` called at each change of state."""
        self._listeners.append(callback)

    def get(self, key: Key[R]) -> Versioned[R] | None:
        """Read a record; None if there is none."""
        self._ready(key.path)
        entry = self._server.entries.get(key.path)
        return None if entry is None else decode(key.path, entry.data, key.type, entry.version)

    def list(self, folder: Folder[R]) -> Listing[R]:
        """Read a folder."""
        self._ready(folder.path)
        prefix = f"{folder.path}/"
        records: dict[str, Versioned[R]] = {}
        invalid: list[RecordInvalid] = []
        for path in sorted(self._server.entries):
            if not path.startswith(prefix):
                continue
            entry = self._server.entries[path]
            try:
                reading = decode(path, entry.data, folder.type, entry.version)
                records[path.removeprefix(prefix)] = reading
            except RecordInvalid as broken:
                invalid.append(broken)
        return Listing(records=records, invalid=tuple(invalid))

    def create(self, key: Key[R], record: R, *, ephemeral: bool = False) -> int:
        """Create a record and return its version, which is 0."""
        self._ready(key.path)
        if key.path in self._server.entries:
            raise RecordExists(key.path, "exists already")
        owner = self._session if ephemeral else 0
        self._server.entries[key.path] = _Entry(encode(record), 0, owner)
        self._server.changed(key.path)
        return 0

    def update(self, key: Key[R], record: R, version: int) -> int:
        """Replace a record and return its new version."""
        entry = self._at(key.path, version)
        entry.data = encode(record)
        entry.version += 1
        self._server.changed(key.path)
        return version + 1

    def delete(self, key: Key[R], version: int) -> None:
        """Delete a record."""
        self._at(key.path, version)
        del self._server.entries[key.path]
        self._server.changed(key.path)

    def append_history(self, event: HistoryEvent) -> int:
        """Append to the audit trail, trim it to its bound, and return the sequence number."""
        sequence = next(self._server.event_numbers)
        self.create(HISTORY.key(f"e-{sequence:010d}"), event)
        names = sorted(self.list(HISTORY).records)
        for name in names[: -self._server.history_limit]:
            self.delete(HISTORY.key(name), 0)
        return sequence

    def history(self) -> tuple[HistoryEntry, ...]:
        """The audit trail, oldest first."""
        return tuple(
            HistoryEntry(sequence=int(name.rsplit("-", 1)[1]), event=found.record)
            for name, found in self.list(HISTORY).records.items()
        )

    def watch(self, where: Folder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Have `callback` called whenever a record, or one in a folder, may have changed."""
        watch = _MemoryWatch(self, self._server, where.path, isinstance(where, Folder), callback)
        self._server.watches.append(watch)
        watch.call()
        return watch

    def close(self) -> None:
        """End the session and delete its ephemeral records at once."""
        for watch in [watch for watch in self._server.watches if watch.client is self]:
            watch.cancel()
        if self in self._server.clients:
            self._server.clients.remove(self)
        self._server.end_session(self._session)
        self._expired = True
        if self._state is not SessionState.LOST:
            self._lose()

    def _ready(self, path: str) -> None:
        if self._state is not SessionState.CONNECTED:
            raise StoreUnavailable(path, f"the session is {self._state.value}")

    def _at(self, path: str, version: int) -> _Entry:
        self._ready(path)
        assert version >= 0, f"{path}: version {version}"
        entry = self._server.entries.get(path)
        if entry is None:
            raise RecordMissing(path, "does not exist")
        if entry.version != version:
            raise VersionConflict(path, "was changed by another writer")
        return entry

    def _lose(self) -> None:
        self._session = 0
        self._become(SessionState.LOST)

    def _become(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners):
            listener(state)


@dataclass(slots=True, eq=False)
class _MemoryWatch:
    """Calls back within the call that made the change, unless its client is not connected."""

    client: MemoryStore
    server: MemoryServer
    path: str
    is_folder: bool
    callback: Callable[[], None]

    def sees(self, path: str) -> bool:
        """Whether the watch covers the path."""
        return path.startswith(f"{self.path}/") if self.is_folder else path == self.path

    def call(self) -> None:
        """Call back if the client is connected; if not, `resume` will."""
        if self.client.state is SessionState.CONNECTED:
            self.callback()

    def cancel(self) -> None:
        """Stop calling back."""
        if self in self.server.watches:
            self.server.watches.remove(self)
