"""The nodes that an operator is considered for: those near the point that relaxation gives it.

Every operator of a query is considered for the nodes nearest to any point of the query, not only to
its own. So a group of operators can share a node, and a path can take a route that is good for its
ends rather than for each operator. The nodes of the query's pinned operators are considered too,
because a link within a node costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placement.errors import NoNode
from placement.evaluation.load import Load
from placement.evaluation.single import Places
from placement.graph import QueryGraph
from placement.network import NetworkView
from topology.arrays import FloatArray, IntArray


def candidates(
    graph: QueryGraph,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
    count: int,
) -> dict[str, IntArray]:
    """Candidate nodes of every operator to be placed.

    Parameters
    ----------
    points_ms
        Where relaxation puts the operators.
    load
        Gives the CPU axis, and which nodes have room.
    keep
        Operators that stay where they are: that is their only candidate.
    count
        Nodes per point, nearest first with the CPU axis.

    Returns
    -------
    dict
        Indices of nodes, by name: where candidates cost the same, names decide.

    Raises
    ------
    NoNode
        If no node runs operators, or none of those near has room for one.
    """
    # Distances are round trips, load prices count as one way.
    cpu_ms = 2 * load.price_ms()
    near = [view.nearest(points_ms[name], cpu_ms, count) for name in graph.to_place]
    pinned = [view.index[node] for node in graph.pinned.values() if view.can_host(node)]
    reached = set(pinned).union(*(nodes.tolist() for nodes in near))
    by_name = sorted(reached, key=lambda node: view.nodes[node].name)
    shared = np.array(by_name, dtype=np.int64)
    found: dict[str, IntArray] = {}
    for name in graph.to_place:
        if name in keep:
            found[name] = np.array([view.index[keep[name]]], dtype=np.int64)
            continue
        roomy = load.has_room(graph.cores(name))
        if allowed := graph.by_name[name].allowed:
            named = [view.index[node] for node in sorted(allowed) if view.can_host(node)]
            within = np.array(named, dtype=np.int64)
            found[name] = within[roomy[within]]
        else:
            found[name] = shared[roomy[shared]]
        if not len(found[name]) and not allowed:
            # Far is better than nowhere.
            found[name] = view.host_indices[roomy[view.host_indices]]
        if not len(found[name]):
            raise NoNode(graph.name, name, _why(graph, name, view))
    return found


def _why(graph: QueryGraph, name: str, view: NetworkView) -> str:
    if not view.hosts:
        return "the network has no node that runs operators"
    if allowed := graph.by_name[name].allowed:
        return f"none of the nodes that it may take ({', '.join(allowed)}) is there and has room"
    return f"no node has the {graph.cores(name):g} cores left that it needs"
