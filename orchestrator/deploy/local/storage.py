"""What a cluster keeps between two lives, if it is given the same folder."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from orchestrator.records import ClusterRecord, Record
from orchestrator.store import CLUSTER, LEADER, NODES, Key, RecordMissing, Store


def prepare(store: Store, record: ClusterRecord) -> None:
    """Write what the cluster agrees on; clear away who lived on in an earlier one's data."""
    found = store.get(CLUSTER)
    if found is None:
        store.create(CLUSTER, record)
    elif found.record != record:
        store.update(CLUSTER, record, found.version)
    left: list[tuple[Key[Record], int]] = [
        (NODES.key(name), found.version) for name, found in store.list(NODES).records.items()
    ]
    if (leader := store.get(LEADER)) is not None:
        left.append((LEADER, leader.version))
    for key, version in left:
        # Its session may expire at this moment.
        with contextlib.suppress(RecordMissing):
            store.delete(key, version)


def kept_secret(file: Path) -> str:
    """The secret that the data in the folder is locked with, or a new one."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text(encoding="ascii")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    secret = secrets.token_urlsafe(24)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secret)
    return secret
