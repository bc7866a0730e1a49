"""What people wrote: the cluster's settings, streams and queries. What the leader has decided of
streams and queries is in `running_streams` and `running_queries`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import msgspec

from foundation.loop_limits import DEFAULT_STEPS, DEFAULT_TUPLES, Beyond
from orchestrator.records.base import Record
from orchestrator.records.checkpoints import StateSpec
from placement.methods import Method
from streams.scheduling.batching_names import MEASURED, PATTERN
from streams.scheduling.run_queue import Policy
from topology.cpu import DEFAULT_SCALING, Scaling

DEFAULT_MEMORY_BYTES = 256 * 2**20
"""Of all queues of a host: many seconds of a fast stream."""

BatchingName = Annotated[str, msgspec.Meta(pattern=PATTERN)]
"""A policy of `streams.scheduling.batching`."""


class DriverSpec(Record, frozen=True, kw_only=True):
    """A driver and its options, as JSON; `orchestrator.edges.drivers` turns it back into the
    driver."""

    driver: str
    options: dict[str, Any] = {}


class Guarantee(Enum):
    """What a source promises of its tuples if its site is lost, or consumers hold it up."""

    ONCE = "once"
    """Nothing: each is read once, when it is due, and nobody waits."""
    SENT = "sent"
    """Whoever sends them waits while consumers hold them up."""
    JOURNALED = "journaled"
    """The same, and the site keeps a journal, from which they can be read again."""
    REPLAYABLE = "replayable"
    """They can be read again from any position by any site, with the same numbers."""

    @property
    def resumable(self) -> bool:
        """Whether a site that is started again can continue the stream."""
        return self in (Guarantee.JOURNALED, Guarantee.REPLAYABLE)

    @property
    def paced(self) -> bool:
        """Whether the source has a time axis of its own, which slips while consumers hold it up."""
        return self in (Guarantee.ONCE, Guarantee.REPLAYABLE)


class SourceSpec(DriverSpec, frozen=True, kw_only=True):
    """The source of a stream."""

    together_ms: float = 0.0
    """Time, on the cluster's clock, whose tuples enter at once."""
    advances_ms: float = 0.0
    """How often the clock advances the stream though no tuple comes; 0: never."""
    advances_after_ms: float = 0.0
    """Silence after which it does."""
    guarantee: Guarantee = Guarantee.ONCE


class Shed(Record, frozen=True, kw_only=True):
    """Limits of a load shedder (deadline placement, §5.1)."""

    tuples: int
    """At most so many …"""
    per_ms: float
    """… in each interval of this length."""
    value: str | None = None
    """Expression over the stream's columns: of what is too much, the tuples with the least value
    are dropped. None: the latest."""


class Overdue(Enum):
    """What happens to tuples that wait at their entry until no deadline can be kept with them."""

    KEEP = "keep"
    """They enter, and their results are late."""
    DROP = "drop"
    """They are dropped before they are numbered, and counted."""


class StreamRecord(Record, frozen=True, kw_only=True):
    """`/streams/<name>`: a stream that enters from outside."""

    name: str
    site: str
    columns: dict[str, str]
    """Column → type, one of `streams.vectors.chunk.type_names`, in order."""
    fields: dict[str, tuple[str, ...]] = {}
    """Column → path of the field of the input that it comes from, unless that is named as the
    column."""
    rate_bytes_s: float
    """Expected volume, for planning until it is measured."""
    burst: int | None = None
    """Tuples that enter at once, for which deadlines are designed; None: what comes within a batch
    interval or, if that is longer, within the source's `together_ms`."""
    shed: Shed | None = None
    overdue: Overdue = Overdue.KEEP
    """Whether overdue tuples may be dropped at the entry; they are while every query that reads the
    stream, directly or not, says so, too."""
    source: SourceSpec | None = None
    """None: no tuple ever enters."""
    standby: str | None = None
    """A second site that brings the same stream in, and feeds consumers when the first is lost. If
    the source cannot resume, it is opened there only then, and the stream begins anew."""
    beside: str | None = None
    """The stream whose late or rejected input this is, and with which it starts."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that bring it in, as they are named."""
        return (self.site,) if self.standby is None else (self.site, self.standby)

    @property
    def resumes(self) -> bool:
        """Whether a site that is started again can continue the stream's numbering.

        Tuples that a load shedder admits depend on when they arrive, and those that are dropped
        as overdue on when consumers take them, so they cannot be numbered again.
        """
        able = self.source is not None and self.source.guarantee.resumable
        return able and self.shed is None and self.overdue is Overdue.KEEP


class Overflow(Enum):
    """What happens to an output whose sink does not follow once all buffers on the way are full."""

    WAIT = "wait"
    """Nothing is lost: the producers wait, up to the sources."""
    DROP = "drop"
    """Nobody waits: the oldest output that the sink lacks is dropped, and counted as lost."""


class Late(Enum):
    """What happens to results that arrive at their site after their deadline."""

    KEEP = "keep"
    """They are delivered."""
    DROP = "drop"
    """They are dropped there, and counted."""


