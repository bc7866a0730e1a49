"""Exchanges a host's records with the store, on a thread of its own.

The data plane never waits for the store. A host writes its record (rate-limited), its takeovers and
the secondaries that its primaries have lost, and reads the assignment for its incarnation. While
the session is SUSPENDED or LOST nothing is exchanged, and the host goes on with the assignment it
has. Afterwards the newest record and everything not recorded yet are written.

A part of the exchange that fails is tried again at the next one, and keeps no other part from being
done. Its failure is one of the host's problems until then.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

from ha.roles import ReplicaRole
from orchestrator.host.core.events import (
    AssignmentReceived,
    Event,
    RecordLoss,
    RecordTakeover,
)
from orchestrator.host.shell.fragment_changes import FragmentChange, revised
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.records import Assignment, FragmentRecord, NodeRecord, ReplicaId
from orchestrator.records.versions import FIRST
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    NODES,
    PreconditionFailed,
    RecordExists,
    RecordInvalid,
    Store,
    StoreError,
    StoreUnavailable,
    VersionConflict,
    fragment_key,
)

RETRY_S = 0.2
"""Time between two attempts while the store is unavailable, and after a first failure."""

LONGEST_RETRY_S = 5.0
"""Each failure that follows another one doubles the time until the next attempt, up to this."""

CONFLICTS = 8
"""Attempts to write a change under the version just read, before the next exchange tries again."""

STOP_TIMEOUT_S = 5.0
"""Time for a last exchange. The record disappears with the session in any case."""

LOOK_S = 2.0
"""The assignment is read this often even if no watch has fired."""

_log = logging.getLogger("vivace.host")


class StoreLink:
    """Keeps a host's record, takeovers and assignment in step with the store.

    It neither waits nor starts a thread: `StoreThread` or the simulator calls `exchange`.

    Parameters
    ----------
    store
        An open store.
    claimed
        The host's name, and the incarnation by which records refer to its replicas.

    Attributes
    ----------
    events
        Events from the store, which the host's loop takes.
    nudge
        Called when there is something new to write.
    superseded
        True when another process has claimed the host's name, so that this one must end.
    problems
        Part of the exchange that does not succeed at present → why.
    counters
        Failures counted so far, for the host's record.
    bug
        The last unforeseen error. The simulated world raises it, the real one goes on.
    """

    def __init__(self, store: Store, claimed: Claimed) -> None:
        self.events: deque[Event] = deque()
        self.superseded = False
        self.nudge: Callable[[], None] = lambda: None
        self.store = store
        self.replica_of = claimed.replica_of
        self.problems: dict[str, str] = {}
        self.counters: Counter[str] = Counter()
        self.bug: Exception | None = None
        key = NODES.key(claimed.replica_of.node)
        self._record = EphemeralRecord(store, key, claimed.precondition)
        self._newest: NodeRecord | None = None
        self._published: NodeRecord | None = None
        self._session = 0
        self._changes: deque[FragmentChange] = deque()
        self._pending: list[FragmentChange] = []
        self._precondition = claimed.precondition
        self._assignment: Assignment | None = None
        self._assigned_too_early = False
        self._failed = 0

    def publish(self, record: NodeRecord) -> None:
        """Have this record written at the next exchange, instead of any older one."""
        self._newest = record
        self.nudge()

    def record(self, event: RecordTakeover | RecordLoss) -> None:
        """Have a takeover by this host's replica, or the loss of its secondary, recorded."""
        peer = event.previous if isinstance(event, RecordTakeover) else event.lost
        peers = () if self._assignment is None else self._assignment.peers
        known = {each.node: each.incarnation for each in peers}
        lost = ReplicaId(node=peer, incarnation=known.get(peer, ""))
        self._changes.append(FragmentChange(event=event, by=self.replica_of, lost=lost))
        self.nudge()

    def exchange(self) -> None:
        """Write the newest record and all changes of fragments, and read the assignment.

        Raises
        ------
        StoreUnavailable
            Call again.
        """
        self._attempt("record", self._publish)
        if not self.superseded:
            self._write_changes()
        if not self.superseded:
            self._attempt("assignment", self._read_assignment)
        self._failed = self._failed + 1 if self.problems else 0

    @property
    def is_published(self) -> bool:
        """Whether a record of the host has been written in the present session."""
        return self._published is not None and self._session == self.store.session

    @property
    def may_end(self) -> bool:
        """Whether the leader has told that nothing here can still go elsewhere."""
        return self._assignment is not None and self._assignment.may_end

    @property
    def _records(self) -> int:
        """The newest records that every process reads, as far as the host was told."""
        return FIRST.records if self._assignment is None else self._assignment.records

    @property
    def retry_s(self) -> float:
        """Time until the next exchange, because part of this one has to be done again; else 0."""
        if not self._failed:
            return RETRY_S if self._assigned_too_early else 0.0
        return min(RETRY_S * 2 ** min(self._failed - 1, 10), LONGEST_RETRY_S)

    def withdraw(self) -> None:
        """Delete the host's record, unless a successor has claimed its name."""
        self._record.withdraw()

    def _attempt(self, part: str, act: Callable[[], None]) -> bool:
        """Do one part of an exchange; False if it has to be done again."""
        try:
            act()
        except StoreUnavailable:
            raise
        except PreconditionFailed:
            self.superseded = True
        except StoreError as error:
            self.problems[part] = f"{part} cannot be exchanged with the store: {error}"
            return False
        except Exception as error:  # noqa: BLE001
            # A bug, or an error of the store's client that nobody has met so far.
            _log.exception("%s cannot be exchanged with the store", part)
            self.counters["internal_errors"] += 1
            self.bug = error
            self.problems[part] = f"{part} cannot be exchanged with the store: {error!r}"
            return False
        self.problems.pop(part, None)
        return True

    def _publish(self) -> None:
        newest, session = self._newest, self.store.session
        if newest is None:
            return
        newest = newest.as_read_by(self._records)
        if newest == self._published and session == self._session:
            return
        try:
            self._record.publish(newest)
        except (VersionConflict, RecordExists):
            self.superseded = True
            return
        self._published, self._session = newest, session

    def _write_changes(self) -> None:
        # The host's loop appends meanwhile.
        while self._changes:
            self._pending.append(self._changes.popleft())
        waiting: list[FragmentChange] = []
        for change in self._pending:
            part = f"{change.event.query}.{change.event.fragment}"
            # Changes of one fragment keep their order.
            first = all(change.event.fragment != other.event.fragment for other in waiting)
            if not first or not self._attempt(part, lambda each=change: self._write(each)):
                waiting.append(change)
        self._pending = waiting

    def _write(self, change: FragmentChange) -> None:
        """Record a change under the version of the record that it was worked into."""
        key = fragment_key(change.event.query, change.event.fragment)
        change = replace(change, report=self._report(change.lost.node))
        for _ in range(CONFLICTS):
            found = self.store.get(key)
            if found is None:
                return
            record = found.record
            after = revised(record, change, lambda r=record: self._has_yielded(r, change))
            if not isinstance(after, FragmentRecord):
                if after is not None:
                    self.events.append(after)
                return
            with contextlib.suppress(VersionConflict):
                self.store.update(key, after, found.version, precondition=self._precondition)
                return
        raise VersionConflict(key.path, f"was changed by others {CONFLICTS} times in a row")

    def _report(self, node: str) -> tuple[int, int] | None:
        """A host's report that stands in the store."""
        try:
            found = self.store.get(NODES.key(node)) if node else None
        except RecordInvalid:
            return None
        return None if found is None else found.report

    def _has_yielded(self, record: FragmentRecord, change: FragmentChange) -> bool:
        """Whether the primary that the record names no longer acts as one, or never will."""
        try:
            found = self.store.get(NODES.key(record.primary.node))
        except RecordInvalid:
            return False
        if found is None or found.record.incarnation != record.primary.incarnation:
            return True
        status = found.record.replicas.get(record.fragment)
        if status is None:
            return True
        return status.role is not ReplicaRole.PRIMARY and status.epoch >= change.event.epoch

    def _read_assignment(self) -> None:
        found = self.store.get(ASSIGNMENTS.key(self.replica_of.node))
        if found is None or found.record.incarnation != self.replica_of.incarnation:
            return
        self._assigned_too_early = self._precedes_a_takeover(found.record)
        if found.record != self._assignment and not self._assigned_too_early:
            self._assignment = found.record
            self.events.append(AssignmentReceived(assignment=found.record))

    def _precedes_a_takeover(self, assignment: Assignment) -> bool:
        """Whether an assignment was made without knowledge of a takeover here.

        The leader may have given this host's replica up before its takeover was recorded. Its peer
        replica has stepped down by then, so the fragment would have no primary. The host goes on
        with the assignment that it has until the store has accepted or refused the takeover.
        """
        if self._assignment is None or self._newest is None:
            return False
        listed = {each.fragment for each in assignment.fragments}
        for each in self._assignment.fragments:
            status = self._newest.replicas.get(each.fragment)
            if each.fragment in listed or status is None or status.role is not ReplicaRole.PRIMARY:
                continue
            found = self.store.get(fragment_key(each.query, each.fragment))
            if found is None or found.record.generation != each.generation:
                continue
            runs_here = found.record.primary == self.replica_of and found.record.stopped is None
            if found.record.epoch < status.epoch or runs_here:
                return True
        return False


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
            try:
                self._link.exchange()
                pause_s = self._link.retry_s or LOOK_S
            except StoreUnavailable:
                pause_s = RETRY_S
            except Exception:  # noqa: BLE001  A thread that ended would take the host's eyes.
                _log.exception("the exchange with the store has failed")
                pause_s = LONGEST_RETRY_S
            if self._link.events or self._link.superseded:
                self._wake()
            self._something.wait(pause_s)
            self._something.clear()
        with contextlib.suppress(StoreError):
            # If the session is gone, so is the record.
            self._link.withdraw()
