"""Which of a stream's two sites feeds its consumers.

A site takes over by itself when it loses the other one (`orchestrator.host.core.failover`), and
reports that. The leader records it, so that a site that is started again stands by. The leader
names a site only if neither feeds consumers, for one of three reasons: the source of the primary
has failed; the standby was not ready when the primary was lost; or a primary stepped down for a
successor that has ended. Two sites that feed at once do no harm: they give the same tuples the same
numbers.

Before a site leaves that feeds consumers (`leaving`), the leader names the other one if it is
ready: the two change roles as the replicas of a fragment do.

A source that cannot resume is open at one site only. Once that one has left the store, or cannot
open it, the leader has the other one open it, and the stream begins anew there, as it does at a
site that is started again. Should the first one live, nobody who reads the stream takes anything
from it any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import NodeRecord, RunningStreamRecord, SourceStatus
from orchestrator.store.protocol import NODES

TAKEN_OVER = "source taken over"
"""Kind of the event that tells of another site."""

TRIED_US = 30_000_000
"""How long a site tries to open a source that the other one could not open, until that one is to
try again."""


def keep_feeding(pending: PendingDecision) -> None:
    """Record takeovers of sites; name a site where none feeds consumers."""
    for name, stream in [*pending.planning.streams.items()]:
        if stream.spec.standby is None:
            continue
        if not stream.spec.resumes:
            _move(pending, name, stream)
            continue
        reports = site_reports(pending.view, name, stream)
        epoch = stream.running.epoch
        acting = [site for site, each in reports.items() if each.role is ReplicaRole.PRIMARY]
        newest = max(acting, key=lambda site: reports[site].epoch, default=None)
        if newest is not None:
            if reports[newest].epoch > epoch:
                detail = f"{newest} feeds what reads it, {stream.feeding_site} stands by"
                _name(pending, name, newest, reports[newest].epoch, detail)
            elif (other := _relief(pending.view, stream, reports)) is not None:
                detail = f"{stream.feeding_site} leaves; {other} is to feed what reads it"
                _name(pending, name, other, _beyond(epoch, reports), detail)
        elif (ready := _ready(pending.view, name, stream, reports)) is not None:
            detail = f"nobody feeds what reads it; {ready} is to"
            _name(pending, name, ready, _beyond(epoch, reports), detail)


def _beyond(epoch: int, reports: Mapping[str, SourceStatus]) -> int:
    """An epoch that nobody has begun."""
    return max([epoch, *(each.epoch for each in reports.values())]) + 1


def _relief(
    view: ClusterView, stream: EnteringStream, reports: Mapping[str, SourceStatus]
) -> str | None:
    """The site that can feed in place of one that leaves."""
    if stream.feeding_site not in view.leaving:
        return None
    ready = (
        site
        for site, each in reports.items()
        if each.role is ReplicaRole.STANDBY and not each.lags and site not in view.leaving
    )
    return next(ready, None)


def is_protected(view: ClusterView, name: str, stream: EnteringStream) -> bool:
    """Whether one site feeds a stream, and the other one, if there is one, could do so at once."""
    if stream.running.start_at_us is None:
        return True
    if stream.spec.standby is None or not stream.spec.resumes:
        return stream.feeding_site in view.nodes
    reports = site_reports(view, name, stream)
    roles = sorted(each.role.value for each in reports.values() if not each.lags)
    return roles == [ReplicaRole.PRIMARY.value, ReplicaRole.STANDBY.value]


def stays(view: ClusterView, name: str, stream: EnteringStream, site: str) -> str | None:
    """Why a stream ends with a site that leaves, or empty: it is about to go; None: it does not."""
    if stream.feeding_site != site:
        feeds = site_reports(view, name, stream).get(stream.feeding_site)
        acts = feeds is not None and feeds.role is ReplicaRole.PRIMARY
        return None if acts or site not in stream.sites else ""
    if stream.spec.standby is None:
        return "enters nowhere else"
    if not stream.spec.resumes:
        return "its source cannot resume elsewhere"
    reports = site_reports(view, name, stream)
    other = next((each for each in stream.sites if each != site), "")
    return "" if other in reports else f"{other}, where it enters too, is not ready"


def _move(pending: PendingDecision, name: str, stream: EnteringStream) -> None:
    """Have the other site bring in a stream that cannot resume, if its own one does not."""
    view, (site, other), running = pending.view, stream.sites, stream.running
    found = view.nodes.get(other)
    if found is None or (why := _does_not_feed(pending, name, stream)) is None:
        return
    moved: dict[str, object] = {"primary": other}
    if site in view.nodes:
        moved["moved_us"] = pending.now_us
    detail = f"{site} {why}; {other} is to bring it in"
    if running.incarnation is not None:
        moved |= begun_anew(running, found.record)
        detail += f", and its source cannot resume; generation {moved['generation']}"
    pending.change_stream(name, pending.event(TAKEN_OVER, name, detail), **moved)


def begun_anew(running: RunningStreamRecord, site: NodeRecord) -> dict[str, object]:
    """What is otherwise of a stream that begins anew at a site."""
    return {
        "generation": running.generation + 1,
        "epoch": running.epoch + 1,
        "incarnation": site.incarnation,
    }


def _does_not_feed(pending: PendingDecision, name: str, stream: EnteringStream) -> str | None:
    """Why the only site that has a stream's source open does not feed consumers; None: it may.

    A source that fails at both sites is tried at each for a while.
    """
    view, site, moved_us = pending.view, stream.feeding_site, stream.running.moved_us
    if site not in view.nodes:
        return None if site in view.broken(NODES) else "is gone"
    rested = moved_us is None or pending.now_us - moved_us >= TRIED_US
    if rested and name in view.nodes[site].record.failed_sources:
        return "cannot open its source"
    return None


def site_reports(view: ClusterView, name: str, stream: EnteringStream) -> dict[str, SourceStatus]:
    """What the live sites that have opened the source say of it, the named primary first."""
    return {
        site: status
        for site in stream.sites
        if (found := view.nodes.get(site)) is not None
        and (status := found.record.sources.get(name)) is not None
    }


def _ready(
    view: ClusterView, name: str, stream: EnteringStream, reports: dict[str, SourceStatus]
) -> str | None:
    """A site that can feed, if the one that is named is gone or no longer does."""
    named = stream.feeding_site
    found = view.nodes.get(named)
    if found is not None and name not in found.record.failed_sources:
        if named not in reports:
            # It has yet to open the source.
            return None
        if reports[named].epoch < stream.running.epoch:
            # It has yet to hear of it.
            return None
    standing_by = [s for s, each in reports.items() if each.role is ReplicaRole.STANDBY]
    return min(standing_by, key=lambda site: reports[site].lags, default=None)


def _name(pending: PendingDecision, name: str, site: str, epoch: int, detail: str) -> None:
    event = pending.event(TAKEN_OVER, name, f"{detail}; epoch {epoch}")
    pending.change_stream(name, event, primary=site, epoch=epoch)
