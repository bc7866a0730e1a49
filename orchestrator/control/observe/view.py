"""The input of a decision: one reading of the store, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ha.roles import ReplicaRole
from orchestrator.control.observe.dataflow import Dataflow, Fragment, InvalidQuery, sound_dataflow
from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.read_cache import RecordReader
from orchestrator.control.observe.readiness import Incomplete
from orchestrator.control.observe.report_checks import checked_report
from orchestrator.control.observe.running_versions import Running, versions_beside_hosts
from orchestrator.records import (
    Assignment,
    AutomationMode,
    AutomationRecord,
    CheckpointsRecord,
    ClocksRecord,
    ClusterRecord,
    CordonRecord,
    CostStatus,
    DisturbedLink,
    FragmentRecord,
    IssuedRecord,
    MovePlan,
    NodeKind,
    NodeRecord,
    PauseRecord,
    ProposalRecord,
    ProposedMoves,
    QueryRecord,
    Record,
    ReplicaId,
    ReplicaLoad,
    ReplicaStatus,
    RequestRecord,
    RunningQueryRecord,
    RunningStreamRecord,
    SavepointRecord,
    ServicesRecord,
    SlotRecord,
    StreamRecord,
    StrikeRecord,
    TurnRecord,
)
from orchestrator.records.versions import FIRST
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    AUTOMATION,
    CHECKPOINTS,
    CLOCKS,
    CLUSTER,
    CORDONS,
    FRAGMENTS,
    ISSUED,
    LINKS,
    MAINTENANCE,
    MOVES,
    NODES,
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
    Key,
    RecordFolder,
    RecordInvalid,
    Versioned,
)
from streams.evaluate.rejected_count import RejectedCount
from streams.vectors.chunk import type_names

R = TypeVar("R", bound=Record)

SLOT = MAINTENANCE.key("slot")
"""The one record in that folder."""

LEAST_SAMPLES = 100
"""Batches after which a measured cost is used."""


def _nothing() -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedReplica:
    """A replica that has its fragment's state, though the record does not list it.

    Attributes
    ----------
    primary_report
        The primary's last report when this coordinator first noticed; None: there was none.
    """

    replica: ReplicaId
    generation: int
    primary_report: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdSecondary:
    """A secondary that lives, and is not warm or lags.

    Attributes
    ----------
    since_us
        When this coordinator first noticed, or last saw that more of its state had come.
    given_bytes
        The most that it has been sent of its state.
    """

    since_us: int
    given_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Everything in the store, by name, with versions.

    Attributes
    ----------
    streams, running_streams
        What people wrote of the streams that enter from outside, and what has been decided of them.
    fragments
        By `<query>.<fragment>`.
    checkpoints
        The checkpoints of fragments, by the same names.
    requests, proposals
        What clients ask for, and what the leader has answered, by name.
    pauses
        By query.
    cordons
        By node.
    moves
        Plans of moves by name.
    links
        Links that drills disturb, by name.
    strikes
        What drills ask of processes, by their names.
    services
        Loads of processes that are no hosts.
    turns
        Processes that were told to end, by the names of their turns.
    maintenance
        Holds the slot, if somebody has it.
    versions
        Kind, name and version of each process that runs and is no host.
    automation
        What people want of moves that nobody asks for.
    proposed
        Such moves, as the leader proposes them.
    occasions
        Why the leader should look for such moves now, a phrase each (`occasions`).
    invalid
        Records that could not be decoded or contradict themselves.
    issued
        By how much the numbers that the store issues are raised.
    settings_readable, clocks_readable
        Whether the cluster's settings, with `issued`, and its clocks can be read, or are not there
        yet.
    orphaned_since_us
        Fragment whose primary is gone, or has stepped down → when this coordinator first noticed.
    cold
        Fragment → its secondary, if that lives and is not warm or lags.
    unlisted
        Fragment of which no listed replica but the primary has the state → one that is not listed
        and has it.
    unprotected_since_us
        Fragment without a warm secondary → when its replica was lost, as far as that is known.
    saving_since_us
        Savepoint that is being made → since when this coordinator has known of it.
    overloaded
        Nodes and machines that have been busier lately than they may be (`measured_load`).
    incomplete
        What is missing of the manifest's hosts; None: nothing, or nobody has looked yet.
    stands_still
        Whether nothing has run since the cluster was started, or has lost all its nodes.
    begins
        Whether nothing runs yet, and the leader waits for that (`beginning`).
    entering
        The streams that enter from outside, but for those of which something cannot be read.
    dataflow, problems
        The queries that compile, and why the others do not.
    suspects
        The nodes that are `suspected`.
    leaving
        Nodes and sites whose present hosts are about to end → since when. A host that is started
        in the place of such a one does not leave.
    """

    cluster: Versioned[ClusterRecord] | None = None
    nodes: Mapping[str, Versioned[NodeRecord]] = field(default_factory=_nothing)
    streams: Mapping[str, Versioned[StreamRecord]] = field(default_factory=_nothing)
    running_streams: Mapping[str, Versioned[RunningStreamRecord]] = field(default_factory=_nothing)
    queries: Mapping[str, Versioned[QueryRecord]] = field(default_factory=_nothing)
    running_queries: Mapping[str, Versioned[RunningQueryRecord]] = field(default_factory=_nothing)
    fragments: Mapping[str, Versioned[FragmentRecord]] = field(default_factory=_nothing)
    checkpoints: Mapping[str, Versioned[CheckpointsRecord]] = field(default_factory=_nothing)
    requests: Mapping[str, Versioned[RequestRecord]] = field(default_factory=_nothing)
    proposals: Mapping[str, Versioned[ProposalRecord]] = field(default_factory=_nothing)
    assignments: Mapping[str, Versioned[Assignment]] = field(default_factory=_nothing)
    savepoints: Mapping[str, Versioned[SavepointRecord]] = field(default_factory=_nothing)
    pauses: Mapping[str, Versioned[PauseRecord]] = field(default_factory=_nothing)
    cordons: Mapping[str, Versioned[CordonRecord]] = field(default_factory=_nothing)
    moves: Mapping[str, Versioned[MovePlan]] = field(default_factory=_nothing)
    links: Mapping[str, Versioned[DisturbedLink]] = field(default_factory=_nothing)
    strikes: Mapping[str, Versioned[StrikeRecord]] = field(default_factory=_nothing)
    services: Mapping[str, Versioned[ServicesRecord]] = field(default_factory=_nothing)
    turns: Mapping[str, Versioned[TurnRecord]] = field(default_factory=_nothing)
    maintenance: Mapping[str, Versioned[SlotRecord]] = field(default_factory=_nothing)
    invalid: tuple[RecordInvalid, ...] = ()
    clocks: Versioned[ClocksRecord] | None = None
    issued: Versioned[IssuedRecord] | None = None
    versions: tuple[Running, ...] = ()
    automation: AutomationRecord = field(default_factory=AutomationRecord)
    proposed: Versioned[ProposedMoves] | None = None
    occasions: tuple[str, ...] = ()
    settings_readable: bool = True
    clocks_readable: bool = True
    orphaned_since_us: Mapping[str, int] = field(default_factory=_nothing)
    cold: Mapping[str, ColdSecondary] = field(default_factory=_nothing)
    unlisted: Mapping[str, UnlistedReplica] = field(default_factory=_nothing)
    unprotected_since_us: Mapping[str, int] = field(default_factory=_nothing)
    saving_since_us: Mapping[str, int] = field(default_factory=_nothing)
    overloaded: frozenset[str] = frozenset()
    incomplete: Incomplete | None = None
    stands_still: bool = False
    begins: bool = False
    entering: Mapping[str, EnteringStream] = field(init=False)
    dataflow: Dataflow = field(init=False)
    problems: tuple[InvalidQuery, ...] = field(init=False)
    suspects: frozenset[str] = field(init=False)
    leaving: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "suspects", frozenset(self._suspects()))
        object.__setattr__(self, "leaving", self._leaving())
        unreadable = self.broken(RUNNING_STREAMS)
        specs = {n: found.record for n, found in self.streams.items() if n not in unreadable}
        object.__setattr__(self, "entering", self.entering_of(specs))
        # What runs comes first, so that a newcomer cannot take a name from it.
        running = {found.record.query for found in self.fragments.values()}
        queries = sorted(
            self.query_records.items(), key=lambda each: (each[0] not in running, each[0])
        )
        dataflow, problems = sound_dataflow(
            self.stream_records, dict(queries), self.running_records
        )
        object.__setattr__(self, "dataflow", dataflow)
        object.__setattr__(self, "problems", problems)

    def broken(self, folder: RecordFolder[R]) -> dict[str, RecordInvalid]:
        """A folder's records that cannot be used, by name."""
        return {
            error.path.rpartition("/")[2]: error for error in self.invalid if _of(folder, error)
        }

    def check_readable(self, names: Iterable[str]) -> None:
        """Raise `RecordInvalid` if something of a stream or query of these names cannot be read."""
        wanted = set(names)
        for folder in (STREAMS, RUNNING_STREAMS, QUERIES, RUNNING_QUERIES):
            for name, error in self.broken(folder).items():
                if name in wanted:
                    raise error

    @property
    def settings(self) -> ClusterRecord:
        """The cluster's settings; defaults without link delays before it was set up."""
        if self.cluster is not None:
            return self.cluster.record
        return ClusterRecord(name="", delays_ms={})

    @property
    def oldest(self) -> Running | None:
        """Kind, name and version of a process that reads the oldest records; None: nothing runs."""
        nodes = {name: found.record for name, found in self.nodes.items()}
        hosts = [(node.kind.value, name, node.versions) for name, node in nodes.items()]
        return min((*hosts, *self.versions), key=lambda each: each[2].records, default=None)

    @property
    def records(self) -> int:
        """The newest records that every process reads which runs."""
        oldest = self.oldest
        return FIRST.records if oldest is None else oldest[2].records

    @property
    def cluster_clocks(self) -> ClocksRecord:
        """By how much the cluster's clock is ahead of those of its machines, as far as known."""
        return ClocksRecord() if self.clocks is None else self.clocks.record

    def entering_of(self, specs: Mapping[str, StreamRecord]) -> dict[str, EnteringStream]:
        """Streams of the store or of manifests, with what has been decided of them."""
        created = {name: self.number_of(found) for name, found in self.streams.items()}
        running = {name: found.record for name, found in self.running_streams.items()}
        return {
            name: EnteringStream.of(spec, created.get(name, 0), running.get(name))
            for name, spec in specs.items()
        }

    def number_of(self, found: Versioned[Record]) -> int:
        """What the store has issued for the creation of a stream or query: a first generation."""
        if self.issued is None:
            return found.created
        issued = self.issued.record
        return issued.stands_for.get(found.created, found.created + issued.floor)

    def life_of(self, query: str) -> int:
        """What the sinks of a query know it by: it tells apart all queries of its name."""
        running = self.running_queries.get(query)
        life = None if running is None else running.record.life
        return self.number_of(self.queries[query]) if life is None else life

    @property
    def stream_records(self) -> dict[str, StreamRecord]:
        """What people wrote of the streams that enter."""
        return {name: stream.spec for name, stream in self.entering.items()}

    @property
    def unreadable_streams(self) -> set[str]:
        """Streams of which something cannot be read: what runs of them stays as it is."""
        return self.broken(STREAMS).keys() | self.broken(RUNNING_STREAMS).keys()

    @property
    def query_records(self) -> dict[str, QueryRecord]:
        """Queries without versions."""
        return {name: found.record for name, found in self.queries.items()}

    @property
    def running_records(self) -> dict[str, RunningQueryRecord]:
        """How queries run, without versions."""
        return {name: found.record for name, found in self.running_queries.items()}

    def proposed_by(self, query: str) -> str | None:
        """Name of the proposal that places a query and is carried out, as long as it holds."""
        for name, found in self.proposals.items():
            if found.record.placement(query) is not None and not found.record.changed:
                return name
        return None

    def accepted(self, query: str) -> ProposalRecord | None:
        """The proposal that places a query and was accepted, whether it still holds or not."""
        found = (each.record for each in self.proposals.values())
        return next((each for each in found if each.placement(query) is not None), None)

    @property
    def slot(self) -> Versioned[SlotRecord] | None:
        """The process whose turn it is; None: nobody's."""
        return next(iter(self.maintenance.values()), None)

    @property
    def service_records(self) -> list[ServicesRecord]:
        """Loads of processes that are no hosts."""
        return [found.record for found in self.services.values()]

    @property
    def retiring(self) -> set[str]:
        """Deleted queries whose fragments the leader has not retired yet."""
        running = {found.record.query for found in self.fragments.values()}
        return running - self.queries.keys() - self.broken(QUERIES).keys()

    @property
    def hosts(self) -> dict[str, NodeRecord]:
        """Live executors and sites, without observers, which run nothing."""
        return {
            name: found.record
            for name, found in self.nodes.items()
            if found.record.kind is not NodeKind.OBSERVER
        }

    @property
    def executors(self) -> dict[str, NodeRecord]:
        """Live executors."""
        return {n: node for n, node in self.hosts.items() if node.kind is NodeKind.EXECUTOR}

    @property
    def trusted(self) -> dict[str, NodeRecord]:
        """Hosts that are not suspected."""
        return {n: node for n, node in self.hosts.items() if not self.suspected(n)}

    def suspected(self, node: str) -> bool:
        """Whether a peer replica has lost the node's present incarnation, and the node has not
        reported since.

        The record of a dead host stays until its session ends; peer replicas notice the death
        first. The store's order tells whether the host has reported since. Times of several hosts
        are not compared.
        """
        return node in self.suspects

    def _suspects(self) -> Iterator[str]:
        for found in self.fragments.values():
            for loss in found.record.losses:
                node = self.nodes.get(loss.replica.node)
                if (
                    node is not None
                    and loss.silent
                    and loss.replica.incarnation == node.record.incarnation
                    and loss.report is not None
                    and node.report <= loss.report
                ):
                    yield loss.replica.node

    def _leaving(self) -> dict[str, int]:
        slot = None if self.slot is None else self.slot.record
        turn = None if slot is None else self.turns.get(slot.turn)
        told = {} if turn is None else turn.record.lives
        found: dict[str, int] = {}
        for name, node in self.nodes.items():
            if node.record.leaving is not None:
                found[name] = node.record.leaving.since_us
            elif slot is not None and node.record.incarnation in (
                slot.lives.get(name),
                told.get(name),
            ):
                found[name] = slot.since_us
        return found

    @property
    def lacked(self) -> tuple[str, ...]:
        """Nodes of the manifest that cannot be planned with, though nobody has closed them."""
        usable = (self.trusted.keys() - self.leaving.keys()) | self.cordoned
        return tuple(node for node in self.settings.nodes if node not in usable)

    @property
    def cordoned(self) -> set[str]:
        """Nodes that operators have closed. Who put a cordon that cannot be read meant it."""
        return self.cordons.keys() | self.broken(CORDONS).keys()

    @property
    def closed(self) -> set[str]:
        """Nodes on which nothing new is placed: they are cordoned, or their hosts leave."""
        return self.cordoned | self.leaving.keys()

    def closed_because(self, node: str) -> str | None:
        """Why nothing new is placed on a node, and what changes that; None: it is open."""
        if node in self.cordoned:
            return f"is cordoned; `vivace uncordon {node}` admits it"
        return "leaves, and is to be replaced" if node in self.leaving else None

    def alive(self, replica: ReplicaId | None) -> bool:
        """Whether the node still runs in that incarnation, and is not suspected."""
        return replica is not None and self.listed(replica) and not self.suspected(replica.node)

    def listed(self, replica: ReplicaId | None) -> bool:
        """Whether the node still runs in that incarnation, suspected or not."""
        if replica is None:
            return False
        if replica.node not in self.nodes:
            # Whose record cannot be read runs all the same, as far as anybody knows.
            return replica.node in self.broken(NODES)
        return self.nodes[replica.node].record.incarnation == replica.incarnation

    def dead(self, replica: ReplicaId) -> bool:
        """Whether that incarnation has certainly ended, because the node runs in another one.

        A node without a record may only have lost its session.
        """
        if replica.node not in self.nodes:
            return False
        return self.nodes[replica.node].record.incarnation != replica.incarnation

    def replica(self, node: str) -> ReplicaId:
        """A live node in its present incarnation."""
        return ReplicaId(node=node, incarnation=self.nodes[node].record.incarnation)

    def status(self, replica: ReplicaId | None, fragment: str) -> ReplicaStatus | None:
        """The report of a live replica; None if it is gone, has not started or cannot be read."""
        if replica is None or not self.alive(replica) or replica.node not in self.nodes:
            return None
        return self.nodes[replica.node].record.replicas.get(fragment)

    def state_bytes(self, record: FragmentRecord) -> int | None:
        """Size of a fragment's state as its primary reports it, else of the last that it has given;
        None: nobody knows."""
        status = self.status(record.primary, record.fragment)
        if status is None:
            return None
        if status.state_bytes is None and status.snapshot is not None:
            return status.snapshot.bytes
        return status.state_bytes

    def reports_of(self, fragment: str) -> dict[str, ReplicaStatus]:
        """Node → its report of a replica of the fragment, whether or not the record lists it."""
        return {
            name: found.record.replicas[fragment]
            for name, found in self.nodes.items()
            if fragment in found.record.replicas
        }

    def given_bytes(self, fragment: str) -> int:
        """How much of a state that one replica is giving another has been sent."""
        reports = self.reports_of(fragment).values()
        return max((each.giving_bytes for each in reports if each.giving_bytes), default=0)

    def unlisted_replica(self, record: FragmentRecord) -> ReplicaId | None:
        """A replica that the record does not list and that has the fragment's present state; of
        several, that which has come furthest."""
        found = {
            node: status
            for node, status in self.reports_of(record.fragment).items()
            if node in self.executors
            and not self.suspected(node)
            and self.replica(node) not in record.replicas
            and status.role is not ReplicaRole.WARMING
            and status.generation == record.generation
        }
        furthest = max(found, key=lambda n: (found[n].output_watermark_ms or 0, n), default=None)
        return None if furthest is None else self.replica(furthest)

    def measured_cost(self, fragment: Fragment) -> CostStatus | None:
        """Measured cost of a fragment on its primary's node; None until it has enough samples."""
        found = self.fragments.get(fragment.key)
        status = None if found is None else self.status(found.record.primary, fragment.name)
        if status is None or status.cost is None or status.cost.samples < LEAST_SAMPLES:
            return None
        return status.cost

    def measured_load(self, fragment: Fragment) -> ReplicaLoad | None:
        """What a fragment has taken of its primary's node lately; None until its cost is known."""
        if self.measured_cost(fragment) is None:
            return None
        status = self.status(self.fragments[fragment.key].record.primary, fragment.name)
        return None if status is None else status.load

    def stepped_down(self, record: FragmentRecord) -> bool:
        """Whether the primary is alive but no longer acts as one."""
        status = self.status(record.primary, record.fragment)
        return status is not None and status.role is ReplicaRole.STANDBY

    def stateless(self, record: FragmentRecord) -> bool:
        """Whether the primary is alive and has no state, nor reads a checkpoint: evaluating its
        input has failed."""
        status = self.status(record.primary, record.fragment)
        return status is not None and status.role is ReplicaRole.WARMING and not status.restoring

    def rejected(self, record: FragmentRecord) -> RejectedCount | None:
        """What a fragment has left out, as its primary counts; None if nobody tells."""
        status = self.status(record.primary, record.fragment)
        return None if status is None else status.rejected

    def warm(self, replica: ReplicaId | None, fragment: str) -> bool:
        """Whether a replica is alive and has its state."""
        status = self.status(replica, fragment)
        return status is not None and status.role is not ReplicaRole.WARMING

    def acts(self, replica: ReplicaId | None, fragment: str) -> bool:
        """Whether a live replica says that it is primary."""
        status = self.status(replica, fragment)
        return status is not None and status.role is ReplicaRole.PRIMARY

    def ready(self, replica: ReplicaId | None, fragment: str) -> bool:
        """Whether a live replica says that it has its state, and does not lag."""
        status = self.status(replica, fragment)
        return (
            status is not None
            and status.role is not ReplicaRole.WARMING
            and status.lags_since_us is None
        )

    def lags(self, record: FragmentRecord) -> bool:
        """Whether the secondary lives and lags too far behind to keep the recovery bound."""
        secondary = self.status(record.secondary, record.fragment)
        return secondary is not None and secondary.lags_since_us is not None

    def protected(self, record: FragmentRecord) -> bool:
        """Whether the fragment runs, and a warm secondary stands by that does not lag.

        While roles change, any of the replicas may act as primary, or several.
        """
        pair = (record.primary, record.secondary)
        return all(self.ready(each, record.fragment) for each in pair) and any(
            self.acts(each, record.fragment) for each in record.replicas
        )

    def moved_by(self, key: str) -> str | None:
        """The plan of moves that still has to do with a fragment; None: there is none."""
        plans = sorted(self.moves.items())
        return next((name for name, found in plans if key in found.record.moving), None)

    @property
    def unprotected(self) -> list[str]:
        """Names of the fragments that run or should, and are not protected."""
        records = {name: found.record for name, found in self.fragments.items()}
        return [name for name, r in records.items() if not (r.paused or self.protected(r))]

    def is_paused(self, query: str) -> bool:
        """Whether somebody wants a query to pause. Who wrote what cannot be read meant it."""
        found, paused = self.queries.get(query), self.pauses.get(query)
        if found is None or paused is None:
            return query in self.broken(PAUSES)
        return paused.record.life == self.number_of(found)

    def settled(self, record: FragmentRecord) -> bool:
        """Whether exactly the replicas of the record run, each in the role that it names."""
        return (
            self.protected(record)
            and record.third is None
            and self.acts(record.primary, record.fragment)
            and not self.acts(record.secondary, record.fragment)
        )


