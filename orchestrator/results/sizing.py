"""What the processes of a cluster need of a machine."""

from __future__ import annotations

from orchestrator.results.result import Result


class ProcessSize(Result, frozen=True, kw_only=True):
    """What one process needs, with all that it starts: in containers, a pod.

    Attributes
    ----------
    process
        `executor`, `driver`, `site`, `coordinator`, `web` or `zookeeper`.
    count
        How many there are.
    cores
        Processors to request.
    heap_mib
        Of its Java process (`-Xmx`); 0 if it has none.
    overhead_mib
        Beside the heap.
    limit_mib
        Both: the limit of its container.
    parts
        What the overhead is for → MiB, before the headroom.
    """

    process: str
    count: int
    cores: float
    heap_mib: int
    overhead_mib: int
    limit_mib: int
    parts: dict[str, float]


class StateEstimate(Result, frozen=True, kw_only=True):
    """What the state of a fragment may take on each host that has a replica of it.

    Attributes
    ----------
    way
        How it is evaluated (`streams.plan.choice`).
    tuples
        That its windows hold, at the rates of the manifests; None: no window bounds them.
    state_mib
        What these take at most; what the cluster's `memory` is, if nothing bounds them.
    """

    query: str
    fragment: str
    way: str
    tuples: float | None
    state_mib: float


class SizeDocument(Result, frozen=True, kw_only=True):
    """What the processes of a cluster need.

    Attributes
    ----------
    headroom
        By which the overheads are raised over their parts.
    remarks
        What the figures do not know.
    """

    cluster: str
    headroom: float
    processes: tuple[ProcessSize, ...]
    states: tuple[StateEstimate, ...]
    remarks: tuple[str, ...] = ()
