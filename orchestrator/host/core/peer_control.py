"""The regular messages between hosts that share a fragment or a stream.

One `Control` message carries everything that two hosts tell each other regularly: epochs, output
watermarks and digests of the fragments they share, acknowledgements of what one reads of the other,
and the end of the output that one produces for the other. Related hosts exchange it every
acknowledgement interval. A host with many fragments and streams, or a slow one, tells of all of
them together, in some of the intervals only (`TELLS`). So their cost grows more slowly than their
number.

Hosts of peer replicas watch each other. If one has sent the other nothing in a heartbeat interval,
it sends a `Heartbeat`, which only says how late the sender is. It needs no turn of the receiver's
loop.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ha.messages import EVERY_TUPLE, Ack, Control, Heartbeat, Offer, OutputDigest
from ha.producer import Producer, acknowledge, overdue_offer
from ha.replica import Replica
from ha.roles import ReplicaRole
from orchestrator.host.core.discontinuities import Discontinuities
from orchestrator.host.core.events import Outbox
from orchestrator.host.core.failover import Failover
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.host.core.input_processor import InputProcessor
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.host.core.state_loss import StateLoss
from streams.scheduling.cadence import every_nth

TELLS = 8
"""A host with fewer replicas tells of all of them in each interval, one with more in every second,
fourth or eighth. The limit is lower on a slow, CPU-starved machine."""

MOST_TURNS = 8
"""Soon enough to notice a standby that lags or differs; a power of two."""

LOOKS = 16
MOST_LOOKS = 2
"""A host with fewer streams looks in each interval for subscribers that lack output, one with more
in every second: their hosts acknowledge more rarely too, so it notices hardly later."""


class _Draft:
    __slots__ = (
        *("acks", "checkpoints", "digests", "epochs"),
        *("offers", "stalled", "standbys", "watermarks_ms"),
    )

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.watermarks_ms: dict[str, int] = {}
        self.digests: dict[str, OutputDigest] = {}
        self.acks: dict[str, Ack] = {}
        self.offers: dict[str, Offer] = {}
        self.checkpoints: dict[str, int] = {}
        self.standbys: dict[str, tuple[int, int]] = {}
        self.stalled: dict[str, int] = {}

    def message(self, lag_us: int) -> Control | Heartbeat:
        """What to send."""
        told = self.epochs or self.watermarks_ms or self.digests or self.acks or self.offers
        if not (told or self.checkpoints or self.standbys or self.stalled):
            return Heartbeat(lag_us=lag_us)
        return Control(
            epochs=self.epochs,
            watermarks_ms=self.watermarks_ms,
            digests=self.digests,
            acks=self.acks,
            offers=self.offers,
            checkpoints=self.checkpoints,
            standbys=self.standbys,
            stalled=self.stalled,
            lag_us=lag_us,
        )


@dataclass(slots=True)
class PeerControl:
    """Sends and receives the control messages of one host.

    Attributes
    ----------
    replica_manager
        The replicas, sources and sinks of this host.
    failover
        Told the epochs that other hosts know.
    inputs
        Told what producers offer.
    state_loss, discontinuities
        Told how far consumers and primaries are, and whether a peer replica's output differs.
    outbox
        Takes the messages.
    """

    replica_manager: ReplicaManager
    failover: Failover
    inputs: InputProcessor
    state_loss: StateLoss
    discontinuities: Discontinuities
    outbox: Outbox
    _interval: int = 0
    """Acknowledgement intervals so far."""

    def send(self, now_us: int, *, everything: bool) -> None:
        """Send a heartbeat to the hosts of peer replicas, or everything to all related hosts."""
        lag_us = self.failover.detector.lag_us
        if everything:
            self._interval += 1
            for node, draft in self._drafts(now_us).items():
                self.outbox.send(node, draft.message(lag_us))
        else:
            heartbeat = Heartbeat(lag_us=lag_us)
            # Whatever was sent is a sign of life.
            for peer in self.replica_manager.peer_hosts:
                if peer not in self.outbox.sent:
                    self.outbox.send(peer, heartbeat)
        self.outbox.sent.clear()

    def grant(self, now_us: int) -> None:
        """Acknowledge processed tuples where producers may otherwise have to wait."""
        if not self.inputs.spent:
            return
        drafts = defaultdict[str, _Draft](_Draft)
        for node, stream, ack in self.inputs.grants(now_us):
            drafts[node].acks[stream] = ack
        for node, draft in drafts.items():
            self.outbox.send(node, draft.message(self.failover.detector.lag_us))

    def _drafts(self, now_us: int) -> dict[str, _Draft]:
        """The message for each related host. Checkpoints are long, and sent at once."""
        drafts = defaultdict[str, _Draft](_Draft)
        for peer in self.replica_manager.peer_hosts:
            drafts[peer] = _Draft()
        self._tell_of_replicas(drafts)
        for name, source in self.replica_manager.sources.items():
            if (peer := source.peer_replica) is not None:
                _tell_of_role(drafts[peer], name, source)
                if source.stalled:
                    drafts[peer].stalled[name] = source.epoch
        for node, stream, ack in self.inputs.acknowledgements(now_us, self._interval):
            drafts[node].acks[stream] = ack
        self._offer(drafts, now_us)
        for node, checkpoint in self.inputs.checkpoints(now_us):
            self.outbox.send(node, checkpoint)
        return drafts

    def _offer(self, drafts: defaultdict[str, _Draft], now_us: int) -> None:
        """Tell subscribers where output ends that have not acknowledged it in time."""
        manager = self.replica_manager
        streams = len(manager.replicas) + len(manager.sources)
        as_many = self.inputs.dispatcher.as_many(streams)
        if self._interval % every_nth(as_many, LOOKS, most=MOST_LOOKS):
            return
        for source in manager.sources.values():
            _offer_output(drafts, source)
        for hosted in manager.replicas.values():
            _offer_output(drafts, hosted.replica, at_once=hosted.stands_in(now_us))

    def _tell_of_replicas(self, drafts: defaultdict[str, _Draft]) -> None:
        """Tell of the replicas if it is their turn, and of those with news.

        News are repeated for a while: a primary that hands over waits to hear how far its successor
        has come.
        """
        replicas = self.replica_manager.replicas
        as_many = self.inputs.dispatcher.as_many(len(replicas))
        passes = self._interval % every_nth(as_many, TELLS, most=MOST_TURNS)
        for name, hosted in replicas.items():
            telling = hosted.assignment.others, hosted.replica.epoch
            if hosted.told != telling:
                hosted.told, hosted.tellings = telling, 0
            if hosted.tellings >= MOST_TURNS and passes:
                continue
            hosted.tellings += 1
            for node in hosted.assignment.others:
                _tell_of_replica(drafts[node], name, hosted)

    def receive(self, sender: str, message: Control, now_us: int) -> None:
        """Act on another host's message."""
        self.failover.told_lag(sender, message.lag_us)
        for fragment, epoch in message.epochs.items():
            reached_ms = message.watermarks_ms.get(fragment)
            source = self.replica_manager.sources.get(fragment)
            if source is not None and source.peer_replica == sender:
                source.hear_peer(reached_ms, now_us)
            if (hosted := self._shared(sender, fragment)) is not None:
                hosted.hear_epoch(sender, epoch)
                hosted.hear_standby(sender, message.standbys.get(fragment))
            self.failover.on_epoch(fragment, epoch, now_us, reached_ms=reached_ms)
        for stream, epoch in message.stalled.items():
            self.failover.on_peer_stalled(sender, stream, epoch, now_us)
        for fragment, watermark_ms in message.watermarks_ms.items():
            self._follow(sender, fragment, watermark_ms, now_us)
        for fragment, digest in message.digests.items():
            self._compare(sender, fragment, digest, now_us)
        for stream, ack in message.acks.items():
            self.failover.on_epoch(
                stream, ack.epoch, now_us, consumer=sender, generation=ack.generation
            )
            self.state_loss.on_claim(sender, stream, ack, now_us)
            producer = self.replica_manager.producer(stream)
            if producer is None:
                continue
            lacks = acknowledge(producer, sender, ack, now_us)
            source = self.replica_manager.sources.get(stream)
            if source is not None and source.take_in(now_us, self.replica_manager.clock.at(now_us)):
                lacks = True
            if lacks:
                self.outbox.feed(producer)
            self.inputs.dispatcher.update_held_up(stream, now_us)
        for fragment, at_ms in message.checkpoints.items():
            if (hosted := self._shared(sender, fragment)) is not None:
                hosted.replica.sender.told(sender, at_ms)
        for stream, offered in message.offers.items():
            self.inputs.on_offer(sender, stream, offered, now_us)

    def _follow(self, sender: str, fragment: str, watermark_ms: int, now_us: int) -> None:
        """Note how far a standby lags behind its primary's output."""
        if (hosted := self._shared(sender, fragment)) is None:
            return
        hosted.hear_primary(watermark_ms, now_us)
        self.discontinuities.give_up_if_passed(hosted, now_us)

    def _compare(self, sender: str, fragment: str, digest: OutputDigest, now_us: int) -> None:
        """Have a secondary start over if its output differs from the primary's."""
        if (hosted := self._shared(sender, fragment)) is None:
            return
        replica = hosted.replica
        if replica.generation != digest.generation or not replica.digests.differs(digest):
            return
        self.outbox.counters["divergences"] += 1
        if replica.role is ReplicaRole.STANDBY and hosted.assignment.peer_replica == sender:
            detail = f"output of event-time interval {digest.interval} differs from {sender}'s"
            self.outbox.report("diverged", fragment, detail)
            self.state_loss.discard(hosted, now_us)

    def _shared(self, sender: str, fragment: str) -> HostedReplica | None:
        """The replica here of a fragment that has another one on `sender`."""
        hosted = self.replica_manager.replicas.get(fragment)
        return hosted if hosted is not None and sender in hosted.assignment.others else None


