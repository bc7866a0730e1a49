"""A standing watch on a znode or a folder, out of ZooKeeper's one-shot ones.

No change is missed because of two orders. A one-shot watch is renewed *before* the callback runs:
ZooKeeper serves a session's requests in order, so whatever the callback's owner then reads is at
least as new as the renewed watch. And when a child appears, the callback runs once more after the
child's own watch is set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import AsyncResult
from kazoo.protocol.states import EventType, WatchedEvent


class ZooKeeperWatch:
    """Calls back when something may have changed; used by `ZooKeeperStore` only.

    Everything here runs on kazoo's threads and only queues requests, so nothing blocks them.

    Parameters
    ----------
    path
        The znode, or the folder.
    children
        Whether `path` is a folder, whose children are meant.
    """

    def __init__(
        self, client: KazooClient, path: str, callback: Callable[[], None], *, children: bool
    ) -> None:
        self._client = client
        self._path = path
        self._callback = callback
        self._children = children
        self._lock = threading.Lock()
        self._armed: set[str] = set()
        self.cancelled = False

    def arm(self) -> None:
        """Set all watches anew: at the start and after each reconnection, which drops them."""
        with self._lock:
            self._armed.clear()
        self._arm_root()
        self._call()

    def cancel(self) -> None:
        """Be told no more; what is still set at the server dies with its first event."""
        self.cancelled = True

    def _arm_root(self) -> None:
        if self._children:
            reading = self._client.get_children_async(self._path, watch=self._root_changed)
            reading.rawlink(self._children_read)
        else:
            self._client.exists_async(self._path, watch=self._root_changed)

    def _children_read(self, reading: AsyncResult[list[str]]) -> None:
        if self.cancelled:
            return
        error = reading.exception
        if isinstance(error, NoNodeError):
            # The folder comes with its first record.
            self._client.exists_async(self._path, watch=self._root_changed)
            self._call()
            return
        if error is not None:
            return  # The connection broke; the reconnection arms everything.
        with self._lock:
            new = set(reading.get()) - self._armed
            self._armed |= new
        for name in sorted(new):
            self._arm_child(f"{self._path}/{name}")
        if new:
            self._call()

    def _arm_child(self, path: str) -> None:
        self._client.exists_async(path, watch=self._child_changed)

    def _root_changed(self, event: WatchedEvent) -> None:
        if event.type == EventType.NONE or self.cancelled:
            return
        self._arm_root()
        self._call()

    def _child_changed(self, event: WatchedEvent) -> None:
        if event.type == EventType.NONE or event.path is None or self.cancelled:
            return
        if event.type == EventType.DELETED:
            with self._lock:
                self._armed.discard(event.path.rsplit("/", 1)[1])
            # The name may be back already, and a reading that saw it may have been dealt with
            # before this event, on the other thread: read the names once more.
            self._arm_root()
        else:
            self._arm_child(event.path)
        self._call()

    def _call(self) -> None:
        if not self.cancelled:
            self._callback()
