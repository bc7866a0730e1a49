"""Hosts in latency space, and the round trips among them."""

from __future__ import annotations

import math
from itertools import combinations

from orchestrator.api.connection import Cluster
from orchestrator.control.observe.view import read_view
from orchestrator.records import NodeRecord
from orchestrator.results.inspection import LocatedHost, RoundTrip, Topology


def topology(cluster: Cluster) -> Topology:
    """As hosts have reported it."""
    hosts = dict(sorted(read_view(cluster.store).hosts.items()))
    return Topology(
        hosts=tuple(
            LocatedHost(
                labels=host.labels,
                node=name,
                kind=host.kind.value,
                region=host.region,
                coordinate=host.coordinate,
            )
            for name, host in hosts.items()
        ),
        round_trips=tuple(
            RoundTrip(
                source=one,
                target=other,
                measured_ms=hosts[one].latencies_ms.get(other, hosts[other].latencies_ms.get(one)),
                predicted_ms=_predicted_ms(hosts[one], hosts[other]),
            )
            for one, other in combinations(hosts, 2)
        ),
    )


def _predicted_ms(one: NodeRecord, other: NodeRecord) -> float | None:
    if one.coordinate is None or other.coordinate is None:
        return None
    return math.dist(one.coordinate.position_ms, other.coordinate.position_ms)
