"""Records of the store: one type for each kind of znode.

Every record is plain data: JSON in ZooKeeper, decoded strictly into these types. A *replica* is
identified by its node and that node's *incarnation*. A restarted executor comes back under the same
node name with a new incarnation and without its former state, so an assignment for the former
incarnation must not be taken for one for the new.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import msgspec

from ha.roles import ReplicaRole
from streams.scheduling.run_queue import Policy
from topology.coordinate import MAX_RTT_MS
from topology.cpu import DEFAULT_SCALING, Scaling


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything stored: immutable, keyword-only, unknown fields refused."""


class NodeKind(Enum):
    """The kind of process that a host is, and thereby what may run on it."""

    EXECUTOR = "executor"
    """A Spark executor: runs fragments."""
    SITE = "site"
    """A place where streams enter or leave; runs no fragment."""
    OBSERVER = "observer"
    """A passing reader of streams: `vivace tail`, a drill's instrument."""


class ReplicaId(Record, frozen=True, kw_only=True):
    """One replica of a fragment: a node in one of its incarnations."""

    node: str
    incarnation: str


class NameClaim(Record, frozen=True, kw_only=True):
    """`/claims/<node>`: the newest process that has claimed a host's name."""

    number: int
    """Rises with every claim."""
    incarnation: str


class Coordinate(Record, frozen=True, kw_only=True):
    """A node's place in latency space.

    Attributes
    ----------
    position_ms
        Vivaldi coordinate; Euclidean distance approximates the round trip, ms.
    cpu_ms
        The CPU axis, ≥ 0: load turned into milliseconds by the cluster's scaling function.
    error
        Relative error estimate, 0 (certain) to 1 or more (unknown).
    error_ms
        The same in ms: by how much distances to peers are off. 10 s while nothing was measured.
    """

    position_ms: tuple[float, ...]
    cpu_ms: float
    error: float
    error_ms: float = MAX_RTT_MS


class CostStatus(Record, frozen=True, kw_only=True):
    """Measured cost of evaluating a fragment: fixed_us + per_tuple_us · tuples."""

    fixed_us: float
    per_tuple_us: float
    samples: int


DEFAULT_MEMORY_BYTES = 256 * 2**20
"""Of all queues of a host: many seconds of a fast stream."""


class MemoryStatus(Record, frozen=True, kw_only=True):
    """The queues of a host, bytes."""

    budget: int
    """What all of them may take together."""
    logs: int = 0
    """Output logs."""
    inputs: int = 0
    """Input that waits to be evaluated, or for a state."""
    sinks: int = 0
    """Deliveries that are not kept for good yet."""
    transit: int = 0
    """Messages that have arrived and are not handled yet."""

    @property
    def used(self) -> int:
        """All of them."""
        return self.logs + self.inputs + self.sinks + self.transit


class ReplicaLoad(Record, frozen=True, kw_only=True):
    """What a replica has taken of its host lately, a second."""

    cores: float
    """Processor time of its evaluations."""
    evaluations_s: float
    timestamps_s: float
    tuples_s: float
    """Input tuples."""


class Processors(Record, frozen=True, kw_only=True):
    """The processors that a host may use."""

    machine: str
    """Name of the machine, for people."""
    shared: str
    """Equal for hosts that share them."""
    count: float
    """How many there are, as far as they may be used."""


class HostLoad(Record, frozen=True, kw_only=True):
    """What a host's process has taken of its machine lately, cores."""

    cores: float
    """Processor time of all its threads."""
    evaluating_cores: float
    """The part of it in which statements were evaluated."""


class ReplicaStatus(Record, frozen=True, kw_only=True):
    """Report of a host about a replica that it runs."""

    role: ReplicaRole
    epoch: int
    output_watermark_ms: int | None
    lags_since_us: int | None = None
    """Since when, on the cluster's clock, it lacks output that its primary has, if it is a standby
    that lags for too long to protect its fragment."""
    cost: CostStatus | None = None
    """None until something was evaluated."""
    load: ReplicaLoad | None = None
    failure: str | None = None
    """Why it has no state, if an error is the reason."""
    throttled: bool = False
    """Whether it waits for its consumers to process some of its output."""


