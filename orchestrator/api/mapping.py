"""The coordinate map as data: hosts in latency space, and the fragments on them."""

from __future__ import annotations

from orchestrator.api.connection import Cluster
from orchestrator.api.plans import NOTHING
from orchestrator.control.observe.dataflow import dataflow
from orchestrator.control.observe.view import read_view
from orchestrator.manifest import Manifests
from orchestrator.records import NodeKind, PlanDocument
from orchestrator.results.coordinate_map import CoordinateMap, Flow, Place


def coordinate_map(
    cluster: Cluster, plan: PlanDocument, manifests: Manifests = NOTHING
) -> CoordinateMap:
    """The map of a plan and of the manifests it was made for.

    Hosts without a coordinate are not on it.
    """
    view = read_view(cluster.store)
    streams = view.stream_records | {s.record.name: s.record for s in manifests.streams}
    queries = view.query_records | {q.record.name: q.record for q in manifests.queries}
    planned = {query.query for query in plan.queries}
    queries = {name: record for name, record in queries.items() if name in planned}
    places = {
        name: Place(
            name=name,
            position_ms=node.coordinate.position_ms,
            is_site=node.kind is not NodeKind.EXECUTOR,
        )
        for name, node in sorted(view.hosts.items())
        if node.coordinate is not None
    }
    primaries: dict[str, list[str]] = {}
    secondaries: dict[str, list[str]] = {}
    makers = {name: stream.feeding_site for name, stream in view.entering_of(streams).items()}
    for placed in plan.fragments:
        primaries.setdefault(placed.primary, []).append(placed.fragment)
        if placed.secondary is not None:
            secondaries.setdefault(placed.secondary, []).append(placed.fragment)
        makers[placed.fragment] = placed.primary
    fragments = dataflow(streams, queries).fragments
    readers = [
        (placed.query, stream, target, standby)
        for placed in plan.fragments
        for stream in fragments[placed.fragment].inputs
        for target, standby in ((placed.primary, False), (placed.secondary, True))
        if target is not None
    ]
    readers += [
        (name, stream, site, False)
        for name, query in queries.items()
        for stream, site in query.outputs.items()
    ]
    return CoordinateMap(
        title=f"Cluster {cluster.name} in latency space: "
        f"{', '.join(sorted(queries)) or 'no query'}",
        places=tuple(places.values()),
        primaries=primaries,
        secondaries=secondaries,
        flows=tuple(
            Flow(query=query, source=makers[stream], target=target, standby=standby)
            for query, stream, target, standby in readers
            if makers.get(stream) in places and target in places
        ),
    )
