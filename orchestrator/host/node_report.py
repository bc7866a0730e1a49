"""A host's record in the store."""

from __future__ import annotations

from collections import Counter

import msgspec

from orchestrator.host.core import HostCore
from orchestrator.records import HostSpec, NodeRecord


def readiness(core: HostCore) -> tuple[object, ...]:
    """Roles, sources and confirmed sinks; when these change, the host publishes at once."""
    replica_manager = core.replica_manager
    return (
        {f: (h.replica.role, h.replica.epoch) for f, h in replica_manager.replicas.items()},
        frozenset(replica_manager.sources),
        frozenset(s for s, sink in replica_manager.sinks.items() if sink.subscription.confirmed),
    )


def host_identity(
    spec: HostSpec,
    incarnation: str,
    endpoint: str,
    *,
    public_key: str = "",
    pid: int = 0,
    machine: str = "",
    wants: tuple[str, ...] = (),
) -> NodeRecord:
    """The part of a host's record that stays the same as long as its process lives."""
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
        wants=wants,
    )


def node_record(
    core: HostCore,
    identity: NodeRecord,
    now_us: int,
    link_counters: Counter[str],
    problems: tuple[str, ...] = (),
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
    return msgspec.structs.replace(
        identity,
        reported_us=now_us,
        coordinate=core.prober.coordinate,
        latencies_ms=core.prober.latencies_ms,
        replicas=core.replica_statuses(),
        sources={s: source.status for s, source in replica_manager.sources.items()},
        sinks={s: sink.status(now_us) for s, sink in replica_manager.sinks.items()},
        counters=dict(core.counters + link_counters + dropped),
        problems=problems,
    )
