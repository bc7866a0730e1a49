"""Exchanges a host's records with the store, on a thread of its own.

The data plane never waits for the store. A host writes its record (rate-limited) and its takeovers,
and reads the assignment for its incarnation. While the session is SUSPENDED or LOST nothing is
exchanged, and the host goes on with the assignment it has. Afterwards the newest record and every
takeover not recorded yet are written.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

import msgspec

from orchestrator.host.events import (
    AssignmentReceived,
    EpochSuperseded,
    Event,
    RecordTakeover,
    ReplicaReplaced,
)
from orchestrator.records import Assignment, NodeRecord, ReplicaId, TakeOver
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    NODES,
    RecordExists,
    Store,
    StoreError,
    VersionConflict,
    fragment_key,
)

RETRY_S = 0.2
"""Time between two attempts while the store is unavailable."""

STOP_TIMEOUT_S = 5.0
"""Time for a last exchange. The record disappears with the session in any case."""

LOOK_S = 2.0
"""The assignment is read this often even if no watch has fired."""


class StoreLink:
    """Keeps a host's record, takeovers and assignment in step with the store.

    It neither waits nor starts a thread: `StoreThread` or the simulator calls `exchange`.

    Parameters
    ----------
    store
        An open store.
    replica_of
        The host's name and incarnation, by which records refer to its replicas.

    Attributes
    ----------
    events
        Events from the store, which the host's loop takes.
    nudge
        Called when there is something new to write.
    superseded
        True when another process has taken over the host's name, so that this one must end.
    """

    def __init__(self, store: Store, replica_of: ReplicaId) -> None:
        self.events: deque[Event] = deque()
        self.superseded = False
        self.nudge: Callable[[], None] = lambda: None
        self.store = store
        self.replica_of = replica_of
        self._record = EphemeralRecord(store, NODES.key(replica_of.node))
        self._newest: NodeRecord | None = None
        self._published: NodeRecord | None = None
        self._session = 0
        self._takeovers: deque[RecordTakeover] = deque()
        self._assignment: Assignment | None = None

    def publish(self, record: NodeRecord) -> None:
        """Have this record written at the next exchange, instead of any older one."""
        self._newest = record
        self.nudge()

    def record_takeover(self, takeover: RecordTakeover) -> None:
        """Have a takeover by this host's replica recorded."""
        self._takeovers.append(takeover)
        self.nudge()

    def exchange(self) -> None:
        """Write the newest record and all takeovers, and read the assignment.

        Raises
        ------
        StoreError
            The store is unavailable, or another client wrote first: call again.
        """
        newest, session = self._newest, self.store.session
        if newest is not None and (newest != self._published or session != self._session):
            if session == self._session and self._name_is_taken():
                self.superseded = True
                return
            try:
                self._record.publish(newest)
            except (VersionConflict, RecordExists):
                self.superseded = True
                return
            self._published, self._session = newest, session
        while self._takeovers:
            self._write(self._takeovers[0])
            self._takeovers.popleft()
        self._read_assignment()

    def withdraw(self) -> None:
        """Delete the host's record."""
        self._record.withdraw()

    def _name_is_taken(self) -> bool:
        # Versions are not enough: they start at 0 again in a record that another process has
        # created in place of this one's.
        found = self.store.get(NODES.key(self.replica_of.node))
        return found is not None and found.record.incarnation != self.replica_of.incarnation

    def _write(self, takeover: RecordTakeover) -> None:
        """Record a takeover under the fragment's version.

        Nothing is written if a newer takeover is recorded already, or if the store does not list
        this host's replica: a host that was out of reach may have been replaced meanwhile.
        """
        key = fragment_key(takeover.query, takeover.fragment)
        found = self.store.get(key)
        if found is None:
            return
        record = found.record
        if record.epoch >= takeover.epoch:
            if record.primary != self.replica_of:
                self.events.append(EpochSuperseded(fragment=takeover.fragment, epoch=record.epoch))
            return
        if self.replica_of not in (record.primary, record.secondary):
            self.events.append(ReplicaReplaced(fragment=takeover.fragment))
            return
        self.store.update(
            key,
            msgspec.structs.replace(
                record,
                epoch=takeover.epoch,
                primary=self.replica_of,
                secondary=None,
                took_over=TakeOver(
                    previous=record.primary,
                    cause=takeover.cause,
                    detected_at_us=takeover.detected_at_us,
                ),
            ),
            found.version,
        )

    def _read_assignment(self) -> None:
        found = self.store.get(ASSIGNMENTS.key(self.replica_of.node))
        if found is None or found.record.incarnation != self.replica_of.incarnation:
            return
        if found.record != self._assignment:
            self._assignment = found.record
            self.events.append(AssignmentReceived(assignment=found.record))


class StoreThread:
    """Runs a `StoreLink` in the real world.

    Parameters
    ----------
    wake
        Called from the thread when there are events for the host's loop.
    """

    def __init__(self, link: StoreLink, wake: Callable[[], None]) -> None:
        self._link = link
        self._wake = wake
        self._something = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store-link", daemon=True)

    def start(self) -> None:
        """Start exchanging, and watch the host's assignment."""
        store = self._link.store
        store.watch(ASSIGNMENTS.key(self._link.replica_of.node), self._something.set)
        store.on_state(lambda _: self._something.set())
        self._link.nudge = self._something.set
        self._thread.start()

    def stop(self) -> None:
        """Delete the host's record and end the thread."""
        self._stopping = True
        self._something.set()
        self._thread.join(timeout=STOP_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping and not self._link.superseded:
            pause_s = LOOK_S
            try:
                self._link.exchange()
            except StoreError:
                pause_s = RETRY_S
            if self._link.events or self._link.superseded:
                self._wake()
            self._something.wait(pause_s)
            self._something.clear()
        with contextlib.suppress(StoreError):
            # If the session is gone, so is the record.
            self._link.withdraw()