class SinkStatus(Record, frozen=True, kw_only=True):
    """Report of a host about a stream that it takes out."""

    next_seq: int
    watermark_ms: int | None
    rows: int
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    deadline_misses: int
    completed_timestamps: int
    """Timestamps whose results are complete; latency is measured for each."""
    late_rows: int = 0
    """Tuples among `rows` that arrived after the deadline."""
    miss_pct: float = 0.0
    """Deadline-miss ratio: late_rows of rows, %."""
    recent_miss_pct: float | None = None
    """The ratio over the last while; None if no tuple arrived."""
    lost: int
    repeated: int
    """Tuples that arrived again and were dropped."""
    address: str | None = None
    """Where clients get the results; None: nowhere."""
    unkept_ms: float = 0.0
    """How long the oldest delivery has waited that the sink has not kept for good."""


class SourceStatus(Record, frozen=True, kw_only=True):
    """Report of a host about a stream that enters there."""

    next_seq: int
    shed: int = 0
    """Tuples that its load shedder dropped."""
    skipped: Skipped | None = None
    """What the stream left out when it began anew."""
    throttled: bool = False
    """Whether the source waits for its consumers."""
    slipped_ms: float = 0.0
    """By how much its time axis has slipped because it had to wait."""
    overflowed: int = 0
    """Tuples that were dropped because the source cannot wait and the buffer was full."""
    overflowing: bool = False
    """Whether that happens now, or did a moment ago."""
    input: InputStatus | None = None
    """What a live source did not let in; None for other sources."""


class InputStatus(Record, frozen=True, kw_only=True):
    """Report of a live source."""

    address: str | None = None
    """Where it listens; None: nowhere."""
    late: int = 0
    """Tuples whose timestamp was complete already when they came."""
    ahead: int = 0
    """Tuples whose timestamp lay too far in the future."""
    malformed: int = 0
    """Lines, rows or requests that could not be read."""
    repeated: int = 0
    """Batches that came again and were in already."""
    last_rejected: str | None = None
    """Why the last of them did not enter."""
    buffered_bytes: int = 0
    """Input that waits for the host."""

    @property
    def refused(self) -> int:
        """All that did not enter."""
        return self.late + self.ahead + self.malformed


class Skipped(Record, frozen=True, kw_only=True):
    """Input that is lost, because its site was away when it came due and cannot bring it in later.

    Attributes
    ----------
    after_ms, until_ms
        Its range of timestamps; the first is excluded.
    tuples
        How many there were; None if the source cannot tell.
    """

    after_ms: int
    until_ms: int
    tuples: int | None = None

    @property
    def detail(self) -> str:
        """A sentence for people."""
        count = "an unknown number of" if self.tuples is None else str(self.tuples)
        span = f"with timestamps after {self.after_ms} ms up to {self.until_ms} ms"
        return f"{count} tuples {span} came due while the site was away"


class ClockOffset(Record, frozen=True, kw_only=True):
    """By how much a clock is ahead of another one, µs, and by how much that may be wrong."""

    ahead_us: int
    uncertainty_us: int


class ClocksRecord(Record, frozen=True, kw_only=True):
    """`/clocks`: the cluster's clock, by the clocks of its machines.

    One machine is the reference, without uncertainty: the cluster's clock is its monotonic clock,
    ahead by a constant. If it is lost, another one takes its place, and the cluster's clock goes
    on.
    """

    machines: dict[str, ClockOffset] = {}
    """Machine → by how much the cluster's clock is ahead of its monotonic clock."""


