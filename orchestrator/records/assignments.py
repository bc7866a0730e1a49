"""What each host is to do."""

from __future__ import annotations

from typing import Literal

from ha.beginning import Beginning
from orchestrator.records.base import Peer, Record
from orchestrator.records.fragments import FormerStatement, RecoverySplit
from orchestrator.records.spec import (
    BatchingName,
    DriverSpec,
    Guarantee,
    Late,
    Overdue,
    Overflow,
    Shed,
    SourceSpec,
)
from orchestrator.records.versions import FIRST


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
    batch: int = 1
    """B of the standby scheme: how many input tuples are sent to a secondary at once."""
    checkpoint_ms: float = 0.0
    """Least time between two checkpoints for a secondary that is sent batches; 0: there are none,
    and it is sent every tuple."""
    covered_ms: float = 0.0
    """How far such a secondary is behind at most, because of what is kept back."""
    promised: RecoverySplit | None = None
    """As in the fragment's timing; to be reported beside what a takeover has taken."""
    skips: bool = False
    """Whether tuples on which the statement fails are left out."""
    rejected: bool = False
    """Whether those are what it gives, in place of results."""
    further_replicas: tuple[str, ...] = ()
    """Nodes of replicas besides the two, while one of them is being moved."""
    state_rate_bytes_s: float | None = None
    """Most bytes a second that are sent of its state, while a plan moves it that says so; None:
    as the cluster says."""
    restored: int = 0
    """Epoch in which the fragment last went on from a checkpoint: replicas from before are over."""
    checkpoint_us: int = 0
    """A checkpoint is wanted that is taken after this time, cluster clock, µs; 0: none is."""
    restores: str | None = None
    """Name of the checkpoint that this replica goes on from, as the primary of that epoch."""
    begins: Beginning | None = None
    """Where its input begins, if it is to begin from nothing; None: where producers keep it."""
    counts_from_ms: int | None = None
    """From which timestamp on STIME and ETIME count, if it is to begin from nothing; None: from its
    first tuple."""
    batching: BatchingName | None = None
    """Policy by which its input is gathered into batches; None: the cluster's."""
    functions: dict[str, str] = {}
    """Installed functions that it calls → fingerprint of the code with which it is to run."""
    paced: tuple[str, ...] = ()
    """Inputs of which its host takes no more than it can evaluate in time: they come from streams
    that drop overdue tuples where they enter, and from no others."""
    period_ms: float | None = None
    """Time between two of its releases on the cluster's clock: a replay may be played faster. None:
    it is not periodic, or an older leader has assigned it."""
    former: tuple[FormerStatement, ...] = ()
    """What its statement was before, the oldest first, as long as a state may be of that."""

    @property
    def others(self) -> tuple[str, ...]:
        """Nodes of all other replicas."""
        peer = () if self.peer_replica is None else (self.peer_replica,)
        return (*peer, *self.further_replicas)


class SourceAssignment(Record, frozen=True, kw_only=True):
    """A stream that a host brings in."""

    stream: str
    columns: dict[str, str]
    fields: dict[str, tuple[str, ...]] = {}
    """As in the stream's record."""
    source: SourceSpec | None
    start_at_us: int | None
    shed: Shed | None = None
    overdue: Overdue = Overdue.KEEP
    """As in the stream's record."""
    overdue_after_ms: float | None = None
    """How long tuples may wait here for consumers until they are dropped; None: for ever, and so
    does the source if it can."""
    generation: int = 1
    """Life of the stream's numbering: it rises when the stream begins anew, and when it is deleted
    and applied again."""
    slipped_ms: float = 0.0
    """By how much its time axis had slipped when this host was first assigned it."""
    role: Literal["primary", "secondary"] = "primary"
    """Whether the host feeds consumers, or keeps what it reads until the other site is lost."""
    epoch: int = 0
    """Fencing number: the generation, and one more for each takeover."""
    needed_ms: int | None = None
    """Event time after which a checkpoint that is kept needs the stream again; None: nobody knows.
    """
    saves: tuple[str, int] | None = None
    """Savepoint that is to get a copy of the stream's journal, and when it was asked for; None:
    none is."""
    peer_site: str | None = None
    """The other site that brings the stream in."""

    @property
    def resumes(self) -> bool:
        """Whether the site can continue a numbering that another process began."""
        able = self.source is not None and self.source.guarantee.resumable
        return able and self.shed is None and self.overdue is Overdue.KEEP

    @property
    def waits(self) -> bool:
        """Whether the source is not read while consumers hold it up.

        A load shedder is there for input that cannot wait. Overdue tuples are dropped instead.
        """
        able = self.source is not None and self.source.guarantee is not Guarantee.ONCE
        return able and self.shed is None and self.overdue_after_ms is None


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
    measured_from_us: int = 0
    """Input that entered before, cluster clock, µs, says nothing of the latency: its query began
    from a savepoint at that time."""
    overflow: Overflow = Overflow.WAIT
    late: Late = Late.KEEP
    """Whether results that arrive after the deadline are dropped."""


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
    may_end: bool = False
    """Whether the host leaves, and nothing of what runs there can still go elsewhere."""
    records: int = FIRST.records
    """The newest records that every process reads which runs: the host writes no newer ones."""
    clock_ahead_us: int | None = 0
    """By how much the cluster's clock is ahead of the machine's monotonic clock; None while nobody
    knows. Nothing enters and no replica starts at the host until then, and sinks there wait."""


SINK_PREFIX = "sink:"
"""A sink reads under this prefix and the stream's name; a replica, under its fragment's name."""
