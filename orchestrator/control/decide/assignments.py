"""The assignment of each host, derived from all other records in the store.

An assignment is never edited: it follows from fragments, queries, streams and live nodes, and is
written when it differs from the stored one. If one of those records cannot be read, the part of the
present assignment that follows from it stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.evaluations import NO_DEADLINE_MS
from orchestrator.control.planning.overdue import (
    OverdueControl,
    overdue_control,
    steady_ms,
    ways_of,
)
from orchestrator.control.planning.periods import period_on_clock_ms
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.workload import FragmentWork
from orchestrator.records import (
    Assignment,
    ClocksRecord,
    ClusterRecord,
    DisturbedLink,
    DriverSpec,
    FragmentAssignment,
    FragmentRecord,
    Late,
    LinkFault,
    NodeKind,
    NodeRecord,
    OnError,
    Overflow,
    Peer,
    ReplicaId,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.store.protocol import FRAGMENTS, NODES


def assignments(
    planning: Planning,
    clocks: ClocksRecord,
    links: Collection[DisturbedLink] = (),
    kept: Mapping[str, Collection[str]] | None = None,
    leave: Collection[str] = (),
    needed_ms: Mapping[str, int] | None = None,
    checkpoint_us: int = 0,
    saves: Mapping[str, tuple[str, int]] | None = None,
) -> dict[str, Assignment]:
    """The assignment of every live node, by the records as they will be.

    Parameters
    ----------
    kept
        Node → fragments of which it keeps a replica that the record does not list.
    leave
        Hosts that may end.
    needed_ms
        Stream that enters → event time from which on checkpoints need it.
    checkpoint_us
        Every fragment is to write a checkpoint after this time; 0: none need.
    saves
        Stream that enters → the savepoint that is to get a copy of its journal.
    """
    readers, keeps, records = _readers(planning), kept or {}, planning.view.records
    overdue = _Overdue(planning)
    found = {
        name: msgspec.structs.replace(
            _assignment(
                planning, name, readers, clocks, keeps.get(name, ()), needed_ms or {}, overdue
            ),
            records=records,
        )
        for name in sorted(planning.view.nodes)
    }
    if checkpoint_us:
        found = {name: _storing(each, checkpoint_us) for name, each in found.items()}
    if saves:
        found = {name: _saving(each, saves) for name, each in found.items()}
    for name in leave:
        found[name] = msgspec.structs.replace(found[name], may_end=True)
    for link in links:
        if (target := found.get(link.target)) is not None:
            fault = LinkFault(until_us=link.until_us, delay_ms=link.delay_ms)
            peers = tuple(
                msgspec.structs.replace(peer, fault=fault) if peer.node == link.source else peer
                for peer in target.peers
            )
            found[link.target] = msgspec.structs.replace(target, peers=peers)
    return found


class _Overdue:
    """What is done with overdue tuples of streams."""

    def __init__(self, planning: Planning) -> None:
        self._unsure = bool(planning.view.invalid)
        self.control: OverdueControl = overdue_control(
            planning.flow, planning.specs, planning.queries
        )
        self.may_wait_ms: dict[str, float] = {}
        if not self.control.dropping:
            return
        ways = ways_of(planning)
        for stream in self.control.dropping:
            if (found_ms := ways.may_wait_ms(stream)) is not None:
                self.may_wait_ms[stream] = found_ms

    def after_ms(self, stream: str, known: SourceAssignment | None) -> float | None:
        """How long tuples of a stream may wait, given its site's present assignment.

        As long as some record cannot be read, a query may read the stream that nobody knows of.
        """
        if self._unsure:
            return None if known is None else known.overdue_after_ms
        if (found_ms := self.may_wait_ms.get(stream)) is None:
            return None
        return steady_ms(found_ms, None if known is None else known.overdue_after_ms)

    def paced(self, inputs: Collection[str], known: FragmentAssignment | None) -> tuple[str, ...]:
        """The inputs of which a fragment's host takes no more than it can evaluate in time."""
        if self._unsure:
            return () if known is None else known.paced
        return tuple(sorted(self.control.paced & set(inputs)))