class NodeRecord(Record, frozen=True, kw_only=True):
    """`/nodes/<node>` (ephemeral): a live host."""

    node: str
    incarnation: str
    kind: NodeKind
    region: str
    endpoint: str
    """ZeroMQ endpoint of its router socket."""
    public_key: str
    """CURVE public key, Z85."""
    domain: str
    """Failure domain: the Spark application and machine."""
    pid: int
    machine: str
    """Its machine in its present boot: hosts that agree share a monotonic clock."""
    clock_ahead_us: int = 0
    """By how much the host's own clock is ahead of its machine's monotonic clock: the machine's
    wall clock when the process started."""
    clocks: dict[str, ClockOffset] = {}
    """Other machine → by how much its monotonic clock is ahead of this machine's, as probes
    tell."""
    processors: Processors | None = None
    """None: not known."""
    load: HostLoad | None = None
    """None until it was measured."""
    reported_us: int = 0
    """When the host wrote this, cluster clock."""
    coordinate: Coordinate | None = None
    latencies_ms: dict[str, float] = {}
    """Round trips it measured, by peer."""
    replicas: dict[str, ReplicaStatus] = {}
    sources: dict[str, SourceStatus] = {}
    sinks: dict[str, SinkStatus] = {}
    wants: tuple[str, ...] = ()
    """Streams an observer asks to be sent."""
    memory: MemoryStatus | None = None
    counters: dict[str, int] = {}
    """Everything the host counts, by name: duplicates dropped, frames refused, …"""
    problems: tuple[str, ...] = ()
    """Parts of its assignment that the host cannot carry out, a sentence each."""


class DriverSpec(Record, frozen=True, kw_only=True):
    """A driver and its options, as JSON; `orchestrator.drivers` turns it back into the driver."""

    driver: str
    options: dict[str, Any] = {}


class SourceSpec(DriverSpec, frozen=True, kw_only=True):
    """The source of a stream."""

    together_ms: float = 0.0
    """Time, on the cluster's clock, whose tuples enter at once."""
    resumable: bool = False
    """Whether it can be read again from any position, with the same numbering."""
    waits: bool = False
    """Whether nothing is lost while consumers hold it up."""
    journaled: bool = False
    """Whether it can be read again because its site keeps a journal."""


class Shed(Record, frozen=True, kw_only=True):
    """Limits of a load shedder (deadline placement, §5.1)."""

    tuples: int
    """At most so many …"""
    per_ms: float
    """… in each interval of this length."""
    value: str | None = None
    """Expression over the stream's columns: of what is too much, the tuples with the least value
    are dropped. None: the latest."""


class StreamRecord(Record, frozen=True, kw_only=True):
    """`/streams/<name>`: a stream that enters from outside."""

    name: str
    site: str
    columns: dict[str, str]
    """Column → type, one of `streams.chunk.type_names`, in order."""
    rate_bytes_s: float
    """Expected volume, for planning until it is measured."""
    burst: int | None = None
    """Tuples that enter at once, for which deadlines are designed; None: what comes within a batch
    interval or, if that is longer, within the source's `together_ms`."""
    shed: Shed | None = None
    source: SourceSpec | None = None
    """None: no tuple ever enters."""
    start_at_us: int | None = None
    """When the source starts on the cluster's clock; set by the coordinator once every
    query that reads the stream has a warm secondary for each fragment."""
    generation: int = 0
    """How often the stream had to begin anew since it started, because its site was started again
    and could not resume."""
    incarnation: str | None = None
    """The incarnation of the site that the generation belongs to; None: the stream has not started,
    or resumes on any."""
    slipped_ms: float = 0.0
    """By how much its time axis has slipped so far, because its source had to wait for consumers: a
    site that is started again goes on from there."""

    @property
    def resumes(self) -> bool:
        """Whether a site that is started again can continue the stream's numbering.

        Tuples that a load shedder admits depend on when they arrive, so they cannot be numbered
        again.
        """
        return self.source is not None and self.source.resumable and self.shed is None


class Overflow(Enum):
    """What happens to an output whose sink does not follow once all buffers on the way are full."""

    WAIT = "wait"
    """Nothing is lost: the producers wait, up to the sources."""
    DROP = "drop"
    """Nobody waits: the oldest output that the sink lacks is dropped, and counted as lost."""


class Estimate(Record, frozen=True, kw_only=True):
    """Behaviour of a fragment as its owner expects it, for planning until it is measured."""

    selectivity: float | None = None
    """Bytes out per byte in."""
    cost_us: float | None = None
    """Processing time per input tuple."""


