"""What the store holds, for a support bundle: without secrets and the content of streams."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.records import Record
from orchestrator.results.inspection import StoredRecords
from orchestrator.results.redaction import redacted
from orchestrator.store import protocol
from orchestrator.store.protocol import CLUSTER, Key, RecordFolder

HIDDEN = {
    protocol.TOKENS.path: "digests of tokens",
    protocol.OPERATIONS.path: "results hold the content of streams",
    protocol.TRIALS.path: "statements under way to a host",
    protocol.HISTORY.path: "`vivace history` has it",
}


def stored_records(cluster: Cluster) -> StoredRecords:
    """All records that say how a cluster is."""
    records: dict[str, object] = {}
    named: list[Any] = [*vars(protocol).values()]
    keys: list[Key[Record]] = [each for each in named if isinstance(each, Key)]
    folders: list[RecordFolder[Record]] = [each for each in named if isinstance(each, RecordFolder)]
    left_out = dict(HIDDEN)
    for key in keys:
        if (found := cluster.store.get(key)) is not None:
            records[key.path] = redacted(msgspec.to_builtins(found.record))
    for folder in folders:
        if folder.path in HIDDEN:
            continue
        listing = cluster.store.list(folder)
        for name, found in sorted(listing.records.items()):
            records[folder.key(name).path] = redacted(msgspec.to_builtins(found.record))
        left_out |= {f"{folder.path}: {each}": "cannot be read" for each in listing.invalid}
    assert CLUSTER.path in records
    return StoredRecords(records=records, left_out=left_out)
