"""Plans: the node of each operator of each query, its secondary, and the figures that follow.

Algorithm 1 of reliable placement: for each query in turn, primaries near the points that relaxation
finds (`placement.primaries`), then secondaries under the recovery bound (`placement.secondaries`).
`Settings` choose between the paper's own steps and the steps that improve on them. These things are
added:

- *Stickiness.* A running placement stays as long as it is legal, because moving costs a handover,
  and coordinates and loads always vary. Where the primary's node is gone, the operator's place is
  that of its secondary, which has the state and takes over by itself.
- *Deadlines.* The paper has none. Here the primaries must meet one. After a takeover, with the
  secondary in the primary's place, the next plan checks it again.
- *Failure domains.* The replicas of an operator share none (`placement.failure_domains`). A query
  that cannot be placed so is placed with looser ones, if there are any.
- *Descent.* What was placed goes on to cheaper places until no single change makes it cheaper
  (`placement.rebalancing.descent`): so rebalancing finds nothing to do. The paper's own steps are
  left as they are.
- *Dying together.* Operators on one node fail together and are recovered one after the other. If
  that breaks the bound, the query is placed again with linked operators apart.

A plan is a function of its arguments. The order of operators, links, nodes and mapping entries does
not matter. The order of the queries does, as in the paper: each is placed around those before it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foundation.arrays import FloatArray
from placement.equilibrium import least_usage
from placement.errors import (
    BoundUnattainable,
    DeadlineUnattainable,
    NoNode,
)
from placement.evaluation import single
from placement.evaluation.load import Load
from placement.evaluation.single import Places
from placement.network import NetworkView
from placement.primaries import PrimaryTask, choose_primaries
from placement.rebalancing.descent import descend
from placement.rebalancing.running import RunningQuery
from placement.records import (
    Keep,
    Pairs,
    PlacedOperator,
    Plan,
    QueryFigures,
    Request,
    Secondary,
    check_requests,
)
from placement.relaxation import relax
from placement.secondaries import SecondarySearch, StandbyTask, place_secondaries
from placement.settings import Placer, Settings


def plan(
    requests: Sequence[Request],
    view: NetworkView,
    *,
    keep: Keep | None = None,
    settings: Settings | None = None,
    rng: np.random.Generator,
) -> Plan:
    """Place the queries one after the other.

    Parameters
    ----------
    requests
        In the order of their registration.
    view
        Nodes and latencies.
    keep
        The running replicas.
    rng
        Draws relaxation's start.

    Raises
    ------
    GraphError, NetworkError
        If the input contradicts itself.
    NoNode, BoundUnattainable, DeadlineUnattainable
        If a query cannot be placed; nothing is returned for the others either.
    """
    settings = settings or Settings()
    check_requests(requests, view)
    running = still_running(keep or {}, view)
    load = Load(view, operator_load=settings.operator_load, cpu=settings.cpu)
    # Running replicas count as load from the start, also for queries placed before theirs.
    for request in requests:
        load = load.with_operators(request.graph, running)
    placed: list[PlacedQuery] = []
    all_points_ms = free_points(requests, view, settings, itertools.repeat(rng))
    for request, points_ms in zip(requests, all_points_ms, strict=True):
        load = load.with_operators(request.graph, running, count=-1)
        placed.append(_placed(request, points_ms, view, load, running, settings))
        load = load.with_operators(request.graph, placed[-1].pairs)
    # Each was placed around those before it; now around all others.
    waiting = len(placed)
    for i in itertools.cycle(range(len(placed))):
        if not waiting:
            break
        before, graph = placed[i], requests[i].graph
        load = load.with_operators(graph, before.pairs, count=-1)
        placed[i] = before.descended(view, load, running, settings)
        load = load.with_operators(graph, placed[i].pairs)
        waiting = waiting - 1 if placed[i] is before else len(placed)
    described = [each.described(view, settings) for each in placed]
    return Plan(
        placements=tuple(operator for operators, _ in described for operator in operators),
        queries=tuple(figures for _, figures in described),
    )


def place_query(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Keep,
    settings: Settings,
) -> tuple[list[PlacedOperator], QueryFigures]:
    """Place one query: primaries in time, secondaries within the bound, figures.

    Parameters
    ----------
    points_ms
        Of `free_points`.
    load
        Of everything but this query.
    keep
        The running replicas on nodes that are there.

    Raises
    ------
    NoNode, BoundUnattainable, DeadlineUnattainable
        If it cannot be placed, however loose failure domains are.
    """
    return _placed(request, points_ms, view, load, keep, settings).described(view, settings)


def _placed(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Keep,
    settings: Settings,
) -> PlacedQuery:
    """See `place_query`."""
    while True:
        try:
            found = _place_apart(request, points_ms, view, load, keep, settings)
            return found.descended(view, load, keep, settings)
        except (NoNode, BoundUnattainable, DeadlineUnattainable):
            looser = view.domains.levels[1:]
            if not looser:
                raise
            view = view.loosened(looser[0])


def _place_apart(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Keep,
    settings: Settings,
) -> PlacedQuery:
    """Place one query with failure domains as loose as they are."""
    graph = request.graph
    standing_by = {name: nodes[1] for name, nodes in keep.items()}

    def standing_by_for(primaries: Places) -> Mapping[str, Secondary]:
        loaded = load.with_operators(graph, {name: (node,) for name, node in primaries.items()})
        task = StandbyTask(
            graph=graph,
            view=view,
            primaries=primaries,
            detection_ms=request.detection_ms,
            bound_ms=request.recovery_bound_ms,
            search=settings.secondary_search,
            batch_size=settings.batch_size,
        )
        return place_secondaries(task, loaded, standing_by)

    primaries, standbys = choose_replicas(
        request, points_ms, view, load, keep, settings, standing_by_for
    )
    return PlacedQuery(request=request, points_ms=points_ms, primaries=primaries, standbys=standbys)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedQuery:
    """A query with its replicas; `points_ms` of `free_points`."""

    request: Request
    points_ms: Mapping[str, FloatArray]
    primaries: Places
    standbys: Mapping[str, Secondary]

    @property
    def pairs(self) -> Pairs:
        """Where its operators to be placed are."""
        return {name: (self.primaries[name], each.node) for name, each in self.standbys.items()}

    def descended(
        self, view: NetworkView, load: Load, keep: Keep, settings: Settings
    ) -> PlacedQuery:
        """After changes that lower the cost, until there are none; itself if there are none.

        Parameters
        ----------
        load, keep
            As of `place_query`. What runs stays.
        """
        if (
            settings.placer is not Placer.EXACT
            or settings.secondary_search is not SecondarySearch.CHEAPEST
        ):
            return self
        graph, index = self.request.graph, view.index
        query = RunningQuery(
            request=self.request,
            places={name: (index[a], index[s]) for name, (a, s) in self.pairs.items()},
            movable=[name for name in graph.to_place if name not in keep],
            points_ms=self.points_ms,
        )
        if not descend(query, load.with_operators(graph, self.pairs), view, settings):
            return self
        pairs = {name: view.names(pair) for name, pair in query.places.items()}
        primaries = graph.pinned | {name: primary for name, (primary, _) in pairs.items()}
        standbys = single.running_secondaries(
            graph,
            primaries,
            {name: secondary for name, (_, secondary) in pairs.items()},
            view,
            self.request.detection_ms,
            settings.batch_size,
        )
        return replace(self, primaries=primaries, standbys=standbys)

    def described(
        self, view: NetworkView, settings: Settings
    ) -> tuple[list[PlacedOperator], QueryFigures]:
        """See `described`."""
        return described(
            self.request,
            self.primaries,
            self.standbys,
            view,
            settings.hop_overhead_ms,
            self.points_ms,
        )


def choose_replicas(
    request: Request,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Keep,
    settings: Settings,
    secondaries: Callable[[Places], Mapping[str, Secondary]],
) -> tuple[Places, Mapping[str, Secondary]]:
    """Primaries of one query, pinned operators included, and their secondaries.

    Parameters
    ----------
    points_ms, load, keep
        As of `place_query`, which says what it raises.
    secondaries
        Chooses those of given primaries.
    """
    graph = request.graph
    kept = {name: keep[name][0] for name in graph.to_place if name in keep}
    # Primaries must leave room for the secondaries that run.
    around = load.with_operators(graph, {name: nodes[1:] for name, nodes in keep.items()})

    def choose(*, apart: bool) -> tuple[Places, Mapping[str, Secondary]]:
        primaries = choose_primaries(
            PrimaryTask(
                request=request,
                points_ms=points_ms,
                view=view,
                load=around,
                keep=kept,
                settings=settings,
                apart=apart,
            )
        )
        return primaries, secondaries(primaries)

    try:
        return choose(apart=False)
    except BoundUnattainable as unattainable:
        # Operators that die together recover one after the other; apart they need not wait.
        if settings.placer is not Placer.EXACT:
            raise
        try:
            return choose(apart=True)
        except (NoNode, DeadlineUnattainable):
            raise unattainable from None


def described(
    request: Request,
    primaries: Places,
    standbys: Mapping[str, Secondary],
    view: NetworkView,
    hop_overhead_ms: float,
    points_ms: Mapping[str, FloatArray] | None = None,
) -> tuple[list[PlacedOperator], QueryFigures]:
    """Evaluate a placement of one query, whoever chose it.

    Parameters
    ----------
    primaries
        Node of every operator, pinned ones included.
    standbys
        Secondary of every operator to be placed. An operator without one is described with an
        infinite recovery time.
    points_ms
        Of `free_points`, if the placement was chosen by them.
    """
    graph = request.graph
    placed = [
        PlacedOperator(
            query=graph.name,
            operator=name,
            primary=primaries[name],
            secondary=standby.node if standby else "",
            detection_ms=request.detection_ms,
            transfer_ms=standby.recovery.transfer_ms if standby else math.inf,
            reprocess_ms=standby.recovery.reprocess_ms if standby else 0.0,
            recovery_ms=standby.recovery.total_ms if standby else math.inf,
            point_ms=tuple(points_ms[name].tolist()) if points_ms else (),
        )
        for name in graph.to_place
        for standby in [standbys.get(name)]
    ]
    path = single.longest_path(graph, primaries, view, hop_overhead_ms)
    protected = {name: standby.node for name, standby in standbys.items()}
    standby_usage = single.standby_usage(graph, primaries, protected, view)
    return placed, QueryFigures(
        query=graph.name,
        latency_ms=path.latency_ms,
        deadline_ms=request.deadline_ms,
        path=single.with_nodes(path.operators, primaries),
        network_usage=single.primary_usage(graph, primaries, view) + standby_usage,
        standby_usage=standby_usage,
        recovery_ms=max((p.recovery_ms for p in placed), default=0.0),
        bound_ms=request.recovery_bound_ms,
    )


def free_points(
    requests: Sequence[Request],
    view: NetworkView,
    settings: Settings,
    rngs: Iterable[np.random.Generator],
) -> list[dict[str, FloatArray]]:
    """The points of the operators of each query if they could be anywhere.

    By Algorithm 3 from nodes drawn at random (§4.4.2) for the paper's placer; for the exact one
    the points of least network usage, which Algorithm 3 approximates. Those of a query are the
    same bit by bit whatever queries it is solved with.

    Parameters
    ----------
    rngs
        One for each query, or more: draw where Algorithm 3 starts.

    Returns
    -------
    list
        By query: operator to be placed → point, shape (d,), ms.

    Raises
    ------
    NoNode
        If there is something to place and no node that runs operators.
    """
    graphs = [request.graph for request in requests]
    for graph in graphs:
        if graph.to_place and not view.hosts:
            raise NoNode(
                graph.name, graph.to_place[0], "the network has no node that runs operators"
            )
    pinned_ms = [
        {o.name: view.node(o.pinned).position_ms for o in graph.operators if o.pinned is not None}
        for graph in graphs
    ]
    if settings.placer is Placer.EXACT:
        return [found.points_ms for found in least_usage(graphs, pinned_ms, settings.usage)]
    points_ms: list[dict[str, FloatArray]] = []
    for graph, pinned, rng in zip(graphs, pinned_ms, rngs, strict=False):
        drawn = rng.integers(max(len(view.hosts), 1), size=len(graph.to_place))
        start_ms = view.positions_ms[view.host_indices[drawn]] if graph.to_place else _nowhere(view)
        points_ms.append(relax(graph, pinned, start_ms, settings.relaxation).points_ms)
    return points_ms


def _nowhere(view: NetworkView) -> FloatArray:
    return np.empty((0, view.positions_ms.shape[-1]))


def still_running(keep: Keep, view: NetworkView) -> Keep:
    """The running replicas on nodes that are there, whether or not they may host further ones."""
    running: dict[str, tuple[str, str | None]] = {}
    for name, nodes in keep.items():
        alive = [node for node in nodes if node is not None and node in view.index]
        if alive:
            running[name] = (alive[0], alive[1] if len(alive) > 1 else None)
    return running