def _storing(assignment: Assignment, checkpoint_us: int) -> Assignment:
    """An assignment whose replicas are to write checkpoints after a time."""
    fragments = tuple(
        msgspec.structs.replace(each, checkpoint_us=checkpoint_us) for each in assignment.fragments
    )
    return msgspec.structs.replace(assignment, fragments=fragments)


def _saving(assignment: Assignment, saves: Mapping[str, tuple[str, int]]) -> Assignment:
    """An assignment of which the sources copy journals that feed consumers."""
    sources = tuple(
        msgspec.structs.replace(each, saves=saves[each.stream])
        if each.stream in saves and each.role == "primary"
        else each
        for each in assignment.sources
    )
    return msgspec.structs.replace(assignment, sources=sources)


def follows(planning: Planning, name: str) -> bool:
    """Whether all of a node's assignment follows from records that can be read.

    If not, an assignment that cannot be read may tell what nothing else does.
    """
    view, records = planning.view, planning.fragments.values()
    if view.broken(FRAGMENTS):
        return False
    known = planning.work.fragments.keys()
    unknown = [record for record in records if record.fragment not in known]
    if view.nodes[name].record.kind is not NodeKind.EXECUTOR:
        return not unknown and not view.unreadable_streams
    here = view.replica(name)
    return all(here not in record.replicas for record in unknown)


def _assignment(
    planning: Planning,
    name: str,
    readers: Mapping[str, Collection[str]],
    clocks: ClocksRecord,
    kept: Collection[str],
    needed_ms: Mapping[str, int],
    overdue: _Overdue,
) -> Assignment:
    view = planning.view
    node = view.nodes[name].record
    here = view.replica(name)
    found = view.assignments.get(name)
    nothing = Assignment(incarnation=node.incarnation, clock_ahead_us=None)
    before = nothing if found is None else found.record
    known = {f"{each.query}.{each.fragment}": each for each in before.fragments}
    running = tuple(
        assigned
        for key, record in sorted(planning.fragments.items())
        if (here in record.replicas or key in kept)
        and record.stopped is None
        and (assigned := _replica_in(planning, record, here, known.get(key), overdue)) is not None
    )
    sinks = _sinks(planning, node, before)
    read = {stream for replica in running for stream in replica.inputs} | {s.stream for s in sinks}
    sources = _sources(planning, node, before, needed_ms, overdue)
    made = {replica.fragment for replica in running} | {source.stream for source in sources}
    return Assignment(
        incarnation=node.incarnation,
        fragments=running,
        sources=sources,
        sinks=sinks,
        producers={stream: _holders(planning, stream, before) for stream in sorted(read)},
        consumers={
            stream: _allowed(view, readers.get(stream, ()), before.consumers.get(stream, ()))
            for stream in sorted(made)
        },
        generations={stream: _generation(planning, stream, before) for stream in sorted(read)},
        peers=_peers(view, node, before),
        clock_ahead_us=_clock_ahead_us(node, clocks, before),
    )


def _clock_ahead_us(node: NodeRecord, clocks: ClocksRecord, before: Assignment) -> int | None:
    """By how much the cluster's clock is ahead of that of the host's machine, if that is known."""
    clock = clocks.machines.get(node.machine)
    if clock is not None:
        return clock.ahead_us
    own = [peer.machine for peer in before.peers if peer.node == node.node]
    return before.clock_ahead_us if node.machine in own else None


