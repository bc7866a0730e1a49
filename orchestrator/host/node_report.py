"""What a host says of itself in the store."""

from __future__ import annotations

from collections import Counter

from orchestrator.host.core import HostCore
from orchestrator.records import HostSpec, NodeRecord


def readiness(core: HostCore) -> tuple[object, ...]:
    """What others wait for: when this changes, the host's record should not be late."""
    replica_manager = core.replica_manager
    return (
        {f: (r.replica.role, r.replica.epoch) for f, r in replica_manager.replicas.items()},
        frozenset(replica_manager.sources),
        frozenset(s for s, sink in replica_manager.sinks.items() if sink.subscription.confirmed),
    )


def node_record(
    core: HostCore,
    spec: HostSpec,
    *,
    incarnation: str,
    endpoint: str,
    public_key: str,
    pid: int,
    machine: str,
    now_us: int,
    wants: tuple[str, ...],
    link_counters: Counter[str],
) -> NodeRecord:
    """The host's record, as of now."""
    replica_manager = core.replica_manager
    overflowed = sum(producer.log.overflowed_tuples for producer in replica_manager.producers())
    dropped = Counter(
        {
            "tuples_overflowed": overflowed,
            "probes_rejected": core.prober.rejected,
            "coordinate_resets": core.prober.resets,
        }
    )
    return NodeRecord(
        node=spec.node,
        incarnation=incarnation,
        kind=spec.kind,
        region=spec.region,
        endpoint=endpoint,
        public_key=public_key,
        domain=spec.domain,
        pid=pid,
        machine=machine,
        reported_us=now_us,
        coordinate=core.prober.coordinate,
        latencies_ms=core.prober.latencies_ms,
        replicas=core.replica_statuses(),
        sources={s: source.status for s, source in replica_manager.sources.items()},
        sinks={s: sink.status(now_us) for s, sink in replica_manager.sinks.items()},
        wants=wants,
        counters=dict(core.counters + link_counters + dropped),
    )