def read_view(store: RecordReader) -> ClusterView:
    """Read everything.

    The records are read one after the other, not at the same time. Decisions are written under the
    versions read, so a change in between is noticed when they are written.

    Raises
    ------
    StoreUnavailable
        The session is not `CONNECTED`.
    """
    invalid: list[RecordInvalid] = []
    # A turn ends after its hosts: that it is over is seen before they are.
    turns = _sound(store, TURNS, invalid)
    maintenance = _sound(store, MAINTENANCE, invalid)
    cluster, settings_readable = _one(store, CLUSTER, invalid)
    clocks, clocks_readable = _one(store, CLOCKS, invalid)
    issued, issued_readable = _one(store, ISSUED, invalid)
    automation, automation_readable = _one(store, AUTOMATION, invalid)
    proposed, _ = _one(store, PROPOSAL, invalid)
    # Whoever wrote what cannot be read wanted it otherwise than it is.
    wanted = AutomationRecord(
        mode=AutomationMode.PROPOSE if automation_readable else AutomationMode.OFF
    )
    # The order matters. Fragments and assignments are read before the nodes they name, so that a
    # node that seems gone is gone. Proposals, and how queries run, are written before the
    # queries: whoever has read a query finds them.
    fragments = _sound(store, FRAGMENTS, invalid, lambda record: record.key, _fragment_fault)
    assignments = _sound(store, ASSIGNMENTS, invalid)
    queries = _sound(store, QUERIES, invalid, lambda record: record.name)
    proposals = _sound(store, PROPOSALS, invalid, fault=_proposal_fault)
    requests = _sound(store, REQUESTS, invalid)
    running = _sound(store, RUNNING_QUERIES, invalid, lambda record: record.name)
    # How a query runs is not decided twice: without the decision it is as if it could not be read.
    undecided = {error.path.rpartition("/")[2] for error in invalid if _of(RUNNING_QUERIES, error)}
    return ClusterView(
        cluster=cluster,
        fragments=fragments,
        checkpoints=_sound(store, CHECKPOINTS, invalid, lambda record: record.key),
        assignments=assignments,
        queries={name: found for name, found in queries.items() if name not in undecided},
        running_queries=running,
        proposals=proposals,
        requests=requests,
        savepoints=_sound(store, SAVEPOINTS, invalid, lambda record: record.name),
        pauses=_sound(store, PAUSES, invalid, lambda record: record.query),
        cordons=_sound(store, CORDONS, invalid, lambda record: record.node),
        moves=_sound(store, MOVES, invalid, lambda record: record.name),
        links=_sound(store, LINKS, invalid, lambda record: record.name),
        strikes=_sound(store, STRIKES, invalid),
        streams=_sound(store, STREAMS, invalid, lambda record: record.name, _stream_fault),
        running_streams=_sound(store, RUNNING_STREAMS, invalid, lambda record: record.name),
        nodes={
            name: checked_report(found)
            for name, found in _sound(store, NODES, invalid, lambda record: record.node).items()
        },
        services=_sound(store, SERVICES, invalid),
        turns=turns,
        maintenance=maintenance,
        invalid=tuple(invalid),
        issued=issued,
        versions=tuple(versions_beside_hosts(store)),
        settings_readable=settings_readable and issued_readable,
        clocks=clocks,
        automation=wanted if automation is None else automation.record,
        proposed=proposed,
        clocks_readable=clocks_readable,
    )


