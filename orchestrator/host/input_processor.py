"""The input side of a host: subscriptions, received data, acknowledgements and fetched state.

Replicas and sinks read streams. The host subscribes to every producer of a stream once for all of
them, and each drops tuples that it has received before. The host asks again when a chunk is
missing, and acknowledges tuples that none of them needs any more. A replica that is warming up also
fetches the state of its peer replica.

A chunk or a snapshot that cannot be processed, or a statement that cannot be evaluated, breaks the
replica concerned. That is counted and reported; the host goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ha.cursor import Receipt
from ha.messages import (
    Ack,
    Checkpoint,
    Data,
    Offer,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.roles import ReplicaRole, RoleEvent
from ha.subscriber import MOST_ACK_INTERVALS
from ha.subscription import PATIENCE_US, STANDBY_PATIENCE_US, Subscription
from orchestrator.host.dispatcher import Dispatcher
from orchestrator.host.events import Outbox
from orchestrator.host.hosted_replica import HostedReplica
from orchestrator.host.hosted_streams import SINK_PREFIX
from orchestrator.host.replica_manager import ReplicaManager
from streams.chunk import Position

ACKNOWLEDGES = 8
"""A host with fewer streams acknowledges all of them in each interval, one with more in every
second or fourth (`MOST_ACK_INTERVALS`)."""

SNAPSHOT_RETRY_US = 500_000
"""A peer replica that has not answered by then was not ready, or the request was lost."""

RESTING_SHARE = 1 / 2
"""Share of what a standby may queue with which it does not rest."""

BACKLOG_SHARE = 1 / 4
"""Share of what a standby may queue that waits for its rest to end."""


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
    spent
        Streams of which so much has arrived that their producers may have to wait until some of it
        is processed, and acknowledged.
    """

    replica_manager: ReplicaManager
    dispatcher: Dispatcher
    outbox: Outbox
    spent: set[str] = field(default_factory=set[str])

    def on_data(self, sender: str, data: Data, now_us: int) -> None:
        """Receive data for the sink and the replicas that read its stream."""
        subscription = self.replica_manager.subscriptions.get(data.stream)
        if subscription is None:
            self.outbox.counters["chunks_unasked"] += 1
            return
        subscription.received_bytes += data.chunk.size_bytes
        is_accepted = is_repeated = False
        backlog = subscription.backlog
        most_bytes = BACKLOG_SHARE * self.replica_manager.input_bytes
        for reader in backlog.woken_by(data, round(most_bytes)):
            self._deliver(subscription, reader, now_us)
        backlog.add(data)
        for reader in subscription.readers:
            if backlog.holds(reader):
                is_accepted = True
                self.outbox.counters[_counted[Receipt.ACCEPTED]] += 1
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
            elif receipt in (Receipt.GAP, Receipt.RESET) and not self._is_stopped(
                reader, data.stream
            ):
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
            self.outbox.report("fed by primary", data.stream, f"by {sender} again")
        if subscription.has_spent_room:
            self.spent.add(data.stream)
            for reader in self._counting(subscription):
                self.dispatcher.end_rest(reader, now_us)

    def _may_wait(self, hosted: HostedReplica) -> bool:
        """Whether what arrives for a replica may wait until its rest ends."""
        resends = hosted.recovering is not None and hosted.recovering.awaited
        return not resends and self.dispatcher.rests(hosted.assignment.fragment)

    def deliver(self, fragment: str, now_us: int) -> None:
        """Have a replica receive what it has let wait."""
        if (hosted := self.replica_manager.replicas.get(fragment)) is not None:
            for stream in hosted.replica.inputs:
                self._deliver(self.replica_manager.subscriptions[stream], fragment, now_us)

    def deliver_all(self, now_us: int) -> None:
        """Have every replica receive what it has let wait."""
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
        for reader in subscription.answered(sender, answer):
            self._cross(subscription, reader, answer, now_us)
        for reader in subscription.readers:
            if (hosted := self.replica_manager.replicas.get(reader)) is not None:
                self._learn_position(hosted, answer, now_us)
                self._request_snapshot(hosted, now_us)

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
            self.outbox.report("takes everything", stream, f"{sender} does not reach a primary")
            self.replica_manager.take_everything(subscription, now_us)
            self.request(now_us)
            return
        busy = self._has_no_room(subscription)
        stopped = [reader for reader in subscription.readers if self._is_stopped(reader, stream)]
        for node, request in subscription.offered(
            sender, offer, now_us, busy=busy, stopped=stopped
        ):
            self.outbox.counters["chunks_missing"] += 1
            if request.feed:
                detail = f"does not come from {subscription.producers[0]}; {node} feeds this host"
                self.outbox.report("fed by standby", stream, detail)
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
        try:
            self.deliver(snapshot.fragment, now_us)
            installed = hosted.replica.install(snapshot)
        except Exception as error:  # noqa: BLE001  A broken snapshot must not end this host.
            self.outbox.report("snapshot refused", snapshot.fragment, _said(error))
            hosted.failed(f"snapshot refused: {_said(error)}", now_us)
            installed = False
        if installed:
            hosted.failures.mended()
            kind = "crossed with its primary" if was_warm else "warm"
            self.outbox.report(kind, snapshot.fragment, f"epoch {hosted.replica.epoch}")
            self.dispatcher.rebuild_tasks(now_us)
            if was_warm:
                self._read_anew(hosted)
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
                self._read_anew(hosted)

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

    def on_evaluation_failed(self, hosted: HostedReplica, error: Exception, now_us: int) -> None:
        """Give up the state of a replica whose evaluation raised an error, and let it rest."""
        self.outbox.report("evaluation failed", hosted.assignment.fragment, _said(error))
        hosted.failed(f"evaluation failed: {_said(error)}", now_us)
        self.discard_state(hosted, now_us, RoleEvent.STATE_UNUSABLE)

    def on_position(
        self, node: str, stream: str, generation: int | None, had: Position, now_us: int
    ) -> None:
        """Look whether what a consumer has of a fragment's output is continued here.

        If not, what it has came from a predecessor that was further. The fragment then starts over
        in a new generation, to which consumers cross, or goes on with the predecessor's state.
        """
        hosted = self.replica_manager.replicas.get(stream)
        if hosted is None or hosted.replica.generation != generation:
            return
        if not hosted.replica.continues(node, had):
            self._disown(hosted, f"{node} has output up to {had.watermark_ms} ms", now_us)

    def _disown(self, hosted: HostedReplica, why: str, now_us: int) -> None:
        """Give up the state of a primary that cannot continue what its predecessor has sent."""
        detail = f"{why}, and the input that it came from is lost"
        self.outbox.report("cannot continue", hosted.assignment.fragment, detail)
        hosted.failed(f"cannot continue: {detail}", now_us)
        self.discard_state(hosted, now_us, RoleEvent.STATE_UNUSABLE)

    def request(self, now_us: int) -> None:
        """Send the subscriptions and snapshot requests that are due."""
        self._cross_at_last()
        for subscription in self.replica_manager.subscriptions.values():
            if self.replica_manager.withholds:
                subscription.use_batch(self.replica_manager.batch(subscription, now_us))
            if not subscription.confirmed:
                self._send(subscription.requests(now_us))
        for hosted in self.replica_manager.replicas.values():
            self.give_up_if_passed(hosted, now_us)
            self._request_snapshot(hosted, now_us)

    def acknowledgements(self, now_us: int, interval: int) -> Iterator[tuple[str, str, Ack]]:
        """Node, stream, what the readers here have processed of it, and how much more they take.

        A host with many streams acknowledges them in some of the intervals, all together: one
        message to each producer costs less than many. In between, those follow of which much has
        arrived: producers must not run out of credit. What says nothing new is left out for a
        while.

        Input that has waited for longer than its deadline is late already, and more of it would
        only wait. Then the host takes no more than it has.
        """
        manager = self.replica_manager
        passes = interval % every_nth(
            len(manager.subscriptions), ACKNOWLEDGES, most=MOST_ACK_INTERVALS
        )
        for subscription in manager.subscriptions.values():
            if not passes or subscription.has_received_much:
                yield from self._acknowledge(subscription, now_us)

    def grants(self, now_us: int) -> Iterator[tuple[str, str, Ack]]:
        """As `acknowledgements`, of streams whose producers would otherwise wait for the next ones.

        A host with little memory for each stream gives little credit at a time. If it were given in
        each interval only, a backlog would take many of them, though the host has nothing to do.
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
        positions = {
            reader: manager.sinks[stream].processed
            if (hosted := manager.replicas.get(reader)) is None
            else hosted.replica.processed_of(stream)
            for reader in subscription.readers
        }
        demanding = manager.demanding(subscription)
        is_behind = any(
            self.dispatcher.is_behind(reader, now_us)
            for reader in demanding or subscription.readers
        )
        subscription.room_bytes = 0 if is_behind else manager.window_bytes
        subscription.received_bytes = 0
        acks = subscription.acks(positions, demanding)
        for node, ack in acks if subscription.tells(acks, now_us) else ():
            yield node, stream, ack

    def discard_state(
        self, hosted: HostedReplica, now_us: int, event: RoleEvent = RoleEvent.STATE_BROKEN
    ) -> None:
        """Have a secondary start over with the state of its peer replica."""
        if not hosted.replica.discard_state(event):
            return
        self.outbox.counters["states_broken"] += 1
        self._read_anew(hosted)
        self.dispatcher.rebuild_tasks(now_us)

    def _read_anew(self, hosted: HostedReplica) -> None:
        """Have a replica read its inputs from where it is now."""
        hosted.snapshot_asked_us = None
        for stream in hosted.replica.inputs:
            subscription = self.replica_manager.subscriptions[stream]
            subscription.backlog.leave([hosted.assignment.fragment])
            subscription.ask_again()

    def _has_no_room(self, subscription: Subscription) -> bool:
        """Whether readers have yet to process so much that producers may have to wait."""
        stream = subscription.stream
        least_bytes = max(subscription.room_bytes // 2, 1)
        return any(
            self.replica_manager.held_bytes(reader, stream) >= least_bytes
            for reader in self._counting(subscription)
        )

    def _counting(self, subscription: Subscription) -> Collection[str]:
        """The readers whose work makes room for more of a stream."""
        return self.replica_manager.demanding(subscription) or subscription.readers

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
        self._send(subscription.ask_others(sender, now_us) if subscription.holed(sender) else [])
        hosted = self.replica_manager.replicas.get(reader)
        is_standby = hosted is not None and hosted.replica.role is not ReplicaRole.PRIMARY
        patience_us = STANDBY_PATIENCE_US if is_standby else PATIENCE_US
        if not subscription.unrecoverable(reader, now_us, patience_us):
            return receipt
        cursor = subscription.readers[reader]
        begins = cursor.position.next_seq if cursor.position is not None else 0
        if self._crosses(reader, data.stream, now_us):
            lost = cursor.skip_to(data.chunk)
            detail = f"{lost} tuples that no producer keeps, from {begins} on"
            self._note_lost(reader, data.stream, lost, detail)
            receipt = self._take(reader, data, now_us)
        return receipt

    def _take(self, reader: str, data: Data, now_us: int) -> Receipt:
        hosted = self.replica_manager.replicas.get(reader)
        if hosted is None:
            clock = self.replica_manager.clock
            if not clock.known:
                # Nobody could tell how late it is. Producers keep it.
                return Receipt.STALE
            sink = self.replica_manager.sinks[data.stream]
            receipt, delivery = sink.receive(data, clock.at(now_us))
            if delivery is not None:
                self.outbox.add(delivery)
            return receipt
        if hosted.rests(now_us):
            return Receipt.STALE
        try:
            receipt = hosted.replica.receive(data).receipt
        except Exception as error:  # noqa: BLE001  A broken chunk must not end this host.
            self.on_evaluation_failed(hosted, error, now_us)
            return Receipt.STALE
        self._bound_standby(hosted, data, now_us)
        self.dispatcher.arrived(reader, now_us)
        return receipt

    def _learn_position(self, hosted: HostedReplica, answer: Subscribed, now_us: int) -> None:
        try:
            is_news = hosted.replica.learn_position(answer, self.replica_manager.clock.at(now_us))
        except Exception as error:  # noqa: BLE001  A broken answer must not end this host.
            self.on_evaluation_failed(hosted, error, now_us)
            return
        if is_news:
            self.dispatcher.arrived(hosted.assignment.fragment, now_us)

    def _bound_standby(self, hosted: HostedReplica, data: Data, now_us: int) -> None:
        """Have a secondary start over that is slower than another reader of a stream here.

        Its input may queue up, because the producer follows only the credit of the others. A single
        chunk may always wait, however large it is. A secondary that has yet to get its state needs
        only what follows that, and so keeps the newest.
        """
        replica = hosted.replica
        if replica.role is ReplicaRole.PRIMARY:
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
            return
        detail = f"more than {most_bytes} bytes of {data.stream} waited"
        self.outbox.report("left behind", hosted.assignment.fragment, detail)
        self.outbox.counters["standbys_left_behind"] += 1
        self.discard_state(hosted, now_us)

    def _cross(
        self, subscription: Subscription, reader: str, answer: Subscribed, now_us: int
    ) -> None:
        """Take a reader to a new generation of its stream, or have a secondary start over."""
        if not self._crosses(reader, subscription.stream, now_us):
            return
        cursor = subscription.readers[reader]
        before = cursor.position or Position()
        detail = f"generation {cursor.generation} ended at watermark {before.watermark_ms} ms, "
        detail += f"generation {answer.generation} follows"
        cursor.cross(answer.position, answer.generation)
        lost = 0
        if answer.position.watermark_ms > before.watermark_ms:
            lost = answer.position.next_seq
            detail += f" after watermark {answer.position.watermark_ms} ms, tuple {lost}"
        self._note_lost(reader, answer.stream, lost, detail)

    def _crosses(self, reader: str, stream: str, now_us: int) -> bool:
        """Whether a reader may cross a discontinuity; a standby stops before it instead.

        The state of a primary is discarded whose predecessor had more input and has sent output of
        it, and what a replica has gathered that has no state yet.
        """
        if (hosted := self.replica_manager.replicas.get(reader)) is None:
            return True
        replica = hosted.replica
        if replica.leads:
            # Its primary cannot cross either. The state is needed until one of the two is further.
            return False
        if replica.role is ReplicaRole.STANDBY:
            self._stop(hosted, stream, now_us)
            return False
        if replica.role is ReplicaRole.WARMING:
            self.discard_state(hosted, now_us)
            return False
        if replica.inputs[stream].cursor.complete_ms < replica.known_ms:
            self._disown(hosted, f"there is output up to {replica.known_ms} ms", now_us)
            return False
        replica.cross(stream)
        return True

    def _stop(self, hosted: HostedReplica, stream: str, now_us: int) -> None:
        """Have a standby stop before a discontinuity, until it gets its primary's state.

        Its own is needed until then: the primary may be lost before it has crossed.
        """
        if stream in hosted.replica.stopped:
            self.give_up_if_passed(hosted, now_us)
            return
        hosted.replica.stopped.add(stream)
        self.outbox.counters["standbys_stopped"] += 1
        hosted.snapshot_asked_us = None
        # Producers must keep what follows the state.
        self.replica_manager.subscriptions[stream].ask_again()
        self.request(now_us)

    def give_up_if_passed(self, hosted: HostedReplica, now_us: int) -> None:
        """Discard the state of a standby whose primary has crossed and gone on."""
        if hosted.replica.is_passed:
            self.discard_state(hosted, now_us)

    def _is_stopped(self, reader: str, stream: str) -> bool:
        """Whether a reader is a standby that has stopped before a discontinuity of a stream."""
        hosted = self.replica_manager.replicas.get(reader)
        if hosted is None or hosted.replica.role is not ReplicaRole.STANDBY:
            return False
        return stream in hosted.replica.stopped

    def _cross_at_last(self) -> None:
        """Have replicas that became primary before a discontinuity ask for what lies beyond."""
        for hosted in self.replica_manager.replicas.values():
            replica = hosted.replica
            if replica.stopped and replica.role is ReplicaRole.PRIMARY:
                for stream in replica.stopped:
                    self.replica_manager.subscriptions[stream].ask_again()
                replica.stopped.clear()

    def _note_lost(self, reader: str, stream: str, lost: int, detail: str) -> None:
        self.outbox.counters["discontinuities"] += 1
        self.outbox.counters["tuples_lost"] += lost
        self.outbox.report("input lost" if lost else "began anew", stream, detail)
        if reader.startswith(SINK_PREFIX):
            self.replica_manager.sinks[stream].lose(lost)

    def _request_snapshot(self, hosted: HostedReplica, now_us: int) -> None:
        """Ask the peer replica for its state, once every producer keeps what will follow it."""
        peer, asked_us = hosted.assignment.peer_replica, hosted.snapshot_asked_us
        if not hosted.replica.needs_state or peer is None or hosted.rests(now_us):
            return
        subscriptions = self.replica_manager.subscriptions
        if not all(subscriptions[stream].confirmed for stream in hosted.replica.inputs):
            return
        if asked_us is None or now_us - asked_us >= SNAPSHOT_RETRY_US:
            hosted.snapshot_asked_us = now_us
            self.outbox.send(peer, SnapshotRequest(fragment=hosted.assignment.fragment))


def every_nth(count: int, few: int, *, most: int) -> int:
    """In every how many intervals a host tells of so many streams or replicas.

    A power of two: what is told rarely then travels with what is told more often.

    Parameters
    ----------
    few
        Of fewer, it tells in each interval.
    most
        The result is at most this, a power of two.
    """
    return min(1 << (count // few).bit_length(), most)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
