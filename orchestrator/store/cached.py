"""A store whose reads are served from memory, for many clients of one process.

Whoever reads gets what was read last, unless the store has told of a change since: then the record,
or the folder that it is in, is read again, at most five times a second. Writes pass through, and
what this process has written is read anew. So a conflict of versions is still found, and nobody
misses a write of their own. Nor is anything given that is older than what another folder has told:
whoever sees that a plan was accepted finds its moves, which were written before.

While the store is away reads go on, with what is known; `age_s` says how old that may be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from orchestrator.records import Record
from orchestrator.store import protocol
from orchestrator.store.protocol import (
    CLUSTER,
    HISTORY,
    Condition,
    Key,
    RecordFolder,
    RecordMissing,
    SessionState,
    Store,
    StoreUnavailable,
    Watch,
)

R = TypeVar("R", bound=Record)
T = TypeVar("T")

PARTS: dict[str, Key[Record] | RecordFolder[Record]] = {
    each.path: each for each in vars(protocol).values() if isinstance(each, (Key, RecordFolder))
}
"""All that a store has: the records at the top, and the folders."""

PAUSE_S = 0.2
"""Between two readings of one folder."""

ATTEND_S = 1.0
"""How often what has changed is read although nobody asks: so old is what is known, at most, when
the store goes away."""

_Row = tuple[bytes, int, int]
"""Data, version, and number of the creation, as a store reads them."""


@dataclass(slots=True)
class _Part:
    """A record at the top, or a folder: what is known of it."""

    path: str
    rows: dict[str, _Row] | None = None
    """Name → record; that of a record at the top is empty. None: never read."""
    changes: list[int] = field(default_factory=list[int])
    """The numbers of the changes that `rows` do not tell of, as far as this process knows."""
    read_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def tell(self) -> None:
        """Call the listeners."""
        for listener in [*self.listeners]:
            listener()


@dataclass(frozen=True, slots=True)
class _Listening:
    """A subscription to a part's changes."""

    part: _Part
    callback: Callable[[], None]

    def cancel(self) -> None:
        """End it."""
        with suppress(ValueError):
            self.part.listeners.remove(self.callback)


