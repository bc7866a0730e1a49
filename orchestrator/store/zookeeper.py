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
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    CancelledError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import (
    AsyncResult,
    KazooTimeoutError,
    SequentialThreadingHandler,
)
from kazoo.security import make_digest_acl

from orchestrator.errors import Unreachable
from orchestrator.records import Record
from orchestrator.store.protocol import (
    AccessDenied,
    Condition,
    Key,
    PreconditionFailed,
    RecordExists,
    RecordFolder,
    RecordMissing,
    SessionState,
    Store,
    StoreError,
    StoreFailed,
    StoreUnavailable,
    VersionConflict,
    Watch,
)
from orchestrator.store.watch import ZooKeeperWatch

R = TypeVar("R", bound=Record)
T = TypeVar("T")

DEFAULT_SESSION_TIMEOUT_S = 10.0
"""Long enough for a machine that is busy with other work, because a host that loses its session
loses its replicas. It need not be short: a secondary detects its primary's death by itself, and the
host that Spark starts after a death replaces the record of the dead one."""

HANDSHAKE_SHARE = 1 / 4
"""Share of the session timeout for which a connection waits for a server's response. A server that
is asked while it starts may never respond, nor end the connection. kazoo would wait for the whole
session timeout, and the session would end."""

DEFAULT_HISTORY_LIMIT = 1000
"""Events kept, a few hundred bytes each: reading all of them stays fast."""

USER = "vivace"

# kazoo logs every attempt to reconnect; `on_state` reports the changes that matter.
_log = logging.getLogger("orchestrator.store.kazoo")
_log.setLevel(logging.ERROR)


class _Handler(SequentialThreadingHandler):
    """Waits for a response of a server no longer than `patience_s`."""

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_s = patience_s

    def select(
        self,
        rlist: list[object],
        wlist: list[object],
        xlist: list[object],
        timeout: float | None = None,
    ) -> tuple[list[object], list[object], list[object]]:
        """Wait for sockets. Whoever waits for one to read waits for a response to its end."""
        if len(rlist) == 1 and timeout is not None:
            timeout = min(timeout, self._patience_s)
        return super().select(rlist, wlist, xlist, timeout)


class ZooKeeperStore(Store):
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
        super().__init__(f"/vivace/{cluster}/", history_limit)
        # After this time without an answer the session is SUSPENDED anyway.
        self._call_timeout_s = session_timeout_s
        self._connected = threading.Event()
        self._watches: list[ZooKeeperWatch] = []
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_s,
            handler=_Handler(HANDSHAKE_SHARE * session_timeout_s),
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
    def credentials(self) -> tuple[int, bytes] | None:
        """Number and password of the present session; with them, a client can join or end it."""
        return self._client.client_id

    def watch(self, where: RecordFolder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Call back when a record, or a record in a folder, may have changed."""
        path, children = self._root + where.path, isinstance(where, RecordFolder)
        watch = ZooKeeperWatch(self._client, path, callback, children=children)
        self._watches.append(watch)
        if self.state is SessionState.CONNECTED:
            watch.arm()
        return watch

    def close(self) -> None:
        """End the session; its ephemeral records disappear at once."""
        for watch in self._watches:
            watch.cancel()
        self._client.stop()
        self._client.close()

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(self._wait(folder, self._client.get_children_async(folder)))
        except RecordMissing:
            return []

    def _read(self, path: str) -> tuple[bytes, int, int]:
        data, stat = self._wait(path, self._client.get_async(path))
        return data, stat.version, stat.czxid

    def _read_all(self, folder: str) -> Iterator[tuple[str, bytes, int, int]]:
        """One round trip for the names, one for all records together."""
        paths = {name: f"{folder}/{name}" for name in self._names(folder)}
        readings = {name: self._client.get_async(path) for name, path in paths.items()}
        for name, reading in readings.items():
            # A record may be deleted between the two round trips.
            with suppress(RecordMissing):
                data, stat = self._wait(paths[name], reading)
                yield name, data, stat.version, stat.czxid

    def _create(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        precondition: Condition | None = None,
    ) -> str:
        if precondition is None:
            creation = self._client.create_async(
                path, data, ephemeral=ephemeral, sequence=sequence, makepath=True
            )
            return self._wait(path, creation)
        # A transaction creates no folders.
        self._wait(path, self._client.ensure_path_async(path.rpartition("/")[0]))
        self._conditional(path, precondition, lambda t: t.create(path, data, ephemeral=ephemeral))
        return path

    def _write(self, path: str, data: bytes, version: int, precondition: Condition | None) -> int:
        if precondition is None:
            return self._wait(path, self._client.set_async(path, data, version)).version
        self._conditional(path, precondition, lambda t: t.set_data(path, data, version))
        return version + 1

    def _delete(self, path: str, version: int, precondition: Condition | None) -> None:
        if precondition is None:
            self._wait(path, self._client.delete_async(path, version))
        else:
            self._conditional(path, precondition, lambda t: t.delete(path, version))

    def _conditional(
        self, path: str, precondition: Condition, write: Callable[[TransactionRequest], None]
    ) -> None:
        """Check and write in one transaction."""
        transaction = self._client.transaction()
        transaction.check(*precondition)
        write(transaction)
        checked, written = self._wait(path, transaction.commit_async())
        # The operation that failed gives the reason, the other one only that it was rolled back.
        if isinstance(checked, (BadVersionError, NoNodeError)):
            raise PreconditionFailed(precondition[0], f"is not at version {precondition[1]}")
        for outcome in (checked, written):
            if isinstance(outcome, Exception) and not isinstance(outcome, RolledBackError):
                raise _translated(path, outcome) from outcome

    def _state_changed(self, kazoo_state: str) -> None:
        self.state = state = SessionState(kazoo_state)
        if state is SessionState.CONNECTED:
            identity = self._client.client_id
            self.session = 0 if identity is None else identity[0]
            self._connected.set()
            self._watches = [watch for watch in self._watches if not watch.cancelled]
            for watch in self._watches:
                watch.arm()
        elif state is SessionState.LOST:
            self.session = 0
        self._become(state)

    def _wait(self, path: str, result: AsyncResult[T]) -> T:
        """The result of an asynchronous call; kazoo's errors become the store's."""
        try:
            return result.get(timeout=self._call_timeout_s)
        except (KazooException, KazooTimeoutError) as error:
            raise _translated(path, error) from error


def _translated(path: str, error: Exception) -> StoreError:
    """The store's error for one of kazoo's; every one of kazoo's has one."""
    match error:
        case NoNodeError():
            return RecordMissing(path, "does not exist")
        case NodeExistsError():
            return RecordExists(path, "exists already")
        case BadVersionError():
            return VersionConflict(path, "was changed by another writer")
        case NoAuthError() | AuthFailedError():
            return AccessDenied(path, "cannot be accessed with the cluster's secret")
        case (
            ConnectionLoss()
            | ConnectionDropped()
            | ConnectionClosedError()
            | SessionExpiredError()
            | SessionMovedError()
            | OperationTimeoutError()
            | CancelledError()
            | KazooTimeoutError()
        ):
            return StoreUnavailable(path, f"the server went away ({type(error).__name__})")
        case _:
            return StoreFailed(path, f"the server refused ({type(error).__name__}: {error})")
