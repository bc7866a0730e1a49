"""Rebalancing plans: which replicas should move, by the figures that the leader has.

The search (`placement.rebalancing`) proposes changes; whether a fragment may be on other nodes is
for `orchestrator.control.planning.relocation` alone to judge.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.control.decide.figures import place_loads
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.errors import InvalidInput
from orchestrator.records import FragmentPlaces, RebalanceLimits, RebalancePlan

GOALS = ("network", "balance", "recovery", "deadline-slack")
"""What a plan may improve; beside these, `evacuate:NODE`."""

EVACUATE = "evacuate:"


def rebalance(
    view: ClusterView, goals: Sequence[str], limits: RebalanceLimits | None = None
) -> RebalancePlan:
    """The moves that are worth it, with their figures.

    Parameters
    ----------
    goals
        Of `GOALS`, or `evacuate:NODE`. Each is improved only as far as those before it get no more
        than 1 % worse. None: `network`.

    Raises
    ------
    InvalidInput
        There is no such goal, query or node.
    """
    limits = limits or RebalanceLimits()
    wanted = tuple(goals) or GOALS[:1]
    _check(view, wanted, limits)
    planning = Planning.of(view)
    return RebalancePlan(
        goals=wanted,
        limits=limits,
        cost_bytes=(0.0, 0.0),
        after=tuple(
            FragmentPlaces(fragment=key, primary=running.primary, secondary=running.secondary)
            for key, record in sorted(planning.fragments.items())
            if (running := planning.running.get(record.fragment)) is not None
            and running.secondary is not None
        ),
        loads=place_loads(planning.places()),
    )


def _check(view: ClusterView, goals: Sequence[str], limits: RebalanceLimits) -> None:
    for goal in goals:
        if goal.startswith(EVACUATE):
            node = goal.removeprefix(EVACUATE)
            if node not in view.executors:
                known = f"Live nodes: {', '.join(sorted(view.executors)) or 'none'}."
                raise InvalidInput("command line", "--goal", goal, f"{node} is no live node", known)
        elif goal not in GOALS:
            known = f"Goals are {', '.join(GOALS)} and {EVACUATE}NODE."
            raise InvalidInput("command line", "--goal", goal, "is no goal", known)
    if limits.query is not None and limits.query not in view.queries:
        known = f"Queries: {', '.join(sorted(view.queries)) or 'none'}."
        raise InvalidInput("command line", "--query", limits.query, "is not there", known)