def _readers(planning: Planning) -> dict[str, set[str]]:
    """Stream → nodes that may read it: those of replicas and sinks that do, and observers."""
    view = planning.view
    readers: dict[str, set[str]] = {}
    for record in planning.fragments.values():
        if record.stopped is not None:
            # Nobody keeps for it what comes meanwhile.
            continue
        work = planning.work.fragments.get(record.fragment)
        nodes = {replica.node for replica in record.replicas}
        for stream in () if work is None else work.fragment.inputs:
            readers.setdefault(stream, set()).update(nodes)
    for query in view.query_records.values():
        for stream, site in query.outputs.items():
            readers.setdefault(stream, set()).add(site)
    for name, found in view.nodes.items():
        for stream in found.record.wants if found.record.kind is NodeKind.OBSERVER else ():
            readers.setdefault(stream, set()).add(name)
    return readers


def _allowed(
    view: ClusterView, readers: Collection[str], before: tuple[str, ...]
) -> tuple[str, ...]:
    """Who may read a stream; as long as some record cannot be read, also those who might before."""
    return tuple(sorted({*readers, *(before if view.invalid else ())}))


def _replica_in(
    planning: Planning,
    record: FragmentRecord,
    here: ReplicaId,
    known: FragmentAssignment | None,
    overdue: _Overdue,
) -> FragmentAssignment | None:
    """The replica of a fragment on a host; None if nobody knows its statement.

    Parameters
    ----------
    known
        The host's present assignment of the fragment. A query that cannot be read is run by it.
    """
    work = planning.work.fragments.get(record.fragment)
    primary = record.primary == here
    peer_replica = record.secondary if primary else record.primary
    others = record.replicas
    if here not in others:
        # It takes over from nobody: the leader decides what becomes of it.
        peer_replica, others = None, ()
    if work is None or (known is not None and record.restart is not None):
        # Its former statement runs until it begins anew with the new one.
        if known is None:
            return None
        base = known
    else:
        unreadable = {} if known is None else _unreadable_readers(planning, known)
        base = FragmentAssignment(
            query=record.query,
            fragment=record.fragment,
            statement=work.fragment.statement,
            inputs={stream: dict(columns) for stream, columns in work.fragment.inputs.items()},
            role="secondary",
            epoch=record.epoch,
            generation=record.generation,
            peer_replica=None,
            sub_deadline_ms=0.0,
            standby_lag_ms=0.0,
            readers_ms=unreadable | dict(work.readers_ms),
            cost_us=work.cost_us,
            rejected=work.fragment.rejected,
            skips=planning.queries[record.query].on_error is OnError.SKIP,
            batching=planning.queries[record.query].batching,
            paced=overdue.paced(work.fragment.inputs, known),
            period_ms=period_on_clock_ms(planning.work, record.fragment, planning.speeds),
        )
    return msgspec.structs.replace(
        base,
        role="primary" if primary else "secondary",
        epoch=record.epoch,
        generation=record.generation,
        # Named even when it is gone: a secondary learns from it whom to take over from.
        peer_replica=None if peer_replica is None else peer_replica.node,
        further_replicas=tuple(each.node for each in others if each not in (here, peer_replica)),
        sub_deadline_ms=record.timing.sub_deadline_ms,
        standby_lag_ms=record.timing.standby_lag_ms,
        batch=record.timing.batch,
        checkpoint_ms=record.timing.checkpoint_ms,
        covered_ms=record.timing.covered_ms,
        promised=record.timing.promised,
        state_rate_bytes_s=_state_rate_bytes_s(planning.view, record),
        restored=0 if record.restored is None else record.restored.epoch,
        restores=_restores(record) if primary else None,
        begins=record.begins if record.epoch == record.generation else None,
        counts_from_ms=record.counts_from_ms if record.epoch == record.generation else None,
        functions=_functions(record, work),
        former=record.former,
    )


def _functions(record: FragmentRecord, work: FragmentWork | None) -> dict[str, str]:
    """The functions that a fragment calls: while its statement changes, those of the new one."""
    if record.changing is None or work is None:
        return record.functions
    return dict(work.fragment.functions)


def _restores(record: FragmentRecord) -> str | None:
    """The checkpoint from which the present primary goes on, if it has not taken over since."""
    found = record.restored
    return found.checkpoint if found is not None and found.epoch == record.epoch else None


