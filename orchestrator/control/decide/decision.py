"""A decision in the making: the records as they will be, and the writes that make them so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.records import (
    CheckpointsRecord,
    FragmentRecord,
    HistoryEvent,
    Record,
    StoredCheckpoint,
)
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    CHECKPOINTS,
    FRAGMENTS,
    MOVES,
    RUNNING_QUERIES,
    RUNNING_STREAMS,
    Key,
    RecordFolder,
    Versioned,
)

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSettings:
    """How patient the coordinator is.

    Attributes
    ----------
    takeover_grace_us
        How long a primary may be gone before the coordinator stops waiting for its secondary.
        Taking over takes the data plane a fraction of a second; the grace leaves time for a host
        to get a session again after the server was away.
    site_patience_us
        How long a fragment that has lost its state waits for the sites of its outputs to say what
        they have: as long as producers keep output for a sink that is away.
    start_delay_us
        From the decision to start streams until they start: time for every site to hear of it.
    warm_up_us
        How long a secondary may take to get warm before another node is tried: enough for a state
        of hundreds of megabytes. Each secondary in a row that did not get warm doubles it, up to
        `WARM_UP_DOUBLINGS` times.
    avoided_us
        How long a node on which a replica was lost is avoided by the fragment, if there is another.
    rest_us
        If there is no other, how long it rests before it is tried again. Each further loss there
        doubles that.
    longest_rest_us
        A fragment whose input neither replica can evaluate starts over after `takeover_grace_us`.
        Each further failure doubles that time, up to this one. After as long a time without a
        failure, the next one counts as a first.
    most_restarts
        How often in a row it starts over because its input could not be evaluated; then it stays
        stopped. The state is lost with the first time.
    drift, drift_share
        By which share of its planned cost, and by which share of its sub-deadline, a fragment's
        cost must have changed for a new plan to be proposed.
    """

    takeover_grace_us: int = 3_000_000
    site_patience_us: int = 15_000_000
    start_delay_us: int = 1_000_000
    warm_up_us: int = 30_000_000
    avoided_us: int = 300_000_000
    rest_us: int = 1_000_000
    longest_rest_us: int = 300_000_000
    most_restarts: int = 5
    drift: float = 0.5
    drift_share: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One change of the store.

    Attributes
    ----------
    record
        None: delete the record.
    version
        Version it replaces; None: create.
    event
        The event to add to the history once it is written.
    """

    key: Key[Record]
    record: Record | None
    version: int | None
    event: HistoryEvent | None = None


DECIDED = (ASSIGNMENTS, CHECKPOINTS, FRAGMENTS, RUNNING_QUERIES, RUNNING_STREAMS, MOVES)
"""What the leader alone decides. It decides as the oldest version would that runs; what people want
is refused instead (`admission`)."""

_decided = {folder.path for folder in DECIDED}


