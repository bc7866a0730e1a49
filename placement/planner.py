"""Plans: who runs each operator of each query, who stands by, and what that promises.

Algorithm 1 of reliable placement: for each query in turn, primaries by relaxation and nearest
node (§4.4), then secondaries under the recovery bound (§4.5). Added to it:

- *Stickiness.* A running placement stays as long as it is legal: moving costs a handover, and
  coordinates and loads are never still. Where the primary's node is gone, the operator's place is
  that of its secondary, which has the state and takes over without being asked.
- *Deadlines.* The paper has none. When the nearest nodes miss a query's deadline, its new
  operators are searched for among their nearest candidates (`placement.repair`); only if that
  cannot help either are running operators of the query moved too. A deadline is checked for the
  primaries; after a takeover, with the secondary in its place, it is for the next plan to check.

A plan is a function of its arguments: the order of operators, links, nodes and mapping entries
does not matter; that of the queries does, as in the paper, since each is placed around those
before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from placement import evaluate, repair
from placement.errors import DeadlineUnattainable, GraphError, NetworkError, NoNode
from placement.evaluate import Places
from placement.graph import QueryGraph
from placement.load import Load
from placement.network import NetworkView
from placement.primaries import place_primaries
from placement.records import Placed, Plan, QueryFigures, Request
from placement.relaxation import relax
from placement.secondaries import StandbyTask, place_secondaries
from placement.settings import Settings

FloatArray = npt.NDArray[np.float64]

Keep = Mapping[str, tuple[str, str | None]]
"""Operator → nodes of its running primary and secondary (None: it lost its secondary)."""


def plan(
    graphs: Sequence[tuple[QueryGraph, float, float, float]],
    view: NetworkView,
    *,
    keep: Keep | None = None,
    settings: Settings | None = None,
    rng: np.random.Generator,
) -> Plan:
    """Place the queries one after the other.

    Parameters
    ----------
    graphs
        `Request`s: graph, deadline, recovery bound and detection time, ms.
    view
        Nodes and latencies.
    keep
        What runs now.
    settings
        See there.
    rng
        Draws relaxation's start.

    Raises
    ------
    GraphError, NetworkError
        If the input contradicts itself.
    NoNode, BoundUnattainable, DeadlineUnattainable
        If a query cannot be placed; nothing is returned for the others either.
    """
    requests = [Request(*request) for request in graphs]
    settings = settings or Settings()
    _validate(requests, view)
    running = _still_running(keep or {}, view)
    load = Load(view, operator_load=settings.operator_load, scale_ms=settings.cpu_scale_ms)
    # What runs is there already, also for a query that is placed before it.
    copies = {r.graph.name: _copies(r.graph, running) for r in requests}
    placements: list[Placed] = []
    figures: list[QueryFigures] = []
    for i, request in enumerate(requests):
        around = load.with_copies(n for r in requests[i + 1 :] for n in copies[r.graph.name])
        placed, query = _place(request, view, around, running, settings, rng)
        placements += placed
        figures.append(query)
        load = load.with_copies(node for p in placed for node in (p.primary, p.secondary))
    return Plan(placements=tuple(placements), queries=tuple(figures))


def _place(
    request: Request,
    view: NetworkView,
    load: Load,
    keep: Keep,
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[list[Placed], QueryFigures]:
    """One query: relaxation, primaries, deadline, secondaries, figures."""
    graph = request.graph
    points_ms = _relax(graph, view, settings, rng)
    primaries = _primaries_in_time(request, points_ms, view, load, keep, settings)
    task = StandbyTask(
        graph=graph,
        view=view,
        primaries=primaries,
        detection_ms=request.detection_ms,
        bound_ms=request.recovery_bound_ms,
    )
    standbys = place_secondaries(
        task,
        load.with_copies(primaries[name] for name in graph.to_place),
        {name: nodes[1] for name, nodes in keep.items()},
    )
    placed = [
        Placed(
            query=graph.name,
            operator=name,
            primary=primaries[name],
            secondary=standby.node,
            detection_ms=standby.recovery.detection_ms,
            transfer_ms=standby.recovery.transfer_ms,
            reprocess_ms=standby.recovery.reprocess_ms,
            recovery_ms=standby.recovery.total_ms,
            point_ms=tuple(points_ms[name].tolist()),
        )
        for name, standby in standbys.items()
    ]
    path = evaluate.longest_path(graph, primaries, view, settings.hop_ms)
    standby_usage = evaluate.standby_usage(
        graph, primaries, {p.operator: p.secondary for p in placed}, view
    )
    return placed, QueryFigures(
        query=graph.name,
        latency_ms=path.latency_ms,
        deadline_ms=request.deadline_ms,
        path=_with_nodes(path.operators, primaries),
        network_usage=evaluate.primary_usage(graph, primaries, view) + standby_usage,
        standby_usage=standby_usage,
        recovery_ms=max((p.recovery_ms for p in placed), default=0.0),
        bound_ms=request.recovery_bound_ms,
    )


def _relax(
    graph: QueryGraph, view: NetworkView, settings: Settings, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Points by Algorithm 3, starting from nodes drawn at random (§4.4.2)."""
    if graph.to_place and not view.hosts:
        raise NoNode(graph.name, graph.to_place[0], "the network has no node that runs operators")
    pinned_ms = {
        operator.name: view.node(operator.pinned).position_ms
        for operator in graph.operators
        if operator.pinned is not None
    }
    drawn: list[int] = rng.integers(max(len(view.hosts), 1), size=len(graph.to_place)).tolist()
    start_ms = np.array([view.hosts[i].position_ms for i in drawn])
    return relax(graph, pinned_ms, start_ms, settings.relaxation).points_ms


