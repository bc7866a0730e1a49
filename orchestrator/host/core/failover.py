"""The failover decision: when a replica of this host takes over, and when one steps down.

A standby takes over as soon as its primary's host is lost: the connection to it breaks, its record
is gone from the store, or it is silent for `suspectAfter`, for longer where hosts are overloaded
(`ha.failure_detector`). So does a primary whose successor is lost, be it before or after a plan
names it. The takeover is local and immediate; the store records it afterwards. A primary steps down
when it learns of a newer epoch of its fragment. It learns of it from its peer replica's control
messages or from a consumer's acknowledgement, and then steps down once its successor's output has
come as far as its own (`ha.handover`). Or it learns of it from the store, and then steps down at
once.

*Sources at two sites* are taken over in the same way. The leader learns of the takeover from the
site's report: there is no third site to which the store could have given the place meanwhile. A
site also takes over from one that lives and says that it can read nothing, because its source has
failed or waits. It does not if the same holds for itself. A site that has just started has its
state at once, before its links are up. So the silence of a site that it has never heard says
nothing.

*A host that is cut off.* A host whose links all break loses every peer, too. If it still reached
the store, its records would depose healthy primaries whose place it cannot take. Takeovers and lost
secondaries are therefore recorded only when this host has heard another one since, or when the
store itself says that the peer is gone.

*A standby that is behind.* A standby that is sent its input in batches may know that its primary
has come further. Then it can send consumers nothing before a producer sends it the tuples that were
kept back. If the site of these tuples is away and cannot resume, it never can: only the primary has
them, and the primary may merely be cut off. So such a standby asks first. It becomes primary once a
producer of each input has answered, or once the store says that the primary is gone. The answer
travels with the tuples that were kept back, so consumers do not wait longer because of that. The
same holds if a plan makes it primary.

*A primary that is behind.* A secondary may have fed consumers more than its primary has, for
instance because the link to the primary was cut. Suppose that such a primary loses sight of the
secondary and has it replaced. Once the primary's own input is lost, nobody could continue the
output that consumers have. Or the secondary has input that no producer keeps any more, and that
the primary has yet to get. So the primary waits until it has come as far itself, or until the store
says that the secondary is gone. If the two have lost each other, the takeover by the secondary
comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ha.failure_detector import FailureDetector
from ha.handover import Handover
from ha.recovering import Loss, Recovering
from ha.replica import Replica
from ha.roles import ReplicaRole, RoleEvent
from orchestrator.host.core.dispatcher import Dispatcher
from orchestrator.host.core.events import Outbox, RecordLoss, RecordTakeover
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.host.core.replica_manager import ReplicaManager


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTakeover:
    """A takeover of a source; its site reports it once it may be recorded."""

    stream: str
    epoch: int
    detected_at_us: int


SILENT = "silent"
"""The cause of a loss that only silence shows, no broken connection and no record."""

Hosted = HostedReplica | HostedSource
"""A replica or source: it has a role here, and a peer on another host."""

Recorded = RecordTakeover | RecordLoss | SourceTakeover


def _nothing() -> list[tuple[str, Recorded]]:
    return []


@dataclass(frozen=True, slots=True)
class Failover:
    """Watches the hosts of peer replicas, and changes the roles of replicas here.

    Attributes
    ----------
    replica_manager
        The replicas of this host.
    dispatcher
        Told when roles have changed.
    outbox
        Takes messages, reports and takeovers to record.
    detector
        Suspects hosts that are silent.
    """

    replica_manager: ReplicaManager
    dispatcher: Dispatcher
    outbox: Outbox
    detector: FailureDetector
    _unrecorded: list[tuple[str, Recorded]] = field(default_factory=_nothing)
    """Each with the host that was lost."""
    _pairs: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Fragments and sources here, with the hosts of their peers."""

    def heard(self, node: str, now_us: int) -> None:
        """Note a sign of life of a host."""
        self.detector.heard(node, now_us)

    def on_assignment(self, gone: set[str], now_us: int) -> None:
        """Watch the hosts of peer replicas; take over from those that have left the store.

        Parameters
        ----------
        gone
            Nodes whose process has ended since the last assignment, even if a new one has started.
        """
        alive = self.replica_manager.incarnations
        pairs = {
            (_name(hosted), peer)
            for hosted in self._hosted()
            if (peer := hosted.peer_replica) is not None and peer in alive
        }
        renewed = {peer for _, peer in pairs - self._pairs}
        self._pairs.clear()
        self._pairs.update(pairs)
        self.detector.watch({peer for _, peer in pairs}, now_us, renewed)
        for hosted in self._hosted():
            peer = hosted.peer_replica
            if peer is not None and (peer in gone or peer not in alive):
                loss = self._loss(hosted, "gone from the store", now_us)
                self._take_over(hosted, loss, now_us)
            elif hosted.superseded_in is not None and self.detector.counts_as_lost(peer or ""):
                # The leader that chose the successor did not know of its loss yet.
                loss = self._loss(hosted, "lost before it was named", now_us)
                self._take_over(hosted, loss, now_us)
        self._record([each for each in self._unrecorded if each[0] in gone or each[0] not in alive])

    def told_lag(self, node: str, lag_us: int) -> None:
        """Note how late a host says that it has been lately."""
        self.detector.told_lag(node, lag_us)

    def on_peer_lost(self, node: str, now_us: int) -> None:
        """Take over from a host to which the connection broke."""
        self.detector.lost(node)
        self._lose(node, "connection lost", now_us)

    def suspect_silent_peers(self, now_us: int) -> bool:
        """Take over from a host that has been silent for too long; returns whether one has been."""
        suspects = self.detector.suspects(now_us)
        for node in suspects:
            self.outbox.counters["suspicions"] += 1
            self._lose(node, SILENT, now_us)
        return bool(suspects)

    def on_answer(self, now_us: int) -> None:
        """Have waiting standbys become primary if producers of all inputs have answered."""
        for hosted in self.replica_manager.replicas.values():
            if (loss := hosted.lost) is not None and not self.detector.misses(loss.lost):
                hosted.lost = loss = None
            if not hosted.awaits_input or self.replica_manager.lacks_input(hosted):
                continue
            if loss is not None:
                self._take_over(hosted, loss, now_us)
            else:
                self._promote(hosted, now_us)

    def on_peer_stalled(self, node: str, stream: str, epoch: int, now_us: int) -> None:
        """Take over a stream from a site that cannot read it, if this one can.

        Parameters
        ----------
        epoch
            As the other site knows it. If it is older than here, that site has yet to hear of its
            successor.
        """
        source = self.replica_manager.sources.get(stream)
        if source is None or source.peer_replica != node or source.stalled:
            return
        if epoch >= source.epoch:
            cause = f"{node} can bring nothing in"
            self._take_over(source, self._loss(source, cause, now_us), now_us)

    def record_losses(self) -> None:
        """Have takeovers and losses recorded, if this host has heard others since.

        A secondary that is ahead of its primary, and is heard again meanwhile, was not lost.
        """
        due: list[tuple[str, Recorded]] = []
        for lost, change in [*self._unrecorded]:
            if self._may_be_ahead(lost, change):
                if not self.detector.counts_as_lost(lost):
                    self._unrecorded.remove((lost, change))
            elif self.detector.hears_others(change.detected_at_us):
                due.append((lost, change))
        self._record(due)

    def on_epoch(
        self,
        fragment: str,
        epoch: int,
        now_us: int,
        *,
        reached_ms: int | None = None,
        consumer: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Step down if another host knows a newer epoch of a fragment, once the handover is over.

        Parameters
        ----------
        reached_ms
            Up to where the output of the replica that acts in that epoch is complete, if it says
            so itself.
        consumer
            The host, if it reads the fragment's stream.
        generation
            Generation of the epoch, if the sender says it. Epochs of a former generation do not
            count, however high they rose while nobody could record takeovers.
        """
        hosted = self._named(fragment)
        if hosted is None or epoch <= _acting(hosted).epoch:
            return
        acting = _acting(hosted)
        if generation is not None and generation < acting.generation:
            return
        if acting.role is ReplicaRole.PRIMARY:
            handover = hosted.handover
            if handover is None:
                handover = Handover(epoch, acting.output_watermark_ms, now_us)
                hosted.handover = handover
            handover.epoch = max(handover.epoch, epoch)
            if reached_ms is not None:
                handover.hear(reached_ms, now_us)
            if consumer is not None:
                handover.heard_by.add(consumer)
            a = hosted.assignment
            confirmed = a.role == "secondary" and a.epoch > acting.epoch
            demanding = acting.log.demanding
            if not handover.is_over(demanding, now_us, confirmed=confirmed):
                return
        self._step_down(fragment, RoleEvent.SUPERSEDED, epoch, now_us)

    def on_overruled(self, fragment: str, epoch: int, primary: str, now_us: int) -> None:
        """Step down, because the store has accepted another primary for an epoch.

        Two replicas that follow the same primary, one of them replaced while it was stopped or
        being moved, begin the same epoch. The store accepts one.
        """
        if (hosted := self.replica_manager.replicas.get(fragment)) is not None:
            hosted.overruled = (epoch, primary)
        self._step_down(fragment, RoleEvent.OVERRULED, epoch, now_us)

    def _step_down(self, fragment: str, event: RoleEvent, epoch: int, now_us: int) -> None:
        hosted = self._named(fragment)
        if hosted is not None and _acting(hosted).apply(event, epoch):
            hosted.handover = None
            self.outbox.counters["demotions"] += 1
            self.outbox.report("stepped down", fragment, f"epoch {epoch} has another primary")
            self.dispatcher.rebuild_tasks(now_us)

    def _record(self, due: list[tuple[str, Recorded]]) -> None:
        for each in due:
            self._unrecorded.remove(each)
            _, change = each
            if not self._holds(change):
                continue
            if isinstance(change, SourceTakeover):
                self.replica_manager.sources[change.stream].announce()
            else:
                self.outbox.add(change)

    def _may_be_ahead(self, lost: str, change: Recorded) -> bool:
        """Whether a lost secondary has more input than its primary, or may have fed more output.

        A former primary acts until its successor has come as far. As long as it is not heard to
        have stepped down, it may feed consumers, though nobody says so.
        """
        return (
            isinstance(change, RecordLoss)
            and (hosted := self.replica_manager.replicas.get(change.fragment)) is not None
            and (
                hosted.replica.is_behind
                or hosted.succeeds == lost
                or any(map(hosted.lacks, hosted.replica.inputs))
            )
        )

    def _holds(self, change: Recorded) -> bool:
        """Whether the replica of a change is still the primary of its epoch."""
        is_source = isinstance(change, SourceTakeover)
        hosted = self._named(change.stream if is_source else change.fragment)
        if hosted is None or not _acting(hosted).feeds_subscribers:
            return False
        return _acting(hosted).epoch == change.epoch

    def _lose(self, node: str, cause: str, now_us: int) -> None:
        """Take over every fragment whose peer replica was on a lost host."""
        for hosted in self._hosted():
            if hosted.peer_replica != node:
                continue
            is_site = isinstance(hosted, HostedSource)
            if is_site and cause == SILENT and not self.detector.has_met(node):
                continue
            acting = _acting(hosted)
            if acting.feeds_subscribers and hosted.superseded_in is None:
                self._report_loss(hosted, cause, now_us)
            loss = self._loss(hosted, cause, now_us)
            if isinstance(hosted, HostedReplica) and self.replica_manager.lacks_input(hosted):
                hosted.lost = loss
            else:
                self._take_over(hosted, loss, now_us)

    def _loss(self, hosted: Hosted, cause: str, now_us: int) -> Loss:
        lost, kept_back = hosted.peer_replica or "", frozenset[str]()
        if isinstance(hosted, HostedReplica):
            known = hosted.lost
            if known is not None and known.lost == lost and self.detector.misses(lost):
                return known
            kept_back = self.replica_manager.kept_back(hosted)
        return Loss(
            lost=lost,
            cause=cause,
            silent_us=self.detector.silent_us(lost, now_us),
            detected_at_us=now_us,
            kept_back=kept_back,
        )

    def _report_loss(self, hosted: Hosted, cause: str, now_us: int) -> None:
        if isinstance(hosted, HostedSource):
            # The other site stands by again once it is back.
            return
        a, lost = hosted.assignment, hosted.peer_replica or ""
        loss = RecordLoss(
            query=a.query,
            fragment=a.fragment,
            epoch=hosted.replica.epoch,
            lost=lost,
            cause=cause,
            detected_at_us=now_us,
        )
        self._unrecorded.append((lost, loss))

    def _hosted(self) -> list[Hosted]:
        manager = self.replica_manager
        return [*manager.replicas.values(), *manager.sources.values()]

    def _named(self, stream: str) -> Hosted | None:
        """The replica or the source of a stream here."""
        manager = self.replica_manager
        return manager.replicas.get(stream) or manager.sources.get(stream)

    def _take_over(self, hosted: Hosted, loss: Loss, now_us: int) -> None:
        acting = _acting(hosted)
        if isinstance(hosted, HostedReplica):
            hosted.lost = None
            if hosted.awaits_promotion:
                self._promote(hosted, now_us)
                return
        if (epoch := hosted.superseded_in) is not None:
            # Its successor is lost before it could take over from this replica.
            acting.apply(RoleEvent.SUPERSEDED, epoch)
            hosted.handover = None
        if not acting.apply(RoleEvent.PEER_REPLICA_LOST):
            return
        self.outbox.counters["takeovers"] += 1
        self.outbox.report("took over", _name(hosted), f"{loss.cause}; epoch {acting.epoch}")
        if isinstance(hosted, HostedReplica):
            self._begin_recovery(hosted, loss, now_us)
        else:
            takeover = SourceTakeover(
                stream=hosted.stream, epoch=hosted.epoch, detected_at_us=loss.detected_at_us
            )
            self._unrecorded.append((loss.lost, takeover))
        self.outbox.feed(acting)
        self.dispatcher.rebuild_tasks(now_us)

    def _promote(self, hosted: HostedReplica, now_us: int) -> None:
        hosted.promote()
        self.outbox.feed(hosted.replica)
        self.dispatcher.rebuild_tasks(now_us)

    def _begin_recovery(self, hosted: HostedReplica, loss: Loss, now_us: int) -> None:
        """Have a takeover recorded, and measure what it takes."""
        replica, a = hosted.replica, hosted.assignment
        takeover = RecordTakeover(
            query=a.query,
            fragment=a.fragment,
            epoch=replica.epoch,
            previous=loss.lost,
            cause=loss.cause,
            detected_at_us=loss.detected_at_us,
        )
        self._unrecorded.append((loss.lost, takeover))
        hosted.promised = a.promised
        hosted.recovering = Recovering(
            epoch=replica.epoch,
            silent_us=loss.silent_us,
            began_us=loss.detected_at_us,
            target_ms=replica.primary_ms,
            awaited=set(loss.kept_back),
        )
        hosted.recovering.reached(replica.output_watermark_ms, now_us)


def _name(hosted: Hosted) -> str:
    return hosted.stream if isinstance(hosted, HostedSource) else hosted.assignment.fragment


def _acting(hosted: Hosted) -> HostedSource | Replica:
    """The object that has the role, the epoch and the output log."""
    return hosted if isinstance(hosted, HostedSource) else hosted.replica
