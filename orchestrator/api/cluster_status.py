"""The state of a cluster: problems, nodes, fragments, streams, outputs; and its audit trail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from foundation.timestamps import timestamp_text
from ha.roles import ReplicaRole
from orchestrator.api import standing_by
from orchestrator.api.automation import summary
from orchestrator.api.connection import Cluster
from orchestrator.api.degraded import degradations
from orchestrator.api.standing_by import redo_ms, unprotected_s
from orchestrator.control.observe.audit_events import LOST, RESTORED
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.latencies import latency_uncertainty_ms
from orchestrator.control.observe.published import PublishedFigures, read_figures
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.records import (
    FragmentRecord,
    HistoryEvent,
    NodeRecord,
    PlaceLoad,
    ReplicaId,
    SinkStatus,
    SourceStatus,
)
from orchestrator.records.durations import NO_RECOVERY
from orchestrator.records.hosts import NOTHING_DELIVERED, NOTHING_ENTERED
from orchestrator.results.status import (
    EventDocument,
    FragmentStatus,
    HistoryDocument,
    LinkStatus,
    NodeStatus,
    OutputStatus,
    StatusDocument,
    StreamStatus,
)
from orchestrator.store.protocol import LEADER, PROBLEMS, HistoryEntry, Store

RECENT = 6
"""Events of the history that the status shows."""

NO_LEADER = "no coordinator leads: nothing is planned, and no lost standby is replaced"


def status(cluster: Cluster) -> StatusDocument:
    """How a cluster is, as its store says it now."""
    view, figures = read_view(cluster.store), read_figures(cluster.store)
    figured = [each for name, each in figures.queries.items() if name in view.queries]
    events = cluster.store.history()
    now_us = cluster_now_us(view.cluster_clocks)
    hindrances = problems(cluster.store, view)
    fragments, streams = _fragments(view, figures, events, now_us), _streams(view)
    outputs = _outputs(view)
    wanted, proposed = view.automation, view.proposed
    paused = wanted.is_paused(now_us)
    return StatusDocument(
        cluster=view.settings.name,
        problems=(*hindrances, *figures.lacking),
        nodes=_nodes(view, figures),
        fragments=fragments,
        streams=streams,
        outputs=outputs,
        history=event_documents(events[-RECENT:]),
        loads=() if figures.loads is None else figures.loads.places,
        costs=tuple(cost for each in figured for cost in each.costs),
        queries=tuple(each.plan for each in figured if each.plan is not None),
        figures_age_s=figures.age_s(now_us),
        recoveries={
            name: figures.durations.recoveries.get(name, NO_RECOVERY) for name in view.queries
        },
        moves=figures.durations.moves,
        missing=tuple(
            name for name in (*view.settings.nodes, *view.settings.sites) if name not in view.hosts
        ),
        links=_links(view),
        degraded=degradations(view, fragments, streams, outputs, events, hindrances, now_us),
        proposal=None if proposed is None else summary(proposed.record),
        automation_paused=paused,
        automation_paused_until_us=wanted.paused_until_us if paused else None,
        at_us=now_us,
    )


def problems(store: Store, view: ClusterView) -> tuple[str, ...]:
    """The leader's and the hosts' own words.

    Each problem once: the leader repeats those that can be read from the records.
    """
    published = store.get(PROBLEMS)
    found = [] if store.get(LEADER) is not None else [NO_LEADER]
    found += () if published is None else published.record.problems
    found += map(str, (*view.invalid, *view.problems))
    found += (f"{name}: {each}" for name, node in view.hosts.items() for each in node.problems)
    return tuple(dict.fromkeys(found))


def _nodes(view: ClusterView, figures: PublishedFigures) -> tuple[NodeStatus, ...]:
    records = [found.record for found in view.fragments.values()]
    places = () if figures.loads is None else figures.loads.places
    loads = {each.name: each for each in places if not each.is_machine}
    return tuple(
        _node(view, node, records, loads.get(name)) for name, node in sorted(view.hosts.items())
    )


def _fragments(
    view: ClusterView, figures: PublishedFigures, events: Sequence[HistoryEntry], now_us: int
) -> tuple[FragmentStatus, ...]:
    """By query, producers before consumers."""
    told: defaultdict[str, list[HistoryEvent]] = defaultdict(list)
    for event in (each.event for each in events if each.event.kind in (LOST, RESTORED)):
        told[event.subject].append(event)
    struck = standing_by.drilled_days(events, now_us)
    place = {name: i for i, name in enumerate(view.dataflow.fragments)}
    records = [found.record for found in view.fragments.values()]
    records.sort(key=lambda r: (r.query, place.get(r.fragment, len(place)), r.fragment))
    return tuple(
        _fragment(view, figures, record, told[record.key], struck.get(record.key))
        for record in records
    )


def _node(
    view: ClusterView, node: NodeRecord, records: list[FragmentRecord], load: PlaceLoad | None
) -> NodeStatus:
    me = ReplicaId(node=node.node, incarnation=node.incarnation)
    return NodeStatus(
        node=node.node,
        kind=node.kind.value,
        region=node.region,
        labels=node.labels,
        error=None if node.coordinate is None else node.coordinate.error,
        load_ms=None if node.coordinate is None else node.coordinate.cpu_ms,
        primaries=sum(record.primary == me for record in records),
        secondaries=sum(record.secondary == me for record in records),
        pid=node.pid,
        counters=node.counters,
        memory=node.memory,
        dispatch_histogram=node.dispatch_histogram,
        reported_us=node.reported_us,
        cordoned=node.node in view.cordoned,
        leaving=node.node in view.leaving,
        load=load,
        sdmr_pct=node.sdmr_pct,
    )


def _fragment(
    view: ClusterView,
    figures: PublishedFigures,
    record: FragmentRecord,
    told: Sequence[HistoryEvent],
    drilled_days: float | None,
) -> FragmentStatus:
    primary = view.status(record.primary, record.fragment)
    secondary = view.status(record.secondary, record.fragment)
    if record.paused:
        state = "paused"
    elif record.stopped is not None:
        state = "stopped"
    elif record.secondary is None:
        state = "none"
    elif not view.alive(record.secondary):
        state = "gone"
    elif secondary is None:
        state = "starting"
    else:
        warm = "lagging" if view.lags(record) else "warm"
        state = warm if secondary.role is ReplicaRole.STANDBY else secondary.role.value
    snapshot = None if primary is None else primary.snapshot
    rejected = view.rejected(record)
    return FragmentStatus(
        query=record.query,
        fragment=record.fragment,
        epoch=record.epoch,
        primary=record.primary.node,
        primary_alive=view.alive(record.primary),
        sub_deadline_ms=record.timing.sub_deadline_ms,
        secondary=record.secondary.node if record.secondary else None,
        secondary_state=state,
        redundant=view.protected(record),
        unprotected_s=unprotected_s(view, record, told),
        throttled=primary is not None and primary.throttled,
        third=None if record.third is None else record.third.replica.node,
        snapshot_bytes=None if snapshot is None else snapshot.bytes,
        snapshot_ms=None if snapshot is None else snapshot.ms,
        checkpoint_bytes=None if primary is None else primary.checkpoint_bytes,
        rejected=0 if rejected is None else rejected.tuples,
        stopped=record.stopped,
        paused=record.paused,
        lost_input={
            stream: lost
            for status in view.reports_of(record.fragment).values()
            if status.generation == record.generation
            for stream, lost in status.lost_input.items()
        },
        plan=figures.plan_of(record),
        redo_ms=redo_ms(view, figures, record),
        drilled_days=drilled_days,
        load=None if primary is None else primary.load,
        batching=None if primary is None else primary.batching,
    )


def _streams(view: ClusterView) -> tuple[StreamStatus, ...]:
    sources = {
        (n, stream): s for n, node in view.hosts.items() for stream, s in node.sources.items()
    }
    found = [
        (
            name,
            stream.feeding_site,
            next(iter(stream.sites[1:]), None),
            sources.get((stream.feeding_site, name), NOTHING_ENTERED),
        )
        for name, stream in sorted(view.entering.items())
    ]
    now_us = cluster_now_us(view.cluster_clocks)
    return tuple(
        StreamStatus(
            stream=name,
            site=site,
            entered=source.next_seq,
            shed=source.shed,
            overdue=source.overdue,
            waiting=source.waiting,
            skipped=source.skipped,
            throttled=source.throttled,
            slipped_ms=source.slipped_ms,
            overflowed=source.overflowed,
            overflowing=source.overflowing,
            refused=0 if source.input is None else source.input.refused,
            input=source.input,
            standby=standby,
            stands_by=_stands_by(view, name, standby, sources.get((standby or "", name))),
            waits_s=_waits_s(source, now_us),
            waits_for=what_for(source),
            beside=view.stream_records[name].beside,
        )
        for name, site, standby, source in found
    )


def _waits_s(source: SourceStatus, now_us: int) -> float | None:
    """How long none of the accepted tuples has entered, if some wait, s."""
    waiting = None if source.input is None else source.input.waiting
    return None if waiting is None else max(now_us - waiting.since_us, 0) / 1e6


def what_for(source: SourceStatus) -> str | None:
    """What accepted tuples of a stream wait for, in words; None: none waits."""
    waiting = None if source.input is None else source.input.waiting
    if waiting is None:
        return None
    if waiting.for_ms is None:
        return "consumers to take more"
    silence = waiting.until_idle_ms
    idle = "" if silence is None else f", or {silence / 1000:g} s of silence"
    return f"a tuple from {timestamp_text(waiting.for_ms)} on{idle}"


def _stands_by(
    view: ClusterView, stream: str, site: str | None, status: SourceStatus | None
) -> bool:
    """Whether a second site can take over, and has come as far as the first one."""
    if not view.stream_records[stream].resumes:
        return site in view.hosts
    return status is not None and status.role is ReplicaRole.STANDBY and not status.lags


def _links(view: ClusterView) -> tuple[LinkStatus, ...]:
    now_us = cluster_now_us(view.cluster_clocks)
    return tuple(
        LinkStatus(
            source=found.record.source,
            target=found.record.target,
            delay_ms=found.record.delay_ms,
            remaining_s=max(found.record.until_us - now_us, 0) / 1e6,
        )
        for _, found in sorted(view.links.items())
    )


def _outputs(view: ClusterView) -> tuple[OutputStatus, ...]:
    sinks = {(n, stream): s for n, node in view.hosts.items() for stream, s in node.sinks.items()}
    return tuple(
        OutputStatus(
            query=name,
            stream=stream,
            site=site,
            deadline_ms=query.deadline_of(stream),
            slack_ms=_slack_ms(query.deadline_of(stream), sinks.get((site, stream))),
            latency_uncertainty_ms=latency_uncertainty_ms(
                view, view.dataflow, view.entering, stream, site
            )
            if stream in view.dataflow.fragments
            else None,
            **msgspec.structs.asdict(sinks.get((site, stream), NOTHING_DELIVERED)),
        )
        for name, query in sorted(view.query_records.items())
        for stream, site in query.outputs.items()
    )


def _slack_ms(deadline_ms: float, sink: SinkStatus | None) -> float | None:
    if sink is None or sink.latency_ms_p99 is None:
        return None
    return deadline_ms - sink.latency_ms_p99


def history(cluster: Cluster, limit: int = 50) -> HistoryDocument:
    """The newest events: nodes that came and went, takeovers, applied and deleted queries."""
    return HistoryDocument(history=event_documents(cluster.store.history()[-limit:]))


def event_documents(entries: Sequence[HistoryEntry]) -> tuple[EventDocument, ...]:
    """Entries of the store as documents, without the reports of drills."""
    return tuple(
        EventDocument(
            sequence=entry.sequence,
            at_us=entry.event.at_us,
            kind=entry.event.kind,
            subject=entry.event.subject,
            detail=entry.event.detail,
            lasted_ms=entry.event.lasted_ms,
            by=entry.event.by,
        )
        for entry in entries
    )
