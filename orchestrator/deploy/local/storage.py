"""The data that a cluster keeps between two starts in the same folder."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from orchestrator.records import Record
from orchestrator.store.protocol import LEADER, NODES, Key, RecordMissing, Store


def remove_former_processes(store: Store) -> None:
    """Delete the ephemeral records of an earlier cluster, which nobody is left to renew."""
    left: list[tuple[Key[Record], int]] = [
        (NODES.key(name), found.version) for name, found in store.list(NODES).records.items()
    ]
    if (leader := store.get(LEADER)) is not None:
        left.append((LEADER, leader.version))
    for key, version in left:
        # The session that owns the record may expire at this moment.
        with contextlib.suppress(RecordMissing):
            store.delete(key, version)


def kept_secret(file: Path) -> str:
    """The secret that locks the data in the folder, or a new one."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text(encoding="ascii")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    secret = secrets.token_urlsafe(24)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secret)
    return secret
