"""The state of a cluster, and its history."""

from __future__ import annotations

from orchestrator.records import (
    BatchingStatus,
    FailureLabels,
    FragmentCost,
    FragmentPlan,
    Histogram,
    InputStatus,
    LostInput,
    MemoryStatus,
    PlaceLoad,
    QueryPlan,
    ReplicaLoad,
    SinkStatus,
    Skipped,
)
from orchestrator.records.durations import NO_MOVE
from orchestrator.results.automation import ProposalSummary
from orchestrator.results.result import Result

UNKEPT_MS = 3000.0
"""From then on an output counts as one whose sink keeps nothing: sinks are flushed five times a
second."""


class NodeStatus(Result, frozen=True, kw_only=True):
    """A live host.

    Attributes
    ----------
    error
        Relative error of its coordinate; None until it has one.
    load_ms
        Its CPU axis.
    counters
        Everything the host counts, by name.
    memory
        What its queues take, and may take.
    dispatch_histogram
        How long its dispatches have taken.
    reported_us
        When it wrote its record, on the cluster's clock, µs since 1970.
    cordoned
        Whether an operator has closed it: nothing new is placed there.
    leaving
        Whether its host is about to end: what runs there goes elsewhere.
    labels
        What it dies with; the replicas of a fragment share none of which there are several.
    load
        How busy it is, by the leader's figures.
    sdmr_pct
        Share of the arrivals that its primaries evaluated too late within the last second, %.
    """

    node: str
    kind: str
    region: str
    error: float | None
    load_ms: float | None
    primaries: int
    secondaries: int
    pid: int
    counters: dict[str, int]
    memory: MemoryStatus | None = None
    dispatch_histogram: Histogram | None = None
    reported_us: int = 0
    cordoned: bool = False
    leaving: bool = False
    labels: FailureLabels = FailureLabels()
    load: PlaceLoad | None = None
    sdmr_pct: float = 0.0


class FragmentStatus(Result, frozen=True, kw_only=True):
    """A fragment: `redundant` when its primary runs, and a warm secondary follows it.

    `unprotected_s` is how long it was not the last time, or has not been since; None if the history
    does not tell. It is `throttled` if its primary waits for consumers, or did so a moment ago.
    While a replica is moved, `third` is the node that comes or goes. `snapshot_bytes` and
    `snapshot_ms` are of the last state that its primary has given a new secondary,
    `checkpoint_bytes` of the state in its last checkpoint; None: there was none. `rejected` tuples
    were left out since its state began, because it fails on them. `stopped` says why it runs
    nowhere, if it has failed too often or is `paused`.
    `lost_input` is what it lacked of its inputs when it began from nothing, by stream.
    `plan` is what its place promises, by the leader's figures; None: they are of another place, or
    there are none yet. `redo_ms` is what its secondary would have to evaluate at most if it took
    over now, processor time; None: no secondary is warm, or nobody knows the cost. `drilled_days`
    is how many days ago a drill last struck its primary; None: the history knows of none. `load` is
    what its primary takes, and `batching` how the task that it is part of gathers its input, and
    how much of that is evaluated too late; None: its host does not say.
    """

    query: str
    fragment: str
    epoch: int
    primary: str
    primary_alive: bool
    sub_deadline_ms: float
    secondary: str | None
    secondary_state: str
    redundant: bool
    unprotected_s: float | None = None
    throttled: bool = False
    third: str | None = None
    snapshot_bytes: int | None = None
    snapshot_ms: float | None = None
    checkpoint_bytes: int | None = None
    rejected: int = 0
    stopped: str | None = None
    paused: bool = False
    lost_input: dict[str, LostInput] = {}
    plan: FragmentPlan | None = None
    redo_ms: float | None = None
    drilled_days: float | None = None
    load: ReplicaLoad | None = None
    batching: BatchingStatus | None = None

    @property
    def name(self) -> str:
        """By which it is known in the whole cluster."""
        return f"{self.query}.{self.fragment}"

    @property
    def lost_input_tuples(self) -> int:
        """How many tuples that were at most; an unknown number counts as one."""
        return sum(1 if each.tuples is None else each.tuples for each in self.lost_input.values())


class StreamStatus(Result, frozen=True, kw_only=True):
    """A stream where it enters: tuples let in, and tuples that its load shedder dropped.

    `overdue` tuples were dropped because they had waited at the site until no deadline could be
    kept with them; `waiting` ones wait there, unnumbered.
    `skipped` is the input that it left out when it last began anew, because its site was away. It
    is `throttled` if its source waits for consumers, or did so a moment ago, and `slipped_ms` is by
    how much its time axis has slipped because of that. `overflowed` tuples were dropped because the
    source cannot wait and the site's buffer was full; it is `overflowing` if that happens now, or
    did a moment ago. `refused` is all that a live source did not let in, and `input` says more.
    If two sites bring the stream in, `site` feeds its consumers, and `standby` reads it too, or is
    to; `stands_by` says whether it does. If the source cannot resume, `standby` opens it only when
    `site` is gone or cannot, and stands by while it is there. `input.waiting` are tuples that a
    live source has accepted and that have not entered yet; none of them has for `waits_s`, and
    `waits_for` says in words what must come first.
    `beside` is the stream whose late or rejected tuples it has.
    """

    stream: str
    site: str
    entered: int
    shed: int
    overdue: int = 0
    waiting: int = 0
    skipped: Skipped | None = None
    throttled: bool = False
    slipped_ms: float = 0.0
    overflowed: int = 0
    overflowing: bool = False
    refused: int = 0
    input: InputStatus | None = None
    standby: str | None = None
    stands_by: bool = False
    waits_s: float | None = None
    waits_for: str | None = None
    beside: str | None = None

    @property
    def skipped_tuples(self) -> int:
        """How many tuples that input had at most; an unknown number counts as one."""
        if self.skipped is None:
            return 0
        return 1 if self.skipped.tuples is None else self.skipped.tuples


