"""Primaries: which node runs each operator, in time for the query's deadline.

There are two placers (`Placer`):

*Nearest* is the paper's (reliable placement, §4.4): each operator goes to the node nearest to its
point, in coordinate space with the CPU axis. That axis rises with every operator placed, so the
operators of a query that want the same spot spread over its neighbourhood.

*Exact* replaces it. It takes the cheapest of all choices among the candidates near the points, with
measured latencies where there are any (`placement.exact`).

Neither knows the deadline; reliable placement has none. When the chosen nodes miss it, the query's
new operators are placed again among their nearest candidates by the program that models paths
(`placement.exact_dag`). Only if that cannot help either, running operators of the query are moved
too.

*Candidates* are the nodes near the points that relaxation gives the operators. Every operator of a
query is considered for the nodes nearest to any point of the query, not only to its own. So a group
of operators can share a node, and a path can take a route that is good for its ends rather than for
each operator. The nodes of the query's pinned operators are considered too, because a link within a
node costs nothing, and so are those to which its sources flow anyway."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial.distance import cdist

from foundation.arrays import FloatArray, IntArray
from placement.dag_model import DagTask
from placement.errors import DeadlineUnattainable, NoNode
from placement.evaluation.load import Load
from placement.evaluation.single import Places, longest_path, with_nodes
from placement.exact import place_exactly, room_with_staying
from placement.exact_dag import solve_dag
from placement.exact_tree import ExactTask, StandbyTerms
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.records import Request
from placement.settings import Placer, Settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrimaryTask:
    """A query whose primaries are to be chosen.

    Attributes
    ----------
    points_ms
        Where relaxation puts the operators, shape (d,), ms.
    load
        Without this query's primaries.
    keep
        Primaries that stay where they are.
    apart
        Whether operators that are linked must take different nodes, so that no failure takes both
        (the exact placer's only).
    """

    request: Request
    points_ms: Mapping[str, FloatArray]
    view: NetworkView
    load: Load
    keep: Places = field(default_factory=dict[str, str])
    settings: Settings = field(default_factory=Settings)
    apart: bool = False

    @property
    def graph(self) -> QueryGraph:
        """The query's."""
        return self.request.graph


def choose_primaries(task: PrimaryTask) -> dict[str, str]:
    """Node of every operator of a query, pinned ones included.

    Raises
    ------
    NoNode
        If no node runs operators, or none has room.
    DeadlineUnattainable
        If none of the placements tried is in time.
    SolverStopped
        If a limit of the solver came before any placement.
    """
    graph = task.graph
    is_nearest = task.settings.placer is Placer.NEAREST
    chosen = nearest_nodes(task) if is_nearest else _cheapest(task)
    path = longest_path(graph, chosen, task.view, task.settings.hop_overhead_ms)
    if path.latency_ms <= task.request.deadline_ms:
        return chosen
    if not graph.to_place:
        raise DeadlineUnattainable(
            query=graph.name,
            deadline_ms=task.request.deadline_ms,
            best_ms=path.latency_ms,
            path=with_nodes(path.operators, chosen),
        )
    return _in_time(task, chosen)


def nearest_nodes(task: PrimaryTask) -> dict[str, str]:
    """Nearest node for every operator to be placed; pinned and kept ones stay (§4.4)."""
    graph, view = task.graph, task.view
    places = graph.pinned | {name: task.keep[name] for name in graph.to_place if name in task.keep}
    load = task.load.with_replicas(places[name] for name in graph.to_place if name in places)
    for name in graph.to_place:
        if name in places:
            continue
        count = len(view.hosts) if graph.by_name[name].allowed else 1
        found = view.names(view.nearest(task.points_ms[name], load.axis_ms(), count))
        nearest = _allowed(graph, name, found)
        if not nearest:
            raise NoNode(graph.name, name, _why_none(graph, name, view))
        places[name] = nearest[0]
        load = load.with_replicas((places[name],))
    return places


def _cheapest(task: PrimaryTask) -> dict[str, str]:
    """The exact placer's choice, among more candidates if those near have no room for all."""
    if not task.graph.to_place:
        return task.graph.pinned
    count = task.settings.candidates
    while True:
        try:
            return _cheapest_of(task, count)
        except NoNode:
            if count >= len(task.view.hosts):
                raise
        count *= 2


def _cheapest_of(task: PrimaryTask, count: int) -> dict[str, str]:
    """The cheapest, with the cost of secondaries if any can keep the bound."""
    graph, view, request, settings = task.graph, task.view, task.request, task.settings
    near = candidates(graph, task.points_ms, view, task.load, task.keep, count)
    everywhere = len(view.hosts) <= settings.exact_hosts
    exact = ExactTask(
        graph=graph,
        view=view,
        candidates=near,
        price_bytes=task.load.price_bytes(graph.mean_input_rate),
        standby=StandbyTerms(
            nodes=view.host_indices if everywhere else np.unique(np.concatenate([*near.values()])),
            catch_up_ms=request.recovery_bound_ms - request.detection_ms,
            batch_size=settings.batch_size,
        ),
        apart=task.apart,
        staying=task.keep,
        crossing_ms=settings.crossing_ms,
    )
    found = place_exactly(exact, task.load, settings.milp)
    if not math.isfinite(found.cost):
        # No secondary keeps the bound: the search for one will say so, and name the best node.
        alone = replace(exact, standby=None, apart=False)
        found = place_exactly(alone, task.load, settings.milp)
    return found.primaries


def _in_time(task: PrimaryTask, chosen: Places) -> dict[str, str]:
    """The cheapest of the candidates that meet the deadline."""
    graph, view, load, settings = task.graph, task.view, task.load, task.settings
    cpu_ms = load.axis_ms()
    anywhere: dict[str, IntArray] = {}
    for name in graph.to_place:
        near = view.names(view.nearest(task.points_ms[name], cpu_ms, settings.candidates))
        others = filter(view.can_host, graph.by_name[name].allowed)
        # The node that it was given is one too, since it may be none of those allowed.
        nodes = [chosen[name], *_allowed(graph, name, [*near, *others])]
        anywhere[name] = np.array([view.index[node] for node in nodes], dtype=np.int64)
    is_nearest = settings.placer is Placer.NEAREST
    left = None if is_nearest else room_with_staying(graph, view, load, task.keep)
    free = DagTask(
        graph=graph,
        view=view,
        candidates=anywhere,
        price_bytes=load.price_bytes(graph.mean_input_rate),
        capacity_left=left,
        deadline_ms=task.request.deadline_ms,
        hop_overhead_ms=settings.hop_overhead_ms,
        apart=task.apart,
        crossing_ms=settings.crossing_ms,
    )
    stay = {name: np.array([view.index[node]], dtype=np.int64) for name, node in task.keep.items()}
    try:
        return solve_dag(replace(free, candidates=anywhere | stay), settings.milp).primaries
    except DeadlineUnattainable:
        if not stay:
            raise
    return solve_dag(free, settings.milp).primaries


def _why_none(graph: QueryGraph, name: str, view: NetworkView) -> str:
    if not view.hosts:
        return "the network has no node that runs operators"
    return f"none of {', '.join(graph.by_name[name].allowed)} runs operators"


def _allowed(graph: QueryGraph, name: str, nodes: Sequence[str]) -> list[str]:
    """Those of some nodes that an operator's primary may take."""
    allowed = graph.by_name[name].allowed
    return [node for node in dict.fromkeys(nodes) if not allowed or node in allowed]


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
    shared = nodes_near(graph, points_ms, view, load, count)
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


def nodes_near(
    graph: QueryGraph,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    count: int,
) -> IntArray:
    """Nodes near any point of a query, those where it is pinned, and those to which its sources
    flow; by name. Parameters are those of `candidates`."""
    # Distances are round trips, load prices count as one way.
    cpu_ms = 2 * load.price_ms()
    near = [view.nearest(points_ms[name], cpu_ms, count) for name in graph.to_place]
    near.append(_flowing(graph, points_ms, view, cpu_ms, count))
    pinned = [view.index[node] for node in graph.pinned.values() if view.can_host(node)]
    reached = set(pinned).union(*(nodes.tolist() for nodes in near))
    by_name = sorted(reached, key=lambda node: view.nodes[node].name)
    return np.array(by_name, dtype=np.int64)


def _flowing(
    graph: QueryGraph,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    cpu_ms: FloatArray,
    count: int,
) -> IntArray:
    """Nodes to which the query's sources flow anyway; of many, those nearest to any point."""
    flows_to = frozenset[str]().union(*(each.flows_to for each in graph.operators))
    found = np.array(sorted(view.index[n] for n in flows_to if view.can_host(n)), dtype=np.int64)
    if len(found) <= count:
        return found
    apart_ms = cdist([points_ms[name] for name in graph.to_place], view.positions_ms[found])
    distance_ms = np.hypot(apart_ms.min(axis=0), cpu_ms[found])
    return found[np.argsort(distance_ms, kind="stable")[:count]]


def _why(graph: QueryGraph, name: str, view: NetworkView) -> str:
    if not view.hosts:
        return "the network has no node that runs operators"
    if allowed := graph.by_name[name].allowed:
        return f"none of the nodes that it may take ({', '.join(allowed)}) is there and has room"
    return f"no node has the {graph.cores(name):g} cores left that it needs"
