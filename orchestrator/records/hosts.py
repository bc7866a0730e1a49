"""What hosts report of themselves."""

from __future__ import annotations

from foundation.bounds import MAX_RTT_MS
from foundation.timestamps import timestamp_text
from ha.roles import ReplicaRole
from orchestrator.records.base import FailureLabels, NodeKind, Record
from orchestrator.records.checkpoints import StoredCheckpoint
from orchestrator.records.durations import Histogram
from orchestrator.records.fragments import RecoverySplit
from orchestrator.records.maintenance import Leaving
from orchestrator.records.savepoints import JournalCopy
from orchestrator.records.versions import FIRST, Versions
from streams.evaluate.rejected_count import RejectedCount
from streams.scheduling.batching_names import DISPATCH_US


class NodeCoordinate(Record, frozen=True, kw_only=True):
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
    emitted_s: float = 0.0
    """Output tuples."""
    emitted_bytes_s: float = 0.0
    """Their size, texts included; 0: its host does not say."""
    window_share: float = 1.0
    """How much of the time over which the load of its host is taken it has run, 0 to 1."""


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
    evaluations_s: float = 0.0
    """How often that was in the same time, also of replicas that have ended since."""
    speed: float = 1.0
    """How fast a processor worked there; 1: as where the assumed costs were found."""
    dispatch_us: float = DISPATCH_US
    """Processor time of a batch beyond that of its tuples, at speed 1."""


class BatchingStatus(Record, frozen=True, kw_only=True):
    """How a host gathers the input of a primary into batches."""

    policy: str
    """As in manifests."""
    k: int
    """Batch units that it rests between two starts."""
    sdmr_pct: float
    """Share of the arrivals that were evaluated too late within the last second, %."""


class ServicesRecord(Record, frozen=True, kw_only=True):
    """What processes of the cluster that are no hosts have taken of their machine lately."""

    processors: Processors
    cores: dict[str, float] = {}
    """By kind: coordinator, spark, zookeeper."""


class RecoveryStatus(Record, frozen=True, kw_only=True):
    """Report of a replica that has taken over, and has caught up."""

    measured: RecoverySplit
    promised: RecoverySplit | None = None
    """By the plan that ran."""
    tuples: int = 0
    """Input tuples that were evaluated until then."""


class SnapshotStatus(Record, frozen=True, kw_only=True):
    """Report of a replica that has given another one its state."""

    bytes: int
    """Of the state, with the output log."""
    ms: float
    """Processor time that writing it took, a piece at a time."""


class ReplicaStatus(Record, frozen=True, kw_only=True):
    """Report of a host about a replica that it runs."""

    role: ReplicaRole
    epoch: int
    generation: int = 0
    """0: its host does not say."""
    output_watermark_ms: int | None
    lags_since_us: int | None = None
    """Since when, on the cluster's clock, it lacks output that its primary has, if it is a standby
    that lags for too long to protect its fragment."""
    cost: CostStatus | None = None
    """None until something was evaluated."""
    load: ReplicaLoad | None = None
    batching: BatchingStatus | None = None
    """None of a standby."""
    failure: str | None = None
    """Why it has no state, if an error is the reason."""
    unevaluable: bool = False
    """Whether that error came from its input: it will come again with the same input."""
    waiting: int = 0
    """Input tuples that have arrived and are not evaluated yet."""
    rejected: RejectedCount | None = None
    """What it has left out since its state began; None if its query skips nothing."""
    counts_from_ms: int | None = None
    """From which timestamp on STIME and ETIME of its periodic statement count; None: it has
    neither, or has read no tuple."""
    ended_ms: int | None = None
    """The timestamp at which that statement has ended; None: it goes on."""
    throttled: bool = False
    """Whether it waits for its consumers to process some of its output."""
    recovered: RecoveryStatus | None = None
    """What taking over took, once the replica had caught up; None if it did not take over in this
    epoch."""
    snapshot: SnapshotStatus | None = None
    """The last that it has given; None: none."""
    giving_bytes: int | None = None
    """How much of its state it has sent to another one by now; None: it gives none at present."""
    state_bytes: int | None = None
    """Size of its state, estimated by the rows and groups that it holds; None: it has none yet."""
    checkpoint_bytes: int | None = None
    """Size of the state in the last checkpoint that it was to send; None: none."""
    stored: StoredCheckpoint | None = None
    """The last checkpoint that it has put into the folder of checkpoints; None: none."""
    restoring: bool = False
    """Whether it reads a checkpoint from there."""
    readers_ms: int | None = None
    """Up to where the reader that is furthest has its output, if its fragment has gone on from a
    checkpoint and it is the primary; None: one has yet to say it."""
    unusable: str | None = None
    """The checkpoint that it was to go on from, and cannot; `failure` says why."""
    lost_input: dict[str, LostInput] = {}
    """Input stream → what it lacked of that when it began from nothing."""
    holding: HoldingStatus | None = None
    """That it holds for a change of its statement whose cut is not agreed yet."""


