"""A copy of a store's records, for a process that tries something out on them.

It has what decisions rest on: what people wrote, what hosts report, and what was decided. Sessions,
requests, figures and the history stay behind, and so do records that cannot be decoded. Versions
and the store's numbers of creations stay as they are: epochs begin with them.
"""

from __future__ import annotations

import msgspec

from orchestrator.records import Record
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    CHECKPOINTS,
    CLOCKS,
    CLUSTER,
    CORDONS,
    DURATIONS,
    FRAGMENTS,
    ISSUED,
    LINKS,
    MAINTENANCE,
    MOVES,
    NODES,
    PAUSES,
    PROPOSALS,
    QUERIES,
    RUNNING_QUERIES,
    RUNNING_STREAMS,
    SERVICES,
    STREAMS,
    RecordInvalid,
    Store,
    Versioned,
    encode,
)

TOPS = (CLUSTER, CLOCKS, ISSUED, DURATIONS)

FOLDERS = (
    FRAGMENTS, CHECKPOINTS, ASSIGNMENTS, QUERIES, PROPOSALS, RUNNING_QUERIES, PAUSES, CORDONS,
    MOVES, LINKS, STREAMS, RUNNING_STREAMS, MAINTENANCE, NODES, SERVICES,
)  # fmt: skip
"""As `read_view` reads them: assignments and fragments before the nodes that they name."""


class CopiedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as bytes; see `Versioned`."""

    data: bytes
    version: int
    created: int


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True):
    """Path below the cluster's root → record."""

    records: dict[str, CopiedRecord]


def copy_of(store: Store) -> StoreCopy:
    """What a store has now.

    Raises
    ------
    StoreUnavailable
        It is away.
    """
    found: dict[str, CopiedRecord] = {}
    for key in TOPS:
        try:
            record = store.get(key)
        except RecordInvalid:
            continue
        if record is not None:
            found[key.path] = _copied(record)
    for folder in FOLDERS:
        for name, record in store.list(folder).records.items():
            found[folder.key(name).path] = _copied(record)
    return StoreCopy(records=found)


def _copied(found: Versioned[Record]) -> CopiedRecord:
    return CopiedRecord(data=encode(found.record), version=found.version, created=found.created)
