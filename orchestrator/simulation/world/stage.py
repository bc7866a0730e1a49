"""What a scenario plays: a cluster's settings and hosts, streams and queries, and their places.

It comes from manifests, as the demo does, or from the store of a cluster that runs: then with the
places that its fragments have there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.view import ClusterView
from orchestrator.manifest import ClusterManifest, Manifests, cluster_record
from orchestrator.manifest.applications import applications_of
from orchestrator.records import (
    ClusterRecord,
    FailureLabels,
    FragmentRecord,
    HostSpec,
    NodeKind,
    QueryRecord,
    StreamRecord,
)


def _nowhere() -> Mapping[str, FragmentRecord]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A cluster and what runs there.

    Attributes
    ----------
    places
        Fragments' records to begin with, whose replicas are wanted on their nodes; what is not
        named is planned.
    """

    cluster: ClusterRecord
    hosts: Sequence[HostSpec]
    streams: Sequence[StreamRecord]
    queries: Sequence[QueryRecord]
    places: Mapping[str, FragmentRecord] = field(default_factory=_nowhere)

    @staticmethod
    def of_manifests(manifests: Manifests, streams: Sequence[StreamRecord] | None = None) -> Stage:
        """What manifests describe, perhaps with other streams."""
        cluster = manifests.cluster
        assert cluster is not None, "a scenario needs a cluster's manifest"
        record = cluster_record(cluster)
        return Stage(
            cluster=record,
            hosts=_hosts(cluster, record),
            streams=streams or [m.record for m in manifests.streams],
            queries=[m.record for m in manifests.queries],
        )

    def with_latency(self, here: str, there: str, one_way_ms: float) -> Stage:
        """The same, with another delay between two hosts: each becomes a region of its own."""
        delays = {region: dict(row) for region, row in self.cluster.delays_ms.items()}
        hosts = {host.node: host for host in self.hosts}
        for name in (here, there):
            region, own = hosts[name].region, f"{hosts[name].region} of {name}"
            for row in delays.values():
                row[own] = row.get(region, 0.0)
            delays[own] = dict(delays.get(region, {}))
            hosts[name] = msgspec.structs.replace(hosts[name], region=own)
        one, other = hosts[here].region, hosts[there].region
        delays[one][other] = delays[other][one] = one_way_ms
        cluster = msgspec.structs.replace(self.cluster, delays_ms=delays)
        return replace(self, cluster=cluster, hosts=[*hosts.values()])

    @staticmethod
    def of_view(view: ClusterView) -> Stage:
        """What runs in a cluster now; its streams begin anew."""
        return Stage(
            cluster=msgspec.structs.replace(view.settings, nodes=(), sites=()),
            hosts=[
                HostSpec(
                    cluster=view.settings.name,
                    node=name,
                    kind=host.kind,
                    region=host.region,
                    labels=host.labels,
                    zookeeper="",
                    secret="",
                )
                for name, host in sorted(view.hosts.items())
            ],
            streams=[_as_fed(stream) for _, stream in sorted(view.entering.items())],
            queries=[query for _, query in sorted(view.query_records.items())],
            places={name: found.record for name, found in view.fragments.items()},
        )


def _hosts(cluster: ClusterManifest, record: ClusterRecord) -> list[HostSpec]:
    places = [(p, NodeKind.EXECUTOR) for p in cluster.nodes]
    places += [(p, NodeKind.SITE) for p in cluster.sites]
    of = {
        node.name: application
        for application in applications_of(cluster, record.delays_ms)
        for node in application.nodes
    }
    return [
        HostSpec(
            cluster=cluster.name,
            node=place.name,
            kind=kind,
            region=place.region,
            labels=FailureLabels(
                application=of[place.name].name if place.name in of else "",
                domain=place.domain,
                zone=of[place.name].zone if place.name in of else "",
            ),
            zookeeper="",
            secret="",
        )
        for place, kind in places
    ]


def _as_fed(stream: EnteringStream) -> StreamRecord:
    """A stream whose first site is the one that feeds consumers now."""
    site, *other = stream.sites
    return msgspec.structs.replace(stream.spec, site=site, standby=next(iter(other), None))
