"""The maintenance slot: who leaves at present, who waits to, and how to take it from a process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.decide.maintenance import BROKEN, SUCCESSOR_US
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import SLOT, ClusterView, read_view
from orchestrator.errors import InvalidInput
from orchestrator.records import HistoryEvent, SlotRecord
from orchestrator.results.maintenance import MaintenanceDocument, SlotStatus, TurnStatus
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import MAINTENANCE, TURNS, RecordMissing, Store


def maintenance(cluster: Cluster) -> MaintenanceDocument:
    """Who has the slot, and who waits for it."""
    return _document(read_view(cluster.store))


def break_maintenance(cluster: Cluster, *, dry_run: bool = False) -> MaintenanceDocument:
    """Take the slot from the process that has it; what there is then, or would be.

    A process that lives ends at once. The next one has its turn once everything is protected.

    Raises
    ------
    InvalidInput
        Nobody has the slot.
    """
    view = read_view(cluster.store)
    version = _version(view)
    if version is None:
        remedy = "`vivace maintenance show` tells who waits for it."
        raise InvalidInput("", "slot", None, "is nobody's", remedy)
    name = None if view.slot is None else view.slot.record.turn
    after = replace(view, maintenance={}, turns={n: e for n, e in view.turns.items() if n != name})
    if not dry_run:
        # First its turn, so that the leader does not give it the slot again.
        if name is not None and (turn := view.turns.get(name)) is not None:
            with suppress(RecordMissing):
                cluster.store.delete(TURNS.key(name), turn.version)
        _take(cluster.store)
        event = HistoryEvent(
            at_us=cluster_now_us(view.cluster_clocks),
            kind=BROKEN,
            subject="the slot" if view.slot is None else view.slot.record.owner,
            detail="the slot was taken from it",
            by=cluster.by,
        )
        cluster.store.append_history(event)
    return _document(after)


def _version(view: ClusterView) -> int | None:
    """The version of the slot's record, whether or not it can be read."""
    if view.slot is not None:
        return view.slot.version
    return next((each.version for each in view.broken(MAINTENANCE).values()), None)


def _take(store: Store) -> None:
    """Delete the slot's record, whatever the leader writes into it meanwhile."""

    def change() -> None:
        version = _version(read_view(store))
        if version is not None:
            store.delete(SLOT, version)

    until_not_overtaken(SLOT.path, change)


def _document(view: ClusterView) -> MaintenanceDocument:
    slot = None if view.slot is None else view.slot.record
    waiting = sorted(
        (each for name, each in view.turns.items() if slot is None or name != slot.turn),
        key=lambda each: each.created,
    )
    return MaintenanceDocument(
        slot=None if slot is None else _slot(slot),
        waiting=tuple(
            msgspec.convert(each.record, TurnStatus, from_attributes=True) for each in waiting
        ),
    )


def _slot(slot: SlotRecord) -> SlotStatus:
    until_us = None if slot.ended_us is None else slot.ended_us + SUCCESSOR_US
    return SlotStatus(
        owner=slot.owner,
        nodes=slot.nodes,
        state=slot.state,
        since_us=slot.since_us,
        stays=slot.stays,
        until_us=until_us,
    )
