"""The input side of a host: subscriptions, received data, acknowledgements and fetched state.

Replicas and sinks read streams. Both subscribe to every producer of a stream and drop tuples that
they have received before. They ask again when a chunk is missing, and acknowledge tuples that they
no longer need. A replica that is warming up also fetches the state of its peer replica.
"""

from __future__ import annotations

from dataclasses import dataclass

from ha.messages import Data, Snapshot, SnapshotRequest, Subscribed
from ha.roles import ReplicaRole
from ha.subscription import Receipt, Subscription
from orchestrator.host.dispatcher import Dispatcher
from orchestrator.host.events import Outbox
from orchestrator.host.hosted_streams import HostedSink
from orchestrator.host.replica_manager import HostedReplica, ReplicaManager
from streams.chunk import Position

SNAPSHOT_RETRY_US = 500_000
"""A peer replica that has not answered by then was not ready, or the request was lost."""


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
    """

    replica_manager: ReplicaManager
    dispatcher: Dispatcher
    outbox: Outbox

    def on_data(self, sender: str, data: Data, now_us: int) -> None:
        """Receive data for the sink or the replica that it is addressed to."""
        sink = self.replica_manager.sinks.get(data.stream)
        hosted = self.replica_manager.replicas.get(data.consumer)
        if sink is not None and data.consumer == sink.subscription.consumer:
            self._deliver(sender, sink, data, now_us)
        elif hosted is not None and data.stream in hosted.subscriptions:
            self._receive(sender, hosted, data, now_us)
        else:
            self.outbox.counters["chunks_unasked"] += 1

    def on_subscribed(self, sender: str, answer: Subscribed, now_us: int) -> None:
        """Note a producer's answer to a subscription."""
        for subscription in self.replica_manager.subscriptions():
            if (subscription.stream, subscription.consumer) == (answer.stream, answer.consumer):
                subscription.answered(sender, answer)
        if (hosted := self.replica_manager.replicas.get(answer.consumer)) is not None:
            self._request_snapshot(hosted, now_us)

    def on_snapshot(self, snapshot: Snapshot, now_us: int) -> None:
        """Install the state of a peer replica."""
        hosted = self.replica_manager.replicas.get(snapshot.fragment)
        if hosted is None or hosted.replica.role is not ReplicaRole.WARMING:
            return
        if hosted.replica.install(snapshot):
            self.outbox.report("warm", snapshot.fragment, f"epoch {hosted.replica.epoch}")
            self.dispatcher.rebuild_tasks(now_us)
        else:
            self.outbox.counters["snapshots_unusable"] += 1

    def request(self, now_us: int) -> None:
        """Send the subscriptions and snapshot requests that are due."""
        for subscription in self.replica_manager.subscriptions():
            for node, request in subscription.requests(now_us):
                self.outbox.send(node, request)
        for hosted in self.replica_manager.replicas.values():
            self._request_snapshot(hosted, now_us)

    def acknowledge(self) -> None:
        """Tell producers what the replicas and sinks here no longer need."""
        for hosted in self.replica_manager.replicas.values():
            for stream, position in hosted.replica.processed().items():
                self._acknowledge(hosted.subscriptions[stream], position)
        for sink in self.replica_manager.sinks.values():
            if sink.cursor.position is not None:
                self._acknowledge(sink.subscription, sink.cursor.position)

    def _acknowledge(self, subscription: Subscription, position: Position) -> None:
        for node, ack in subscription.acks(position):
            self.outbox.send(node, ack)

    def _deliver(self, sender: str, sink: HostedSink, data: Data, now_us: int) -> None:
        receipt, delivery = sink.receive(data, now_us)
        if receipt is Receipt.GAP and sink.subscription.unrecoverable(sender):
            lost = sink.skip_to(data)
            self.outbox.counters["tuples_lost"] += lost
            receipt, delivery = sink.receive(data, now_us, lost)
        if delivery is not None:
            self.outbox.add(delivery)
        self._note_receipt(receipt, sender, sink.subscription, now_us)

    def _receive(self, sender: str, hosted: HostedReplica, data: Data, now_us: int) -> None:
        replica, subscription = hosted.replica, hosted.subscriptions[data.stream]
        receipt = replica.receive(data).receipt
        if receipt is Receipt.GAP and subscription.unrecoverable(sender):
            if replica.role is ReplicaRole.PRIMARY:
                # No host keeps these tuples any more: report the loss and continue after them.
                lost = replica.skip_to(data)
                self.outbox.counters["tuples_lost"] += lost
                detail = f"{lost} tuples that no producer keeps"
                self.outbox.report("input lost", data.stream, detail)
            else:
                self._discard_state(hosted, now_us)
        else:
            self._note_receipt(receipt, sender, subscription, now_us)
        self.dispatcher.arrived(data.consumer, now_us)

    def _discard_state(self, hosted: HostedReplica, now_us: int) -> None:
        """Have a secondary start over with the state of its peer replica."""
        self.outbox.counters["states_broken"] += 1
        hosted.replica.discard_state()
        hosted.snapshot_asked_us = None
        for subscription in hosted.subscriptions.values():
            subscription.ask_again()
        self.dispatcher.rebuild_tasks(now_us)

    def _note_receipt(
        self, receipt: Receipt, sender: str, subscription: Subscription, now_us: int
    ) -> None:
        self.outbox.counters[f"chunks_{receipt.value}"] += 1
        if receipt is Receipt.GAP:
            request = subscription.missing(sender, now_us)
            if request is not None:
                self.outbox.send(sender, request)

    def _request_snapshot(self, hosted: HostedReplica, now_us: int) -> None:
        """Ask the peer replica for its state, once every producer keeps what will follow it."""
        peer, asked_us = hosted.assignment.peer_replica, hosted.snapshot_asked_us
        if hosted.replica.role is not ReplicaRole.WARMING or peer is None:
            return
        if not all(subscription.confirmed for subscription in hosted.subscriptions.values()):
            return
        if asked_us is None or now_us - asked_us >= SNAPSHOT_RETRY_US:
            hosted.snapshot_asked_us = now_us
            self.outbox.send(peer, SnapshotRequest(fragment=hosted.assignment.fragment))
