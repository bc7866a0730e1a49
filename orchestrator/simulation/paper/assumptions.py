"""What is assumed to be otherwise, written into a copy of the store as its owners would."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from foundation.bounds import MAX_NAME
from foundation.suggestions import closest
from orchestrator.control.observe.view import ClusterView
from orchestrator.documents.document import slug
from orchestrator.documents.units import UnitError, duration_ms
from orchestrator.errors import InvalidInput
from orchestrator.records import NodeRecord, ReplicaLoad, StreamRecord
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.copied import StoreCopy, copy_of
from orchestrator.store.protocol import NODES, STREAMS, Store

NEAR_MS = 1.0
"""Round trip between a node that is added and the one that it is like, if none is known to be
shorter."""

MOST_LOAD = 1000.0

LIKE = "like:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedLatency:
    """A round trip between two hosts."""

    hosts: tuple[str, str]
    rtt_ms: float

    def __str__(self) -> str:
        return f"{self.rtt_ms:g} ms between {self.hosts[0]} and {self.hosts[1]} and back"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNode:
    """A node where another one is: in its application, on a machine of its own."""

    name: str
    like: str

    def __str__(self) -> str:
        return f"a node {self.name} like {self.like}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Everything that is otherwise, but for what is lost and what is applied."""

    load: float = 1.0
    latencies: tuple[AssumedLatency, ...] = ()
    added: tuple[AddedNode, ...] = ()

    def __str__(self) -> str:
        return "; ".join(self.told)

    @property
    def told(self) -> tuple[str, ...]:
        """A phrase each."""
        load = () if self.load == 1 else (f"{self.load:g} times the load",)
        return (*load, *map(str, self.latencies), *map(str, self.added))

    def written_into(self, copy: StoreCopy) -> StoreCopy:
        """The copy with all of it."""
        server = MemoryServer()
        server.restore(copy)
        store = server.connect()
        if self.load != 1:
            self._load(store)
        for added in self.added:
            _add(store, added)
        for latency in self.latencies:
            for here, there in (latency.hosts, latency.hosts[::-1]):
                _tell_latency(store, here, there, latency.rtt_ms)
        return copy_of(store)

    def _load(self, store: Store) -> None:
        for name, found in store.list(STREAMS).records.items():
            stream = _faster(found.record, self.load)
            store.update(STREAMS.key(name), stream, found.version)
        for name, found in store.list(NODES).records.items():
            node = _busier(found.record, self.load)
            store.update(NODES.key(name), node, found.version)


def assumed(
    view: ClusterView, load: float, latencies: tuple[str, ...], added: tuple[str, ...]
) -> Assumptions:
    """What is written as assumptions.

    Raises
    ------
    InvalidInput
        It cannot be read, or names a host that does not run.
    """
    if not 0 < load <= MOST_LOAD:
        problem = f"is no factor between 0 and {MOST_LOAD:g}"
        raise InvalidInput("", "load", load, problem, "Write one such as 1.5.")
    nodes: dict[str, AddedNode] = {}
    for text in added:
        node = _added(view, text, nodes)
        nodes[node.name] = node
    known, pairs = [*view.hosts, *nodes], dict[frozenset[str], AssumedLatency]()
    for text in latencies:
        latency = _latency(known, text)
        if frozenset(latency.hosts) in pairs:
            problem = "says a second time how long that round trip is"
            raise InvalidInput("", "latency", text, problem, "Leave one of them out.")
        pairs[frozenset(latency.hosts)] = latency
    return Assumptions(load=load, latencies=tuple(pairs.values()), added=tuple(nodes.values()))


def _latency(known: list[str], text: str) -> AssumedLatency:
    hosts, _, duration = text.rpartition("=")
    here, colon, there = hosts.partition(":")
    if not colon:
        problem, remedy = "is not of the form A:B=DURATION", "Write one such as paris:lyon=80ms."
        raise InvalidInput("", "latency", text, problem, remedy)
    for name in (here, there):
        _check_known("latency", text, name, known)
    if here == there:
        raise InvalidInput("", "latency", text, "names one host twice", "Name two hosts.")
    try:
        return AssumedLatency(hosts=(here, there), rtt_ms=duration_ms(duration))
    except UnitError as error:
        raise InvalidInput("", "latency", text, error.problem, error.remedy) from None


