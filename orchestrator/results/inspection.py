"""What there is to know of one thing in a cluster, and of the network among hosts."""

from __future__ import annotations

from typing import Any

from orchestrator.records import (
    FailureLabels,
    FragmentCost,
    NodeCoordinate,
    PlaceLoad,
    QueryRecord,
    StreamRecord,
)
from orchestrator.results.automation import ProposalStatus
from orchestrator.results.moves import MovePlanStatus
from orchestrator.results.result import Result
from orchestrator.results.status import (
    Degradation,
    EventDocument,
    FragmentStatus,
    NodeStatus,
    OutputStatus,
    QueryStatus,
    StreamStatus,
)


class Description(Result, frozen=True, kw_only=True, omit_defaults=True):
    """All that is known of one thing.

    Attributes
    ----------
    kind, name
        Which one.
    nodes, queries, streams, fragments, outputs, moves, proposals
        The thing itself, and those that it has to do with: what runs on a node, what a query is
        made of, what a fragment reads and who runs it.
    query, stream
        As it was applied.
    statement
        Of a fragment, as it runs.
    reads, read_by
        Streams that a fragment reads; fragments and sites that read a stream or fragment.
    why
        Why it is where it is, a sentence each.
    loads, costs
        As the leader finds.
    round_trips_ms
        Of a node, by peer, as it measured.
    degraded, problems
        What is not as it should be with it.
    history
        The last events of it.
    """

    kind: str
    name: str
    nodes: tuple[NodeStatus, ...] = ()
    queries: tuple[QueryStatus, ...] = ()
    streams: tuple[StreamStatus, ...] = ()
    fragments: tuple[FragmentStatus, ...] = ()
    outputs: tuple[OutputStatus, ...] = ()
    moves: tuple[MovePlanStatus, ...] = ()
    proposals: tuple[ProposalStatus, ...] = ()
    query: QueryRecord | None = None
    stream: StreamRecord | None = None
    statement: str | None = None
    reads: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    loads: tuple[PlaceLoad, ...] = ()
    costs: tuple[FragmentCost, ...] = ()
    round_trips_ms: dict[str, float] = {}
    degraded: tuple[Degradation, ...] = ()
    problems: tuple[str, ...] = ()
    history: tuple[EventDocument, ...] = ()


class LocatedHost(Result, frozen=True, kw_only=True):
    """A host in latency space, and what it dies with; `coordinate` is None until it has one."""

    node: str
    kind: str
    region: str
    coordinate: NodeCoordinate | None
    labels: FailureLabels = FailureLabels()


class RoundTrip(Result, frozen=True, kw_only=True):
    """A round trip between two hosts, ms.

    Attributes
    ----------
    measured_ms
        By the first one, and by the second one where that is the only one that has measured it;
        None: nobody has.
    predicted_ms
        By their coordinates; None: one has none.
    """

    source: str
    target: str
    measured_ms: float | None
    predicted_ms: float | None


class Topology(Result, frozen=True, kw_only=True):
    """Hosts in latency space, and the round trips among them, each pair once."""

    hosts: tuple[LocatedHost, ...]
    round_trips: tuple[RoundTrip, ...]


class LogDocument(Result, frozen=True, kw_only=True):
    """The last lines of a process's log, and the file that has them on `machine`."""

    process: str
    machine: str
    file: str
    lines: tuple[str, ...]


class StoredRecords(Result, frozen=True, kw_only=True):
    """What the store holds, by path.

    Attributes
    ----------
    left_out
        Paths that are not among them → why.
    """

    records: dict[str, Any]
    left_out: dict[str, str]