class HoldingStatus(Record, frozen=True, kw_only=True):
    """A replica's promise for a change of its statement.

    Attributes
    ----------
    change
        Number of the change.
    until_ms
        Event time beyond which it evaluates nothing until the cut is agreed; None: it evaluates
        nothing at all, since it has no state, or does not know what others have of its output.
    """

    change: int
    until_ms: int | None


class LostInput(Record, frozen=True, kw_only=True):
    """Input that a fragment cannot have any more, and that led to no results.

    Attributes
    ----------
    after_ms, until_ms
        Its range of timestamps; the first is excluded.
    tuples
        How many there were, at most; None: nobody knows.
    """

    after_ms: int
    until_ms: int
    tuples: int | None = None

    @property
    def counted(self) -> str:
        """How many, for people."""
        return "an unknown number of" if self.tuples is None else str(self.tuples)

    @property
    def span(self) -> str:
        """Which tuples, for people."""
        after, until = timestamp_text(self.after_ms), timestamp_text(self.until_ms)
        return f"tuples with timestamps after {after} up to {until}"

    @property
    def detail(self) -> str:
        """A phrase for people."""
        most = "" if self.tuples is None else "up to "
        return f"{most}{self.counted} {self.span}"


class SinkStatus(Record, frozen=True, kw_only=True):
    """Report of a host about a stream that it takes out."""

    next_seq: int
    watermark_ms: int | None
    rows: int
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    latency_histogram: Histogram | None = None
    """Of all completed timestamps but those `made_again`."""
    deadline_misses: int
    completed_timestamps: int
    """Timestamps whose results are complete; latency is measured for each, unless `made_again`."""
    made_again: int = 0
    """Timestamps of input that had entered before the query began from a savepoint."""
    late_rows: int = 0
    """Tuples among `rows` that arrived after the deadline."""
    late_dropped: int = 0
    """Tuples among `late_rows` that were dropped, as the output asks."""
    miss_pct: float = 0.0
    """Deadline-miss ratio: late_rows of rows, %."""
    recent_miss_pct: float | None = None
    """The ratio over the last while; None if no tuple arrived."""
    lost: int
    repeated: int
    """Tuples that arrived again and were dropped."""
    address: str | None = None
    """Where clients get the results; None: nowhere."""
    readers_dropped: int = 0
    """Readers that lost their connection because they did not read."""
    unkept_ms: float = 0.0
    """How long the oldest delivery has waited that the sink has not kept for good."""
    kept_ms: int | None = None
    """Timestamp up to which it has kept all results for good, in whatever life of its host; None:
    it has kept none."""


class SourceStatus(Record, frozen=True, kw_only=True):
    """Report of a host about a stream that enters there."""

    next_seq: int
    shed: int = 0
    """Tuples that its load shedder dropped."""
    overdue: int = 0
    """Tuples that were dropped because they had waited here until no deadline could be kept."""
    waiting: int = 0
    """Tuples that wait here for consumers, and are not numbered yet."""
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
    role: ReplicaRole = ReplicaRole.PRIMARY
    """Whether it feeds consumers, or stands by for another site's."""
    epoch: int = 0
    """The newest in which it has acted or knows another one to."""
    lags: bool = False
    """Whether it stands by without having come as far as the site that feeds consumers."""
    together: float | None = None
    """Tuples that have entered at once lately, on average; None while few have."""
    tuple_bytes: float | None = None
    """Size of these tuples, texts included, on average; None while few have."""


