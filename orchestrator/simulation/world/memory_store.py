"""The store of the simulated world: a server in memory with any number of sessions.

It behaves like `orchestrator.store.ZooKeeperStore` (one test suite runs against both), except that
nothing waits. A watch's callback runs within the call that made the change, in the order in which
watches were set. Sessions are suspended and expired by calls, never by a clock. Records pass
through the same encoding, so that both stores refuse the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from orchestrator.records import Record
from orchestrator.store.copied import StoreCopy
from orchestrator.store.protocol import (
    Condition,
    Key,
    PreconditionFailed,
    RecordExists,
    RecordFolder,
    RecordMissing,
    SessionState,
    Store,
    VersionConflict,
    Watch,
)

R = TypeVar("R", bound=Record)
AnyStore = TypeVar("AnyStore", bound="MemoryStore")


class OutOfWrites(BaseException):
    """The process of this client dies now: it has no writes left.

    Nothing but the simulator catches it, as nothing survives SIGKILL.
    """


@dataclass(slots=True)
class _Entry:
    data: bytes
    version: int = 0
    created: int = 0
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
        self.starts = 1
        """How often it was started."""
        self.revision = 0
        """Rises with every change."""
        self.on_change: Callable[[str], None] = lambda _: None
        """Told the path of every change, before any client is."""
        self.session_numbers = count(1)
        self.event_numbers = count()
        self.changes = count(1)

    def connect(self) -> MemoryStore:
        """A new client: connected, unless the server is away."""
        return self.joined(MemoryStore(self))

    def joined(self, client: AnyStore) -> AnyStore:
        """A client that was made elsewhere: connected, unless the server is away."""
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

    def restore(self, copy: StoreCopy, leave_out: Collection[str] = ()) -> None:
        """Have what a copy has, in an empty store.

        Parameters
        ----------
        leave_out
            Folders.
        """
        for path, each in copy.records.items():
            if path.partition("/")[0] not in leave_out:
                self.entries[path] = _Entry(each.data, each.version, each.created)
        self.changes = count(max((e.created for e in copy.records.values()), default=0) + 1)

    def has(self, folder: str) -> bool:
        """Whether there is any record in a folder."""
        return any(path.startswith(f"{folder}/") for path in self.entries)

    def plant(self, path: str, data: bytes) -> None:
        """Write raw bytes, as somebody with a ZooKeeper shell could."""
        entry = self.entries.get(path)
        version = 0 if entry is None else entry.version + 1
        created = next(self.changes) if entry is None else entry.created
        self.entries[path] = _Entry(data, version, created)
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
        self.revision += 1
        self.on_change(path)
        for watch in list(self.watches):
            if watch.sees(path):
                watch.call()


class MemoryStore(Store):
    """One client of a `MemoryServer` (`orchestrator.store.protocol.Store`)."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__("", server.history_limit)
        self._server = server
        self.state = SessionState.CONNECTED
        self.session = next(server.session_numbers)
        self.unreachable = False
        """Whether this client cannot reach the server, though others may."""
        self.writes_left: int | None = None
        """Writes after which the client's process dies; None: it does not."""
        self._expired = False

    def suspend(self) -> None:
        """Break the connection; the server keeps the session."""
        if self.state is SessionState.CONNECTED:
            self._become(SessionState.SUSPENDED)

    def expire(self) -> None:
        """End the session; a SUSPENDED client learns of it only on `resume`."""
        self._server.end_session(self.session)
        self._expired = True
        if self.state is SessionState.CONNECTED:
            self._lose()

    def resume(self) -> None:
        """Restore the connection: in the same session, or in a new one if that has expired.

        Nothing happens as long as the server cannot be reached.
        """
        if self.state is SessionState.CONNECTED or self.unreachable or self._server.away:
            return
        if self._expired:
            if self.state is SessionState.SUSPENDED:
                self._lose()
            self.session = next(self._server.session_numbers)
            self._expired = False
        self._become(SessionState.CONNECTED)
        for watch in [watch for watch in self._server.watches if watch.client is self]:
            watch.call()

    def watch(self, where: RecordFolder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Have `callback` called whenever a record, or one in a folder, may have changed."""
        watch = _MemoryWatch(
            self, self._server, where.path, isinstance(where, RecordFolder), callback
        )
        self._server.watches.append(watch)
        watch.call()
        return watch

    def close(self) -> None:
        """End the session and delete its ephemeral records at once."""
        for watch in [watch for watch in self._server.watches if watch.client is self]:
            watch.cancel()
        if self in self._server.clients:
            self._server.clients.remove(self)
        self._server.end_session(self.session)
        self._expired = True
        if self.state is not SessionState.LOST:
            self._lose()

    def _names(self, folder: str) -> list[str]:
        prefix = f"{folder}/"
        paths = sorted(path for path in self._server.entries if path.startswith(prefix))
        return [path.removeprefix(prefix) for path in paths]

    def _read(self, path: str) -> tuple[bytes, int, int]:
        entry = self._at(path)
        return entry.data, entry.version, entry.created

    def _read_all(self, folder: str) -> Iterator[tuple[str, bytes, int, int]]:
        return ((name, *self._read(f"{folder}/{name}")) for name in self._names(folder))

    def _create(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        precondition: Condition | None = None,
    ) -> str:
        self._spend_write()
        self._check(precondition)
        if sequence:
            path += f"{next(self._server.event_numbers):010d}"
        if path in self._server.entries:
            raise RecordExists(path, "exists already")
        created, owner = next(self._server.changes), self.session if ephemeral else 0
        self._server.entries[path] = _Entry(data, 0, created, owner)
        self._server.changed(path)
        return path

    def _write(self, path: str, data: bytes, version: int, precondition: Condition | None) -> int:
        self._spend_write()
        self._check(precondition)
        entry = self._at(path, version)
        next(self._server.changes)
        entry.data = data
        entry.version += 1
        self._server.changed(path)
        return version + 1

    def _delete(self, path: str, version: int, precondition: Condition | None) -> None:
        self._spend_write()
        self._check(precondition)
        self._at(path, version)
        next(self._server.changes)
        del self._server.entries[path]
        self._server.changed(path)

    def _spend_write(self) -> None:
        if self.writes_left is None:
            return
        if not self.writes_left:
            raise OutOfWrites
        self.writes_left -= 1

    def _check(self, precondition: Condition | None) -> None:
        if precondition is not None:
            path, version = precondition
            entry = self._server.entries.get(path)
            if entry is None or entry.version != version:
                raise PreconditionFailed(path, f"is not at version {version}")

    def _at(self, path: str, version: int | None = None) -> _Entry:
        entry = self._server.entries.get(path)
        if entry is None:
            raise RecordMissing(path, "does not exist")
        if version is not None and entry.version != version:
            raise VersionConflict(path, "was changed by another writer")
        return entry

    def _lose(self) -> None:
        self.session = 0
        self._become(SessionState.LOST)


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
