"""Step 3: who stands by for the primaries within the recovery bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from orchestrator.control.planning.task import QueryTask
from placement.errors import BoundUnattainable
from placement.evaluation.load import Load
from placement.records import Recovery, Secondary
from placement.secondaries import StandbyTask, place_secondaries

LAG_SHARE = 0.25
"""Share of the recovery bound left by a plan that a secondary may lag. The rest covers delays that
no plan knows: a busy machine, and other replicas that catch up at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStandby:
    """A secondary and what it promises; `problem` if that is less than was asked for."""

    node: str
    recovery: Recovery
    problem: str | None


def choose_secondaries(task: QueryTask, primaries: Mapping[str, str]) -> dict[str, Secondary]:
    """Choose secondaries for a query's primaries; those that run stay if they keep the bound.

    Raises
    ------
    PlacementError
        There is no second node, or none keeps the bound.
    """
    return _placed(task, primaries, {name: nodes[1] for name, nodes in task.kept.items()})


def choose_secondary(task: QueryTask, fragment: str, prefer: str | None) -> ChosenStandby:
    """Choose a node to stand by for one fragment, everything else staying where it is.

    If no node keeps the bound, the best one is taken all the same: the query runs, and some
    protection is better than none.

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
    problem = None
    try:
        found = _placed(task, primaries, keep)[fragment]
    except BoundUnattainable as error:
        problem = str(error)
        found = _placed(replace(task, relaxed=True), primaries, keep)[fragment]
    return ChosenStandby(node=found.node, recovery=found.recovery, problem=problem)


def _placed(
    task: QueryTask, primaries: Mapping[str, str], keep: Mapping[str, str | None]
) -> dict[str, Secondary]:
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
    still = {name: node if node and network.can_host(node) else None for name, node in keep.items()}
    return place_secondaries(standby_task, load, still)


def standby_lag_ms(bound_ms: float, recovery_ms: float, sub_deadline_ms: float) -> float:
    """How far a secondary may lag, ms.

    Catching up takes no longer than the lag itself, so a share of the time that the recovery bound
    leaves is safe. A secondary that breaks the bound anyway is scheduled like a primary, by the
    sub-deadline.
    """
    spare_ms = bound_ms - recovery_ms
    return LAG_SHARE * spare_ms if spare_ms > 0 else sub_deadline_ms
