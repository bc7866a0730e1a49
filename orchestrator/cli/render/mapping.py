"""From a plan and the hosts to what the coordinate map shows of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from orchestrator.cli.render.map import CoordinateMap, Flow, Place
from orchestrator.control.dataflow import Dataflow
from orchestrator.records import NodeKind, NodeRecord, QueryRecord, StreamRecord
from placement.records import Plan


def coordinate_map(
    cluster: str,
    hosts: Mapping[str, NodeRecord],
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    plan: Plan,
) -> CoordinateMap:
    """The map of a plan; hosts without a coordinate are not on it."""
    places = [
        Place(
            name=name,
            position_ms=np.array(node.coordinate.position_ms),
            is_site=node.kind is not NodeKind.EXECUTOR,
        )
        for name, node in sorted(hosts.items())
        if node.coordinate is not None
    ]
    primaries: dict[str, list[str]] = {}
    secondaries: dict[str, list[str]] = {}
    for placed in plan.placements:
        primaries.setdefault(placed.primary, []).append(placed.operator)
        secondaries.setdefault(placed.secondary, []).append(placed.operator)
    known = {place.name for place in places}
    flows = [
        each
        for each in _flows(flow, streams, queries, plan)
        if each.source in known and each.target in known
    ]
    names = ", ".join(sorted(queries)) or "no query"
    return CoordinateMap(
        title=f"Cluster {cluster} in latency space: {names}",
        places=places,
        primaries=primaries,
        secondaries=secondaries,
        flows=flows,
    )


def _flows(
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    plan: Plan,
) -> list[Flow]:
    """From each producer to each consumer's two copies, and from outputs to their sites."""
    makers = {placed.operator: placed.primary for placed in plan.placements}
    makers |= {name: stream.site for name, stream in streams.items()}
    found: list[Flow] = []
    for placed in plan.placements:
        for stream in flow.fragments[placed.operator].inputs:
            if stream not in makers:
                continue
            for target, standby in ((placed.primary, False), (placed.secondary, True)):
                found.append(
                    Flow(query=placed.query, source=makers[stream], target=target, standby=standby)
                )
    for name, query in queries.items():
        for stream, site in query.outputs.items():
            if stream in makers:
                found.append(Flow(query=name, source=makers[stream], target=site, standby=False))
    return found
