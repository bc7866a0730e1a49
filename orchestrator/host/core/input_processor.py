"""The input side of a host: subscriptions, received data, acknowledgements and fetched state.

Replicas and sinks read streams. The host subscribes to every producer of a stream once for all of
them, and each drops tuples that it has received before. The host asks again when a chunk is
missing, and acknowledges tuples that none of them needs any more. A replica that is warming up also
fetches the state of its peer replica.

A chunk or a snapshot that cannot be processed, or a statement that cannot be evaluated, breaks the
replica concerned. That is counted and reported; the host goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ha.cursor import Receipt
from ha.messages import (
    EVERY_TUPLE,
    Ack,
    Checkpoint,
    Contradiction,
    Data,
    Offer,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.pace import Pace
from ha.roles import ReplicaRole
from ha.subscriber import MOST_ACK_INTERVALS
from ha.subscription import PATIENCE_US, STANDBY_PATIENCE_US, Subscription
from orchestrator.host.core.discontinuities import Discontinuities
from orchestrator.host.core.dispatcher import Dispatcher
from orchestrator.host.core.events import Outbox
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.host.core.stand_ins import StandIns
from orchestrator.host.core.state_loss import StateLoss, said
from orchestrator.records import LostInput
from streams.scheduling.cadence import every_nth
from streams.vectors.chunk import Position, nothing_until

ACKNOWLEDGES = 8
"""A host with fewer streams acknowledges all of them in each interval, one with more in every
second or fourth (`MOST_ACK_INTERVALS`). The limit is lower on a slow, CPU-starved machine."""

SNAPSHOT_RETRY_US = 500_000
"""A peer replica that has not answered by then was not ready, or the request was lost."""

RESTING_SHARE = 1 / 2
"""A standby whose queue is filled to this share does not rest."""

BACKLOG_SHARE = 1 / 4
"""Share of a standby's queue that may wait for the end of its rest."""


ASKS = (Receipt.GAP, Receipt.RESET, Receipt.DIFFERS)
"""Receipts after which a host tells the producer what it has, and asks for what follows."""

_counted = {receipt: f"chunks_{receipt.value}" for receipt in Receipt}


