"""Which replica of a fragment runs where, and what is to become of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ha.beginning import Beginning
from orchestrator.records.base import LinkFault, Record, ReplicaId
from orchestrator.records.checkpoints import Restoration
from orchestrator.records.moves import MovePlan


class RecoverySplit(Record, frozen=True, kw_only=True):
    """A recovery time in its parts (reliable placement, (1)): detection, K and ΣQ·p."""

    detection_ms: float
    resend_ms: float
    reprocess_ms: float

    @property
    def total_ms(self) -> float:
        """Together."""
        return self.detection_ms + self.resend_ms + self.reprocess_ms

    def __str__(self) -> str:
        parts = (self.detection_ms, self.resend_ms, self.reprocess_ms)
        return " + ".join(f"{ms:.0f}" for ms in parts) + " ms"


class Timing(Record, frozen=True, kw_only=True):
    """By when a fragment must have evaluated its input (deadline placement, §5.2)."""

    cost_ms: float
    """Time that evaluating a burst takes, as the plan assumes."""
    sub_deadline_ms: float
    """For the primary, from the arrival of its input."""
    standby_lag_ms: float
    """How far the secondary may lag while the recovery bound is kept."""
    batch: int = 1
    """B of the standby scheme: how many tuples of its input the secondary is sent at once."""
    checkpoint_ms: float = 0.0
    """Least time between two checkpoints for a secondary that is sent batches."""
    covered_ms: float = 0.0
    """How far such a secondary is behind at most, because of what is kept back."""
    promised: RecoverySplit | None = None
    """The recovery time that the plan reckons with; the secondaries of other fragments that die
    with it may have to be waited for besides."""


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
    lacked: tuple[str, ...] = ()
    """Nodes of the manifest that were not there when its place was chosen, until it was chosen
    again with them."""
    restored: Restoration | None = None
    """The last checkpoint that it has gone on from."""
    begins: Beginning | None = None
    """From where on the present state has its input, if it is not the fragment's first one."""
    counts_from_ms: int | None = None
    """From which timestamp on STIME and ETIME of its periodic statement count, for a state that
    begins from nothing."""
    ended_ms: int | None = None
    """The timestamp at which that statement has ended, once the history tells of it."""
    functions: dict[str, str] = {}
    """Installed functions that it calls → fingerprint of the code with which it runs."""
    former: tuple[FormerStatement, ...] = ()
    """What its statement was before, the oldest first, as long as a state may be of that."""
    restart: PlannedRestart | None = None
    """That it begins from nothing as soon as its query is changed."""
    paused: bool = False
    """Whether it runs nowhere until its query is resumed, and then goes on from a checkpoint."""

    @property
    def changing(self) -> FormerStatement | None:
        """The former statement of a change whose cut is not agreed yet."""
        return self.former[-1] if self.former and self.former[-1].until_ms is None else None

    @property
    def key(self) -> str:
        """Name of the record in the store."""
        return f"{self.query}.{self.fragment}"

    @property
    def stopped(self) -> str | None:
        """Why it runs nowhere and is not started again; None: it runs."""
        if self.paused:
            return "its query is paused"
        return None if self.restarts is None else self.restarts.stopped

    @property
    def replicas(self) -> tuple[ReplicaId, ...]:
        """All replicas, the primary first; those that it had if it is stopped."""
        third = None if self.third is None else self.third.replica
        return tuple(each for each in (self.primary, self.secondary, third) if each is not None)

    def runs_on(self, node: str) -> bool:
        """Whether a node is to run a replica."""
        return self.stopped is None and node in [replica.node for replica in self.replicas]


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


class FormerStatement(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a fragment's statement was until it was changed in place.

    Attributes
    ----------
    statement
        The one CQL statement.
    skips
        Whether tuples on which it fails were left out.
    functions
        Installed functions that it calls → fingerprints of their code.
    change
        Number of the change that ended it; a later change has a greater one.
    keeps
        Whether the next statement goes on with its state; else that begins anew.
    until_ms
        Event time of the cut: up to there this statement counts. None: its replicas have yet to
        say up to where they may have evaluated by it.
    """

    statement: str
    skips: bool = False
    functions: dict[str, str] = {}
    change: int
    keeps: bool
    until_ms: int | None = None


class PlannedRestart(Record, frozen=True, kw_only=True):
    """A fragment's statement is changed so that it reads its input from another place on.

    Attributes
    ----------
    change
        Number of the change.
    why
        A phrase.
    all_input
        Whether it is to read all input that can be had; else what follows its last results.
    """

    change: int
    why: str
    all_input: bool


class Restarts(Record, frozen=True, kw_only=True):
    """Attempts in a row to evaluate a fragment's input from nothing."""

    count: int
    last_us: int
    """When the last one began, cluster clock, µs."""
    failed: int = 0
    """How many of them followed from input that could not be evaluated."""
    stopped: str | None = None
    """Why there is no further one, if there is none: the fragment runs nowhere."""


class TakeOver(Record, frozen=True, kw_only=True):
    """How the present primary came to be one."""

    previous: ReplicaId
    cause: str
    detected_at_us: int
    """Cluster clock, µs."""


class IssuedRecord(Record, frozen=True, kw_only=True):
    """`/issued`: by how much the numbers that this store issues are raised.

    First epochs and generations are numbers of the store's own changes, so they rise for as long as
    the store lives. Another store that takes its place begins at 0, and archives and readers have
    seen greater ones.
    """

    floor: Annotated[int, Meta(ge=0)] = 0
    stands_for: dict[int, int] = {}
    """Number of a creation in this store → the one that it stands for: of a stream or query that
    came with a savepoint, of another store."""
    restoring: str = ""
    """The savepoint that is being brought into this store; empty: none is."""


class PlanFigures(Record, frozen=True, kw_only=True):
    """A plan's promises to a query: latency of its slowest output, and its longest recovery."""

    latency_ms: float
    deadline_ms: float
    recovery_ms: float
    bound_ms: float


class CordonRecord(Record, frozen=True, kw_only=True):
    """`/cordons/<node>`: nothing new is placed on a node; what runs there stays."""

    node: str
    since_us: int
    """Cluster clock, µs."""
    until_us: int | None = None
    """When it ends by itself; None: once somebody takes it away."""


class PauseRecord(Record, frozen=True, kw_only=True):
    """`/pauses/<query>`: until it is gone, a query is to give no results and to keep its place."""

    query: str
    life: int
    """Number of the query's creation: another one of that name is not paused."""
    asked_us: int
    """Cluster clock, µs."""


class DisturbedLink(LinkFault, frozen=True, kw_only=True):
    """`/links/<source>:<target>`: a drill disturbs the link from one host to another."""

    source: str
    target: str

    @property
    def name(self) -> str:
        """Names the record."""
        return f"{self.source}:{self.target}"


class HistoryEvent(Record, frozen=True, kw_only=True):
    """An entry of `/history`, the audit trail."""

    at_us: int
    kind: str
    subject: str
    detail: str
    lasted_ms: float | None = None
    """How long the state lasted that this event ends, or has lasted that was noticed only now;
    None for other events."""
    by: str = ""
    """Who asked for it: a token's id and an address; `local`: a command with the cluster's secret;
    empty: it happened, or the leader decided it."""
    report: dict[str, object] | None = None
    """What a drill's observer measured (`orchestrator.drills.report`); None for other events."""
    moves: MovePlan | None = None
    """A plan of moves as it ended (`moves ended`); None for other events."""