class WaitingInput(Record, frozen=True, kw_only=True):
    """Tuples that a live source has accepted, and that have not entered its stream yet.

    Attributes
    ----------
    since_us
        Since when none of them has entered, cluster clock.
    for_ms
        The event timestamp from which on one more tuple lets all of them enter; None: they enter by
        themselves, once consumers take more.
    until_idle_ms
        After how much silence the clock lets them enter; None: it does not.
    """

    tuples: int
    bytes: int
    since_us: int
    for_ms: int | None = None
    until_idle_ms: int | None = None


class InputStatus(Record, frozen=True, kw_only=True):
    """Report of a live source."""

    saved: JournalCopy | None = None
    """The copy of its journal for the last savepoint that wanted one."""
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
    ignored: int = 0
    """Tuples that had fields which the stream does not have; they entered without these."""
    last_ignored: str | None = None
    """One of these fields."""
    last_rejected: str | None = None
    """Why the last of them did not enter."""
    buffered_bytes: int = 0
    """Input that waits for the host."""
    waiting: WaitingInput | None = None
    """Tuples that wait for their turn, in memory and in files; None: none does."""
    journal_bytes: int | None = None
    """Size of its journal; None: it has none."""
    retained_ms: int | None = None
    """Event time after which its journal has the stream; None: it has no journal, or all of it."""

    @property
    def refused(self) -> int:
        """All that did not enter."""
        return self.late + self.ahead + self.malformed


class Skipped(LostInput, frozen=True, kw_only=True):
    """Input that is lost, because its site was away when it came due and cannot bring it in later.

    The source can tell exactly how many tuples there were, or cannot tell it at all.
    """

    @property
    def any_lost(self) -> bool:
        """Whether there were tuples, as far as the source can tell."""
        return self.tuples != 0

    @property
    def detail(self) -> str:
        """A sentence for people."""
        return f"{self.counted} {self.span} came due while the site was away"


class Incident(Record, frozen=True, kw_only=True):
    """What happened at a host at a time of the cluster's clock, for the history.

    Attributes
    ----------
    kind, subject, detail
        As in `HistoryEvent`.
    """

    at_us: int
    kind: str
    subject: str
    detail: str


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
    labels: FailureLabels = FailureLabels()
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
    lag_ms: float = 0.0
    """By how much its heartbeats have been late in the last minute or so, on average."""
    sdmr_pct: float = 0.0
    """Share of the arrivals that its primaries evaluated too late within the last second, %."""
    reported_us: int = 0
    """When the host wrote this, cluster clock."""
    coordinate: NodeCoordinate | None = None
    latencies_ms: dict[str, float] = {}
    """Round trips it measured, by peer."""
    spreads_ms: dict[str, float] = {}
    """By how much the last five of them differ, by peer."""
    replicas: dict[str, ReplicaStatus] = {}
    sources: dict[str, SourceStatus] = {}
    """Those that have been opened."""
    failed_sources: tuple[str, ...] = ()
    """Streams whose source has failed, and is tried again from time to time."""
    sinks: dict[str, SinkStatus] = {}
    wants: tuple[str, ...] = ()
    """Streams an observer asks to be sent."""
    functions: dict[str, str] = {}
    """Functions of owners that are installed there → fingerprint of their code."""
    memory: MemoryStatus | None = None
    dispatch_histogram: Histogram | None = None
    """Of its dispatches: processor time of evaluating a batch, or emulated cost."""
    counters: dict[str, int] = {}
    """Everything the host counts, by name: duplicates dropped, frames refused, …"""
    problems: tuple[str, ...] = ()
    """Parts of its assignment that the host cannot carry out, a sentence each."""
    incidents: tuple[Incident, ...] = ()
    """The last failures of sources and sinks, and input that was lost."""
    versions: Versions = FIRST
    leaving: Leaving | None = None
    """None: it stays."""


NOTHING_ENTERED = SourceStatus(next_seq=0)
"""Of a source that has just been opened."""

NOTHING_DELIVERED = SinkStatus(
    next_seq=0, watermark_ms=None, rows=0, latency_ms_p50=None, latency_ms_p99=None,
    deadline_misses=0, completed_timestamps=0, lost=0, repeated=0,
)  # fmt: skip
"""Of a sink that has just been opened."""