def _added(view: ClusterView, text: str, others: Collection[str]) -> AddedNode:
    name, _, like = text.partition("=")
    if not name or not like.startswith(LIKE):
        problem, remedy = "is not of the form NAME=like:NODE", "Write one such as rome=like:paris."
        raise InvalidInput("", "add_node", text, problem, remedy)
    if slug(name) != name or len(name) > MAX_NAME:
        problem = "cannot be the name of a node"
        remedy = f"Use small letters, digits and single hyphens, {MAX_NAME} at most."
        raise InvalidInput("", "add_node", name, problem, remedy)
    if name in view.hosts or name in others:
        told = "which runs" if name in view.hosts else "which is added already"
        problem = f"names {name}, {told}"
        raise InvalidInput("", "add_node", text, problem, "Take another name.")
    like = like.removeprefix(LIKE)
    _check_known("add_node", text, like, [*view.executors])
    return AddedNode(name=name, like=like)


def _check_known(field: str, text: str, name: str, known: list[str]) -> None:
    if name not in known:
        close = closest(name, known)
        remedy = f"Did you mean {close}?" if close else f"There are {', '.join(sorted(known))}."
        problem = f"names {name}, where no host runs"
        raise InvalidInput("", field, text, problem, remedy)


def _faster(stream: StreamRecord, factor: float) -> StreamRecord:
    burst = None if stream.burst is None else max(round(stream.burst * factor), 1)
    rate_bytes_s = stream.rate_bytes_s * factor
    return msgspec.structs.replace(stream, rate_bytes_s=rate_bytes_s, burst=burst)


def _busier(node: NodeRecord, factor: float) -> NodeRecord:
    """A host whose replicas have so many times the work; what it does besides stays."""
    load = node.load
    if load is not None:
        evaluating = load.evaluating_cores * factor
        cores = load.cores - load.evaluating_cores + evaluating
        load = msgspec.structs.replace(load, cores=cores, evaluating_cores=evaluating)
    replicas = {
        name: each
        if each.load is None
        else msgspec.structs.replace(each, load=_times(each.load, factor))
        for name, each in node.replicas.items()
    }
    return msgspec.structs.replace(node, load=load, replicas=replicas)


def _times(load: ReplicaLoad, factor: float) -> ReplicaLoad:
    return msgspec.structs.replace(
        load,
        cores=load.cores * factor,
        timestamps_s=load.timestamps_s * factor,
        tuples_s=load.tuples_s * factor,
    )


def _tell_latency(store: Store, here: str, there: str, rtt_ms: float) -> None:
    found = store.get(NODES.key(here))
    assert found is not None
    latencies = {**found.record.latencies_ms, there: rtt_ms}
    node = msgspec.structs.replace(found.record, latencies_ms=latencies)
    store.update(NODES.key(here), node, found.version)


def _add(store: Store, added: AddedNode) -> None:
    found = store.get(NODES.key(added.like))
    assert found is not None
    like = found.record
    near_ms = min([NEAR_MS, *like.latencies_ms.values()])
    processors = like.processors
    if processors is not None:
        processors = msgspec.structs.replace(
            processors, machine=added.name, shared=f"{processors.shared} {added.name}"
        )
    record = NodeRecord(
        node=added.name,
        incarnation=f"{added.name} on paper",
        kind=like.kind,
        region=like.region,
        endpoint=like.endpoint,
        public_key=like.public_key,
        labels=msgspec.structs.replace(like.labels, machine=added.name),
        pid=like.pid,
        machine=like.machine,
        clock_ahead_us=like.clock_ahead_us,
        clocks=like.clocks,
        processors=processors,
        reported_us=like.reported_us,
        coordinate=like.coordinate,
        latencies_ms={**like.latencies_ms, added.like: near_ms},
    )
    store.create(NODES.key(added.name), record)
    for name, other in store.list(NODES).records.items():
        if name == added.name:
            continue
        rtt_ms = near_ms if name == added.like else other.record.latencies_ms.get(added.like)
        if rtt_ms is not None:
            _tell_latency(store, name, added.name, rtt_ms)