def _primaries_in_time(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Keep,
    settings: Settings,
) -> dict[str, str]:
    """Nearest nodes if they meet the deadline, else the cheapest candidates that do."""
    graph = request.graph
    kept = {name: keep[name][0] for name in graph.to_place if name in keep}
    nearest = place_primaries(graph, points_ms, view, load, kept)
    path = evaluate.longest_path(graph, nearest, view, settings.hop_ms)
    if path.latency_ms <= request.deadline_ms or not graph.to_place:
        return _in_time(request, nearest, view, settings)
    cpu_ms = load.cpu_ms()
    # Where an operator stands is a candidate too, so a repair never ends worse than it began.
    anywhere = {name: [nearest[name]] for name in graph.order}
    for name, point_ms in points_ms.items():
        ranked = view.nearest(point_ms, cpu_ms)[: settings.candidates]
        anywhere[name] += [node.name for node in ranked if node.name != nearest[name]]
    around_kept = anywhere | {name: [node] for name, node in kept.items()}

    def task(candidates: Mapping[str, Sequence[str]]) -> repair.RepairTask:
        return repair.RepairTask(
            graph=graph,
            view=view,
            candidates=candidates,
            hop_ms=settings.hop_ms,
            steps=settings.repair_steps,
        )

    found = repair.cheapest_in_time(task(around_kept), request.deadline_ms)
    if found is None and kept:
        found = repair.cheapest_in_time(task(anywhere), request.deadline_ms)
    return _in_time(request, found or repair.fastest(task(anywhere)), view, settings)


def _in_time(
    request: Request, primaries: dict[str, str], view: NetworkView, settings: Settings
) -> dict[str, str]:
    path = evaluate.longest_path(request.graph, primaries, view, settings.hop_ms)
    if path.latency_ms > request.deadline_ms:
        raise DeadlineUnattainable(
            request.graph.name,
            deadline_ms=request.deadline_ms,
            best_ms=path.latency_ms,
            path=_with_nodes(path.operators, primaries),
        )
    return primaries


def _still_running(keep: Keep, view: NetworkView) -> Keep:
    """What runs, without the nodes that are gone or no longer host operators."""
    running: dict[str, tuple[str, str | None]] = {}
    for name, nodes in keep.items():
        alive = [node for node in nodes if node is not None and view.can_host(node)]
        if alive:
            running[name] = (alive[0], alive[1] if len(alive) > 1 else None)
    return running


def _copies(graph: QueryGraph, running: Keep) -> list[str]:
    """Nodes of the query's running copies."""
    return [node for name in graph.to_place for node in running.get(name, ()) if node is not None]


def _with_nodes(operators: Sequence[str], primaries: Places) -> tuple[str, ...]:
    return tuple(f"{name} @ {primaries[name]}" for name in operators)


def _validate(requests: Sequence[Request], view: NetworkView) -> None:
    placed_by: dict[str, str] = {}
    names: set[str] = set()
    for request in requests:
        graph = request.graph
        if graph.name in names:
            raise GraphError(graph.name, "name", "is given to two queries")
        names.add(graph.name)
        for field, value in zip(Request._fields[1:], request[1:], strict=True):
            if not math.isfinite(value) or value < 0:
                raise GraphError(graph.name, field, f"{value} is not a number of ms ≥ 0")
        for operator in graph.operators:
            if operator.pinned is not None:
                try:
                    view.node(operator.pinned)
                except NetworkError as error:
                    raise GraphError(
                        graph.name, f"operator {operator.name}", f"cannot be pinned: {error}"
                    ) from None
            elif operator.name in placed_by:
                raise GraphError(
                    graph.name,
                    f"operator {operator.name}",
                    f"is placed with query {placed_by[operator.name]} already; "
                    "pin it to the node that runs it there",
                )
            else:
                placed_by[operator.name] = graph.name
