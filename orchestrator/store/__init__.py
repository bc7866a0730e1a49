"""The store: where the processes of a cluster agree.

`protocol` says what a store is, `zookeeper` is the real one and the only user of kazoo;
`orchestrator.simulation.memory_store` is the other, for the simulated world. One test suite
runs against both.
"""

from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    ASSIGNMENTS,
    CLUSTER,
    FRAGMENTS,
    HISTORY,
    LEADER,
    NODES,
    PROBLEMS,
    QUERIES,
    STREAMS,
    AccessDenied,
    Folder,
    HistoryEntry,
    Key,
    LeaderRecord,
    Listing,
    ProblemsRecord,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    SessionState,
    Store,
    StoreError,
    StoreUnavailable,
    VersionConflict,
    Versioned,
    Watch,
    fragment_key,
)
from orchestrator.store.zookeeper import ZooKeeperStore

__all__ = [
    "ASSIGNMENTS",
    "CLUSTER",
    "FRAGMENTS",
    "HISTORY",
    "LEADER",
    "NODES",
    "PROBLEMS",
    "QUERIES",
    "STREAMS",
    "AccessDenied",
    "EphemeralRecord",
    "Folder",
    "HistoryEntry",
    "Key",
    "LeaderRecord",
    "Listing",
    "ProblemsRecord",
    "RecordExists",
    "RecordInvalid",
    "RecordMissing",
    "SessionState",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "VersionConflict",
    "Versioned",
    "Watch",
    "ZooKeeperStore",
    "fragment_key",
]
