"""Steps 1 and 3: the cheapest primaries, and who stands by for primaries within the recovery bound.

Secondaries are priced together with the schemes by which they are fed
(`orchestrator.control.planning.standby_prices`). Step 1 prices them as if every tuple were sent.

In step 1 the planner (`placement.planner`) weighs the traffic between primaries, the traffic to the
nodes that can stand by for them, and the load of nodes. It chooses secondaries, too: if none can
keep the bound, other primaries may help. If step 2 leaves the primaries as they are, these
secondaries are those of step 3 that are sent everything. The nodes near the points at which
relaxation would put the query's fragments are the candidates from which the second step may choose
other primaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.control.planning.standby_prices import StandbyPrices
from orchestrator.control.planning.task import QueryTask
from orchestrator.control.planning.workload import lag_ms
from placement.errors import BoundUnattainable, NoNode, PlacementError
from placement.evaluation.load import Load
from placement.evaluation.single import Places
from placement.planner import PlacedQuery, choose_replicas, free_points, still_running
from placement.records import Secondary, check_requests
from placement.secondaries import StandbyTask, place_secondaries

CANDIDATES = 8
"""Nodes near each fragment's point from which the deadline program chooses."""

PLANNING_SEED = 1
"""Relaxation starts at random places; the same start every time makes plans repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestPlaces:
    """The places of a query's fragments that cost least, whatever the sub-deadlines.

    Attributes
    ----------
    candidates
        Fragment of the query → nodes that its primary may take, the chosen one first; only that
        one if the fragment runs already.
    active
        Secondaries of the chosen ones, if they are sent everything.
    """

    candidates: dict[str, Sequence[str]]
    active: Mapping[str, Secondary]


def cheapest_places(task: QueryTask) -> CheapestPlaces:
    """Choose the primaries of a query's fragments; those that run stay.

    Raises
    ------
    PlacementError
        No placement keeps the deadline and the recovery bound.
    """
    network = task.network
    rng = np.random.default_rng(PLANNING_SEED)
    request, settings = task.request, task.settings
    check_requests([request], network)
    (points_ms,) = free_points([request], network, settings, [rng])
    keep = _standing_by(task)

    def standing_by_for(primaries: Places) -> Mapping[str, Secondary]:
        chosen = {name: primaries[name] for name in task.graph.to_place}
        return place_secondaries(*_standby_problem(task, chosen, keep))

    load = Load(network, operator_load=settings.operator_load, cpu=settings.cpu)
    running = still_running(task.kept, network)
    chosen = choose_replicas(request, points_ms, network, load, running, settings, standing_by_for)
    found = PlacedQuery(
        request=request, points_ms=points_ms, primaries=chosen[0], standbys=chosen[1]
    ).descended(network, load, running, settings)
    primaries, active = found.primaries, found.standbys
    cpu_ms = np.zeros(len(network.nodes))
    near = {
        node
        for name in task.graph.to_place
        for node in network.names(network.nearest(points_ms[name], cpu_ms, CANDIDATES))
    }
    candidates: dict[str, Sequence[str]] = {}
    for name in task.graph.to_place:
        node = primaries[name]
        allowed = task.graph.by_name[name].allowed
        others = filter(network.can_host, allowed) if allowed else sorted(near)
        candidates[name] = [node] if name in task.running else list(dict.fromkeys([node, *others]))
    return CheapestPlaces(candidates=candidates, active=active)


def choose_secondaries(
    task: QueryTask, primaries: Mapping[str, str], cheapest: CheapestPlaces
) -> Mapping[str, Secondary]:
    """Choose secondaries for a query's primaries; those that run stay if they keep the bound.

    Raises
    ------
    PlacementError
        There is no second node, or none keeps the bound.
    """
    same = all(cheapest.candidates[name][0] == node for name, node in primaries.items())
    return _placed(task, primaries, _standing_by(task), cheapest.active if same else None)


def _standing_by(task: QueryTask) -> dict[str, str | None]:
    """The secondaries that run."""
    return {name: nodes[1] for name, nodes in task.kept.items()}


def choose_secondary(
    task: QueryTask, fragment: str, prefer: str | None, loosest: int | None = None
) -> tuple[Secondary, str | None]:
    """Choose a node to stand by for one fragment, everything else staying where it is.

    Failure domains become as loose as they must for a node to keep the bound. If none does, the
    best one is taken all the same, and returned with the problem: the query runs, and some
    protection is better than none.

    Parameters
    ----------
    prefer
        Node to take if it keeps the bound: one that has the state already.
    loosest
        How loose failure domains may become; None: as loose as they can.

    Raises
    ------
    PlacementError
        There is no node.
    """
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    keep = _standing_by(task) | {fragment: prefer}
    tasks = [
        replace(task, network=task.network.loosened(level))
        for level in task.network.domains.levels
        if loosest is None or level <= loosest
    ]
    refused: PlacementError | None = None
    for each in tasks:
        try:
            return _placed(each, primaries, keep)[fragment], None
        except (BoundUnattainable, NoNode) as error:
            refused = error
    assert refused is not None, "failure domains may be as strict as they are"
    for each in tasks:
        with suppress(NoNode):
            best = _placed(replace(each, relaxed=True), primaries, keep)
            return best[fragment], str(refused)
    raise refused


def _standby_problem(
    task: QueryTask, primaries: Mapping[str, str], keep: Mapping[str, str | None]
) -> tuple[StandbyTask, Load, dict[str, str | None]]:
    """What `place_secondaries` is to solve, if every secondary is sent everything."""
    network, settings = task.network, task.settings
    load = Load(network, operator_load=settings.operator_load, cpu=settings.cpu)
    load = load.with_operators(task.graph, {name: (node,) for name, node in primaries.items()})
    standby_task = StandbyTask(
        graph=task.graph,
        view=network,
        primaries=task.pinned | dict(primaries),
        detection_ms=task.detection_ms,
        bound_ms=task.request.recovery_bound_ms,
        search=settings.secondary_search,
        batch_size=settings.batch_size,
    )
    still = {name: node if node in network.index else None for name, node in keep.items()}
    return standby_task, load, still


def _placed(
    task: QueryTask,
    primaries: Mapping[str, str],
    keep: Mapping[str, str | None],
    active: Mapping[str, Secondary] | None = None,
) -> Mapping[str, Secondary]:
    """The secondaries that cost least with their schemes; see `standby_prices`.

    Parameters
    ----------
    active
        Those that cost least if every one is sent everything; None: nobody knows yet.
    """
    standby_task, load, still = _standby_problem(task, primaries, keep)
    active = active or place_secondaries(standby_task, load, still)
    if active.keys() == still.keys() and all(still[n] == active[n].node for n in active):
        return active
    if task.settings.as_printed:
        # §4.5 looks at distances alone.
        return active
    prices = StandbyPrices.of(task, primaries)
    try:
        joint = place_secondaries(replace(standby_task, traffic=prices), load, still)
    except PlacementError:
        return active
    return prices.cheaper((joint, active), load)


def standby_lag_ms(task: QueryTask, standby: Secondary, sub_deadline_ms: float) -> float:
    """How far a secondary may lag, ms.

    Catching up takes no longer than the lag itself, so a share of the time that the recovery bound
    leaves is safe. A secondary that breaks the bound anyway is scheduled like a primary, by the
    sub-deadline.
    """
    spare_ms = task.query.recovery_bound_ms - standby.recovery.total_ms
    return lag_ms(spare_ms, sub_deadline_ms)
