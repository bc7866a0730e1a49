"""The store in ZooKeeper; the only user of kazoo.

Every znode carries one ACL, the digest of the cluster's secret: without the secret nobody can read
or change the znode. Folders, also `/vivace`, are created when they are needed. Clusters that share
a ZooKeeper must therefore share a secret, or use different chroots (`host:port/chroot`, which an
administrator creates).

The store uses kazoo's asynchronous calls with a time limit. Its synchronous calls queue while the
session is SUSPENDED, and would block for as long as the server is away.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError
from kazoo.security import make_digest_acl

from orchestrator.errors import Unreachable
from orchestrator.records import HistoryEvent, Record
from orchestrator.store.protocol import (
    HISTORY,
    AccessDenied,
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
from orchestrator.store.watch import ZooKeeperWatch

R = TypeVar("R", bound=Record)
T = TypeVar("T")

DEFAULT_SESSION_TIMEOUT_S = 10.0
"""Long enough for a machine that is busy with other work, because a host that loses its session
loses its replicas. It need not be short: a secondary detects its primary's death by itself, and the
host that Spark starts after a death replaces the record of the dead one."""

DEFAULT_HISTORY_LIMIT = 1000
"""Events kept, a few hundred bytes each: reading all of them stays fast."""

USER = "vivace"

# kazoo logs every attempt to reconnect; `on_state` reports the changes that matter.
_log = logging.getLogger("orchestrator.store.kazoo")
_log.setLevel(logging.ERROR)


class ZooKeeperStore:
    """A cluster's records in ZooKeeper (`orchestrator.store.protocol.Store`).

    Parameters
    ----------
    hosts
        `host:port`, several separated by commas.
    cluster
        Name of the cluster.
    secret
        Digest credential for its records.
    connect_timeout_s
        Time to find a server.
    session_timeout_s
        The server ends the session of a client that was silent for so long; it keeps the value
        within limits of its own.
    history_limit
        Events kept in the audit trail.

    Raises
    ------
    Unreachable
        No server answered in time.
    """

    def __init__(
        self,
        hosts: str,
        cluster: str,
        secret: str,
        *,
        connect_timeout_s: float = 5.0,
        session_timeout_s: float = DEFAULT_SESSION_TIMEOUT_S,
        history_limit: int = DEFAULT_HISTORY_LIMIT,
    ) -> None:
        self._root = f"/vivace/{cluster}"
        self._history_limit = history_limit
        # After this time without an answer the session is SUSPENDED anyway.
        self._call_timeout_s = session_timeout_s
        self._state = SessionState.LOST
        self._session = 0
        self._connected = threading.Event()
        self._listeners: list[Callable[[SessionState], None]] = []
        self._watches: list[ZooKeeperWatch] = []
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_s,
            default_acl=[make_digest_acl(USER, secret, all=True)],
            auth_data=[("digest", f"{USER}:{secret}")],
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=_log,
        )
        self._client.add_listener(self._state_changed)
        try:
            self._client.start(connect_timeout_s)
        except KazooTimeoutError:
            self._client.close()
            raise Unreachable(
                "ZooKeeper",
                hosts,
                f"did not answer within {connect_timeout_s:g} s",
                "Check that it runs and that the address is right.",
            ) from None
        # kazoo calls its listeners just after `start` returns.
        self._connected.wait(connect_timeout_s)

    @property
    def state(self) -> SessionState:
        """State of the session."""
        return self._state

    @property
    def session(self) -> int:
        """Number of the present session; 0 between two."""
        return self._session

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """Number and password of the present session; with them, a client can join or end it."""
        return self._client.client_id

    def on_state(self, callback: Callable[[SessionState], None]) -> None:
        """Call back at each change of state, on kazoo's thread."""
        self._listeners.append(callback)

    def get(self, key: Key[R]) -> Versioned[R] | None:
        """Read a record; None if there is none."""
        path = self._path(key)
        try:
            data, stat = self._wait(path, self._ready(path).get_async(path))
        except RecordMissing:
            return None
        return decode(path, data, key.type, stat.version)

    def list(self, folder: Folder[R]) -> Listing[R]:
        """Read a folder: one round trip for the names, one for all records together."""
        path = self._path(folder)
        client = self._ready(path)
        try:
            names = sorted(self._wait(path, client.get_children_async(path)))
        except RecordMissing:
            return Listing(records={})
        readings = [(name, client.get_async(f"{path}/{name}")) for name in names]
        records: dict[str, Versioned[R]] = {}
        invalid: list[RecordInvalid] = []
        for name, reading in readings:
            try:
                data, stat = self._wait(f"{path}/{name}", reading)
                records[name] = decode(f"{path}/{name}", data, folder.type, stat.version)
            except RecordMissing:
                continue  # It was deleted between the two round trips.
            except RecordInvalid as broken:
                invalid.append(broken)
        return Listing(records=records, invalid=tuple(invalid))

    def create(self, key: Key[R], record: R, *, ephemeral: bool = False) -> int:
        """Create a record and return its version, which is 0."""
        path = self._path(key)
        client = self._ready(path)
        self._wait(
            path,
            client.create_async(path, encode(record), ephemeral=ephemeral, makepath=True),
        )
        return 0

    def update(self, key: Key[R], record: R, version: int) -> int:
        """Replace a record and return its new version."""
        path = self._path(key)
        self._check_version(path, version)
        stat = self._wait(path, self._ready(path).set_async(path, encode(record), version))
        return stat.version

    def delete(self, key: Key[R], version: int) -> None:
        """Delete a record."""
        path = self._path(key)
        self._check_version(path, version)
        self._wait(path, self._ready(path).delete_async(path, version))

    def append_history(self, event: HistoryEvent) -> int:
        """Append to the audit trail, drop the oldest events beyond its bound; sequence number."""
        folder = self._path(HISTORY)
        client = self._ready(folder)
        creation = client.create_async(f"{folder}/e-", encode(event), sequence=True, makepath=True)
        created = self._wait(folder, creation)
        names = sorted(self._wait(folder, client.get_children_async(folder)))
        for name in names[: -self._history_limit]:
            try:
                # Entries are never updated: their version is 0.
                self._wait(f"{folder}/{name}", client.delete_async(f"{folder}/{name}", 0))
            except RecordMissing:
                continue  # Another writer dropped it.
        return _sequence(created)

    def history(self) -> tuple[HistoryEntry, ...]:
        """The audit trail, oldest first."""
        entries = [
            HistoryEntry(sequence=_sequence(name), event=found.record)
            for name, found in self.list(HISTORY).records.items()
        ]
        return tuple(sorted(entries, key=lambda entry: entry.sequence))

    def watch(self, where: Folder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Call back when a record, or a record in a folder, may have changed."""
        watch = ZooKeeperWatch(
            self._client, self._path(where), callback, children=isinstance(where, Folder)
        )
        self._watches.append(watch)
        if self._state is SessionState.CONNECTED:
            watch.arm()
        return watch

    def close(self) -> None:
        """End the session; its ephemeral records disappear at once."""
        for watch in self._watches:
            watch.cancel()
        self._client.stop()
        self._client.close()

    def _path(self, where: Key[R] | Folder[R]) -> str:
        return f"{self._root}/{where.path}"

    def _state_changed(self, kazoo_state: str) -> None:
        state = SessionState(kazoo_state)
        if state is SessionState.CONNECTED:
            identity = self._client.client_id
            self._session = 0 if identity is None else identity[0]
        elif state is SessionState.LOST:
            self._session = 0
        self._state = state
        if state is SessionState.CONNECTED:
            self._connected.set()
            self._watches = [watch for watch in self._watches if not watch.cancelled]
            for watch in self._watches:
                watch.arm()
        for listener in list(self._listeners):
            listener(state)

    def _ready(self, path: str) -> KazooClient:
        if self._state is not SessionState.CONNECTED:
            raise StoreUnavailable(path, f"the session is {self._state.value}")
        return self._client

    @staticmethod
    def _check_version(path: str, version: int) -> None:
        # To ZooKeeper, −1 means any version; this store does not offer that.
        assert version >= 0, f"{path}: version {version}"

    def _wait(self, path: str, result: AsyncResult[T]) -> T:
        """The result of an asynchronous call; kazoo's errors become the store's."""
        try:
            return result.get(timeout=self._call_timeout_s)
        except NoNodeError:
            raise RecordMissing(path, "does not exist") from None
        except NodeExistsError:
            raise RecordExists(path, "exists already") from None
        except BadVersionError:
            raise VersionConflict(path, "was changed by another writer") from None
        except (NoAuthError, AuthFailedError):
            raise AccessDenied(path, "cannot be accessed with the cluster's secret") from None
        except (
            ConnectionLoss,
            ConnectionClosedError,
            SessionExpiredError,
            OperationTimeoutError,
            KazooTimeoutError,
        ) as error:
            raise StoreUnavailable(path, f"the server went away ({type(error).__name__})") from None


def _sequence(path: str) -> int:
    """The number ZooKeeper appended to a sequential name."""
    return int(path.rsplit("-", 1)[1])
