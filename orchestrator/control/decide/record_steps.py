"""Records while two versions run: what is written, every process reads.

A later field that an older reader must not overlook is in use only once every process knows it
(`Record.later`). What the leader decides alone it writes without such fields until then: it decides
as the older version would. What people want it refuses until then (`admission.check_readable`).
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.records import Record
from orchestrator.store.protocol import MOVES, RUNNING_QUERIES, RecordFolder, Versioned


def reduce_records(pending: PendingDecision) -> None:
    """Write without later fields what a process that has started does not read."""
    view = pending.view
    for found in view.fragments.values():
        if found.record.needs > pending.records:
            pending.put_fragment(found.record, None)
    for name, found in view.running_streams.items():
        if found.record.needs > pending.records and name in pending.planning.streams:
            pending.change_stream(name, None)
    for found in view.checkpoints.values():
        if found.record.needs > pending.records:
            pending.put_checkpoints(found.record)
    _reduce(pending, RUNNING_QUERIES, view.running_queries)
    _reduce(pending, MOVES, view.moves)


def _reduce(
    pending: PendingDecision, folder: RecordFolder[Record], records: Mapping[str, Versioned[Record]]
) -> None:
    for name, found in records.items():
        if found.record.needs > pending.records:
            pending.write(folder.key(name), found.record, found.version)