class Trial(Record, frozen=True, kw_only=True):
    """Behaviour of a fragment whose statement was tried out before it ran: what counts for figures
    that its owner does not give."""

    selectivity: float
    """Bytes out per byte in."""
    fixed_us: float
    """Processor time of an evaluation, whatever its tuples …"""
    per_tuple_us: float
    """… and of each tuple that it takes in."""


class QueryRecord(Record, frozen=True, kw_only=True):
    """`/queries/<name>`: a continuous query as its owner wrote it."""

    name: str
    statements: str
    """CQL: `REGISTER QUERY …;` statements. Each gives one stream and is one fragment."""
    outputs: dict[str, str]
    """Output stream → site it is delivered to."""
    sinks: dict[str, DriverSpec] = {}
    """Output stream → its sink; an archive of the site, if it is not named."""
    deadline_ms: float
    """Of every output that `deadlines_ms` does not name."""
    recovery_bound_ms: float
    deadlines_ms: dict[str, float] = {}
    """Output stream → its end-to-end deadline."""
    overflow: dict[str, Overflow] = {}
    """Output stream → what happens if its sink keeps nothing for long; it waits, if not named."""
    estimates: dict[str, Estimate] = {}
    trials: dict[str, Trial] = {}
    """Fragment → what a trial found; no part of what the owner wrote."""
    primaries: dict[str, tuple[str, ...]] = {}
    """Fragment → nodes that its primary may run on while they are there; any, if it is not named.
    """

    def deadline_of(self, output: str) -> float:
        """End-to-end deadline of an output, ms."""
        return self.deadlines_ms.get(output, self.deadline_ms)


class Timing(Record, frozen=True, kw_only=True):
    """By when a fragment must have evaluated its input (deadline placement, §5.2)."""

    cost_ms: float
    """Time that evaluating a burst takes, as the plan assumes."""
    sub_deadline_ms: float
    """For the primary, from the arrival of its input."""
    standby_lag_ms: float
    """How far the secondary may lag while the recovery bound is kept."""


class FragmentRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """`/fragments/<query>.<fragment>`: who runs it, under which epoch."""

    query: str
    fragment: str
    epoch: int
    """Fencing number; rises with every change of primary. The first one is the store's number of
    the query's creation."""
    generation: int
    """Epoch in which the present state started empty; sequence numbers begin anew there."""
    primary: ReplicaId
    secondary: ReplicaId | None
    timing: Timing
    took_over: TakeOver | None = None
    losses: tuple[ReplicaLoss, ...] = ()
    """Replicas that the fragment has lost lately, the latest last."""
    restarts: Restarts | None = None
    """How often it has started over lately because neither replica could evaluate its input."""
    told_cost_us: float | None = None
    """Cost of a tuple that the history has last suggested to state."""
    third: ThirdReplica | None = None
    """A further replica, while one of the others is being moved."""

    @property
    def key(self) -> str:
        """Name of the record in the store."""
        return f"{self.query}.{self.fragment}"

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """All replicas, the primary first."""
        third = None if self.third is None else self.third.replica
        return tuple(each for each in (self.primary, self.secondary, third) if each is not None)


class ThirdReplica(Record, frozen=True, kw_only=True):
    """A replica that is to take another one's place, or one whose place has been taken.

    While it is warm, it is a standby like any other.
    """

    replica: ReplicaId
    becomes: Literal["primary", "secondary"] | None
    """Whose place it takes once it is warm; None: its own has been taken."""
    since_us: int
    """Since when it has been so, cluster clock, µs."""


class ReplicaLoss(Record, frozen=True, kw_only=True):
    """A replica that its fragment has lost, and why."""

    replica: ReplicaId
    cause: str
    detected_at_us: int
    """Cluster clock, µs."""
    silent: bool = True
    """Whether its host was silent, which makes it suspected until it reports again. Otherwise the
    replica could not be used, although its host lives."""
    report: tuple[int, int] | None = None
    """The host's report that stood in the store when the loss was recorded, if one did
    (`Versioned.report`): only a later one is a sign of life."""


