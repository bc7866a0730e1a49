"""Secondaries: nearest node that keeps the recovery bound (reliable placement, §4.5).

A secondary is fed by the primaries upstream, so the search starts at the one that sends most,
projected to CPU = 0 (with two inputs, §4.5.2 proves by the triangle inequality that no place
between them is cheaper), and goes outwards, nearest first with the CPU axis. The first node wins
that is not the primary's and from which recovery keeps the bound.

What deviates from the text: the condition is on the whole recovery time (1) with detection, where
the text compares the latency alone; inputs beyond two are taken the same way; a node of another
failure domain than the primary's is preferred wherever one keeps the bound; and secondaries are
placed in topological order, since a neighbour that dies with the primary is recovered from too
(`placement.evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement.errors import BoundUnattainable, NoNode
from placement.evaluate import Places, Standby, recovery
from placement.graph import Link, QueryGraph
from placement.load import Load
from placement.network import NetworkView


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyTask:
    """The part of a planning problem that secondaries are chosen for.

    Attributes
    ----------
    primaries
        Node of every operator, pinned ones included.
    detection_ms, bound_ms
        Time to notice a death, and R', the query's recovery bound.
    """

    graph: QueryGraph
    view: NetworkView
    primaries: Places
    detection_ms: float
    bound_ms: float

    def standby(self, operator: str, node: str, standbys: Mapping[str, Standby]) -> Standby:
        """What the node would be worth as the operator's secondary."""
        return Standby(
            node=node,
            recovery=recovery(
                self.graph, operator, node, self.primaries, standbys, self.view, self.detection_ms
            ),
        )

    def is_legal(self, operator: str, standby: Standby) -> bool:
        """Conditions (1) and (2) of §4.5.2."""
        return (
            standby.node != self.primaries[operator] and standby.recovery.total_ms <= self.bound_ms
        )


def place_secondaries(
    task: StandbyTask, load: Load, keep: Mapping[str, str | None]
) -> dict[str, Standby]:
    """Choose a secondary for every operator to be placed; kept ones stay if they are legal.

    Parameters
    ----------
    task
        What to protect, and how well.
    load
        With all primaries of the query.
    keep
        Secondaries that run now, all on nodes that host operators.

    Raises
    ------
    NoNode
        If there is no second node to stand by on.
    BoundUnattainable
        If none keeps the bound: with the best that could be had.
    """
    standbys: dict[str, Standby] = {}
    running = {name: node for name in task.graph.to_place if (node := keep.get(name)) is not None}
    load = load.with_copies(running.values())
    for name in task.graph.to_place:
        if name in running:
            kept = task.standby(name, running[name], standbys)
            if task.is_legal(name, kept):
                standbys[name] = kept
                continue
        standbys[name] = _search(task, name, load, standbys)
        load = load.with_copies((standbys[name].node,))
    return standbys


def _search(
    task: StandbyTask, operator: str, load: Load, standbys: Mapping[str, Standby]
) -> Standby:
    main = max(task.graph.inputs[operator], key=_rate)
    start_ms = task.view.node(task.primaries[main.source]).position_ms
    primary = task.view.node(task.primaries[operator])
    outwards = task.view.nearest(start_ms, load.cpu_ms())
    others = [node for node in outwards if node.name != primary.name]
    if not others:
        raise NoNode(
            task.graph.name,
            operator,
            f"{primary.name} runs it and no second node could stand by",
        )
    # Stable, so nearest first within the other domains, then within the primary's own.
    others.sort(key=lambda node: node.domain == primary.domain)
    choices = [task.standby(operator, node.name, standbys) for node in others]
    for choice in choices:
        if task.is_legal(operator, choice):
            return choice
    raise _unattainable(task, operator, choices)


def _unattainable(
    task: StandbyTask, operator: str, choices: Sequence[Standby]
) -> BoundUnattainable:
    best = min(choices, key=lambda choice: choice.recovery.total_ms)
    links = task.graph.inputs[operator]
    return BoundUnattainable(
        task.graph.name,
        operator,
        bound_ms=task.bound_ms,
        best_ms=best.recovery.total_ms,
        best_node=best.node,
        detection_ms=best.recovery.detection_ms,
        transfer_ms=best.recovery.transfer_ms,
        reprocess_ms=best.recovery.reprocess_ms,
        inputs=tuple(f"{link.source} @ {task.primaries[link.source]}" for link in links),
    )


def _rate(link: Link) -> float:
    return link.rate_bytes_s
