"""An ephemeral record that its owner keeps up to date across sessions and restarts."""

from __future__ import annotations

from contextlib import suppress
from typing import Generic, TypeVar

from orchestrator.records import Record
from orchestrator.store.protocol import (
    Key,
    Precondition,
    PreconditionFailed,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    Store,
    StoreUnavailable,
    VersionConflict,
)

R = TypeVar("R", bound=Record)


class EphemeralRecord(Generic[R]):
    """The ephemeral record by which a process shows that it is alive.

    The record of an earlier incarnation of the owner would disappear with that incarnation's
    session. It is therefore superseded: deleted under its version, then created in this session.

    A connection may break after the store has written a record and before it has said so. The
    version is another one then, and nobody else has written: a record that is what was to be
    written is this owner's.

    Parameters
    ----------
    store
        The record lasts as long as this store's session; the first `publish` of the next session
        creates it again.
    key
        Key of the record.
    precondition
        Condition of every write and deletion: the owner's claim to the record, if a successor may
        take its place while it is paused.
    """

    def __init__(self, store: Store, key: Key[R], precondition: Precondition | None = None) -> None:
        self._store = store
        self._key = key
        self._precondition = precondition
        self._session = 0
        self._version: int | None = None
        self._unanswered: list[R] = []

    def publish(self, record: R) -> None:
        """Make the store hold this record.

        Raises
        ------
        PreconditionFailed
            The owner has a successor.
        VersionConflict, RecordExists
            Another process claims to be the owner and has superseded this record.
        StoreUnavailable
            Try again when the session is `CONNECTED`.
        """
        session = self._store.session
        if session == self._session and self._version is not None:
            try:
                self._version = self._update(record, self._version)
                return
            except RecordMissing:
                self._version = None
        try:
            version = self._create(record)
        except RecordExists:
            self._clear()
            version = self._create(record)
        self._session, self._version = session, version

    def withdraw(self) -> None:
        """Delete the record, if this session created it and its owner has no successor."""
        if self._version is not None and self._store.session == self._session:
            with suppress(RecordMissing, PreconditionFailed):
                self._store.delete(self._key, self._version, precondition=self._precondition)
        self._version = None

    def _clear(self) -> None:
        """Delete the record of an earlier incarnation."""
        try:
            left = self._store.get(self._key)
            version = None if left is None else left.version
        except RecordInvalid as broken:
            version = broken.version
        if version is not None:
            with suppress(RecordMissing):
                self._store.delete(self._key, version, precondition=self._precondition)

    def _create(self, record: R) -> int:
        return self._store.create(
            self._key, record, ephemeral=True, precondition=self._precondition
        )

    def _update(self, record: R, version: int) -> int:
        try:
            version = self._try_update(record, version)
        except VersionConflict:
            if (version_now := self._own_version()) is None:
                raise
            version = self._try_update(record, version_now)
        self._unanswered.clear()
        return version

    def _try_update(self, record: R, version: int) -> int:
        try:
            return self._store.update(self._key, record, version, precondition=self._precondition)
        except StoreUnavailable:
            self._unanswered.append(record)
            raise

    def _own_version(self) -> int | None:
        """The version of a write that was not answered, if it was done and is the last one."""
        found = self._store.get(self._key) if self._unanswered else None
        return None if found is None or found.record not in self._unanswered else found.version
