"""Reading the store again and again, without reading what has not changed.

A leader reads everything several times a second. Most records change rarely, and the store tells
when they do: such a folder is read again only after its watch has fired, after writes and conflicts
of the leader itself, and every few seconds in any case. A record read from here may be out of date
by the time that a watch takes. That is no new risk: whatever is read may change before it is used,
and every write names the version that it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from orchestrator.records import Record
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    AUTOMATION,
    CANDIDATES,
    CHECKPOINTS,
    CORDONS,
    FRAGMENTS,
    LINKS,
    MAINTENANCE,
    MOVES,
    PAUSES,
    PROPOSAL,
    PROPOSALS,
    QUERIES,
    REQUESTS,
    RUNNING_QUERIES,
    RUNNING_STREAMS,
    SAVEPOINTS,
    SERVICES,
    STREAMS,
    STRIKES,
    TURNS,
    WEBS,
    Key,
    Listing,
    RecordFolder,
    Store,
    Versioned,
)

R = TypeVar("R", bound=Record)

Where = RecordFolder[Any] | Key[Any]


RARELY_CHANGING = (
    FRAGMENTS,
    CHECKPOINTS,
    SAVEPOINTS,
    ASSIGNMENTS,
    QUERIES,
    RUNNING_QUERIES,
    REQUESTS,
    PROPOSALS,
    STREAMS,
    RUNNING_STREAMS,
    PAUSES,
    CORDONS,
    MOVES,
    LINKS,
    STRIKES,
    SERVICES,
    TURNS,
    MAINTENANCE,
    AUTOMATION,
    PROPOSAL,
    CANDIDATES,
    WEBS,
)
"""Folders and records worth keeping. Nodes report several times a second."""


class RecordReader(Protocol):
    """The part of a store that a view of the cluster is read from."""

    def get(self, key: Key[R]) -> Versioned[R] | None:
        """Read a record; None if there is none. Raises `RecordInvalid`."""
        ...

    def list(self, folder: RecordFolder[R]) -> Listing[R]:
        """Read a folder."""
        ...


class ReadCache:
    """A reader that keeps folders until they change.

    Parameters
    ----------
    store
        The store that is read.
    kept
        Folders and records to keep; any other one is read each time.
    urgent
        Those of them whose changes are told to `on_change`, on the store's thread.
    on_change
        Sets a flag.
    """

    def __init__(
        self,
        store: Store,
        kept: Sequence[Where],
        urgent: Sequence[Where] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._kept = {folder.path for folder in kept}
        self._listings: dict[str, Listing[Any]] = {}
        self._records: dict[str, Versioned[Any] | None] = {}
        self._changed: set[str] = set()
        self._watches = [
            store.watch(folder, self._watcher(folder, on_change if folder in urgent else None))
            for folder in kept
        ]

    def get(self, key: Key[R]) -> Versioned[R] | None:
        """Read a record, if it may have changed."""
        path = key.path
        if path in self._changed:
            self._changed.discard(path)
            self._records.pop(path, None)
        if path in self._records:
            return self._records[path]
        found = self._store.get(key)
        if path in self._kept:
            self._records[path] = found
        return found

    def list(self, folder: RecordFolder[R]) -> Listing[R]:
        """Read a folder, if it may have changed."""
        path = folder.path
        if path in self._changed:
            self._changed.discard(path)
            self._listings.pop(path, None)
            if path == QUERIES.path:
                # A client writes a plan before its query. Whoever has read the query must find it,
                # even if the watch of the plans is late.
                self._listings.pop(PROPOSALS.path, None)
        if (known := self._listings.get(path)) is not None:
            return known
        listing = self._store.list(folder)
        if path in self._kept:
            self._listings[path] = listing
        return listing

    def clear(self) -> None:
        """Read everything anew the next time."""
        self._listings.clear()
        self._records.clear()

    def close(self) -> None:
        """End the watches; nothing may be read afterwards."""
        for watch in self._watches:
            watch.cancel()

    def _watcher(self, folder: Where, on_change: Callable[[], None] | None) -> Callable[[], None]:
        def changed() -> None:
            self._changed.add(folder.path)
            if on_change is not None:
                on_change()

        return changed
