"""Runs the replicas, sources and sinks that the store assigns to a host.

An assignment lists everything that the host must run. `ReplicaManager.apply` compares it with what
runs, starts and stops the difference, and changes roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

import msgspec
import pyarrow as pa

from ha.cursor import StreamCursor
from ha.memory import MemoryBudget
from ha.messages import EVERY_TUPLE, Checkpoint, Columns, Data, Message, Unsubscribe
from ha.producer import Producer
from ha.replica import Replica
from ha.roles import ReplicaRole, RoleEvent
from ha.subscription import Subscription
from orchestrator.edges.events import Durable
from orchestrator.host.core.events import Command, ReadCheckpoint, Report, Send
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.host.core.hosted_streams import HostedSink, HostedSource
from orchestrator.records import (
    Assignment,
    FormerStatement,
    FragmentAssignment,
    MemoryStatus,
    Overflow,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.records.assignments import SINK_PREFIX
from streams.expressions.owned import FunctionError
from streams.language import QueryError, parse
from streams.plan.compiler import compile_statement
from streams.plan.program import FormerProgram, Program
from streams.vectors.chunk import Position, stream_schema
from topology.cluster_clock import ClusterClock

ABSENT_SINK_US = 15_000_000
"""How long output is kept for a sink whose host has left the store. The host may only have lost its
session, or it starts again and continues after what it had kept. While the host is there, output is
kept for its sinks as long as the log's capacity allows, even if they cannot write. A replica that
goes needs no such time, because its successor fetches the state of the peer replica."""


class ReplicaManager:
    """Replicas, sources and sinks of one host.

    Parameters
    ----------
    node
        Name of the host.
    budget
        The memory of its queues.
    clock
        The cluster's, which an assignment tells.
    observes
        Whether it is an observer, whose sinks hold nobody up.

    Attributes
    ----------
    window_bytes
        The credit that the host gives for each stream.
    input_bytes
        Bytes of a stream that a standby here may queue.
    withholds
        Whether tuples are kept back from a replica here, or from the secondary of one.
    peer_hosts
        The hosts of other replicas of fragments and sources here, in the order of these.
    widened
        Fragments here, each with an input of which it needs columns that were not asked for: it is
        to be read again from where the replica is.
    """

    def __init__(
        self,
        node: str,
        budget: MemoryBudget,
        clock: ClusterClock | None = None,
        *,
        observes: bool = False,
    ) -> None:
        self.node = node
        self.budget = budget
        self.clock = clock or ClusterClock()
        self._observes = observes
        self.replicas: dict[str, HostedReplica] = {}
        self.sources: dict[str, HostedSource] = {}
        self.sinks: dict[str, HostedSink] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.incarnations: dict[str, str] = {}
        self._producers: Mapping[str, tuple[str, ...]] = {}
        self._generations: Mapping[str, int] = {}
        self._consumers: Mapping[str, tuple[str, ...]] = {}
        self._given_up: set[str] = set()
        """Nodes that have been away for so long that nothing is kept for them."""
        self._absent_since_us: dict[str, int] = {}
        """Nodes that read a stream made here, and are not in the store → since when."""
        self._schemas: dict[str, pa.Schema] = {}
        self.widened: set[tuple[str, str]] = set()
        self.withholds = False
        self.peer_hosts: tuple[str, ...] = ()
        self._divide_budget()

    def _demands(self, reader: str) -> bool:
        """Whether a reader here may hold the producers of its input up: a primary or a sink.

        A primary does so before its checkpoint has been read: nobody else has what follows that.
        """
        hosted = self.replicas.get(reader)
        if hosted is None:
            waits = self.sinks[reader.removeprefix(SINK_PREFIX)].assignment.overflow
            return not self._observes and waits is Overflow.WAIT
        return hosted.replica.role is ReplicaRole.PRIMARY or hosted.restoring_us is not None

    def _restores(self, reader: str) -> bool:
        """Whether a reader here has yet to read its checkpoint."""
        hosted = self.replicas.get(reader)
        return hosted is not None and hosted.restoring_us is not None

    def batch(self, subscription: Subscription, now_us: int) -> int:
        """B of a stream here: the least that its readers need."""
        replicas = [self.replicas.get(reader) for reader in subscription.readers]
        return min(
            (EVERY_TUPLE if each is None else each.batch(now_us) for each in replicas),
            default=EVERY_TUPLE,
        )

    def take_everything(self, subscription: Subscription, now_us: int) -> None:
        """Have the standbys that read a stream here take every tuple of their input for a while."""
        for reader in subscription.readers:
            if (hosted := self.replicas.get(reader)) is not None:
                hosted.take_everything(now_us)

    def held_bytes(self, reader: str, stream: str) -> int:
        """Memory of a stream's chunks that a reader here has received and not processed."""
        hosted = self.replicas.get(reader)
        if hosted is None:
            return self.sinks[stream].held_bytes
        return hosted.replica.waiting_bytes_of(stream) + self._backlog_bytes(stream)

    def _backlog_bytes(self, stream: str) -> int:
        return self.subscriptions[stream].backlog.size_bytes

    def _waiting_bytes(self, stream: str, subscription: Subscription) -> int:
        """Memory of a stream's chunks that replicas here share and have not all processed."""
        readers = [self.replicas[r].replica for r in subscription.readers if r in self.replicas]
        waiting_bytes = max((each.waiting_bytes_of(stream) for each in readers), default=0)
        return waiting_bytes + self._backlog_bytes(stream)

    @property
    def unopened(self) -> set[str]:
        """Streams whose source or sink here is not open, and has not said that it failed."""
        return {
            *(
                s
                for s, each in self.sources.items()
                if not (each.accepts_subscribers or each.failed)
            ),
            *(s for s, each in self.sinks.items() if not each.is_open),
        }

    def memory(self, transit_bytes: int = 0) -> MemoryStatus:
        """The memory that the queues take."""
        return MemoryStatus(
            budget=self.budget.total_bytes,
            logs=sum(producer.log.size_bytes for producer in self.producers()),
            inputs=sum(
                self._waiting_bytes(stream, subscription)
                for stream, subscription in self.subscriptions.items()
            )
            + sum(source.waiting_bytes for source in self.sources.values()),
            sinks=sum(sink.held_bytes for sink in self.sinks.values()),
            transit=transit_bytes,
        )

    def _find_peer_hosts(self) -> tuple[str, ...]:
        hosts = [host for hosted in self.replicas.values() for host in hosted.assignment.others]
        hosts += [s.peer_replica for s in self.sources.values() if s.peer_replica is not None]
        return tuple(dict.fromkeys(hosts))

    def producers(self) -> Iterator[Producer]:
        """Every source and replica of this host."""
        yield from self.sources.values()
        for hosted in self.replicas.values():
            yield hosted.replica

    def producer(self, stream: str) -> Producer | None:
        """The producer of `stream` on this host, if consumers may rely on its output log."""
        if (source := self.sources.get(stream)) is not None:
            return source if source.accepts_subscribers else None
        hosted = self.replicas.get(stream)
        return hosted.replica if hosted is not None and hosted.replica.accepts_subscribers else None

    def sent_for_standbys(self, to: str, message: Message) -> str | None:
        """The name by which a message's bytes are counted if it is sent for standbys; else None.

        Data is sent for standbys if no reader on the receiving host may hold its producer up.
        """
        match message:
            case Checkpoint():
                return "checkpoint_bytes_sent"
            case Data(stream=stream):
                producer = self.producer(stream)
                subscriber = None if producer is None else producer.log.subscribers.get(to)
                is_standby = subscriber is not None and subscriber.demanded is None
                return "standby_bytes_sent" if is_standby else None
            case _:
                return None

    def schema_of(self, stream: str) -> pa.Schema | None:
        """Schema of a stream that is read or produced here; None for any other."""
        return self._schemas.get(stream)

    def _all_schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        for hosted in self.replicas.values():
            yield hosted.replica.stream, hosted.replica.log.schema
            for stream, entry in hosted.replica.inputs.items():
                yield stream, entry.schema
        for stream, sink in self.sinks.items():
            yield stream, sink.schema

    def apply(self, assignment: Assignment, now_us: int) -> tuple[list[Command], set[str]]:
        """Run what is assigned and nothing else.

        Returns commands to carry out, and the nodes whose process has ended since the last
        assignment, even if a new one has started.
        """
        self.clock.use(assignment.clock_ahead_us)
        if not self.clock.known:
            # Sources go by the cluster's clock, and takeovers are recorded by it. Sinks subscribe
            # meanwhile, and wait: else producers would drop what they lack.
            assignment = msgspec.structs.replace(assignment, fragments=(), sources=())
        incarnations = {peer.node: peer.incarnation for peer in assignment.peers}
        renewed = {n for n, i in incarnations.items() if self.incarnations.get(n) != i}
        gone = self.incarnations.keys() - (incarnations.keys() - renewed)
        self.incarnations = incarnations
        for node in gone:
            self._drop_subscriber(node, patiently=True)
        commands = [
            *self._fragments(assignment.fragments, now_us),
            *self._sources(assignment.sources),
            *self._sinks(assignment.sinks),
        ]
        self._consumers = assignment.consumers
        self._given_up -= incarnations.keys()
        for producer in self.producers():
            self.restrict(producer)
        self._absent_since_us = {
            node: self._absent_since_us.get(node, now_us)
            for producer in self.producers()
            for node in self._consumers.get(producer.stream, ())
            if node not in incarnations
        }
        self._producers, self._generations = assignment.producers, assignment.generations
        commands += self._subscribe(renewed)
        return commands, set(gone)

    def _subscribe(self, renewed: set[str]) -> Iterator[Command]:
        """Read exactly the streams that replicas and sinks here need, each once."""
        readers: dict[str, dict[str, StreamCursor]] = {}
        reads: dict[str, dict[str, Columns]] = {}
        for fragment, hosted in self.replicas.items():
            for stream, entry in hosted.replica.inputs.items():
                readers.setdefault(stream, {})[fragment] = entry.cursor
                reads.setdefault(stream, {})[fragment] = hosted.replica.columns_of(stream)
        for stream, sink in self.sinks.items():
            if sink.is_open:
                readers.setdefault(stream, {})[SINK_PREFIX + stream] = sink.cursor
        # Producers go on keeping output for a sink that does not work.
        for stream in self.subscriptions.keys() - readers.keys() - self.sinks.keys():
            subscription = self.subscriptions.pop(stream)
            yield from _unsubscribe_from(subscription, subscription.producers)
        for stream in readers.keys() | self.sinks.keys():
            reading = readers.get(stream, {})
            subscription = self.subscriptions.setdefault(
                stream, Subscription(stream, demands=self._demands, awaits=self._restores)
            )
            subscription.read_by(reading, patient=stream in self.sinks, reads=reads.get(stream, {}))
            subscription.begin_generation(self._generations.get(stream, 0))
            left = subscription.use(self._producers.get(stream, ()), renewed)
            yield from _unsubscribe_from(subscription, tuple(left))
        self.withholds = any(
            each.assignment.batch != EVERY_TUPLE for each in self.replicas.values()
        ) or any(each.batch != EVERY_TUPLE for each in self.subscriptions.values())
        self._schemas = dict(self._all_schemas())
        self.peer_hosts = self._find_peer_hosts()
        self._divide_budget()

    def _divide_budget(self) -> None:
        """Give each output log and each stream its part."""
        self.window_bytes = self.budget.window_bytes(len(self.subscriptions))
        self.input_bytes = self.budget.input_bytes(len(self.subscriptions))
        logs = [producer.log for producer in self.producers()]
        for log in logs:
            log.bound(self.budget.log_bytes(len(logs)))
        for source in self.sources.values():
            source.room_bytes = self.budget.source_bytes // len(self.sources)
        for subscription in self.subscriptions.values():
            subscription.room_bytes = self.window_bytes

    def restrict(self, producer: Producer) -> None:
        """Have a producer keep output only for hosts that read it by the assignment."""
        readers = self._consumers.get(producer.stream, ())
        # Also hosts that are away: a sink's site needs the output that is made meanwhile.
        producer.log.readers = set(readers) - self._given_up
        producer.log.restrict({*readers, self.node})
        producer.log.is_read = bool(readers)

    def held_by_readers(self, stream: str) -> Position | None:
        """The cut up to which all readers of a source have acknowledged it, so that it is safe.

        None as long as a host that reads it by the assignment has not subscribed. After a restart
        of the site, the first subscriber may be alone for a while. Observers do not count, nor do
        sinks whose owner lets output be dropped.
        """
        log = self.sources[stream].log
        readers = self.incarnations.keys() & set(self._consumers.get(stream, ()))
        if not readers <= log.subscribers.keys():
            return None
        needed = [s for s in log.subscribers.values() if s.demanded is not None or not s.patient]
        cuts = (each.acknowledged for each in needed)
        return min(cuts, key=lambda cut: cut.watermark_ms, default=log.end)

    def had_before_ms(self, stream: str) -> int:
        """As `HostedSource.previous_watermark_ms`."""
        return self.sources[stream].previous_watermark_ms

    def drop_absent(self, now_us: int) -> None:
        """Stop keeping output for sinks that have been away for too long.

        A state that a peer replica sends later may name them once more.
        """
        for node, since_us in self._absent_since_us.items():
            if now_us - since_us > ABSENT_SINK_US:
                self._given_up.add(node)
                for producer in self.producers():
                    producer.log.readers -= self._given_up
                self._drop_subscriber(node, patiently=False)

    def _drop_subscriber(self, node: str, *, patiently: bool) -> None:
        for producer in self.producers():
            subscriber = producer.log.subscribers.get(node)
            if subscriber is not None and not (patiently and subscriber.patient):
                producer.log.unsubscribe(node)

    def _fragments(
        self, assigned: tuple[FragmentAssignment, ...], now_us: int
    ) -> Iterator[Command]:
        wanted = {a.fragment: a for a in assigned}
        for fragment, hosted in list(self.replicas.items()):
            a = wanted.get(fragment)
            if (
                a is None
                or a.generation > hosted.replica.generation
                or a.restored > hosted.restored
            ):
                yield from self._stop(fragment)
        for fragment, a in wanted.items():
            if (hosted := self.replicas.get(fragment)) is not None:
                yield from self._revise(hosted, a, now_us)
                hosted.use(a)
                yield from self._change_role(hosted)
            else:
                yield from self._start(a, now_us)

    def _revise(
        self, hosted: HostedReplica, a: FragmentAssignment, now_us: int
    ) -> Iterator[Command]:
        """Have a replica go on with a statement that was changed in place."""
        if _program_of(a) == _program_of(hosted.assignment):
            return
        try:
            program = _compiled(a)
        except Exception as error:  # noqa: BLE001  One statement must not end what runs others.
            yield _refused(a, error)
            return
        if (wider := hosted.replica.revise(program)) is None:
            detail = "it had evaluated input beyond the cut at which its statement changes"
            yield Report(kind="cannot change", subject=a.fragment, detail=detail)
            hosted.replica.begin_with(program)
            hosted.failed(detail, now_us)
            wider = set(hosted.replica.inputs)
        self.widened |= {(a.fragment, stream) for stream in wider}

    def _change_role(self, hosted: HostedReplica) -> Iterator[Command]:
        a, replica = hosted.assignment, hosted.replica
        if a.epoch <= replica.epoch and not hosted.awaits_promotion:
            return
        if a.role == "primary":
            if a.peer_replica is None or not self.lacks_input(hosted):
                hosted.promote()
        elif replica.role is not ReplicaRole.PRIMARY:
            # A primary goes on until it hears its successor (`ha.handover`).
            replica.apply(RoleEvent.SUPERSEDED, a.epoch)
        yield from _stateless_primary(hosted)

    def kept_back(self, hosted: HostedReplica) -> frozenset[str]:
        """Inputs of a replica of which producers keep tuples back from this host."""
        inputs, subscriptions = hosted.replica.inputs, self.subscriptions
        return frozenset(s for s in inputs if subscriptions[s].batch != EVERY_TUPLE)

    def lacks_input(self, hosted: HostedReplica) -> bool:
        """Whether a standby is behind, and no producer has answered its request for the rest.

        A standby that awaits its input has asked for it.
        """
        replica = hosted.replica
        if replica.role is not ReplicaRole.STANDBY or not replica.is_behind:
            return False
        return any(
            each.batch != EVERY_TUPLE or (hosted.awaits_input and not each.is_answered)
            for each in (self.subscriptions[stream] for stream in replica.inputs)
        )

    def shut_down(self) -> list[Command]:
        """Stop every replica, and leave the streams that only replicas read.

        Producers go on keeping output for the sinks, which continue when the site starts again.
        """
        commands = [c for fragment in list(self.replicas) for c in self._stop(fragment)]
        return [*commands, *self._subscribe(set())]

    def open_sink(self, stream: str, durable: Durable | None) -> list[Command]:
        """Have a sink receive the tuples after those that its driver has kept for good."""
        if (sink := self.sinks.get(stream)) is None:
            return []
        sink.open(durable)
        return list(self._subscribe(set()))

    def close_sink(self, stream: str) -> list[Command]:
        """Have a sink receive nothing until it is opened again."""
        if (sink := self.sinks.get(stream)) is None:
            return []
        sink.close()
        return list(self._subscribe(set()))

    def _stop(self, fragment: str) -> list[Command]:
        hosted = self.replicas.pop(fragment, None)
        if hosted is None:
            return []
        return [Report(kind="stopped", subject=fragment, detail=hosted.replica.role.value)]

    def _start(self, a: FragmentAssignment, now_us: int) -> Iterator[Command]:
        schemas = {stream: stream_schema(columns) for stream, columns in a.inputs.items()}
        try:
            replica = Replica(_compiled(a), schemas, epoch=a.epoch, generation=a.generation)
        except Exception as error:  # noqa: BLE001  One statement must not end what runs others.
            yield _refused(a, error)
            return
        restores = a.restores is not None and a.role == "primary"
        if a.role == "primary" and a.epoch == a.generation and not restores:
            replica.apply(RoleEvent.FOUNDED, a.epoch)
            for entry in replica.inputs.values():
                entry.cursor.begins = a.begins
            if a.counts_from_ms is not None and replica.engine.limited is not None:
                replica.engine.limited.count_from(a.counts_from_ms)
        hosted = HostedReplica(assignment=a, replica=replica, restored=a.restored)
        self.replicas[a.fragment] = hosted
        yield Report(
            kind="started", subject=a.fragment, detail=f"{replica.role.value}, epoch {a.epoch}"
        )
        if restores:
            assert a.restores is not None
            hosted.restoring_us = now_us
            yield ReadCheckpoint(
                query=a.query, fragment=a.fragment, programs=fingerprints(a), name=a.restores
            )
        yield from _stateless_primary(hosted)

    def _sources(self, assigned: tuple[SourceAssignment, ...]) -> Iterator[Command]:
        wanted = {a.stream: a for a in assigned}
        self.sources = {
            stream: source
            for stream, source in self.sources.items()
            if stream in wanted and wanted[stream].generation == source.generation
        }
        for stream, a in wanted.items():
            if stream in self.sources:
                self.sources[stream].use(a)
            else:
                try:
                    self.sources[stream] = HostedSource(a)
                except QueryError as error:
                    yield Report(kind="assignment refused", subject=stream, detail=str(error))
                    continue
                yield Report(kind="started", subject=stream, detail="source")

    def _sinks(self, assigned: tuple[SinkAssignment, ...]) -> Iterator[Command]:
        wanted = {a.stream: a for a in assigned}
        self.sinks = {
            stream: sink
            for stream, sink in self.sinks.items()
            if stream in wanted and wanted[stream].life == sink.assignment.life
        }
        for stream, a in wanted.items():
            if stream in self.sinks:
                self.sinks[stream].use(a)
            else:
                self.sinks[stream] = HostedSink(a)
                yield Report(kind="started", subject=stream, detail="sink")


