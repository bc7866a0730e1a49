"""A coordinator's memory beside a view of the store: since when a condition has held."""

from __future__ import annotations

from dataclasses import replace

from ha.roles import ReplicaRole
from orchestrator.control.decide.beginning import begins, missing
from orchestrator.control.observe.measured_load import overloaded
from orchestrator.control.observe.view import ClusterView, ColdSecondary, UnlistedReplica
from orchestrator.records import FragmentRecord, SavepointState


def with_times(view: ClusterView, before: ClusterView | None, now_us: int) -> ClusterView:
    """The view, with the times since when something has been so, carried over from the view before.

    The time since when a fragment is orphaned starts anew when its record has changed: the change
    needs time to take effect.
    """
    orphaned: dict[str, int] = {}
    cold: dict[str, ColdSecondary] = {}
    unprotected: dict[str, int] = {}
    unlisted: dict[str, UnlistedReplica] = {}
    stands_still = _stands_still(view, before)
    for name, found in view.fragments.items():
        record = found.record
        known = before.fragments.get(name) if before is not None else None
        acts = view.alive(record.primary) and not view.stateless(record)
        if not acts or view.stepped_down(record):
            same = known is not None and known.version == found.version
            since_us = before.orphaned_since_us.get(name) if before and same else None
            orphaned[name] = now_us if since_us is None else since_us
        reports = record.secondary is not None and record.secondary.node in view.nodes
        fit = view.ready(record.secondary, record.fragment)
        if reports and view.listed(record.secondary) and not fit:
            same = known is not None and known.record.secondary == record.secondary
            was = before.cold.get(name) if before and same else None
            given_bytes = view.given_bytes(record.fragment)
            if was is None or given_bytes > was.given_bytes:
                was = ColdSecondary(since_us=now_us, given_bytes=given_bytes)
            cold[name] = was
        if (only := _only_unlisted(view, record)) is not None:
            seen = None if before is None else before.unlisted.get(name)
            if seen is None or seen != replace(only, primary_report=seen.primary_report):
                seen = only
            unlisted[name] = seen
        if not (record.paused or stands_still or view.protected(record)):
            since_us = before.unprotected_since_us.get(name) if before else None
            if since_us is None:
                since_us = _lost_us(None if known is None else known.record, record, now_us)
                status = view.status(record.secondary, record.fragment)
                if status is not None and status.lags_since_us is not None:
                    since_us = min(since_us, status.lags_since_us)
            unprotected[name] = since_us
    lacking = missing(view, before, now_us)
    return replace(
        view,
        incomplete=lacking,
        stands_still=stands_still,
        begins=begins(view, lacking, before, now_us),
        orphaned_since_us=orphaned,
        cold=cold,
        unlisted=unlisted,
        unprotected_since_us=unprotected,
        saving_since_us=_saving_since_us(view, before, now_us),
        overloaded=overloaded(
            view.hosts,
            view.service_records,
            frozenset[str]() if before is None else before.overloaded,
            emulated=view.settings.emulate_costs,
        ),
    )


def _saving_since_us(view: ClusterView, before: ClusterView | None, now_us: int) -> dict[str, int]:
    """Since when savepoints are awaited: nothing is written for them while everything is dead."""
    known = dict[str, int]() if before is None else before.saving_since_us
    return {
        name: known.get(name, now_us)
        for name, found in view.savepoints.items()
        if found.record.state in (SavepointState.WANTED, SavepointState.COPYING)
    }


def _stands_still(view: ClusterView, before: ClusterView | None) -> bool:
    if before is not None and not before.stands_still and view.executors:
        return False
    return not any(
        view.alive(each) for it in view.fragments.values() for each in it.record.replicas
    )


def _only_unlisted(view: ClusterView, record: FragmentRecord) -> UnlistedReplica | None:
    for replica in record.replicas[1:]:
        # Also one that is suspected: it may have taken over.
        found = view.nodes.get(replica.node) if view.listed(replica) else None
        status = None if found is None else found.record.replicas.get(record.fragment)
        if status is not None and status.role is not ReplicaRole.WARMING:
            return None
    if (replica := view.unlisted_replica(record)) is None:
        return None
    primary = view.nodes.get(record.primary.node)
    return UnlistedReplica(
        replica=replica,
        generation=record.generation,
        primary_report=None if primary is None else primary.report,
    )


def _lost_us(before: FragmentRecord | None, now: FragmentRecord, now_us: int) -> int:
    """When the replica was lost whose loss the record tells since the view before."""
    known = () if before is None else before.losses
    new = [loss.detected_at_us for loss in now.losses if loss not in known]
    return min(max(new, default=now_us), now_us)