class Estimate(Record, frozen=True, kw_only=True):
    """Behaviour of a fragment as its owner expects it, for planning until it is measured."""

    selectivity: float | None = None
    """Bytes out per byte in."""
    cost_us: float | None = None
    """Processing time per input tuple."""


class Partial(Enum):
    """Whether panes are aggregated by a fragment of their own, which may run nearer to the data."""

    AUTO = "auto"
    """Where a trial and the planner find that it saves traffic."""
    ALWAYS = "always"
    """Wherever the result is the same."""
    NEVER = "never"


class OnError(Enum):
    """What happens if a statement fails on some tuples."""

    STOP = "stop"
    """It starts over some times, then stays stopped."""
    SKIP = "skip"
    """They are left out, and counted (`streams.evaluate.skipping`)."""


class Loops(Record, frozen=True, kw_only=True):
    """What the loops of a query may do (`streams.evaluate.loops`)."""

    steps: int = DEFAULT_STEPS
    """Most instants of a millisecond in which tuples are delayed by `<NOW>`."""
    tuples: int = DEFAULT_TUPLES
    """Most tuples of a millisecond."""
    beyond: Beyond = Beyond.ERROR


class Scheme(Enum):
    """Standby scheme: what secondaries are sent of their input (reliable placement, §3.1)."""

    ACTIVE = "active"
    """Every tuple, at once."""
    ADAPTIVE = "adaptive"
    """What costs least within the recovery bound."""
    LARGEST = "largest"
    """Batches of the largest size that keeps the recovery bound: the rule of the paper."""
    BATCHES = "batches"
    """Batches of a size that the owner states."""
    UPSTREAM = "upstream"
    """Nothing: producers keep it until the secondary takes over (upstream backup)."""


class Standby(Record, frozen=True, kw_only=True):
    """How a query's secondaries are fed."""

    scheme: Scheme = Scheme.ACTIVE
    batch: int | None = None
    """Tuples in a batch, if the owner states them."""


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
    standby: Standby = Standby()
    overflow: dict[str, Overflow] = {}
    """Output stream → what happens if its sink keeps nothing for long; it waits, if not named."""
    late: dict[str, Late] = {}
    """Output stream → what happens to late results; they are kept, if it is not named."""
    estimates: dict[str, Estimate] = {}
    on_error: OnError = OnError.STOP
    partial: Partial = Partial.AUTO
    share: bool = False
    """Whether statements are computed once for this query and others that say so, too."""
    loops: Loops = Loops()
    primaries: dict[str, tuple[str, ...]] = {}
    """Fragment → nodes that its primary may run on while they are there; any, if it is not named.
    """
    batching: BatchingName | None = None
    """How input of its fragments is gathered into batches; None: as the cluster says."""
    overdue: Overdue = Overdue.KEEP
    """Whether streams that it reads may drop overdue tuples where they enter."""

    def deadline_of(self, output: str) -> float:
        """End-to-end deadline of an output, ms."""
        return self.deadlines_ms.get(output, self.deadline_ms)


class PlacementSpec(Record, frozen=True, kw_only=True):
    """How operators are placed."""

    method: Method = Method.VIVACE


class ClusterRecord(Record, frozen=True, kw_only=True):
    """`/cluster`: what all processes of a cluster must agree on."""

    name: str
    id: str = ""
    """Drawn once, when the settings are first published; tells clusters of one name apart."""
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
    batching: BatchingName = MEASURED
    """How input is gathered into batches (`streams.scheduling.batching`)."""
    placement: PlacementSpec = PlacementSpec()
    """How coordinates are found, and operators placed."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """What all queues of a host may take together."""
    state_rate_bytes_s: float | None = None
    """What a host sends of states; None: as fast as their receivers take them."""
    emulate_costs: bool = False
    """Evaluation takes as long as the manifests' estimates say, however fast the machine is; on
    one machine, what link delays are for latencies."""
    state: StateSpec | None = None
    """Where the checkpoints of fragments are kept; None: nowhere."""
    admission: bool = True
    """Whether queries are refused that would overload a node or a machine."""
    nodes: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    """Those of the manifest; both empty: no manifest has said which there are."""

    @property
    def detection_ms(self) -> float:
        """Longest time until a silent death is noticed.

        Silence is suspected after a fixed time, and looked for at every heartbeat. A crash that
        breaks its connections is noticed sooner.
        """
        return self.suspect_after_ms + self.heartbeat_ms


class StreamManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`kind: Stream`: a stream that enters from outside.

    Attributes
    ----------
    written
        Dotted name of a field → its line, and its text if it is a scalar.
    """

    file: str
    record: StreamRecord
    written: Mapping[str, tuple[int, str | None]] = {}


class QueryManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`kind: Query`: a continuous query.

    Attributes
    ----------
    statements_line
        Line of the file on which the statements begin, to turn a position within them into one
        within the file.
    written
        As in `StreamManifest`.
    """

    file: str
    record: QueryRecord
    statements_line: int
    written: Mapping[str, tuple[int, str | None]] = {}
