"""Secondaries: nearest node that keeps the recovery bound (reliable placement, §4.5).

A secondary is fed by the primaries upstream, so the search starts at the one that sends most,
projected to CPU = 0 (with two inputs, §4.5.2 proves by the triangle inequality that no place
between them is cheaper), and goes outwards, nearest first with the CPU axis. The first node wins
that is not the primary's and from which recovery keeps the bound.

What deviates from the text: the condition is on the whole recovery time (1) with detection, where
the text compares the latency alone; inputs beyond two are taken the same way; and a node of
another failure domain than the primary's is preferred wherever one keeps the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement.errors import BoundUnattainable, NoNode
from placement.evaluate import Places, Recovery, recovery
from placement.graph import Link, QueryGraph
from placement.load import Load
from placement.network import NetworkView, Node


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

    def recovery(self, operator: str, node: str) -> Recovery:
        """Recovery time (1) if the node stood by for the operator."""
        return recovery(self.graph, operator, node, self.primaries, self.view, self.detection_ms)

    def keeps_bound(self, operator: str, node: str) -> bool:
        """Conditions (1) and (2) of §4.5.2."""
        return (
            node != self.primaries[operator]
            and self.recovery(operator, node).total_ms <= self.bound_ms
        )


def place_secondaries(
    task: StandbyTask, load: Load, keep: Mapping[str, str | None]
) -> dict[str, str]:
    """Choose a secondary for every operator to be placed; kept ones stay if they are legal.

    Parameters
    ----------
    task
        What to protect, and how well.
    load
        With all primaries of the query.
    keep
        Secondaries that stay where they are, if they still keep the bound.

    Returns
    -------
    dict
        Node of the secondary by operator.

    Raises
    ------
    NoNode
        If there is no second node to stand by on.
    BoundUnattainable
        If none keeps the bound: with the best that could be had.
    """
    places: dict[str, str] = {}
    for name in task.graph.to_place:
        kept = keep.get(name)
        if kept is not None and task.view.can_host(kept) and task.keeps_bound(name, kept):
            places[name] = kept
    load = load.with_copies(places.values())
    for name in task.graph.to_place:
        if name not in places:
            places[name] = _search(task, name, load)
            load = load.with_copies((places[name],))
    return places


def _search(task: StandbyTask, operator: str, load: Load) -> str:
    main = max(task.graph.inputs[operator], key=_rate)
    start_ms = task.view.node(task.primaries[main.source]).position_ms
    outwards = task.view.nearest(start_ms, load.cpu_ms())
    others = [node for node in outwards if node.name != task.primaries[operator]]
    if not others:
        raise NoNode(
            task.graph.name,
            operator,
            f"{task.primaries[operator]} runs it and no second node could stand by",
        )
    domain = task.view.node(task.primaries[operator]).domain
    apart = [node for node in others if node.domain != domain]
    for node in (*apart, *others):
        if task.keeps_bound(operator, node.name):
            return node.name
    raise _unattainable(task, operator, others)


def _unattainable(task: StandbyTask, operator: str, nodes: Iterable[Node]) -> BoundUnattainable:
    best_node, best = min(
        ((node.name, task.recovery(operator, node.name)) for node in nodes),
        key=lambda candidate: candidate[1].total_ms,
    )
    links = task.graph.inputs[operator]
    return BoundUnattainable(
        task.graph.name,
        operator,
        bound_ms=task.bound_ms,
        best_ms=best.total_ms,
        best_node=best_node,
        detection_ms=best.detection_ms,
        transfer_ms=best.transfer_ms,
        reprocess_ms=best.reprocess_ms,
        inputs=tuple(f"{link.source} @ {task.primaries[link.source]}" for link in links),
    )


def _rate(link: Link) -> float:
    return link.rate_bytes_s