class Restarts(Record, frozen=True, kw_only=True):
    """Attempts in a row to evaluate a fragment's input from nothing."""

    count: int
    last_us: int
    """When the last one began, cluster clock, µs."""


class TakeOver(Record, frozen=True, kw_only=True):
    """How the present primary came to be one."""

    previous: ReplicaId
    cause: str
    detected_at_us: int
    """Cluster clock, µs."""


class PlanFigures(Record, frozen=True, kw_only=True):
    """A plan's promises to a query: latency of its slowest output, and its longest recovery."""

    latency_ms: float
    deadline_ms: float
    recovery_ms: float
    bound_ms: float


class PlanRecord(Record, frozen=True, kw_only=True):
    """`/plans/<query>`: the plan that a client has made for a query which it applies.

    The leader carries it out if all that it rests on is still the same, else plans again; in both
    cases it deletes the record.
    """

    query: str
    basis: dict[str, str]
    """Path of a record that the plan rests on → digest of that record; of a node's record →
    incarnation. A digest tells versions apart also if a record is deleted and created again, when
    ZooKeeper's own number begins anew."""
    updated: tuple[FragmentRecord, ...]
    """Fragments that run, with the sub-deadlines that the plan gives them."""
    created: tuple[FragmentRecord, ...]
    figures: PlanFigures
    submitted_us: int
    """When the client wrote this, cluster clock."""


class CordonRecord(Record, frozen=True, kw_only=True):
    """`/cordons/<node>`: nothing new is placed on a node; what runs there stays."""

    node: str
    since_us: int
    """Cluster clock, µs."""


class MoveStep(Record, frozen=True, kw_only=True):
    """One replica of a fragment is to be on another node."""

    fragment: str
    """`<query>.<fragment>`."""
    role: Literal["primary", "secondary"]
    node: str
    """If it is the secondary's, and the primary is to be there, the two change roles."""
    begun_us: int | None = None
    """When the leader began it, cluster clock, µs."""
    done: bool = False
    failed: str | None = None
    """Why it was not done, or was taken back."""

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do."""
        return self.done or self.failed is not None


class MovePlan(Record, frozen=True, kw_only=True):
    """`/moves/<name>`: moves that are to be made in order, and the journal of how far they are.

    The leader takes the steps from what it observes, and notes here how each has ended. Every
    prefix of them is a legal state, so a new leader just goes on.
    """

    name: str
    steps: tuple[MoveStep, ...]
    at_a_time: int = 1
    """Most fragments that are moved at once."""
    drains: str | None = None
    """The node that all of them leave, if they were planned for that."""
    submitted_us: int
    """Cluster clock, µs."""
    withdrawn: bool = False
    """Whether steps that are under way are to be taken back, and no other one is begun."""
    ended_us: int | None = None
    """When the last step was settled, cluster clock, µs."""


class Peer(Record, frozen=True, kw_only=True):
    """How to reach another host, and how far away it is."""

    node: str
    incarnation: str
    endpoint: str
    public_key: str
    delay_ms: float
    """One-way delay the link shaper adds; 0 on a real network."""
    machine: str = ""


class FragmentAssignment(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One replica of a fragment that a host must run."""

    query: str
    fragment: str
    statement: str
    """The one CQL statement."""
    inputs: dict[str, dict[str, str]]
    """Input stream → columns → types."""
    role: Literal["primary", "secondary"]
    epoch: int
    generation: int
    peer_replica: str | None
    """Node of the other replica: the primary's, and for the primary the secondary's."""
    sub_deadline_ms: float
    standby_lag_ms: float
    readers_ms: dict[str, float]
    """Who reads its stream, fragments and sinks → least end-to-end deadline of the outputs that
    this leads to; what tasks are merged by."""
    cost_us: float
    """Time per input tuple, as estimated."""
    further_replicas: tuple[str, ...] = ()
    """Nodes of replicas besides the two, while one of them is being moved."""

    @property
    def others(self) -> tuple[str, ...]:
        """Nodes of all other replicas."""
        peer = () if self.peer_replica is None else (self.peer_replica,)
        return (*peer, *self.further_replicas)


