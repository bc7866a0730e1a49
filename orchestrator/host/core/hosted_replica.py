"""A replica on this host with its assignment, and the state of its takeovers and failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from ha.handover import Handover
from ha.lag import StandbyLag
from ha.messages import EVERY_TUPLE
from ha.recovering import Loss, Recovering
from ha.replica import Replica
from ha.roles import ReplicaRole, RoleEvent
from orchestrator.edges.supervision import LONGEST_RETRY_US, Failures
from orchestrator.records import (
    FragmentAssignment,
    HoldingStatus,
    LostInput,
    RecoverySplit,
    RecoveryStatus,
    SnapshotStatus,
    StoredCheckpoint,
)
from streams.vectors.chunk import NO_WATERMARK

BATCHES_LAG_US = 500_000
"""A standby that is sent batches may lag by twice what its plan says, and this time: a busy host
acknowledges streams in turns."""

EVERYTHING_US = 10_000_000
"""How long a standby takes every tuple after it lagged further than its checkpoints explain, or
after its primary did not receive its input. The cause may last, such as a sink that keeps nothing
or a link that is cut."""


@dataclass(slots=True)
class Holding:
    """That a replica takes part in a change of its statement whose cut is not agreed yet.

    Attributes
    ----------
    since_us, from_ms
        When it heard of the change, and up to where it had evaluated then.
    status
        What it has promised; None: nothing yet.
    """

    change: int
    since_us: int
    from_ms: int
    status: HoldingStatus | None


@dataclass(slots=True)
class HostedReplica:
    """A replica on this host, with its assignment.

    Attributes
    ----------
    lag
        How far it lags behind the primary while it is a standby.
    snapshot_asked_us
        When the peer replica was last asked for its state.
    failures
        Errors of evaluating its input or of reading a state. It rests after each, ever longer.
    unevaluable
        Whether the last of them came from its input.
    handover
        What a primary knows of its successor; None while it has none.
    overruled
        The epoch that the store has given to another primary, and the node of that.
    everything_until_us
        Until when it takes every tuple, because it has lagged too far.
    recovering
        Its last takeover, while it acts in the epoch that it began with.
    promised
        The longest recovery by the plan that held then.
    refuses
        Whether it has refused input for want of room while it waited to take over, and has not
        processed its queue since.
    lost
        The loss of its primary, if it waits for a producer's answer to take over.
    follows
        Node of the primary that it was last assigned as a secondary of.
    succeeds
        Node of the former primary whose place a plan has given it, until that says that it has
        stepped down.
    standby_ms
        Up to where the peer replica's output is complete, if that is a standby with the same
        generation and has said so; `NO_WATERMARK` if not.
    snapshot
        The last state that it has given another replica.
    giving_bytes
        How much it has sent of one that it has not given as a whole yet.
    lost_input
        Input stream → input that was lost when the replica began from nothing.
    restored
        Epoch in which its fragment had last gone on from a checkpoint when it was started.
    restoring_us
        Since when it reads the checkpoint from which it goes on; None: it reads none.
    unusable
        The checkpoint that it was to go on from, and cannot.
    stored
        The last checkpoint of it that is kept.
    stores_us
        Since when one is being written; None: none is.
    storing
        The names of those that are to be written.
    stored_slot
        The interval in which one was last written; None: it is to write one as soon as it can.
    holding
        The change of its statement that it takes part in; None: there is none.
    stored_for_us
        The last time after which a checkpoint was wanted, and has been taken since.
    told, tellings
        The hosts of the other replicas with the epoch that they were told last, and how often they
        were told it.
    """

    assignment: FragmentAssignment
    replica: Replica
    lag: StandbyLag = field(default_factory=StandbyLag)
    snapshot_asked_us: int | None = None
    failures: Failures = field(default_factory=Failures)
    unevaluable: bool = False
    told: tuple[tuple[str, ...], int] | None = None
    tellings: int = 0
    handover: Handover | None = None
    overruled: tuple[int, str] | None = None
    everything_until_us: int = 0
    recovering: Recovering | None = None
    promised: RecoverySplit | None = None
    refuses: bool = False
    lost: Loss | None = None
    follows: str | None = None
    succeeds: str | None = None
    standby_ms: int = NO_WATERMARK
    snapshot: SnapshotStatus | None = None
    giving_bytes: int | None = None
    lost_input: dict[str, LostInput] = field(default_factory=dict[str, LostInput])
    restored: int = 0
    restoring_us: int | None = None
    unusable: str | None = None
    stored: StoredCheckpoint | None = None
    stores_us: int | None = None
    storing: set[str] = field(default_factory=set[str])
    stored_slot: int | None = None
    holding: Holding | None = None
    stored_for_us: int = 0

    def __post_init__(self) -> None:
        self.use(self.assignment)

    @property
    def state_bytes(self) -> int | None:
        """Size of its state, estimated; None: it has none yet."""
        has_none = self.replica.role is ReplicaRole.WARMING
        return None if has_none else self.replica.engine.state_bytes()

    @property
    def readers_ms(self) -> int | None:
        """As `ReplicaStatus` has it."""
        is_restored = self.assignment.restored and self.replica.role is ReplicaRole.PRIMARY
        return self.replica.readers_ms if is_restored else None

    @property
    def peer_replica(self) -> str | None:
        """Node of the other replica: as assigned, or the primary that the store has named since."""
        epoch, primary = self.overruled or (0, "")
        follows = self.assignment.epoch < epoch == self.replica.epoch
        return primary if follows else self.assignment.peer_replica

    @property
    def superseded_in(self) -> int | None:
        """The newest epoch in which another replica is primary, while this one still acts."""
        a, replica = self.assignment, self.replica
        planned = a.epoch if a.role == "secondary" else 0
        epoch = max(planned, 0 if self.handover is None else self.handover.epoch)
        return epoch if replica.role is ReplicaRole.PRIMARY and epoch > replica.epoch else None

    @property
    def awaits_promotion(self) -> bool:
        """Whether it is a standby that a plan has made primary."""
        a, replica = self.assignment, self.replica
        is_named = a.role == "primary" and a.epoch >= replica.epoch
        return is_named and replica.role is ReplicaRole.STANDBY

    @property
    def awaits_input(self) -> bool:
        """Whether it becomes primary once a producer of each input has answered."""
        return self.awaits_promotion or (
            self.lost is not None and self.replica.role is ReplicaRole.STANDBY
        )

    def promote(self) -> None:
        """Have it be primary as planned."""
        if self.replica.apply(RoleEvent.PROMOTED, self.assignment.epoch):
            self.succeeds = self.follows
        self.handover = self.lost = None

    def use(self, assignment: FragmentAssignment) -> None:
        """Adopt an assignment."""
        if self.assignment.role == "secondary":
            self.follows = self.assignment.peer_replica
        if assignment.peer_replica != self.assignment.peer_replica:
            self.standby_ms = NO_WATERMARK
        self.assignment = assignment

    def hear_epoch(self, node: str, epoch: int) -> None:
        """Note the epoch of the fragment that another replica knows."""
        if node == self.succeeds and epoch >= self.replica.epoch:
            self.succeeds = None

    def hear_standby(self, node: str, said: tuple[int, int] | None) -> None:
        """Note what another replica says of itself as a standby; None: it is none."""
        if node == self.peer_replica:
            generation, reached_ms = said or (0, NO_WATERMARK)
            is_alike = generation == self.replica.generation
            self.standby_ms = reached_ms if is_alike else NO_WATERMARK

    def lacks(self, stream: str) -> bool:
        """Whether its standby has evaluated input of a stream that has yet to come here."""
        return self.replica.inputs[stream].cursor.complete_ms < self.standby_ms

    def failed(self, why: str, now_us: int, *, unevaluable: bool = False) -> None:
        """Note that its state could not be used any further."""
        self.unevaluable = unevaluable
        if now_us - self.failures.retry_us > LONGEST_RETRY_US:
            self.failures.overcome()
        self.failures.add(why, now_us)

    def rests(self, now_us: int) -> bool:
        """Whether it takes no input and fetches no state, because it has failed just now."""
        return self.replica.role is ReplicaRole.WARMING and now_us < self.failures.retry_us

    @property
    def failure(self) -> str | None:
        """Why it has no state, if an error is the reason."""
        return self.failures.problem if self.replica.role is ReplicaRole.WARMING else None

    def stands_in(self, now_us: int) -> bool:
        """Whether it is a standby that takes every tuple for a while."""
        return self.replica.role is ReplicaRole.STANDBY and now_us < self.everything_until_us

    def batch(self, now_us: int) -> int:
        """B: its input must be sent in batches of so many tuples.

        A standby takes every tuple while it feeds a consumer that the primary does not reach, and
        while it waits to become primary.
        """
        replica = self.replica
        if replica.role is not ReplicaRole.STANDBY or self.stands_in(now_us):
            return EVERY_TUPLE
        if self.awaits_input:
            return EVERY_TUPLE
        if any(subscriber.feed for subscriber in replica.log.subscribers.values()):
            return EVERY_TUPLE
        return self.assignment.batch

    def take_everything(self, now_us: int) -> None:
        """Take every tuple for a while."""
        self.everything_until_us = now_us + EVERYTHING_US

    def hear_primary(self, watermark_ms: int, now_us: int) -> None:
        """Note up to where the primary's output is complete: a standby may lag behind it.

        A standby that is sent batches may lag by its checkpoints. If it lags further, it takes
        every tuple for a while, and is given the time to catch up.
        """
        self.replica.primary_ms = watermark_ms
        if self.replica.role is not ReplicaRole.STANDBY:
            self.lag.reset()
            return
        end_ms = self.replica.log.end.watermark_ms
        allowed_us = round(self.assignment.standby_lag_ms * 1000)
        if self.assignment.batch != EVERY_TUPLE:
            withheld_us = round(2000 * self.assignment.covered_ms) + BATCHES_LAG_US
            if self.lag.waits_us(now_us) > withheld_us:
                self.take_everything(now_us)
            allowed_us += 2 * withheld_us
        self.lag.observe(watermark_ms, end_ms, now_us, allowed_us)

    @property
    def recovered(self) -> RecoveryStatus | None:
        """What its takeover took; None if it had none in this epoch, or has yet to catch up."""
        found = self.recovering
        if found is None or found.resent_us is None or found.caught_up_us is None:
            return None
        if self.replica.role is not ReplicaRole.PRIMARY or found.epoch != self.replica.epoch:
            return None
        return RecoveryStatus(
            measured=RecoverySplit(
                detection_ms=found.silent_us / 1000,
                resend_ms=(found.resent_us - found.began_us) / 1000,
                reprocess_ms=(found.caught_up_us - found.resent_us) / 1000,
            ),
            promised=self.promised,
            tuples=found.tuples,
        )

    @property
    def lags_since_us(self) -> int | None:
        """Since when it lags too far to protect its fragment; None if it does not."""
        return self.lag.since_us if self.replica.role is ReplicaRole.STANDBY else None