def _program_of(a: FragmentAssignment) -> tuple[object, ...]:
    """What the program of an assignment follows from."""
    return a.statement, a.inputs, a.skips, a.rejected, a.functions, a.former


def _compiled(a: FragmentAssignment) -> Program:
    """The program of an assignment, with what it was before it was changed in place.

    Raises
    ------
    QueryError, FunctionError
        It cannot run here.
    """
    former = tuple(
        FormerProgram(
            program=_compiled_statement(a, each.statement, each.functions, skips=each.skips),
            until_ms=each.until_ms,
            keeps=each.keeps,
        )
        for each in a.former
    )
    program = _compiled_statement(a, a.statement, a.functions, skips=a.skips)
    return replace(program, former=former)


def _compiled_statement(
    a: FragmentAssignment, text: str, functions: Mapping[str, str], *, skips: bool
) -> Program:
    (statement,) = parse(text)
    program = replace(compile_statement(statement, a.inputs), skips=skips)
    _check_functions(program.functions, functions)
    return program.rejections if a.rejected else program


def _refused(a: FragmentAssignment, error: Exception) -> Report:
    # The coordinator could compile it: it runs another version of the software, or there is a bug.
    kind = "" if isinstance(error, QueryError) else f"{type(error).__name__}: "
    return Report(kind="assignment refused", subject=a.fragment, detail=f"{kind}{error}")


