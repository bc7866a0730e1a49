"""A process's side of the strikes of drills: it reads what is asked of it, and does it to itself.

A record `/strikes/<process>` (`StrikeRecord`) is obeyed by the life of the process that it names,
if it is not too late, and once: the process writes into it, under the version that it has read,
when it will fail, and fails then. A process that was started afterwards finds that written, or its
own life not named.

The store only tells it to begin. The end of a fault that lasts needs neither the store nor the
drill; a record that is deleted earlier ends it earlier where that is possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from orchestrator.records import LONGEST_STRIKE_US, StrikeKind, StrikeRecord
from orchestrator.store.protocol import (
    STRIKES,
    RecordInvalid,
    RecordMissing,
    Store,
    VersionConflict,
    Versioned,
)

LEAD_US = 150_000
"""By how much the moment at which a process says that it will fail lies ahead: the store takes as
long to write that down, and what is measured from the moment on must not contain it."""


class StrikeVoid(Exception):
    """A strike must not be carried out after all: it is too late, or was withdrawn."""


class Strikable(Protocol):
    """A process that can fail on purpose."""

    @property
    def kinds(self) -> frozenset[StrikeKind]:
        """The ways in which it can."""
        ...

    def strike(
        self, asked: StrikeRecord, begin: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        """Fail as asked; may return before that is over.

        Parameters
        ----------
        begin
            To be called when everything is prepared. Raises `StrikeVoid`.
        failed
            To be told why it could not.
        """
        ...

    def relent(self) -> None:
        """End the fault that lasts, if there is one."""
        ...


class StrikeLink:
    """Has a process do what the store asks of it.

    Parameters
    ----------
    name
        The last part of the record's path.
    life
        The present life that is addressed by that name; None if there is none.
    now_us
        The cluster's clock.
    lead_us
        See `LEAD_US`.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        life: Callable[[], str | None],
        now_us: Callable[[], int],
        struck: Strikable,
        lead_us: int = LEAD_US,
    ) -> None:
        self._store = store
        self._key = STRIKES.key(name)
        self._life = life
        self._now_us = now_us
        self._struck = struck
        self._lead_us = lead_us
        self._obeys: int | None = None
        """The record that is obeyed at present, by when it was created."""

    def look(self) -> None:
        """Obey the record, if there is a new one.

        Raises
        ------
        StoreError
            Call again.
        """
        try:
            found = self._store.get(self._key)
        except RecordInvalid:
            found = None
        if self._obeys is not None and (found is None or found.created != self._obeys):
            self._obeys = None
            self._struck.relent()
        if found is None or not self._is_asked(found.record):
            return
        self._obeys = found.created
        self._struck.strike(
            found.record, lambda: self._begin(found), lambda why: self._fail(found, why)
        )

    def _is_asked(self, asked: StrikeRecord) -> bool:
        return (
            asked.kind in self._struck.kinds
            and asked.struck_us is None
            and asked.problem is None
            and 0 <= asked.take_by_us - self._now_us() <= LONGEST_STRIKE_US
            and asked.life == self._life()
        )

    def _begin(self, found: Versioned[StrikeRecord]) -> None:
        """Write down that it fails now, and wait until that moment."""
        at_us = self._now_us() + self._lead_us
        if at_us > found.record.take_by_us:
            raise StrikeVoid("it is too late")
        asked = msgspec.structs.replace(found.record, struck_us=at_us)
        try:
            self._store.update(self._key, asked, found.version)
        except (RecordMissing, VersionConflict) as error:
            raise StrikeVoid("it was withdrawn") from error
        if (wait_us := at_us - self._now_us()) > 0:
            time.sleep(wait_us / 1e6)

    def _fail(self, found: Versioned[StrikeRecord], why: str) -> None:
        """Write down why it could not."""
        now = self._store.get(self._key)
        if now is not None and now.created == found.created:
            asked = msgspec.structs.replace(now.record, problem=why)
            self._store.update(self._key, asked, now.version)