@dataclass(frozen=True, slots=True)
class InputProcessor:
    """Receives streams for the replicas and sinks of one host.

    Attributes
    ----------
    replica_manager
        The replicas and sinks of this host.
    dispatcher
        Told which replicas have received something, and when roles have changed.
    outbox
        Takes messages, deliveries and reports.
    state_loss, discontinuities
        Handle replicas whose state, or whose input, cannot be continued.
    stand_ins
        Told which streams come from a standby.
    spent
        Streams of which so much has arrived that their producers may have to wait until some of it
        is processed, and acknowledged.
    """

    replica_manager: ReplicaManager
    dispatcher: Dispatcher
    outbox: Outbox
    state_loss: StateLoss
    discontinuities: Discontinuities
    stand_ins: StandIns
    spent: set[str] = field(default_factory=set[str])

    def on_data(self, sender: str, data: Data, now_us: int) -> None:
        """Receive data for the sink and the replicas that read its stream."""
        subscription = self.replica_manager.subscriptions.get(data.stream)
        if subscription is None:
            self.outbox.counters["chunks_unasked"] += 1
            return
        subscription.count(data)
        subscription.learn_departure(data)
        if not subscription.confirmed:
            subscription.heard(sender, data.generation, now_us)
        is_accepted = is_repeated = False
        backlog = subscription.backlog
        followed = subscription.readers_before(data.generation, data.epoch)
        most_bytes = BACKLOG_SHARE * self.replica_manager.input_bytes
        for reader in backlog.woken_by(data, round(most_bytes)):
            self._deliver(subscription, reader, now_us)
        backlog.add(data)
        for reader in subscription.readers:
            if subscription.awaits(reader):
                continue
            if backlog.holds(reader):
                is_accepted = True
                self.outbox.counters[_counted[Receipt.ACCEPTED]] += 1
                continue
            if subscription.lacks_columns(reader, data):
                self.outbox.counters["chunks_narrow"] += 1
                if (request := subscription.missing(sender, now_us)) is not None:
                    self.outbox.send(sender, request)
                continue
            receipt = self._receive(sender, subscription, reader, data, now_us)
            self.outbox.counters[_counted[receipt]] += 1
            if receipt is Receipt.ACCEPTED:
                is_accepted = True
                hosted = self.replica_manager.replicas.get(reader)
                if hosted is not None and hosted.recovering is not None:
                    watermark_ms = data.chunk.end.watermark_ms
                    hosted.recovering.arrived(data.stream, watermark_ms, now_us)
                if hosted is not None and self._may_wait(hosted):
                    backlog.wait(reader, data, idle=not hosted.replica.engine.waiting)
            elif receipt is Receipt.DUPLICATE:
                is_repeated = True
            elif receipt in ASKS and not self.discontinuities.is_stopped(reader, data.stream):
                request = subscription.missing(sender, now_us)
                if request is not None:
                    self.outbox.send(sender, request)
        requests: list[tuple[str, Subscribe]] = []
        stood_in = subscription.stood_in
        if is_accepted:
            requests = subscription.accepted(sender, now_us)
        elif is_repeated:
            requests = subscription.repeated(sender, data.chunk.watermark_ms, now_us)
        self._send(requests)
        if stood_in and not subscription.stood_in:
            self.stand_ins.ended(data.stream, sender)
        elif stood_in and is_accepted:
            self.stand_ins.asked(data.stream, sender, subscription.producers[0], now_us)
        for reader in followed:
            # Its primary was lost: output must resume within the recovery bound.
            self.dispatcher.wake(reader, now_us)
        if subscription.has_spent_room:
            self.spent.add(data.stream)
            for reader in _counting(subscription):
                self.dispatcher.end_rest(reader, now_us)

    def _may_wait(self, hosted: HostedReplica) -> bool:
        """Whether data for a replica may wait until its rest ends."""
        resends = hosted.recovering is not None and hosted.recovering.awaited
        return not resends and self.dispatcher.rests(hosted.assignment.fragment)

    def deliver(self, fragment: str, now_us: int) -> None:
        """Have a replica receive the data that it has let wait."""
        if (hosted := self.replica_manager.replicas.get(fragment)) is not None:
            for stream in hosted.replica.inputs:
                self._deliver(self.replica_manager.subscriptions[stream], fragment, now_us)

    def deliver_all(self, now_us: int) -> None:
        """Have every replica receive the data that it has let wait."""
        for subscription in self.replica_manager.subscriptions.values():
            for reader in subscription.backlog.readers:
                self._deliver(subscription, reader, now_us)

    def _deliver(self, subscription: Subscription, reader: str, now_us: int) -> None:
        if (data := subscription.backlog.take(reader)) is not None:
            self._take(reader, data, now_us)

    def on_subscribed(self, sender: str, answer: Subscribed, now_us: int) -> None:
        """Note a producer's answer to a subscription; cross to a new generation if it shows one."""
        subscription = self.replica_manager.subscriptions.get(answer.stream)
        if subscription is None:
            return
        for reader in subscription.backlog.readers:
            self._deliver(subscription, reader, now_us)
        for reader in subscription.readers_before(answer.generation, answer.epoch):
            self.dispatcher.wake(reader, now_us)
        for reader in subscription.answered(sender, answer):
            self.discontinuities.cross(subscription, reader, answer, now_us)
        for reader in subscription.readers:
            if (hosted := self.replica_manager.replicas.get(reader)) is not None:
                self._learn_position(hosted, answer, now_us)
                self._request_snapshot(hosted, now_us)
            else:
                self._cross_hole(subscription, reader, answer, now_us)

    def on_contradiction(self, sender: str, message: Contradiction, now_us: int) -> None:
        """Have readers give up tuples of another history."""
        subscription = self.replica_manager.subscriptions.get(message.stream)
        if subscription is None or sender not in subscription.producers[:1]:
            # Two replicas may begin the same epoch. Whom the store has named primary is obeyed.
            return
        for reader in list(subscription.readers):
            self.state_loss.contradicted(reader, message, sender, now_us)

    def on_offer(self, sender: str, stream: str, offer: Offer, now_us: int) -> None:
        """Ask for output that a producer has and this host lacks.

        A producer that offers a stream which nobody reads here has not heard that this host left.
        """
        subscription = self.replica_manager.subscriptions.get(stream)
        if subscription is None:
            if stream not in self.replica_manager.sinks:
                self.outbox.send(sender, Unsubscribe(stream=stream))
            return
        if subscription.is_kept_from(offer):
            detail = f"{sender} does not reach a primary, or cannot keep back more"
            self.outbox.report("takes everything", stream, detail)
            self.replica_manager.take_everything(subscription, now_us)
            self.request(now_us)
            return
        busy = self._has_no_room(subscription)
        stopped = [
            reader
            for reader in subscription.readers
            if self.discontinuities.is_stopped(reader, stream) or self._refuses(reader, stream)
        ]
        for node, request in subscription.offered(
            sender, offer, now_us, busy=busy, stopped=stopped
        ):
            self.outbox.counters["chunks_missing"] += 1
            if request.feed:
                self.stand_ins.asked(stream, node, subscription.producers[0], now_us)
            self.outbox.send(node, request)

    def on_snapshot_request(self, sender: str, fragment: str) -> None:
        """Send a new peer replica the fragment's state, if there is one to continue from now."""
        hosted = self.replica_manager.replicas.get(fragment)
        snapshot = None if hosted is None else hosted.replica.snapshot()
        if snapshot is not None:
            self.outbox.send(sender, snapshot)

    def on_snapshot(self, snapshot: Snapshot, now_us: int) -> None:
        """Install the state of a peer replica."""
        hosted = self.replica_manager.replicas.get(snapshot.fragment)
        if hosted is None or not hosted.replica.needs_state:
            return
        was_warm = hosted.replica.role is not ReplicaRole.WARMING
        cursors = {stream: entry.cursor for stream, entry in hosted.replica.inputs.items()}
        before: dict[str, Position | None] = {}
        try:
            self.deliver(snapshot.fragment, now_us)
            before = {stream: cursor.position for stream, cursor in cursors.items()}
            installed = hosted.replica.install(snapshot)
        except Exception as error:  # noqa: BLE001  A broken snapshot must not end this host.
            self.outbox.report("snapshot refused", snapshot.fragment, said(error))
            hosted.failed(f"snapshot refused: {said(error)}", now_us)
            installed = False
        if installed:
            # The state may tell of consumers that have gone since it was written.
            self.replica_manager.restrict(hosted.replica)
            hosted.failures.mended()
            kind = "crossed with its primary" if was_warm else "warm"
            self.outbox.report(kind, snapshot.fragment, f"epoch {hosted.replica.epoch}")
            self.dispatcher.rebuild_tasks(now_us)
            # The cursor may have begun beyond the state; a stream at its end never shows that.
            # Producers keep what lies between: the primary has yet to process it.
            if was_warm or any(
                map(_falls, before.values(), [c.position for c in cursors.values()])
            ):
                self.state_loss.read_anew(hosted)
                self.request(now_us)
        else:
            self.outbox.counters["snapshots_unusable"] += 1

    def on_checkpoint(self, checkpoint: Checkpoint, now_us: int) -> None:
        """Have a standby follow its primary's checkpoint."""
        hosted = self.replica_manager.replicas.get(checkpoint.fragment)
        if hosted is None or hosted.replica.role is not ReplicaRole.STANDBY:
            return
        replica = hosted.replica
        try:
            self.deliver(checkpoint.fragment, now_us)
            cut = replica.receiver.receive(checkpoint)
            had_stopped = bool(replica.stopped)
            followed = replica.follow(checkpoint.generation, cut)
        except Exception:  # noqa: BLE001  A broken checkpoint must not end this host.
            self.outbox.counters["checkpoints_broken"] += 1
            replica.receiver.reset()
            return
        if followed:
            self.outbox.counters["checkpoints_followed"] += 1
            self.dispatcher.moved_on(checkpoint.fragment, now_us)
            if had_stopped:
                self.state_loss.read_anew(hosted)

    def checkpoints(self, now_us: int) -> Iterator[tuple[str, Checkpoint]]:
        """Checkpoints of the primaries here, each with the host of the standby to send it to."""
        if not self.replica_manager.withholds:
            return
        for fragment, hosted in self.replica_manager.replicas.items():
            a, replica = hosted.assignment, hosted.replica
            if a.checkpoint_ms == 0 or not a.others or not replica.feeds_subscribers:
                continue
            sender, log = replica.sender, replica.log
            sender.restrict(a.others)
            sender.take(replica.cut, log.end, now_us, round(a.checkpoint_ms * 1000))
            if (further := sender.acknowledged(log.acknowledged_by_all)) is not None:
                log.pass_on(further.output)
            of = fragment, replica.epoch, replica.generation
            for node in a.others:
                if (cut := sender.due(node, now_us)) is not None:
                    yield node, sender.message(node, *of, cut)

    def request(self, now_us: int) -> None:
        """Send the subscriptions and snapshot requests that are due."""
        self.discontinuities.cross_at_last()
        self.stand_ins.look(self.replica_manager.subscriptions, now_us)
        for subscription in self.replica_manager.subscriptions.values():
            if self.replica_manager.withholds:
                subscription.use_batch(self.replica_manager.batch(subscription, now_us))
            if not subscription.confirmed:
                self._send(subscription.requests(now_us))
        for hosted in self.replica_manager.replicas.values():
            self.discontinuities.give_up_if_passed(hosted, now_us)
            self._request_snapshot(hosted, now_us)
            self._tell_lost(hosted)

    def acknowledgements(self, now_us: int, interval: int) -> Iterator[tuple[str, str, Ack]]:
        """Acknowledgements that are due: node, stream, and the message.

        A host with many streams, or a slow one, acknowledges all of them together, in some of the
        intervals only: one message to each producer costs less than many. Streams of which much has
        arrived are acknowledged in the next interval, because producers must not run out of credit.
        An acknowledgement that says nothing new is left out for a while.

        Input that has waited for longer than its deadline is late already, and more of it would
        only wait. Then the host gives no further credit.
        """
        manager = self.replica_manager
        passes = interval % every_nth(
            self.dispatcher.as_many(len(manager.subscriptions)),
            ACKNOWLEDGES,
            most=MOST_ACK_INTERVALS,
        )
        for subscription in manager.subscriptions.values():
            if not passes or subscription.has_received_much:
                yield from self._acknowledge(subscription, now_us)

    def grants(self, now_us: int) -> Iterator[tuple[str, str, Ack]]:
        """As `acknowledgements`, of streams whose producers would wait for the next interval.

        A host with little memory for each stream gives little credit at a time. If it gave credit
        once in each interval, a backlog would take many intervals, though the host has nothing to
        do.
        """
        for stream in tuple(self.spent):
            subscription = self.replica_manager.subscriptions.get(stream)
            if subscription is not None and self._has_no_room(subscription):
                continue
            self.spent.discard(stream)
            if subscription is not None:
                yield from self._acknowledge(subscription, now_us)

    def _acknowledge(
        self, subscription: Subscription, now_us: int
    ) -> Iterator[tuple[str, str, Ack]]:
        manager, stream = self.replica_manager, subscription.stream
        demanding = subscription.demanding
        positions: dict[str, Position | None] = {}
        for reader, cursor in subscription.readers.items():
            if (hosted := manager.replicas.get(reader)) is not None:
                positions[reader] = hosted.replica.processed_of(stream)
                continue
            processed = manager.sinks[stream].processed
            if processed is None and reader not in demanding:
                # It needs nothing from before where it began. Producers would take that for sent
                # and not processed, and soon have no credit left.
                processed = cursor.began_at
            positions[reader] = processed
        is_behind = any(
            self.dispatcher.is_behind(reader, now_us)
            for reader in demanding or subscription.readers
        )
        subscription.room_bytes = (
            0 if is_behind else self._room_bytes(subscription, positions, now_us)
        )
        subscription.received_bytes = 0
        acks = subscription.acks(positions)
        for node, ack in acks if subscription.acks_due(acks, now_us) else ():
            yield node, stream, ack

    def _room_bytes(
        self, subscription: Subscription, positions: Mapping[str, Position | None], now_us: int
    ) -> int:
        """The credit for a stream: of one that may be dropped where it enters, no more than readers
        can evaluate in time.

        So what is overdue is overdue there, and little of it is evaluated in vain.
        """
        manager, stream = self.replica_manager, subscription.stream
        room_bytes = manager.window_bytes
        before, subscription.paces = subscription.paces, {}
        for reader in subscription.demanding:
            hosted, position = manager.replicas.get(reader), positions[reader]
            if hosted is None or stream not in hosted.assignment.paced:
                continue
            pace = subscription.paces[reader] = before.get(reader) or Pace()
            found = self.dispatcher.in_time(reader, now_us)
            if found is None or position is None:
                continue
            tuples = pace.tuples(position.next_seq, *found, now_us)
            found_bytes = pace.room_bytes(position.next_seq, tuples)
            if found_bytes is not None:
                room_bytes = min(room_bytes, found_bytes)
        return room_bytes

    def _has_no_room(self, subscription: Subscription) -> bool:
        """Whether readers have yet to process so much that producers may have to wait."""
        stream = subscription.stream
        least_bytes = max(subscription.room_bytes // 2, 1)
        return any(
            self.replica_manager.held_bytes(reader, stream) * subscription.times_whole
            >= least_bytes
            for reader in _counting(subscription)
        )

    def _send(self, requests: list[tuple[str, Subscribe]]) -> None:
        for node, request in requests:
            self.outbox.send(node, request)

    def _receive(
        self, sender: str, subscription: Subscription, reader: str, data: Data, now_us: int
    ) -> Receipt:
        """Let one reader receive data, across a hole if nobody can fill it."""
        receipt = self._take(reader, data, now_us)
        if receipt is not Receipt.GAP:
            return receipt
        self._send(subscription.ask_others(sender, now_us) if subscription.has_gap(sender) else [])
        hosted = self.replica_manager.replicas.get(reader)
        is_standby = hosted is not None and hosted.replica.role is not ReplicaRole.PRIMARY
        patience_us = STANDBY_PATIENCE_US if is_standby else PATIENCE_US
        if not subscription.unrecoverable(reader, now_us, patience_us):
            return receipt
        if self.discontinuities.skip(subscription, reader, data, now_us):
            receipt = self._take(reader, data, now_us)
        return receipt

    def _cross_hole(
        self, subscription: Subscription, reader: str, answer: Subscribed, now_us: int
    ) -> None:
        """Take a sink across a hole that all producers have, by their responses.

        Data would show the hole, too, but at the end of a stream no data comes.
        """
        begins, clock = subscription.begins_for(reader), self.replica_manager.clock
        if begins is None or not clock.known:
            return
        schema = self.replica_manager.sinks[answer.stream].schema
        nothing = nothing_until(begins, schema, clock.at(now_us))
        data = Data(
            stream=answer.stream, epoch=answer.epoch, generation=answer.generation, chunk=nothing
        )
        if self.discontinuities.skip(subscription, reader, data, now_us):
            self._take(reader, data, now_us)

    def _take(self, reader: str, data: Data, now_us: int) -> Receipt:
        hosted = self.replica_manager.replicas.get(reader)
        if hosted is None:
            clock = self.replica_manager.clock
            if not clock.known:
                # Nobody could tell how late it is. Producers keep it.
                return Receipt.STALE
            sink = self.replica_manager.sinks[data.stream]
            receipt, deliveries = sink.receive(data, clock.at(now_us))
            self.outbox.add(*deliveries)
            return receipt
        if hosted.rests(now_us) or self._refuses(reader, data.stream):
            return Receipt.STALE
        try:
            receipt = hosted.replica.receive(data).receipt
        except Exception as error:  # noqa: BLE001  A broken chunk must not end this host.
            self.state_loss.failed(hosted, error, now_us)
            return Receipt.STALE
        if receipt is Receipt.DIFFERS and hosted.replica.role is ReplicaRole.WARMING:
            # Nobody needs what it has gathered.
            self.state_loss.discard(hosted, now_us)
            return Receipt.STALE
        self._bound_standby(hosted, data, now_us)
        self.dispatcher.arrived(reader, now_us)
        return receipt

    def _learn_position(self, hosted: HostedReplica, answer: Subscribed, now_us: int) -> None:
        try:
            is_news = hosted.replica.learn_position(answer, self.replica_manager.clock.at(now_us))
        except Exception as error:  # noqa: BLE001  A broken answer must not end this host.
            self.state_loss.failed(hosted, error, now_us)
            return
        if is_news:
            self.dispatcher.arrived(hosted.assignment.fragment, now_us)

    def _refuses(self, reader: str, stream: str) -> bool:
        """Whether a secondary that waits to take over, or has waited, has no room for data.

        It refuses the data and asks for it later. It must not start over instead, since it may be
        the only replica with a state.
        """
        hosted = self.replica_manager.replicas.get(reader)
        if hosted is None or not (hosted.awaits_input or hosted.refuses):
            return False
        most_bytes = self.replica_manager.input_bytes
        if not hosted.awaits_input:
            most_bytes *= RESTING_SHARE
        held = {each: hosted.replica.waiting_bytes_of(each) for each in hosted.replica.inputs}
        hosted.refuses = max(held.values()) >= most_bytes
        return held[stream] >= most_bytes

    def _bound_standby(self, hosted: HostedReplica, data: Data, now_us: int) -> None:
        """Have a secondary start over if it is much slower than another reader of a stream here.

        Its input queues up then, because the producer follows the credit of the other readers only.
        A single chunk may always wait, however large it is. A secondary that waits for its state
        keeps the newest input instead: it needs only input that follows the state.
        """
        replica = hosted.replica
        if replica.role is ReplicaRole.PRIMARY or hosted.awaits_input or hosted.refuses:
            return
        most_bytes = max(self.replica_manager.input_bytes, data.chunk.size_bytes)
        if replica.role is ReplicaRole.WARMING:
            dropped = replica.inputs[data.stream].keep_newest(most_bytes)
            self.outbox.counters["waiting_chunks_dropped"] += dropped
            return
        waiting_bytes = replica.waiting_bytes_of(data.stream)
        if waiting_bytes <= most_bytes:
            if waiting_bytes > RESTING_SHARE * most_bytes:
                self.dispatcher.end_rest(hosted.assignment.fragment, now_us)
                if hosted.assignment.batch != EVERY_TUPLE and not replica.has_work:
                    # It waits for what is kept back of another input.
                    hosted.take_everything(now_us)
            return
        detail = f"more than {most_bytes} bytes of {data.stream} waited"
        self.outbox.report("left behind", hosted.assignment.fragment, detail)
        self.outbox.counters["standbys_left_behind"] += 1
        self.state_loss.discard(hosted, now_us)

    def _tell_lost(self, hosted: HostedReplica) -> None:
        """Count and report the input that is lost to a replica that began from nothing.

        It is known once all producers have answered: the one that begins earliest counts.
        """
        for stream, entry in hosted.replica.inputs.items():
            cursor = entry.cursor
            begins, began_at = cursor.begins, cursor.began_at
            if begins is None or began_at is None or cursor.lost == 0:
                continue
            if not self.replica_manager.subscriptions[stream].confirmed:
                continue
            after_ms, until_ms = begins.delivered_ms, began_at.watermark_ms
            lost = LostInput(after_ms=after_ms, until_ms=until_ms, tuples=cursor.lost)
            cursor.lost = 0
            hosted.lost_input[stream] = lost
            self.outbox.counters["tuples_lost"] += 1 if lost.tuples is None else lost.tuples
            detail = f"{lost.detail} of {stream} have no results, and no producer keeps them"
            self.outbox.report("input lost", hosted.assignment.fragment, detail)

    def _request_snapshot(self, hosted: HostedReplica, now_us: int) -> None:
        """Ask the peer replica for its state, once every producer keeps the input that follows it.

        An input without a producer is not waited for: its site is away, so nothing comes meanwhile.
        """
        peer, asked_us = hosted.assignment.peer_replica, hosted.snapshot_asked_us
        if not hosted.replica.needs_state or peer is None or hosted.rests(now_us):
            return
        if hosted.restoring_us is not None:
            return
        inputs = [self.replica_manager.subscriptions[s] for s in hosted.replica.inputs]
        if not all(each.confirmed or not each.producers for each in inputs):
            return
        if asked_us is None or now_us - asked_us >= SNAPSHOT_RETRY_US:
            hosted.snapshot_asked_us = now_us
            self.outbox.send(peer, SnapshotRequest(fragment=hosted.assignment.fragment))


def _falls(before: Position | None, now: Position | None) -> bool:
    """Whether a reader stands before where it stood."""
    return before is not None and now is not None and now.is_before(before)


def _counting(subscription: Subscription) -> Collection[str]:
    """The readers whose work makes room for more of a stream."""
    return subscription.demanding or subscription.readers
