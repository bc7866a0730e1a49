"""Step 1: the cheapest primaries, with the price of their standbys in view.

The planner (`placement.planner`) weighs the traffic between primaries, the traffic to the nodes
that can stand by for them, and the load of nodes; it reports when no secondary can keep the bound.
The nodes near the points at which relaxation would put the query's fragments are the candidates
from which the second step may choose other primaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.control.planning.task import QueryTask
from placement.planner import plan
from placement.records import PlacedOperator

CANDIDATES = 8
"""Nodes near each fragment's point from which the deadline program chooses."""

PLANNING_SEED = 1
"""Relaxation starts at random places; the same start every time makes plans repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Primaries:
    """The cheapest primaries.

    Attributes
    ----------
    places
        Fragment of the query → node of its primary.
    candidates
        Fragment of the query → nodes that its primary may take, the chosen one first; only that
        one if the fragment runs already.
    """

    places: Mapping[str, str]
    candidates: Mapping[str, Sequence[str]]


def cheapest_primaries(task: QueryTask) -> Primaries:
    """Choose the primaries of a query's fragments; those that run stay.

    Raises
    ------
    PlacementError
        No placement keeps the deadline and the recovery bound.
    """
    rng = np.random.default_rng(PLANNING_SEED)
    found = plan([task.request], task.network, keep=task.kept, settings=task.settings, rng=rng)
    return Primaries(
        places={placed.operator: placed.primary for placed in found.placements},
        candidates=_candidates(task, found.placements),
    )


def _candidates(task: QueryTask, placements: Sequence[PlacedOperator]) -> dict[str, Sequence[str]]:
    network = task.network
    cpu_ms = np.zeros(len(network.nodes))
    near = {
        node
        for placed in placements
        for node in network.names(network.nearest(np.array(placed.point_ms), cpu_ms, CANDIDATES))
    }
    candidates: dict[str, Sequence[str]] = {}
    for placed in placements:
        name, node = placed.operator, placed.primary
        allowed = task.graph.by_name[name].allowed
        others = filter(network.can_host, allowed) if allowed else sorted(near)
        candidates[name] = [node] if name in task.running else list(dict.fromkeys([node, *others]))
    return candidates
