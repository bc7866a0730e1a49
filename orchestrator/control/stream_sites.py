"""Which of a stream's two sites feeds its consumers.

A site takes over by itself when it loses the other one (`orchestrator.host.failover`), and reports
that. The leader records it, so that a site that is started again stands by. It names a site only if
nobody feeds consumers: the source of the one that did has failed, the one that stood by was not
ready when the other was lost, or a primary stepped down for another one that has ended. Two sites
that feed at once do no harm: they give the same tuples the same numbers.
"""

from __future__ import annotations

import msgspec

from ha.roles import ReplicaRole
from orchestrator.control.assignments import entering_epoch
from orchestrator.control.decision import PendingDecision
from orchestrator.control.view import ClusterView
from orchestrator.records import SourceStatus, StreamRecord
from orchestrator.store.protocol import STREAMS


def keep_feeding(pending: PendingDecision) -> None:
    """Record takeovers of sites; name a site where none feeds consumers."""
    for stream in [*pending.planning.streams.values()]:
        if stream.standby is None:
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
    pending.planning.streams[stream.name] = named
    event = pending.event("source taken over", stream.name, f"{detail}; epoch {named.epoch}")
    version = pending.view.streams[stream.name].version
    pending.write(STREAMS.key(stream.name), named, version, event)