def _check_functions(here: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Refuse to run with functions that may give other rows than the peer replica's."""
    for name, code in wanted.items():
        if here.get(name) != code:
            raise FunctionError(
                f"function {name} has code {here.get(name)} here, and {code} where the "
                "fragment was placed; install the same package, and restart the host"
            )


def fingerprint(a: FragmentAssignment, *, text: str | None = None) -> str:
    """Tells statements apart, with all that their state depends on.

    Parameters
    ----------
    text
        Of the present statement or a former one, as the engine has it; None: the present one.
    """
    found: FragmentAssignment | FormerStatement = a
    if text is not None and text != a.statement:
        found = next((each for each in a.former if each.statement == text), a)
    inputs = sorted((stream, [*columns.items()]) for stream, columns in a.inputs.items())
    functions = sorted(found.functions.items())
    what = [found.statement, inputs, found.skips, a.rejected, functions]
    return sha256(msgspec.json.encode(what)).hexdigest()[:16]


def fingerprints(a: FragmentAssignment) -> tuple[str, ...]:
    """Those of the present statement and of the former ones: a state may be of each."""
    texts = (a.statement, *(each.statement for each in a.former))
    return tuple(dict.fromkeys(fingerprint(a, text=text) for text in texts))


def _stateless_primary(hosted: HostedReplica) -> Iterator[Command]:
    """Report that a replica is listed as primary and has no state: the leader finds another."""
    a, replica = hosted.assignment, hosted.replica
    if hosted.restoring_us is not None:
        return
    if a.role == "primary" and replica.role is ReplicaRole.WARMING:
        yield Report(
            kind="cannot be primary", subject=a.fragment, detail="its state has not arrived"
        )


def _unsubscribe_from(subscription: Subscription, nodes: tuple[str, ...]) -> list[Command]:
    message = Unsubscribe(stream=subscription.stream)
    return [Send(to=node, message=message) for node in nodes]
