"""Runs the replicas, sources and sinks that the store assigns to a host.

An assignment lists everything that the host must run. `ReplicaManager.apply` compares it with what
runs, starts and stops the difference, and changes roles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ha.messages import Unsubscribe
from ha.output_log import Producer
from ha.replica import Replica
from ha.roles import ReplicaRole, RoleEvent
from ha.subscription import Subscription
from orchestrator.host.events import Command, Report, Send
from orchestrator.host.hosted_streams import SINK_PREFIX, HostedSink, HostedSource
from orchestrator.records import (
    Assignment,
    FragmentAssignment,
    SinkAssignment,
    SourceAssignment,
)
from streams.chunk import stream_schema
from streams.compiler import compile_statement
from streams.language import QueryError, parse

ABSENT_SINK_US = 15_000_000
"""How long output is kept for a sink whose host has left the store: the host may only have lost its
session for a moment. A replica that goes needs no such time, because its successor fetches the
state of the peer replica."""


@dataclass(slots=True)
class HostedReplica:
    """A replica on this host, with its assignment and its subscriptions."""

    assignment: FragmentAssignment
    replica: Replica
    subscriptions: dict[str, Subscription]
    snapshot_asked_us: int | None = None

    def step_down(self, epoch: int) -> bool:
        """Leave an epoch to the peer replica; True if this replica was primary until now."""
        replica = self.replica
        deposed = replica.role is ReplicaRole.PRIMARY
        replica.epoch = epoch
        replica.apply(RoleEvent.SUPERSEDED)
        return deposed


class ReplicaManager:
    """Replicas, sources and sinks of one host."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.replicas: dict[str, HostedReplica] = {}
        self.sources: dict[str, HostedSource] = {}
        self.sinks: dict[str, HostedSink] = {}
        self.incarnations: dict[str, str] = {}
        self._absent_since_us: dict[str, int] = {}

    def producers(self) -> Iterator[Producer]:
        """Every source and replica of this host."""
        yield from self.sources.values()
        for hosted in self.replicas.values():
            yield hosted.replica

    def producer(self, stream: str) -> Producer | None:
        """The producer of `stream` on this host, if consumers may rely on its output log."""
        if (source := self.sources.get(stream)) is not None:
            return source
        hosted = self.replicas.get(stream)
        return hosted.replica if hosted is not None and hosted.replica.accepts_subscribers else None

    def subscriptions(self) -> Iterator[Subscription]:
        """Every subscription of this host."""
        for hosted in self.replicas.values():
            yield from hosted.subscriptions.values()
        for sink in self.sinks.values():
            yield sink.subscription

    def schema_of(self, stream: str) -> pa.Schema | None:
        """Schema of a stream that is read or produced here; None for any other."""
        if (sink := self.sinks.get(stream)) is not None:
            return sink.schema
        for hosted in self.replicas.values():
            if stream in hosted.replica.inputs:
                return hosted.replica.inputs[stream].schema
            if stream == hosted.replica.stream:
                return hosted.replica.log.schema
        return None

    def apply(self, assignment: Assignment, now_us: int) -> tuple[list[Command], set[str]]:
        """Run what is assigned and nothing else.

        Returns commands to carry out, and the nodes whose process has ended since the last
        assignment, even if a new one has started.
        """
        incarnations = {peer.node: peer.incarnation for peer in assignment.peers}
        renewed = {n for n, i in incarnations.items() if self.incarnations.get(n) != i}
        gone = self.incarnations.keys() - (incarnations.keys() - renewed)
        self.incarnations = incarnations
        for node in gone:
            self._absent_since_us[node] = now_us
            self._drop_subscribers(node, sinks=node in renewed)
        for node in incarnations:
            self._absent_since_us.pop(node, None)
        commands = [
            *self._fragments(assignment.fragments),
            *self._sources(assignment.sources, now_us),
            *self._sinks(assignment.sinks),
        ]
        for subscription in self.subscriptions():
            left = subscription.use(assignment.producers.get(subscription.stream, ()), renewed)
            commands += _unsubscribe_from(subscription, tuple(left))
        return commands, set(gone)

    def drop_absent(self, now_us: int) -> None:
        """Stop keeping output for sinks that have been away for too long."""
        for node, since_us in list(self._absent_since_us.items()):
            if now_us - since_us > ABSENT_SINK_US:
                del self._absent_since_us[node]
                self._drop_subscribers(node, sinks=True)

    def _drop_subscribers(self, node: str, *, sinks: bool) -> None:
        for producer in self.producers():
            for consumer in producer.log.consumers:
                if consumer[0] == node and (sinks or not consumer[1].startswith(SINK_PREFIX)):
                    producer.log.unsubscribe(consumer)

    def _fragments(self, assigned: tuple[FragmentAssignment, ...]) -> Iterator[Command]:
        wanted = {a.fragment: a for a in assigned}
        for fragment, hosted in list(self.replicas.items()):
            a = wanted.get(fragment)
            if a is None or a.generation > hosted.replica.generation:
                yield from self.stop_replica(fragment)
        for fragment, a in wanted.items():
            if (hosted := self.replicas.get(fragment)) is None:
                yield self._start(a)
            else:
                hosted.assignment = a
                yield from _change_role(hosted, a)

    def stop_replica(self, fragment: str) -> list[Command]:
        """Stop a replica and unsubscribe it."""
        hosted = self.replicas.pop(fragment, None)
        if hosted is None:
            return []
        role = hosted.replica.role.value
        commands: list[Command] = [Report(kind="stopped", subject=fragment, detail=role)]
        for subscription in hosted.subscriptions.values():
            commands += _unsubscribe_from(subscription, subscription.producers)
        return commands

    def shut_down(self) -> list[Command]:
        """Stop every replica and sink."""
        commands = [c for fragment in list(self.replicas) for c in self.stop_replica(fragment)]
        return [*commands, *self._sinks(())]

    def _start(self, a: FragmentAssignment) -> Command:
        try:
            (statement,) = parse(a.statement)
            program = compile_statement(statement, a.inputs)
        except QueryError as error:
            # The coordinator could compile it, so it runs another version of the software.
            return Report(kind="assignment refused", subject=a.fragment, detail=str(error))
        schemas = {stream: stream_schema(columns) for stream, columns in a.inputs.items()}
        replica = Replica(program, schemas, epoch=a.epoch, generation=a.generation)
        if a.role == "primary":
            replica.apply(RoleEvent.FOUNDED)
        self.replicas[a.fragment] = HostedReplica(
            assignment=a,
            replica=replica,
            subscriptions={
                stream: Subscription(stream, a.fragment, entry.cursor)
                for stream, entry in replica.inputs.items()
            },
        )
        return Report(
            kind="started", subject=a.fragment, detail=f"{replica.role.value}, epoch {a.epoch}"
        )

    def _sources(self, assigned: tuple[SourceAssignment, ...], now_us: int) -> Iterator[Command]:
        wanted = {a.stream: a for a in assigned}
        self.sources = {s: source for s, source in self.sources.items() if s in wanted}
        for stream, a in wanted.items():
            if stream in self.sources:
                self.sources[stream].assignment = a
            else:
                try:
                    self.sources[stream] = HostedSource(a, now_us)
                except QueryError as error:
                    yield Report(kind="assignment refused", subject=stream, detail=str(error))
                    continue
                yield Report(kind="started", subject=stream, detail="source")

    def _sinks(self, assigned: tuple[SinkAssignment, ...]) -> Iterator[Command]:
        wanted = {a.stream: a for a in assigned}
        for stream in [s for s in self.sinks if s not in wanted]:
            subscription = self.sinks.pop(stream).subscription
            yield from _unsubscribe_from(subscription, subscription.producers)
        for stream, a in wanted.items():
            if stream in self.sinks:
                self.sinks[stream].use(a)
            else:
                self.sinks[stream] = HostedSink(a)
                yield Report(kind="started", subject=stream, detail="sink")


def _change_role(hosted: HostedReplica, a: FragmentAssignment) -> Iterator[Command]:
    replica = hosted.replica
    if a.epoch <= replica.epoch:
        return
    if a.role == "secondary":
        hosted.step_down(a.epoch)
    elif replica.role is ReplicaRole.WARMING:
        yield Report(
            kind="cannot be primary", subject=a.fragment, detail="its state has not arrived"
        )
    else:
        replica.epoch = a.epoch
        replica.apply(RoleEvent.PROMOTED)


def _unsubscribe_from(subscription: Subscription, nodes: tuple[str, ...]) -> list[Command]:
    message = Unsubscribe(stream=subscription.stream, consumer=subscription.consumer)
    return [Send(to=node, message=message) for node in nodes]