class CachedStore(Store):
    """See the module.

    Parameters
    ----------
    store
        Where it reads and writes; it is closed with this one.
    now_s
        A clock that never goes back.
    """

    def __init__(self, store: Store, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(store._root, store._history_limit)
        self._store = store
        self._now_s = now_s
        self._parts: dict[str, _Part] = {}
        self._adding = threading.Lock()
        # Changes, and readings and writes from which somebody may know of them, by their order.
        self._numbers = count(1)
        self._newest = 0
        self._contact_s: float | None = None
        self.state, self.session = store.state, store.session
        store.on_state(self._follow)

    @property
    def age_s(self) -> float:
        """How long ago the store has told the last time that what is known is so; ∞: it never has.

        While the store is there, and `attend` is called, this stays near `ATTEND_S`.
        """
        return float("inf") if self._contact_s is None else self._now_s() - self._contact_s

    def attend(self) -> None:
        """Read what has changed lately; called every `ATTEND_S`, by one thread."""
        for path in PARTS:
            part = self._part(path)
            if path == CLUSTER.path:
                part.changes.append(next(self._numbers))
            with suppress(StoreUnavailable):
                self._refresh(part)

    def watch(self, where: RecordFolder[R] | Key[R], callback: Callable[[], None]) -> Watch:
        """Call back when a record, or a record in its folder, may have changed."""
        part = self._part(where.path)
        part.listeners.append(callback)
        return _Listening(part, callback)

    def close(self) -> None:
        """End the session; its ephemeral records disappear at once."""
        self._store.close()

    def _follow(self, state: SessionState) -> None:
        self.session = self._store.session
        self._become(state)

    def _path(self, where: Key[R] | RecordFolder[R]) -> str:
        # Reads go on whatever the session's state is; writes ask for it.
        return self._root + where.path

    def _part(self, relative: str) -> _Part:
        """The part of the store that holds a path below the root, and is watched from now on."""
        top, _, _ = relative.partition("/")
        with self._adding:
            if (known := self._parts.get(top)) is not None:
                return known
            part = self._parts[top] = _Part(self._root + top)

        def changed() -> None:
            part.changes.append(next(self._numbers))
            part.tell()

        self._store.watch(PARTS[top], changed)
        return part

    def _rows(self, path: str) -> dict[str, _Row]:
        """What is known of the part that holds a path; read again if it has changed."""
        part = self._part(path.removeprefix(self._root))
        changed = part.changes[:1]
        if part.rows is None or any(each < self._newest for each in changed):
            self._refresh(part)
        elif changed and self._now_s() - part.read_s >= PAUSE_S:
            self._refresh(part, wait=False)
        assert part.rows is not None
        return part.rows

    def _refresh(self, part: _Part, *, wait: bool = True) -> None:
        """Read a part again if it has changed; who need not wait for another reader does not.

        Whoever has looked since the store told of the change may have been given what was known
        before it. So listeners are called once more.
        """
        if not part.lock.acquire(blocking=wait):
            return
        before = part.rows
        try:
            known = len(part.changes)
            if part.rows is not None and not known:
                return
            began_s = self._now_s()
            try:
                self._check(part.path)
                rows = self._read_part(part)
                if rows != before:
                    self._newest = next(self._numbers)
                part.rows = rows
                del part.changes[:known]
                self._contact_s = began_s
            except StoreUnavailable:
                if part.rows is None:
                    raise
            part.read_s = self._now_s()
        finally:
            part.lock.release()
        if part.rows != before:
            part.tell()

    def _read_part(self, part: _Part) -> dict[str, _Row]:
        if isinstance(PARTS[part.path.removeprefix(self._root)], Key):
            with suppress(RecordMissing):
                return {"": self._store._read(part.path)}
            return {}
        if part.path != self._root + HISTORY.path or not part.rows:
            read_all = self._store._read_all(part.path)
            return {name: (data, version, created) for name, data, version, created in read_all}
        # Events are never changed, and there are a thousand.
        rows: dict[str, _Row] = {}
        for name in self._store._names(part.path):
            with suppress(RecordMissing):
                rows[name] = part.rows.get(name) or self._store._read(f"{part.path}/{name}")
        return rows

    def _names(self, folder: str) -> Sequence[str]:
        return sorted(self._rows(folder))

    def _read(self, path: str) -> _Row:
        _, _, name = path.removeprefix(self._root).partition("/")
        found = self._rows(path).get(name)
        if found is None:
            raise RecordMissing(path, "does not exist")
        return found

    def _read_all(self, folder: str) -> Iterator[tuple[str, bytes, int, int]]:
        for name, row in sorted(self._rows(folder).items()):
            yield name, *row

    def _create(
        self,
        path: str,
        data: bytes,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        precondition: Condition | None = None,
    ) -> str:
        with self._writing(path):
            return self._store._create(
                path, data, ephemeral=ephemeral, sequence=sequence, precondition=precondition
            )

    def _write(self, path: str, data: bytes, version: int, precondition: Condition | None) -> int:
        with self._writing(path):
            return self._store._write(path, data, version, precondition)

    def _delete(self, path: str, version: int, precondition: Condition | None) -> None:
        with self._writing(path):
            self._store._delete(path, version, precondition)

    @contextmanager
    def _writing(self, path: str) -> Generator[None]:
        """Have what is written read anew, also if nobody knows whether it was."""
        self._check(path)
        try:
            yield
        finally:
            part = self._part(path.removeprefix(self._root))
            part.changes.append(next(self._numbers))
            self._newest = next(self._numbers)

    def _check(self, path: str) -> None:
        if self._store.state is not SessionState.CONNECTED:
            raise StoreUnavailable(path, f"the session is {self._store.state.value}")
