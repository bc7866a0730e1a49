"""Steps 1 and 3: the cheapest primaries, and who stands by for primaries within the recovery bound.

Secondaries are priced together with the schemes by which they are fed
(`orchestrator.control.planning.standby_prices`). Step 1 prices them as if every tuple were sent.

In step 1 the planner (`placement.planner`) weighs the traffic between primaries, the traffic to the
nodes that can stand by for them, and the load of nodes; it reports when no secondary can keep the
bound. The nodes near the points at which relaxation would put the query's fragments are the
candidates from which the second step may choose other primaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from orchestrator.control.planning.standby_prices import StandbyPrices
from orchestrator.control.planning.task import QueryTask
from orchestrator.control.planning.workload import lag_ms
from placement.errors import BoundUnattainable, PlacementError
from placement.evaluation.load import Load
from placement.planner import plan
from placement.records import Secondary
from placement.secondaries import StandbyTask, place_secondaries

CANDIDATES = 8
"""Nodes near each fragment's point from which the deadline program chooses."""

PLANNING_SEED = 1
"""Relaxation starts at random places; the same start every time makes plans repeatable."""


def cheapest_primaries(task: QueryTask) -> dict[str, Sequence[str]]:
    """Choose the primaries of a query's fragments; those that run stay.

    Returns
    -------
    dict
        Fragment of the query → nodes that its primary may take, the chosen one first; only that
        one if the fragment runs already.

    Raises
    ------
    PlacementError
        No placement keeps the deadline and the recovery bound.
    """
    network = task.network
    rng = np.random.default_rng(PLANNING_SEED)
    found = plan([task.request], network, keep=task.kept, settings=task.settings, rng=rng)
    cpu_ms = np.zeros(len(network.nodes))
    near = {
        node
        for placed in found.placements
        for node in network.names(network.nearest(np.array(placed.point_ms), cpu_ms, CANDIDATES))
    }
    candidates: dict[str, Sequence[str]] = {}
    for placed in found.placements:
        name, node = placed.operator, placed.primary
        allowed = task.graph.by_name[name].allowed
        others = filter(network.can_host, allowed) if allowed else sorted(near)
        candidates[name] = [node] if name in task.running else list(dict.fromkeys([node, *others]))
    return candidates


def choose_secondaries(task: QueryTask, primaries: Mapping[str, str]) -> Mapping[str, Secondary]:
    """Choose secondaries for a query's primaries; those that run stay if they keep the bound.

    Raises
    ------
    PlacementError
        There is no second node, or none keeps the bound.
    """
    return _placed(task, primaries, {name: nodes[1] for name, nodes in task.kept.items()})


def choose_secondary(
    task: QueryTask, fragment: str, prefer: str | None
) -> tuple[Secondary, str | None]:
    """Choose a node to stand by for one fragment, everything else staying where it is.

    If no node keeps the bound, the best one is taken all the same, and returned with the problem:
    the query runs, and some protection is better than none.

    Parameters
    ----------
    prefer
        Node to take if it keeps the bound: one that has the state already.

    Raises
    ------
    PlacementError
        There is no node.
    """
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    keep = {name: nodes[1] for name, nodes in task.kept.items()} | {fragment: prefer}
    try:
        return _placed(task, primaries, keep)[fragment], None
    except BoundUnattainable as error:
        best = _placed(replace(task, relaxed=True), primaries, keep)
        return best[fragment], str(error)


def _placed(
    task: QueryTask, primaries: Mapping[str, str], keep: Mapping[str, str | None]
) -> Mapping[str, Secondary]:
    """The secondaries that cost least with their schemes; see `standby_prices`."""
    network, settings = task.network, task.settings
    load = Load(network, operator_load=settings.operator_load, cpu=settings.cpu)
    for name, node in primaries.items():
        load = load.with_replicas((node,), task.graph.cores(name))
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
    active = place_secondaries(standby_task, load, still)
    if active.keys() == still.keys() and all(still[n] == active[n].node for n in active):
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
