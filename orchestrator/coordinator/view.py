"""All that a coordinator knows when it decides: one reading of the store, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from orchestrator.coordinator.dataflow import Dataflow, InvalidQuery, sound_dataflow
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    FragmentRecord,
    NodeKind,
    NodeRecord,
    QueryRecord,
    ReplicaId,
    ReplicaRole,
    ReplicaStatus,
    StreamRecord,
)
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    CLUSTER,
    FRAGMENTS,
    NODES,
    QUERIES,
    STREAMS,
    RecordInvalid,
    Store,
    Versioned,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Everything in the store, by name, with versions.

    Attributes
    ----------
    fragments
        By `<query>.<fragment>`.
    invalid
        What could not be decoded.
    orphaned_since_us
        Fragments whose primary is gone → when this coordinator first saw that.
    dataflow, problems
        The queries that can be compiled, and what is wrong with the others.
    """

    cluster: Versioned[ClusterRecord] | None = None
    nodes: Mapping[str, Versioned[NodeRecord]] = field(
        default_factory=dict[str, Versioned[NodeRecord]]
    )
    streams: Mapping[str, Versioned[StreamRecord]] = field(
        default_factory=dict[str, Versioned[StreamRecord]]
    )
    queries: Mapping[str, Versioned[QueryRecord]] = field(
        default_factory=dict[str, Versioned[QueryRecord]]
    )
    fragments: Mapping[str, Versioned[FragmentRecord]] = field(
        default_factory=dict[str, Versioned[FragmentRecord]]
    )
    assignments: Mapping[str, Versioned[Assignment]] = field(
        default_factory=dict[str, Versioned[Assignment]]
    )
    invalid: tuple[RecordInvalid, ...] = ()
    orphaned_since_us: Mapping[str, int] = field(default_factory=dict[str, int])
    dataflow: Dataflow = field(init=False)
    problems: tuple[InvalidQuery, ...] = field(init=False)

    def __post_init__(self) -> None:
        dataflow, problems = sound_dataflow(self.stream_records, self.query_records)
        object.__setattr__(self, "dataflow", dataflow)
        object.__setattr__(self, "problems", problems)

    @property
    def settings(self) -> ClusterRecord:
        """What the cluster agrees on; the defaults, undelayed, before it was set up."""
        if self.cluster is not None:
            return self.cluster.record
        return ClusterRecord(name="", delays_ms={})

    @property
    def stream_records(self) -> dict[str, StreamRecord]:
        """Streams without versions."""
        return {name: found.record for name, found in self.streams.items()}

    @property
    def query_records(self) -> dict[str, QueryRecord]:
        """Queries without versions."""
        return {name: found.record for name, found in self.queries.items()}

    @property
    def hosts(self) -> dict[str, NodeRecord]:
        """Live executors and sites; observers come and go and carry nothing."""
        return {
            name: found.record
            for name, found in self.nodes.items()
            if found.record.kind is not NodeKind.OBSERVER
        }

    @property
    def executors(self) -> dict[str, NodeRecord]:
        """Live executors."""
        return {n: node for n, node in self.hosts.items() if node.kind is NodeKind.EXECUTOR}

    def alive(self, replica: ReplicaId | None) -> bool:
        """Whether that very life of the node is live."""
        if replica is None or replica.node not in self.nodes:
            return False
        return self.nodes[replica.node].record.incarnation == replica.incarnation

    def status(self, replica: ReplicaId | None, fragment: str) -> ReplicaStatus | None:
        """What a live copy says of itself; None if it is gone or has not begun."""
        if replica is None or not self.alive(replica):
            return None
        return self.nodes[replica.node].record.replicas.get(fragment)

    def protected(self, record: FragmentRecord) -> bool:
        """Whether the fragment runs and a warm secondary stands by."""
        primary = self.status(record.primary, record.fragment)
        secondary = self.status(record.secondary, record.fragment)
        return (
            primary is not None
            and secondary is not None
            and primary.role is ReplicaRole.PRIMARY
            and secondary.role is ReplicaRole.STANDBY
        )


def read_view(store: Store) -> ClusterView:
    """Read everything.

    The readings are not of one instant. What is decided on them is written under the versions
    read, so a change in between is noticed there.

    Raises
    ------
    StoreUnavailable
        The session is not `CONNECTED`.
    """
    invalid: list[RecordInvalid] = []
    try:
        cluster = store.get(CLUSTER)
    except RecordInvalid as broken:
        cluster = None
        invalid.append(broken)
    # Assignments and fragments are read before the nodes they name, so that a node that seems
    # gone is gone.
    fragments = store.list(FRAGMENTS)
    assignments = store.list(ASSIGNMENTS)
    queries = store.list(QUERIES)
    streams = store.list(STREAMS)
    nodes = store.list(NODES)
    for listing in (fragments, assignments, queries, streams, nodes):
        invalid += listing.invalid
    return ClusterView(
        cluster=cluster,
        nodes=nodes.records,
        streams=streams.records,
        queries=queries.records,
        fragments=fragments.records,
        assignments=assignments.records,
        invalid=tuple(invalid),
    )


def with_orphans(view: ClusterView, before: ClusterView | None, now_us: int) -> ClusterView:
    """The view, with the times since which fragments lack their primary carried over."""
    known = {} if before is None else before.orphaned_since_us
    return replace(
        view,
        orphaned_since_us={
            name: known.get(name, now_us)
            for name, found in view.fragments.items()
            if not view.alive(found.record.primary)
        },
    )