class SourceAssignment(Record, frozen=True, kw_only=True):
    """A stream that a host brings in."""

    stream: str
    columns: dict[str, str]
    source: SourceSpec | None
    start_at_us: int | None
    shed: Shed | None = None
    generation: int = 1
    """Life of the stream's numbering: it rises when the stream begins anew, and when it is deleted
    and applied again."""
    slipped_ms: float = 0.0
    """By how much its time axis had slipped when this host was first assigned it."""

    @property
    def resumes(self) -> bool:
        """Whether the site can continue a numbering that another process began."""
        return self.source is not None and self.source.resumable and self.shed is None

    @property
    def waits(self) -> bool:
        """Whether the source is not read while consumers hold it up.

        A load shedder is there for input that cannot wait.
        """
        able = self.source is not None and (self.source.waits or self.source.resumable)
        return able and self.shed is None


class SinkAssignment(Record, frozen=True, kw_only=True):
    """A stream that a host takes out."""

    stream: str
    columns: dict[str, str]
    deadline_ms: float
    sink: DriverSpec | None = None
    """None: an archive at sites; observers read the stream themselves."""
    life: int = 0
    """Identifies the query among all that had its name: what a sink has kept of a former query is
    no part of this one's output."""
    overflow: Overflow = Overflow.WAIT


class Assignment(Record, frozen=True, kw_only=True):
    """`/assignments/<node>`: all that a host must run, for one incarnation of it."""

    incarnation: str
    fragments: tuple[FragmentAssignment, ...] = ()
    sources: tuple[SourceAssignment, ...] = ()
    sinks: tuple[SinkAssignment, ...] = ()
    producers: dict[str, tuple[str, ...]] = {}
    """Stream read here → nodes that hold it, primary first."""
    consumers: dict[str, tuple[str, ...]] = {}
    """Stream produced here → nodes that may read it."""
    generations: dict[str, int] = {}
    """Stream read here → its generation; earlier ones are over."""
    peers: tuple[Peer, ...] = ()
    """Every live host: links go to these and to no others."""
    clock_ahead_us: int | None = 0
    """By how much the cluster's clock is ahead of the machine's monotonic clock; None while nobody
    knows. Nothing enters and no replica starts at the host until then, and sinks there wait."""


class ClusterRecord(Record, frozen=True, kw_only=True):
    """`/cluster`: what all processes of a cluster must agree on."""

    name: str
    delays_ms: dict[str, dict[str, float]]
    """Region → region → one-way delay for the link shaper; empty: links are not delayed."""
    heartbeat_ms: float = 25.0
    suspect_after_ms: float = 150.0
    ack_interval_ms: float = 50.0
    probe_interval_ms: float = 100.0
    batch_ms: float = 10.0
    """Least time between two evaluations of a fragment, or two emissions of a source: what comes
    in between is taken together, which costs little more than one. After a pause a tuple is
    evaluated at once."""
    hop_overhead_ms: float = 2.0
    """Per-hop overhead that plans assume besides latency: queueing in sockets, serialisation."""
    cpu: Scaling = DEFAULT_SCALING
    """CPU axis: the milliseconds that a node's load counts for."""
    scheduling: Policy = Policy.EDF
    """Which task a host works on next."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """What all queues of a host may take together."""
    emulate_costs: bool = False
    """Evaluation takes as long as the manifests' estimates say, however fast the machine is; on
    one machine, what link delays are for latencies."""
    admission: bool = True
    """Whether queries are refused that would overload a node or a machine."""


class HistoryEvent(Record, frozen=True, kw_only=True):
    """An entry of `/history`, the audit trail."""

    at_us: int
    kind: str
    subject: str
    detail: str
    lasted_ms: float | None = None
    """How long the state lasted that this event ends; None for other events."""


class HostSpec(Record, frozen=True, kw_only=True):
    """Start parameters of a host process. They contain the secret, and are never logged."""

    cluster: str
    node: str
    kind: NodeKind
    region: str
    domain: str
    zookeeper: str
    secret: str
    """Digest credential for the store."""
    bind: str = "127.0.0.1"
    archive: str | None = None
    """Folder for the files of a site's sinks."""
