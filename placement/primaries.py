"""Primaries: which node runs each operator, in time for the query's deadline.

Two placers, by `Placer`:

*Nearest* is the paper's (reliable placement, §4.4): each operator goes to the node nearest to its
point, in coordinate space with the CPU axis. That axis rises with every operator placed, so the
operators of a query that want the same spot spread over its neighbourhood.

*Exact* takes the cheapest of all choices among the candidates near the points, latencies that were
measured counting as measured (`placement.exact`).

Neither knows the deadline, of which the paper has none. When they miss it, the query's new
operators are searched for among their nearest candidates (`placement.repair`); only if that cannot
help either are running operators of the query moved too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from placement import evaluate, repair
from placement.candidates import candidates
from placement.errors import DeadlineUnattainable, NoNode
from placement.evaluate import Places
from placement.exact import place_evenly
from placement.exact_tree import ExactTask, StandbyTerms
from placement.graph import QueryGraph
from placement.load import Load
from placement.network import NetworkView
from placement.records import Request
from placement.settings import Placer, Settings
from topology.arrays import FloatArray


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
    path = evaluate.longest_path(graph, chosen, view, settings.hop_overhead_ms)
    if path.latency_ms > request.deadline_ms and graph.to_place:
        chosen = _repaired(request, chosen, points_ms, view, load, keep, settings)
    return _in_time(request, chosen, view, settings)


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
            graph, name, view.names(view.nearest(points_ms[name], load.cpu_ms(), count))
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


def _repaired(
    request: Request,
    chosen: Mapping[str, str],
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
    settings: Settings,
) -> dict[str, str]:
    """The cheapest candidates that meet the deadline, else the fastest."""
    cpu_ms = load.cpu_ms()
    # Where an operator stands is a candidate too, so a repair never ends worse than it began.
    anywhere = {name: [chosen[name]] for name in request.graph.order}
    for name, point_ms in points_ms.items():
        names = view.names(view.nearest(point_ms, cpu_ms, settings.candidates))
        others = filter(view.can_host, request.graph.by_name[name].allowed)
        names = _allowed(request.graph, name, [*names, *others])
        anywhere[name] += [node for node in names if node != chosen[name]]
    around_kept = anywhere | {name: [node] for name, node in keep.items()}

    def task(nodes: Mapping[str, Sequence[str]]) -> repair.RepairTask:
        return repair.RepairTask(
            graph=request.graph,
            view=view,
            candidates=nodes,
            hop_overhead_ms=settings.hop_overhead_ms,
            steps=settings.repair_steps,
            room_cores=None if settings.placer is Placer.NEAREST else load.room_cores(),
        )

    found = repair.cheapest_in_time(task(around_kept), request.deadline_ms)
    if found is None and keep:
        found = repair.cheapest_in_time(task(anywhere), request.deadline_ms)
    # Without room for those that stay there is no other placement.
    return found or repair.fastest(task(anywhere)) or dict(chosen)


def _why_none(graph: QueryGraph, name: str, view: NetworkView) -> str:
    if not view.hosts:
        return "the network has no node that runs operators"
    return f"none of {', '.join(graph.by_name[name].allowed)} runs operators"


def _allowed(graph: QueryGraph, name: str, nodes: Sequence[str]) -> list[str]:
    """Those of some nodes that an operator's primary may take."""
    allowed = graph.by_name[name].allowed
    return [node for node in dict.fromkeys(nodes) if not allowed or node in allowed]


def _in_time(
    request: Request, primaries: dict[str, str], view: NetworkView, settings: Settings
) -> dict[str, str]:
    path = evaluate.longest_path(request.graph, primaries, view, settings.hop_overhead_ms)
    if path.latency_ms > request.deadline_ms:
        raise DeadlineUnattainable(
            request.graph.name,
            deadline_ms=request.deadline_ms,
            best_ms=path.latency_ms,
            path=evaluate.with_nodes(path.operators, primaries),
        )
    return primaries