def _state_rate_bytes_s(view: ClusterView, record: FragmentRecord) -> float | None:
    """The least throttle of the plans for which a replica of a fragment comes; None: there is none.

    Where a replica is replaced that was lost, nothing is throttled.
    """
    if record.third is None or record.third.becomes is None:
        return None
    plans = [found.record for found in view.moves.values() if found.record.ended_us is None]
    rates = [
        plan.throttle_bytes_s
        for plan in plans
        if plan.throttle_bytes_s is not None
        and any(step.fragment == record.key and not step.settled for step in plan.steps)
    ]
    return min(rates, default=None)


def _unreadable_readers(planning: Planning, known: FragmentAssignment) -> dict[str, float]:
    """Fragments that run and read this one's stream, although their queries cannot be read."""
    unreadable = {record.fragment for record in planning.fragments.values()}
    unreadable -= planning.work.fragments.keys()
    return {name: ms for name, ms in known.readers_ms.items() if name in unreadable}


def _sources(
    planning: Planning,
    node: NodeRecord,
    before: Assignment,
    needed_ms: Mapping[str, int],
    overdue: _Overdue,
) -> tuple[SourceAssignment, ...]:
    if node.kind is not NodeKind.SITE:
        return ()
    streams, unreadable = planning.streams, planning.view.unreadable_streams
    kept = [source for source in before.sources if source.stream in unreadable]
    # A host that has the stream knows better how far it has slipped since.
    same = before.incarnation == node.incarnation
    slipped_ms = {each.stream: each.slipped_ms for each in before.sources if same}
    known = {each.stream: each for each in before.sources}
    made = [
        SourceAssignment(
            stream=name,
            columns=stream.spec.columns,
            fields=stream.spec.fields,
            source=stream.spec.source,
            start_at_us=stream.running.start_at_us,
            shed=stream.spec.shed,
            overdue=stream.spec.overdue,
            overdue_after_ms=overdue.after_ms(name, known.get(name)),
            generation=stream.running.generation,
            slipped_ms=slipped_ms.get(name, stream.running.slipped_ms),
            role="primary" if stream.feeding_site == node.node else "secondary",
            epoch=stream.running.epoch,
            needed_ms=needed_ms.get(name),
            peer_site=next((site for site in stream.opened_at if site != node.node), None),
        )
        for name, stream in sorted(streams.items())
        if node.node in stream.opened_at
    ]
    # Falling: `x.late` and `x.rejected` are to be open when `x` begins to refuse tuples.
    return tuple(sorted([*kept, *made], key=lambda source: source.stream, reverse=True))


def _sinks(planning: Planning, node: NodeRecord, before: Assignment) -> tuple[SinkAssignment, ...]:
    view = planning.view
    placed = {record.fragment for record in planning.fragments.values()}
    # Streams of queries that run and cannot be read.
    unreadable = (placed | view.unreadable_streams) - view.dataflow.columns.keys()
    if node.kind is NodeKind.OBSERVER:
        wanted = set(node.wants) & view.dataflow.columns.keys()
    else:
        wanted = {
            stream
            for query in view.query_records.values()
            for stream, site in query.outputs.items()
            if site == node.node and stream in placed
        } & view.dataflow.fragments.keys()
    made = [
        SinkAssignment(
            stream=stream,
            columns=dict(view.dataflow.columns[stream]),
            deadline_ms=_deadline_ms(view, stream),
            sink=None if node.kind is NodeKind.OBSERVER else _sink(view, stream),
            life=0 if node.kind is NodeKind.OBSERVER else _life(view, stream),
            measured_from_us=_measured_from_us(view, stream),
            overflow=_overflow(view, stream),
            late=Late.KEEP if node.kind is NodeKind.OBSERVER else _late(view, stream),
        )
        for stream in sorted(wanted)
    ]
    kept = [sink for sink in before.sinks if sink.stream in unreadable]
    return tuple(sorted([*kept, *made], key=lambda sink: sink.stream))


