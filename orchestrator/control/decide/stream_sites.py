"""Which of a stream's two sites feeds its consumers.

A site takes over by itself when it loses the other one (`orchestrator.host.core.failover`), and
reports that. The leader records it, so that a site that is started again stands by. It names a site
only if nobody feeds consumers: the source of the one that did has failed, the one that stood by was
not ready when the other was lost, or a primary stepped down for another one that has ended. Two
sites that feed at once do no harm: they give the same tuples the same numbers.

A source that cannot resume is open at one site only. Once that one has left the store, or cannot
open it, the leader has the other one open it, and the stream begins anew there, as it does at a
site that is started again. Should the first one live, nobody who reads the stream takes anything
from it any more.
"""

from __future__ import annotations

import msgspec

from ha.roles import ReplicaRole
from orchestrator.control.decide.assignments import entering_epoch
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import SourceStatus, StreamRecord
from orchestrator.store.protocol import NODES, STREAMS

TRIED_US = 30_000_000
"""How long a site tries to open a source that the other one could not open, until that one is to
try again."""


def keep_feeding(pending: PendingDecision) -> None:
    """Record takeovers of sites; name a site where none feeds consumers."""
    for stream in [*pending.planning.streams.values()]:
        if stream.standby is None:
            continue
        if not stream.resumes:
            _move(pending, stream)
            continue
        reports = _reports(pending.view, stream)
        epoch = entering_epoch(pending.view, stream)
        acting = [site for site, each in reports.items() if each.role is ReplicaRole.PRIMARY]
        newest = max(acting, key=lambda site: reports[site].epoch, default=None)
        if newest is not None:
            if reports[newest].epoch > epoch:
                detail = f"{newest} feeds what reads it, {stream.feeding_site} stands by"
                _name(pending, stream, newest, reports[newest].epoch - epoch, detail)
        elif (ready := _ready(pending.view, stream, reports, epoch)) is not None:
            beyond = max([epoch, *(each.epoch for each in reports.values())]) + 1
            detail = f"nobody feeds what reads it; {ready} is to"
            _name(pending, stream, ready, beyond - epoch, detail)


def _move(pending: PendingDecision, stream: StreamRecord) -> None:
    """Have the other site bring in a stream that cannot resume, if its own one does not."""
    view, (site, other) = pending.view, stream.sites
    found = view.nodes.get(other)
    if found is None or (why := _does_not_feed(pending, stream)) is None:
        return
    moved = msgspec.structs.replace(stream, primary=other)
    if site in view.nodes:
        moved = msgspec.structs.replace(moved, moved_us=pending.now_us)
    detail = f"{site} {why}; {other} is to bring it in"
    if stream.incarnation is not None:
        moved = msgspec.structs.replace(
            moved, generation=stream.generation + 1, incarnation=found.record.incarnation
        )
        detail += f", and its source cannot resume; generation {moved.generation}"
    _write(pending, moved, detail)


def _does_not_feed(pending: PendingDecision, stream: StreamRecord) -> str | None:
    """Why the only site that has a stream's source open does not feed consumers; None: it may.

    A source that fails at both sites is tried at each for a while.
    """
    view, site = pending.view, stream.feeding_site
    if site not in view.nodes:
        return None if site in view.broken(NODES) else "is gone"
    rested = stream.moved_us is None or pending.now_us - stream.moved_us >= TRIED_US
    if rested and stream.name in view.nodes[site].record.failed_sources:
        return "cannot open its source"
    return None


def _reports(view: ClusterView, stream: StreamRecord) -> dict[str, SourceStatus]:
    """What the live sites that have opened the source say of it, the named primary first."""
    return {
        site: status
        for site in stream.sites
        if (found := view.nodes.get(site)) is not None
        and (status := found.record.sources.get(stream.name)) is not None
    }


def _ready(
    view: ClusterView, stream: StreamRecord, reports: dict[str, SourceStatus], epoch: int
) -> str | None:
    """A site that can feed, if the one that is named is gone or no longer does."""
    named = stream.feeding_site
    found = view.nodes.get(named)
    if found is not None and stream.name not in found.record.failed_sources:
        if named not in reports:
            # It has yet to open the source.
            return None
        if reports[named].epoch < epoch:
            # It has yet to hear of it.
            return None
    standing_by = [s for s, each in reports.items() if each.role is ReplicaRole.STANDBY]
    return min(standing_by, key=lambda site: reports[site].lags, default=None)


def _name(pending: PendingDecision, stream: StreamRecord, site: str, by: int, detail: str) -> None:
    named = msgspec.structs.replace(stream, primary=site, epoch=stream.epoch + by)
    _write(pending, named, f"{detail}; epoch {named.epoch}")


def _write(pending: PendingDecision, stream: StreamRecord, detail: str) -> None:
    pending.planning.streams[stream.name] = stream
    event = pending.event("source taken over", stream.name, detail)
    version = pending.view.streams[stream.name].version
    pending.write(STREAMS.key(stream.name), stream, version, event)
