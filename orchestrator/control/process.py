"""The coordinator's loop: elect, read, decide, write.

`Coordination` is one step of that on whatever store and clock it is given, for the simulator and
for tests; `Coordinator` is the thread that takes the steps.

The leader is the coordinator whose ephemeral record lies at `/leader` (`Election`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from orchestrator.checkpoints.savepoint import OpenSavepoint, kept_savepoint
from orchestrator.control.answering import KINDS, Responder
from orchestrator.control.checkpoint_sweep import SWEEP_EVERY_S, CheckpointSweep
from orchestrator.control.decide.beginning import begin_events
from orchestrator.control.decide.decision import DecisionSettings, Write
from orchestrator.control.decide.occasions import Occasions
from orchestrator.control.decide.proposing import unanswered
from orchestrator.control.decide.since import with_times
from orchestrator.control.decide.writes import decide
from orchestrator.control.host_trials import HostTrials
from orchestrator.control.observe.audit_events import audit_events
from orchestrator.control.observe.clocks import CoordinatorClock
from orchestrator.control.observe.missing_hosts import MissingHosts
from orchestrator.control.observe.read_cache import RARELY_CHANGING, ReadCache
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.publishing import DurationsPublisher, FiguresPublisher, Publications
from orchestrator.control.savepoint_work import SavepointWork
from orchestrator.records.versions import Versions, this_version
from orchestrator.store.protocol import (
    AUTOMATION,
    CANDIDATES,
    CORDONS,
    FRAGMENTS,
    LEADER,
    LINKS,
    MAINTENANCE,
    MOVES,
    PAUSES,
    PROBLEMS,
    PROPOSAL,
    PROPOSALS,
    QUERIES,
    REQUESTS,
    SAVEPOINTS,
    STREAMS,
    TURNS,
    CandidateRecord,
    LeaderRecord,
    ProblemsRecord,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    SessionState,
    Store,
    StoreError,
    StoreUnavailable,
    VersionConflict,
)

INTERVAL_S = 0.2
"""Time between two steps if nobody wakes the coordinator: no tuple waits for a decision."""

RESTS = 9
"""So many times as long as a step takes, the next one waits: with many queries on few processors,
deciding may not take the time of those that evaluate. After a change by people or hosts it waits
only as long as the step took: a failure makes changes by the dozen, and those that come meanwhile
are decided together."""

LONGEST_REST_S = 1.0
"""Hosts report their figures as often."""

READ_WHOLE_US = 5_000_000
"""Everything is read at least this often, whatever the watches have told."""

LEAP_US = 60_000_000
"""By which the cluster's clock leaps, as a coordinator sees it: reports of hosts, by which one on
another machine goes, come less late than that, also to one that was stopped."""

LONGEST_RETRY_S = 5.0
"""Steps in a row that meet a bug are this far apart at most."""

SAVEPOINTS_EVERY_S = 0.5
"""How often it is looked whether there is something to do for a savepoint."""

_log = logging.getLogger(__name__)


class Election:
    """One candidate's part in electing a leader.

    A candidate that finds the record of another one waits until a watch tells of a change.
    Leadership goes with the session: in SUSPENDED the record may still be there, but another
    candidate may have taken its place, so the leader publishes nothing; after LOST it no longer
    leads and stands for election anew. Two leaders that overlap for a moment cannot undo each
    other's work, since every write names a version.

    Parameters
    ----------
    store
        Its own session.
    candidate
        A name that no other process has or will have.
    wake
        Called on the store's thread when the leader may have changed.
    """

    def __init__(
        self, store: Store, candidate: str, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._candidate = candidate
        self._elected_in = 0
        self._wake = wake
        self._may_be_vacant = True
        self._tried_us = 0
        store.watch(LEADER, self._changed)

    @property
    def leads(self) -> bool:
        """Whether this candidate may publish now."""
        return (
            self._store.state is SessionState.CONNECTED
            and self._elected_in != 0
            and self._elected_in == self._store.session
        )

    def stand(self, now_us: int) -> bool:
        """Become leader if nobody is; returns `leads`.

        The store is asked if the watch has fired, and at least every `READ_WHOLE_US`.

        Raises
        ------
        StoreUnavailable
            The session is not `CONNECTED`.
        """
        if self.leads:
            return True
        if not self._may_be_vacant and 0 <= now_us - self._tried_us < READ_WHOLE_US:
            return False
        self._tried_us = now_us
        # The watch may fire at any time, also between the attempt and its answer.
        self._may_be_vacant = False
        try:
            self._attempt()
        except StoreError:
            self._may_be_vacant = True
            raise
        return self.leads

    def _attempt(self) -> None:
        session = self._store.session
        record = LeaderRecord(candidate=self._candidate)
        try:
            self._store.create(LEADER, record, ephemeral=True)
        except RecordExists:
            self._clear_former_self()
        else:
            self._elected_in = session

    def _changed(self) -> None:
        self._may_be_vacant = True
        self._wake()

    def resign(self) -> None:
        """Let another candidate lead."""
        if self.leads:
            with suppress(RecordMissing, VersionConflict):
                self._store.delete(LEADER, 0)
        self._elected_in = 0

    def _clear_former_self(self) -> None:
        """Delete a record that an earlier session of this candidate left, or that is broken."""
        version = None
        try:
            found = self._store.get(LEADER)
            if found is not None and found.record.candidate == self._candidate:
                version = found.version
        except RecordInvalid as broken:
            version = broken.version
        if version is not None:
            with suppress(RecordMissing, VersionConflict):
                self._store.delete(LEADER, version)


class Coordination:
    """The steps of one candidate.

    Parameters
    ----------
    store
        Its own session: leadership goes with it.
    candidate
        A name that no other process has or will have.
    wake
        Called on the store's thread when a step should not wait.
    clock
        The cluster's; None: the times that steps are given are the cluster's.
    trials
        Has statements tried; None: nothing is tried.
    on_request
        Called when there are requests: has `respond` called for each of the `responders`, beside
        the steps. None: they are answered within a step.
    versions
        What the candidate understands; None: this version.
    open_savepoint
        Opens savepoints of the cluster.
    """

    def __init__(
        self,
        store: Store,
        candidate: str,
        settings: DecisionSettings | None = None,
        wake: Callable[[], None] = lambda: None,
        clock: CoordinatorClock | None = None,
        trials: HostTrials | None = None,
        on_request: Callable[[], None] | None = None,
        versions: Versions | None = None,
        open_savepoint: OpenSavepoint = kept_savepoint,
    ) -> None:
        self.election = Election(store, candidate, wake)
        self.responders = tuple(
            Responder(store, trials, self._note_bug, kind=kind, open_savepoint=open_savepoint)
            for kind in KINDS
        )
        self._on_request = on_request or self._respond
        self._clock = clock
        self.problems: tuple[str, ...] = ()
        """Problems that the last decision could not solve."""
        self.internal_errors = 0
        """Bugs met so far; none of them ends the coordinator."""
        self.bug: Exception | None = None
        """The last of them. The simulated world raises it, the real one goes on."""
        self._noting = threading.Lock()
        self._failed_in_a_row = 0
        self._store = store
        self._settings = settings or DecisionSettings()
        self._before: ClusterView | None = None
        self._ahead_us = 0
        self._missing_hosts = MissingHosts()
        self._occasions = Occasions(self._settings.drift)
        # Decisions of people and hosts should not wait for the next step.
        urgent = (
            QUERIES,
            STREAMS,
            FRAGMENTS,
            CORDONS,
            MOVES,
            LINKS,
            REQUESTS,
            SAVEPOINTS,
            PAUSES,
            PROPOSALS,
            TURNS,
            MAINTENANCE,
            AUTOMATION,
            PROPOSAL,
        )
        self._reader = ReadCache(store, RARELY_CHANGING, urgent=urgent, on_change=wake)
        self._read_whole_us = 0
        self._published = Publications(store)
        self._candidacy = CANDIDATES.key(candidate)
        self._candidate = CandidateRecord(versions=versions or this_version())
        self.figures = FiguresPublisher(self._published)
        self._durations = DurationsPublisher(store)

    def run_once(self, now_us: int) -> bool:
        """Take one step; returns whether there is reason to take the next one at once.

        Nothing raises an error: a broken record becomes a problem, a conflict is a reason to read
        again, and without a session nothing is published. A bug is logged, counted and published as
        a problem; the next step tries again.
        """
        try:
            if self._published.held(self._candidacy) is None:
                self._published.put(self._candidacy, self._candidate)
            if not self.election.stand(now_us):
                self._before = None
                self._missing_hosts.await_anew()
                self._occasions.begin_anew()
                return False
            return self._step(now_us)
        except StoreUnavailable:
            return False
        except (VersionConflict, RecordExists, RecordMissing):
            self._reader.clear()
            return True
        except StoreError as error:
            with suppress(StoreError):
                self._note_problems((str(error),))
            return False
        except Exception as error:  # noqa: BLE001  The cluster has no other leader.
            self._note_failures([error])
            with suppress(StoreError):
                self._note_problems((f"the coordinator's step failed, tried again: {error!r}",))
            return False

    @property
    def retry_s(self) -> float:
        """Least time until the next step, because of bugs in the last ones; 0 without."""
        if not self._failed_in_a_row:
            return 0.0
        return min(INTERVAL_S * 2 ** min(self._failed_in_a_row, 10), LONGEST_RETRY_S)

    def _note_failures(self, failures: Sequence[Exception]) -> None:
        """Keep the bugs that a step has met."""
        self._failed_in_a_row = self._failed_in_a_row + 1 if failures else 0
        for error in failures:
            self._note_bug(error)

    def _note_bug(self, error: Exception) -> None:
        """Count a bug, of whichever thread, and log its traceback once in a row."""
        with self._noting:
            self.internal_errors += 1
            if repr(error) != repr(self.bug):
                _log.error("internal error", exc_info=error)
            self.bug = error

    def _step(self, now_us: int) -> bool:
        if not 0 <= now_us - self._read_whole_us < READ_WHOLE_US:
            self._reader.clear()
            self._read_whole_us = now_us
        view = read_view(self._reader)
        if self._clock is not None:
            own_us = now_us
            now_us = self._clock.at(own_us, view.cluster_clocks, view.nodes)
            self._begin_after_leap(now_us - own_us)
        view = self._missing_hosts.restored(view, now_us)
        if view is None:
            return False
        view = with_times(view, self._before, now_us)
        view = self._occasions.noted(view, now_us)
        events = [*begin_events(self._before, view, now_us)]
        if self._before is not None:
            events += audit_events(self._before, view, now_us)
        for event in events:
            self._store.append_history(event)
        self._durations.observe(self._before, view, now_us)
        self._before = view
        figured = self.figures.due(now_us)
        decision = decide(view, now_us, self._settings, figured)
        self._note_failures(decision.failures)
        self._note_problems(self.figures.problems(decision.problems, was_due=figured is not None))
        if decision.writes:
            self._reader.clear()
        for write in decision.writes:
            if not self.election.leads:
                return False
            self._apply(write)
        if decision.figures is not None and self.election.leads:
            self.figures.publish(decision.figures)
        if self.election.leads:
            self._durations.publish(view.queries, now_us)
        if any(unanswered(view)):
            self._on_request()
        return bool(decision.writes)

    def _begin_after_leap(self, ahead_us: int) -> None:
        """Forget since when something has been so, if that was by another clock: the cluster's was
        not known before its first host was there."""
        if abs(ahead_us - self._ahead_us) > LEAP_US:
            self._before = None
            self._missing_hosts.await_anew()
        self._ahead_us = ahead_us

    def respond(self, responder: Responder) -> None:
        """Respond to requests of the last reading. Steps may be taken meanwhile."""
        if (view := self._before) is not None:
            responder.respond(view, lambda: self.election.leads)

    def _respond(self) -> None:
        for responder in self.responders:
            self.respond(responder)

    def _apply(self, write: Write) -> None:
        if write.record is None:
            assert write.version is not None
            self._store.delete(write.key, write.version)
        elif write.version is None:
            self._store.create(write.key, write.record)
        else:
            self._store.update(write.key, write.record, write.version)
        if write.event is not None:
            self._store.append_history(write.event)

    def _note_problems(self, found: tuple[str, ...]) -> None:
        """Log what is new, and publish what there is now."""
        problems = tuple(dict.fromkeys(found))
        for problem in problems:
            if problem not in self.problems:
                _log.warning("%s", problem)
        self.problems = problems
        held = self._published.held(PROBLEMS)
        if problems != (() if held is None else held.problems):
            self._published.put(PROBLEMS, ProblemsRecord(problems=problems))


def rest_s(took_s: float) -> float:
    """How long to wait after a step that took so long, unless somebody wakes the coordinator."""
    return min(max(INTERVAL_S, RESTS * took_s), LONGEST_REST_S)


def least_rest_s(took_s: float) -> float:
    """How long to wait after a step that took so long, even if somebody wakes the coordinator."""
    return min(max(took_s, 0.0), LONGEST_REST_S / 2)


class Coordinator:
    """A candidate that runs in a thread of its own until stopped.

    Parameters
    ----------
    make_store
        Opens the session; the coordinator closes it.
    candidate
        A name that no other process has or will have.
    now_us
        Its own clock.
    clock
        The cluster's; None: they are the same.
    on_turn
        Told before each step, on the coordinator's thread, whether its session is connected.
    """

    def __init__(
        self,
        make_store: Callable[[], Store],
        candidate: str,
        now_us: Callable[[], int],
        settings: DecisionSettings | None = None,
        clock: CoordinatorClock | None = None,
        on_turn: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._make_store = make_store
        self._on_turn = on_turn
        self._asked: list[threading.Event] = []
        self._clock = clock
        self.candidate = candidate
        self._now_us = now_us
        self._settings = settings
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._coordination: Coordination | None = None

    @property
    def leads(self) -> bool:
        """Whether this candidate may publish now."""
        return self._coordination is not None and self._coordination.election.leads

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems that the last decision could not solve."""
        return () if self._coordination is None else self._coordination.problems

    @property
    def broken(self) -> bool:
        """Whether the thread has ended although nobody has stopped it."""
        return self._thread is not None and not self._thread.is_alive()

    def start(self) -> None:
        """Open the session and begin.

        Raises
        ------
        Unreachable
            The store does not answer.
        """
        store = self._make_store()
        self._coordination = Coordination(
            store,
            self.candidate,
            self._settings,
            self._wake.set,
            self._clock,
            HostTrials(store, self._now_us),
            self._wake_responders,
        )
        store.on_state(self._state_changed)
        self._thread = threading.Thread(
            target=self._run, args=(store, self._coordination), name="coordinator", daemon=True
        )
        self._thread.start()
        election = self._coordination.election
        sweep = CheckpointSweep(store, lambda: election.leads, lambda: self._now_us() / 1e6)
        threading.Thread(target=self._sweep, args=(sweep,), name="sweep", daemon=True).start()
        work = SavepointWork(store, lambda: election.leads)
        threading.Thread(target=self._copy, args=(work,), name="savepoints", daemon=True).start()
        for responder in self._coordination.responders:
            asked = threading.Event()
            self._asked.append(asked)
            threading.Thread(
                target=self._answer,
                args=(self._coordination, responder, asked),
                name="proposals",
                daemon=True,
            ).start()

    def _wake_responders(self) -> None:
        for asked in self._asked:
            asked.set()

    def _answer(
        self, coordination: Coordination, responder: Responder, asked: threading.Event
    ) -> None:
        """Answer requests on a thread of its own: planning must not hold up decisions."""
        while not self._stopping.is_set():
            asked.wait()
            asked.clear()
            coordination.respond(responder)

    def _sweep(self, sweep: CheckpointSweep) -> None:
        """Remove checkpoints on a thread of its own: a folder may not respond for long."""
        while not self._stopping.wait(SWEEP_EVERY_S):
            sweep.sweep()

    def _copy(self, work: SavepointWork) -> None:
        """Copy savepoints on a thread of its own, for the same reason."""
        while not self._stopping.wait(SAVEPOINTS_EVERY_S):
            try:
                while work.step() and not self._stopping.is_set():
                    pass
            except Exception:  # noqa: BLE001  The thread goes on with the next round.
                _log.exception("savepoints")

    def stop(self) -> None:
        """Resign and end the session."""
        self._stopping.set()
        self._wake.set()
        self._wake_responders()
        if self._thread is not None:
            self._thread.join()

    def _state_changed(self, state: SessionState) -> None:
        self._wake.set()

    def _run(self, store: Store, coordination: Coordination) -> None:
        took_s = 0.0
        try:
            while not self._stopping.is_set():
                least_s = least_rest_s(took_s)
                self._stopping.wait(max(coordination.retry_s, least_s))
                self._wake.wait(rest_s(took_s) - least_s)
                self._wake.clear()
                self._on_turn(store.state is SessionState.CONNECTED)
                began_us = self._now_us()
                if coordination.run_once(began_us):
                    self._wake.set()
                took_s = (self._now_us() - began_us) / 1e6
        finally:
            # Without a session the record goes anyway.
            with suppress(StoreUnavailable):
                coordination.election.resign()
            store.close()