def _offer_output(
    drafts: defaultdict[str, _Draft], producer: Producer, *, at_once: bool = False
) -> None:
    """Tell subscribers that lack output where the producer's output ends."""
    if not producer.accepts_subscribers:
        return
    for node in producer.log.subscribers:
        if (offered := overdue_offer(producer, node, at_once=at_once)) is not None:
            drafts[node].offers[producer.stream] = offered


def _tell_of_replica(draft: _Draft, name: str, hosted: HostedReplica) -> None:
    """Tell the host of another replica how far the one here has come."""
    replica = hosted.replica
    _tell_of_role(draft, name, replica)
    digest = replica.digests.newest(replica.generation)
    if digest is not None:
        draft.digests[name] = digest
    if replica.role is not ReplicaRole.STANDBY:
        return
    draft.standbys[name] = replica.generation, replica.log.end.watermark_ms
    if hosted.assignment.batch != EVERY_TUPLE:
        draft.checkpoints[name] = replica.receiver.at_ms


def _tell_of_role(draft: _Draft, name: str, producer: Replica | HostedSource) -> None:
    """Tell the peer's host a producer's epoch and, as primary, how far it has come."""
    draft.epochs[name] = producer.epoch
    end_ms = producer.output_watermark_ms
    if end_ms is not None and producer.role is ReplicaRole.PRIMARY:
        draft.watermarks_ms[name] = end_ms