def _measured_from_us(view: ClusterView, stream: str) -> int:
    """When the stream's query began from a savepoint; 0: it did not."""
    maker = view.dataflow.fragments.get(stream)
    running = None if maker is None else view.running_records.get(maker.query)
    return 0 if running is None else running.began_us or 0


def _sink(view: ClusterView, stream: str) -> DriverSpec | None:
    """The sink driver that the stream's own query names."""
    return view.query_records[view.dataflow.fragments[stream].query].sinks.get(stream)


def _overflow(view: ClusterView, stream: str) -> Overflow:
    """What the stream's own query says for the time in which a sink does not follow."""
    maker = view.dataflow.fragments.get(stream)
    declared = {} if maker is None else view.query_records[maker.query].overflow
    return declared.get(stream, Overflow.WAIT)


def _late(view: ClusterView, stream: str) -> Late:
    """What the stream's own query says of late results."""
    maker = view.dataflow.fragments.get(stream)
    declared = {} if maker is None else view.query_records[maker.query].late
    return declared.get(stream, Late.KEEP)


def _life(view: ClusterView, stream: str) -> int:
    """Identifies the stream's own query."""
    return view.life_of(view.dataflow.fragments[stream].query)


def _deadline_ms(view: ClusterView, stream: str) -> float:
    """Deadline of the query that makes the stream, else the least of those that read it."""
    queries = view.query_records
    maker = view.dataflow.fragments.get(stream)
    if maker is not None:
        return queries[maker.query].deadline_of(stream)
    readers = {f.query for f in view.dataflow.fragments.values() if stream in f.inputs}
    return min((queries[query].deadline_ms for query in readers), default=NO_DEADLINE_MS)


def _holders(planning: Planning, stream: str, before: Assignment) -> tuple[str, ...]:
    """Nodes that hold a stream and may live, primary first.

    A new secondary waits for an answer of each; so a second site that may never open the source is
    left out until it has.
    """
    view = planning.view
    if (entering := planning.streams.get(stream)) is not None:
        known = view.broken(NODES).keys() | {
            name
            for name, found in view.nodes.items()
            if name == entering.feeding_site or stream in found.record.sources
        }
        return tuple(site for site in entering.opened_at if site in known)
    record = next((r for r in planning.fragments.values() if r.fragment == stream), None)
    if record is None:
        return before.producers.get(stream, ()) if stream in view.unreadable_streams else ()
    if record.stopped is not None:
        return ()
    # A primary that somebody does not hear may live, and keeps output for those that read it only.
    first = [record.primary] if view.listed(record.primary) else []
    return tuple(r.node for r in record.replicas if r in first or view.alive(r))


def _generation(planning: Planning, stream: str, before: Assignment) -> int:
    if (entering := planning.streams.get(stream)) is not None:
        return entering.running.generation
    record = next((r for r in planning.fragments.values() if r.fragment == stream), None)
    return before.generations.get(stream, 0) if record is None else record.generation


def _peers(view: ClusterView, node: NodeRecord, before: Assignment) -> tuple[Peer, ...]:
    settings = view.settings
    kept = [peer for peer in before.peers if peer.node in view.broken(NODES)]
    wires = {
        name: wire
        for name, found in view.nodes.items()
        if (wire := node.versions.spoken_with(found.record.versions)) is not None
    }
    made = [
        Peer(
            node=name,
            incarnation=found.record.incarnation,
            endpoint=found.record.endpoint,
            public_key=found.record.public_key,
            delay_ms=0.0 if name == node.node else _delay_ms(settings, found.record, node),
            machine=found.record.machine,
            wire=wires[name],
        )
        for name, found in view.nodes.items()
        if name in wires
    ]
    return tuple(sorted([*kept, *made], key=lambda peer: peer.node))


def _delay_ms(settings: ClusterRecord, source: NodeRecord, target: NodeRecord) -> float:
    """Delay the link shaper adds; none for regions it was not told of, such as an observer's."""
    return settings.delays_ms.get(source.region, {}).get(target.region, 0.0)