def _of(folder: RecordFolder[Any], error: RecordInvalid) -> bool:
    """Whether a record that cannot be used is one of a folder."""
    return error.path.split("/")[-2:-1] == [folder.path]


def _one(
    store: RecordReader, key: Key[R], invalid: list[RecordInvalid]
) -> tuple[Versioned[R] | None, bool]:
    """A record, and whether it can be read or is not there."""
    try:
        return store.get(key), True
    except RecordInvalid as broken:
        invalid.append(broken)
        return None, False


def _sound(
    store: RecordReader,
    folder: RecordFolder[R],
    invalid: list[RecordInvalid],
    own_name: Callable[[R], str] | None = None,
    fault: Callable[[R], str | None] | None = None,
) -> dict[str, Versioned[R]]:
    """A folder's records without those that contradict their place or themselves."""
    listing = store.list(folder)
    invalid += listing.invalid
    records: dict[str, Versioned[R]] = {}
    for name, found in listing.records.items():
        problem = fault(found.record) if fault else None
        if own_name is not None and own_name(found.record) != name:
            problem = f"calls itself {own_name(found.record)}"
        if problem is None:
            records[name] = found
        else:
            invalid.append(RecordInvalid(folder.key(name).path, problem, found.version))
    return records


def _fragment_fault(record: FragmentRecord) -> str | None:
    nodes = [replica.node for replica in record.replicas]
    twice = next((node for node in nodes if nodes.count(node) > 1), None)
    return None if twice is None else f"has two replicas on {twice}"


def _proposal_fault(record: ProposalRecord) -> str | None:
    """The first reason why the records of a proposal cannot be written as they are."""
    for placed in record.placements:
        for made in (*placed.updated, *placed.created):
            if (fault := _fragment_fault(made)) is not None:
                return f"places {made.key}, which {fault}"
        foreign = [made.key for made in placed.created if made.query != placed.query]
        if foreign:
            return f"places {foreign[0]} of another query"
        own = {made.key for each in record.placements for made in each.created}
        for made in placed.updated:
            if FRAGMENTS.key(made.key).path not in record.basis and made.key not in own:
                return f"changes {made.key}, which it does not rest on"
    return None


def _stream_fault(record: StreamRecord) -> str | None:
    unknown = sorted(set(record.columns.values()) - type_names.keys())
    return f"has columns of unknown type {', '.join(unknown)}" if unknown else None
