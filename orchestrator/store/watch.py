"""A lasting watch on a znode or a folder, made of ZooKeeper's one-shot watches.

Three rules keep the watch from missing a change. First, a one-shot watch is renewed *before* the
callback runs: ZooKeeper serves a session's requests in order, so the owner then reads a state at
least as new as the renewed watch. Second, when a child appears, the callback runs once more after
the child's own watch is set. Third, a folder that was missing, and is there when its creation is to
be watched, is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import AsyncResult
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat


class ZooKeeperWatch:
    """Calls back when something may have changed; used by `ZooKeeperStore` only.

    All methods run on kazoo's threads and only queue requests, so they never block kazoo.

    Parameters
    ----------
    path
        The znode, or the folder.
    children
        Whether `path` is a folder whose children are watched.
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
        """Set all watches: at the start, and after each reconnection, which drops them."""
        with self._lock:
            self._armed.clear()
        self._arm_root()
        self._call()

    def cancel(self) -> None:
        """End the watch; watches still set at the server end with their next event."""
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
            # The folder will be created with its first record.
            looking = self._client.exists_async(self._path, watch=self._root_changed)
            looking.rawlink(self._folder_looked_for)
            self._call()
            return
        if error is not None:
            return  # The connection broke; the reconnection sets all watches.
        with self._lock:
            new = set(reading.get()) - self._armed
            self._armed |= new
        for name in sorted(new):
            self._arm_child(f"{self._path}/{name}")
        if new:
            self._call()

    def _folder_looked_for(self, looking: AsyncResult[ZnodeStat | None]) -> None:
        """Read the children after all if the folder was created in the meantime: the watch just set
        tells of its creation, and of nothing that happens in it."""
        if not self.cancelled and looking.exception is None and looking.get() is not None:
            self._arm_root()

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
            # A child of that name may exist again, and the other thread may have processed a
            # reading with it before this event: read the names once more.
            self._arm_root()
        else:
            self._arm_child(event.path)
        self._call()

    def _call(self) -> None:
        if not self.cancelled:
            self._callback()
