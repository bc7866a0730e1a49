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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from placement.candidates import candidates
from placement.errors import DeadlineUnattainable, NoNode
from placement.evaluation.load import Load
from placement.evaluation.single import Places, longest_path, with_nodes
from placement.exact import place_evenly, room_with_staying
from placement.exact_dag import solve_dag
from placement.exact_tree import ExactTask, StandbyTerms
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.records import Request
from placement.settings import Placer, Settings
from topology.arrays import FloatArray, IntArray


def choose_primaries(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
    settings: Settings,
    *,
    apart: bool = False,
) -> dict[str, str]:
    """Node of every operator of a query, pinned ones included.

    Parameters
    ----------
    points_ms
        Where relaxation puts the operators.
    load
        Without this query's primaries.
    keep
        Primaries that stay where they are.
    apart
        Whether operators that are linked must take different nodes, so that no failure takes both
        (the exact placer's only).

    Raises
    ------
    NoNode
        If no node runs operators, or none has room.
    DeadlineUnattainable
        If nothing that was tried is in time.
    """
    graph = request.graph
    if settings.placer is Placer.NEAREST:
        chosen = nearest_nodes(graph, points_ms, view, load, keep)
    else:
        chosen = _cheapest(request, points_ms, view, load, keep, settings, apart)
    path = longest_path(graph, chosen, view, settings.hop_overhead_ms)
    if path.latency_ms <= request.deadline_ms:
        return chosen
    if not graph.to_place:
        raise DeadlineUnattainable(
            query=graph.name,
            deadline_ms=request.deadline_ms,
            best_ms=path.latency_ms,
            path=with_nodes(path.operators, chosen),
        )
    return _in_time(request, chosen, points_ms, view, load, keep, settings, apart)


def nearest_nodes(
    graph: QueryGraph,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
) -> dict[str, str]:
    """Nearest node for every operator to be placed; pinned and kept ones stay (§4.4)."""
    places = {o.name: o.pinned for o in graph.operators if o.pinned is not None}
    places |= {name: keep[name] for name in graph.to_place if name in keep}
    load = load.with_replicas(places[name] for name in graph.to_place if name in keep)
    for name in graph.to_place:
        if name in places:
            continue
        count = len(view.hosts) if graph.by_name[name].allowed else 1
        nearest = _allowed(
            graph, name, view.names(view.nearest(points_ms[name], load.axis_ms(), count))
        )
        if not nearest:
            raise NoNode(graph.name, name, _why_none(graph, name, view))
        places[name] = nearest[0]
        load = load.with_replicas((places[name],))
    return places


def _cheapest(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
    settings: Settings,
    apart: bool,
) -> dict[str, str]:
    """The exact placer's choice, among more candidates if those near have no room for all."""
    if not request.graph.to_place:
        return {o.name: o.pinned for o in request.graph.operators if o.pinned is not None}
    count = settings.candidates
    while True:
        try:
            return _cheapest_of(request, points_ms, view, load, keep, settings, apart, count)
        except NoNode:
            if count >= len(view.hosts):
                raise
        count *= 2


def _cheapest_of(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
    settings: Settings,
    apart: bool,
    count: int,
) -> dict[str, str]:
    """The cheapest, with what secondaries will cost if any can keep the bound."""
    graph = request.graph
    near = candidates(graph, points_ms, view, load, keep, count)
    everywhere = len(view.hosts) <= settings.exact_hosts
    task = ExactTask(
        graph=graph,
        view=view,
        candidates=near,
        price_ms=load.price_ms(),
        standby=StandbyTerms(
            nodes=view.host_indices if everywhere else np.unique(np.concatenate([*near.values()])),
            catch_up_ms=request.recovery_bound_ms - request.detection_ms,
            batch_size=settings.batch_size,
        ),
        apart=apart,
        staying=keep,
    )
    found = place_evenly(task, load, settings.placement_rounds, settings.milp)
    if not math.isfinite(found.cost):
        # No secondary keeps the bound: the search for one will say so, and what would be best.
        found = place_evenly(
            replace(task, standby=None, apart=False), load, settings.placement_rounds, settings.milp
        )
    return found.primaries


def _in_time(
    request: Request,
    chosen: Places,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
    settings: Settings,
    apart: bool,
) -> dict[str, str]:
    """The cheapest of the candidates that meet the deadline."""
    graph, cpu_ms = request.graph, load.axis_ms()
    anywhere: dict[str, IntArray] = {}
    for name in graph.to_place:
        near = view.names(view.nearest(points_ms[name], cpu_ms, settings.candidates))
        others = filter(view.can_host, graph.by_name[name].allowed)
        # The node that it was given is one too, since it may be none of those allowed.
        nodes = [chosen[name], *_allowed(graph, name, [*near, *others])]
        anywhere[name] = np.array([view.index[node] for node in nodes], dtype=np.int64)
    around_kept = anywhere | {
        name: np.array([view.index[node]], dtype=np.int64) for name, node in keep.items()
    }

    def solve(candidates: Mapping[str, IntArray]) -> dict[str, str]:
        left = room_with_staying(graph, view, load, keep)
        return solve_dag(
            graph,
            view,
            candidates,
            load.price_ms(),
            capacity_left=None if settings.placer is Placer.NEAREST else left,
            deadline_ms=request.deadline_ms,
            hop_overhead_ms=settings.hop_overhead_ms,
            apart=apart,
            settings=settings.milp,
        ).primaries

    try:
        return solve(around_kept)
    except DeadlineUnattainable:
        if not keep:
            raise
    return solve(anywhere)


def _why_none(graph: QueryGraph, name: str, view: NetworkView) -> str:
    if not view.hosts:
        return "the network has no node that runs operators"
    return f"none of {', '.join(graph.by_name[name].allowed)} runs operators"


def _allowed(graph: QueryGraph, name: str, nodes: Sequence[str]) -> list[str]:
    """Those of some nodes that an operator's primary may take."""
    allowed = graph.by_name[name].allowed
    return [node for node in dict.fromkeys(nodes) if not allowed or node in allowed]