class PendingDecision:
    """The state that all parts of a decision share.

    Attributes
    ----------
    planning
        The planning problem, with all records as they will be once the writes so far are applied.
    writes, problems
        So far.
    failures
        Bugs that kept something from being decided.
    clocks
        The cluster's clock, as it will be.
    records
        The newest records that every process reads.
    links
        Links that drills disturb, as they will be.
    checkpoints
        Those of fragments of which the list will be another one.
    resumed
        Fragments that go on from checkpoints by this decision.
    considered
        Lost fragments for which checkpoints were looked for.
    unplaced
        Lost fragments that have a checkpoint, and no place yet.
    not_resumed
        Lost fragments that cannot → why.
    """

    def __init__(self, view: ClusterView, now_us: int, settings: DecisionSettings) -> None:
        self.view = view
        self.now_us = now_us
        self.settings = settings
        self.planning = Planning.of(view)
        self.fragments = self.planning.fragments
        self.writes: list[Write] = []
        self.problems = [str(each) for each in (*view.invalid, *view.problems)]
        self.failures: list[Exception] = []
        self.clocks = view.cluster_clocks
        self.records = view.records
        self.checkpoints: dict[str, tuple[StoredCheckpoint, ...]] = {}
        self.resumed: set[str] = set()
        self.considered: set[str] = set()
        self.unplaced: set[str] = set()
        self.not_resumed: dict[str, str] = {}
        self.links = tuple(found.record for found in view.links.values())
        # A plan made later in the same decision may change a fragment that was created or changed
        # earlier in it.
        self._versions = _versions(view, FRAGMENTS, view.fragments)
        self._versions |= _versions(view, CHECKPOINTS, view.checkpoints)
        self._versions |= _versions(view, RUNNING_STREAMS, view.running_streams)

    def attempt(self, subject: str, decide: Callable[[], None]) -> None:
        """Decide about one subject; if a bug prevents that, leave it as it is and go on."""
        planning, made = self.planning, len(self.writes)
        fragments, running = dict(planning.fragments), dict(planning.running)
        streams, versions = dict(planning.streams), dict(self._versions)
        try:
            decide()
        except Exception as error:  # noqa: BLE001  Others must not suffer from it.
            del self.writes[made:]
            planning.fragments, planning.running = fragments, running
            planning.streams, self._versions = streams, versions
            self.fragments = planning.fragments
            self.failures.append(error)
            self.problems.append(f"{subject}: nothing is decided, internal error: {error!r}")

    def event(self, kind: str, subject: str, detail: str) -> HistoryEvent:
        """An event of now."""
        return HistoryEvent(at_us=self.now_us, kind=kind, subject=subject, detail=detail)

    def write(
        self,
        key: Key[Record],
        record: Record | None,
        version: int | None,
        event: HistoryEvent | None = None,
    ) -> None:
        """Add a write, of what every process reads that runs."""
        if record is not None and key.path.partition("/")[0] in _decided:
            record = record.as_read_by(self.records)
        self.writes.append(Write(key=key, record=record, version=version, event=event))

    def put_fragment(self, record: FragmentRecord, event: HistoryEvent | None) -> None:
        """Create or replace the record of a fragment."""
        record = record.as_read_by(self.records)
        self._put(FRAGMENTS.key(record.key), record, event)
        self.planning.note(record)

    def change_fragment(
        self, record: FragmentRecord, kind: str, detail: str, **fields: object
    ) -> None:
        """Write a fragment's record with other values of some fields, and tell the history why."""
        event = self.event(kind, record.key, detail)
        self.put_fragment(msgspec.structs.replace(record, **fields), event)

    def put_checkpoints(self, record: CheckpointsRecord) -> None:
        """Create or replace the list of a fragment's checkpoints."""
        self._put(CHECKPOINTS.key(record.key), record, None)

    def delete_fragment(self, name: str, event: HistoryEvent) -> None:
        """Delete the record of a fragment."""
        self._delete(FRAGMENTS.key(name), event)
        self.planning.discard(name)

    def change_stream(self, name: str, event: HistoryEvent | None, **fields: object) -> None:
        """Write other values of some fields of what has been decided of a stream."""
        stream = self.planning.streams[name]
        running = msgspec.structs.replace(stream.running, **fields)
        self._put(RUNNING_STREAMS.key(name), running, event)
        self.planning.streams[name] = replace(stream, running=running)

    def delete_stream(self, name: str) -> None:
        """Delete what had been decided of a former stream."""
        self._delete(RUNNING_STREAMS.key(name), None)

    def _put(self, key: Key[Record], record: Record, event: HistoryEvent | None) -> None:
        version = self._versions.get(key.path)
        self.write(key, record, version, event)
        self._versions[key.path] = 0 if version is None else version + 1

    def _delete(self, key: Key[Record], event: HistoryEvent | None) -> None:
        self.write(key, None, self._versions.pop(key.path), event)


def _versions(
    view: ClusterView, folder: RecordFolder[R], records: Mapping[str, Versioned[R]]
) -> dict[str, int]:
    """Path → version of a folder's records, those that cannot be read among them."""
    found = {name: each.version for name, each in records.items()}
    found |= {name: error.version for name, error in view.broken(folder).items()}
    return {folder.key(name).path: version for name, version in found.items()}