class OutputStatus(SinkStatus, frozen=True, kw_only=True):
    """A stream where it leaves.

    Attributes
    ----------
    latency_uncertainty_ms
        By how much latencies may be wrong, because clocks of several machines are compared: 0 if
        its streams enter and leave on one machine, None if the clocks are not known.
    slack_ms
        What the deadline leaves of the time, but for one timestamp in a hundred; None if nothing
        was measured.
    """

    query: str
    stream: str
    site: str
    deadline_ms: float
    latency_uncertainty_ms: float | None = 0.0
    slack_ms: float | None = None

    def _repr_html_(self) -> str:
        from orchestrator.records.html import html

        return html(self)


class QueryStatus(Result, frozen=True, kw_only=True):
    """A query: what it promises, and whether it keeps that.

    Attributes
    ----------
    outputs
        Stream → site.
    fragments
        Its fragments, without its name in front.
    protected
        How many of them have a warm standby.
    plan
        What is promised by the leader's figures; None: there are none yet.
    slack_ms
        The least of its outputs; None if nothing was measured.
    """

    query: str
    deadline_ms: float
    bound_ms: float
    outputs: dict[str, str]
    fragments: tuple[str, ...]
    protected: int
    plan: QueryPlan | None
    slack_ms: float | None


class Degradation(Result, frozen=True, kw_only=True):
    """Something that is not as it should be, though it may still be as promised.

    Attributes
    ----------
    subject
        Such as `fragment proximity.alerts` or `node paris`.
    state
        How it is, a phrase.
    since_us
        Since when, on the cluster's clock; None: the history does not tell.
    doing
        What is done about it, a phrase.
    until_us
        When it should be over, as it took in the past; None: nobody knows.
    until_why
        Where that is known from, or why it is not, a phrase.
    """

    subject: str
    state: str
    since_us: int | None
    doing: str
    until_us: int | None
    until_why: str


class LinkStatus(Result, frozen=True, kw_only=True):
    """A link that a drill disturbs: cut if `delay_ms` is None, else longer by that."""

    source: str
    target: str
    delay_ms: float | None
    remaining_s: float


class EventDocument(Result, frozen=True, kw_only=True):
    """Something that happened; `at_us` on the cluster's clock, µs since 1970."""

    sequence: int
    at_us: int
    kind: str
    subject: str
    detail: str
    lasted_ms: float | None = None
    """How long the state lasted that this event ends, such as a time without protection."""
    by: str = ""
    """Who asked for it: a token's id and an address, or `local`; empty: nobody did."""


class StatusDocument(Result, frozen=True, kw_only=True):
    """The state of a cluster.

    `problems` are the leader's and the hosts' own words. `loads`, `costs` and `queries` are figures
    that the leader publishes every two seconds, as far as they have changed beyond rounding; those
    of many queries a few at a time, after changes of their fragments first. `figures_age_s` is the
    time since the loads were computed; None: there are no figures, since no leader has published
    any yet. `loads` are those of nodes, then those of machines that several nodes share; `queries`
    are what is promised to queries. `recoveries`, by query, and `moves` say how long these have
    taken, whoever led. `missing` are nodes and sites of the manifest that have no host. `degraded`
    is what is not as it should be now. `proposal` are moves that the leader proposes by itself;
    null: none. `automation_paused` says whether it plans and makes none, until
    `automation_paused_until_us` (null: until it is resumed). All of it was so at `at_us` of the
    cluster's clock.
    """

    cluster: str
    problems: tuple[str, ...]
    nodes: tuple[NodeStatus, ...]
    fragments: tuple[FragmentStatus, ...]
    streams: tuple[StreamStatus, ...]
    outputs: tuple[OutputStatus, ...]
    history: tuple[EventDocument, ...]
    loads: tuple[PlaceLoad, ...] = ()
    costs: tuple[FragmentCost, ...] = ()
    queries: tuple[QueryPlan, ...] = ()
    figures_age_s: float | None = None
    recoveries: dict[str, Histogram] = {}
    moves: Histogram = NO_MOVE
    missing: tuple[str, ...] = ()
    links: tuple[LinkStatus, ...] = ()
    """Those that drills disturb."""
    degraded: tuple[Degradation, ...] = ()
    proposal: ProposalSummary | None = None
    automation_paused: bool = False
    automation_paused_until_us: int | None = None
    at_us: int = 0


class HistoryDocument(Result, frozen=True, kw_only=True):
    """Events, oldest first."""

    history: tuple[EventDocument, ...]
