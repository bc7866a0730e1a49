"""The placers that reliable placement compares itself with (§5).

*Random*: primaries and secondaries anywhere. *Round robin*: first the node with fewest replicas.
*Upstream*: primaries as relaxation puts them, secondaries exactly where the paper's search for
them starts, at the primary of the upstream with the largest rate (§4.5.2).

The text leaves some points open. Here:

- Random and round robin put a secondary on another node than its primary, since one that dies
  with it is none.
- Round robin draws among equally loaded nodes; in the order of names it would put neighbours in
  the order of names together.
- Upstream's start point may be the primary's own node: relaxation often puts an operator where
  its largest input comes from. Taken literally the secondary stands there too. It costs nothing
  on the network and protects nothing; `Replicas.unprotected` lists such operators, and whoever
  compares recovery times must count them as lost. With `apart` it goes to the nearest other node.
- A start point where no operators run, a site, stands for the nearest node that runs some.
- Nearest is by coordinates, without the CPU axis: upstream ignores load (Table 2).

None knows bounds, deadlines, capacities or failure domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foundation.arrays import IntArray
from placement.errors import NoNode
from placement.evaluation.load import Load
from placement.graph import Link, QueryGraph
from placement.network import NetworkView


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The nodes of the two replicas of every operator.

    Attributes
    ----------
    primaries
        Node of every operator, pinned ones included.
    secondaries
        Node of every operator to be placed.
    """

    primaries: dict[str, str]
    secondaries: dict[str, str]

    @property
    def unprotected(self) -> tuple[str, ...]:
        """Operators whose secondary dies with the primary."""
        return tuple(
            name for name, node in self.secondaries.items() if node == self.primaries[name]
        )


def place_at_random(graph: QueryGraph, view: NetworkView, rng: np.random.Generator) -> Replicas:
    """Two different nodes for every operator, each pair as likely as another.

    Parameters
    ----------
    rng
        Draws them, in topological order of the operators.

    Raises
    ------
    NoNode
        If fewer than two nodes run operators.
    """
    _check_hosts(graph, view, 2)
    primaries = _pinned(graph, view)
    secondaries: dict[str, str] = {}
    for name in graph.to_place:
        pair = rng.choice(view.host_indices, size=2, replace=False)
        primaries[name], secondaries[name] = view.names(pair)
    return Replicas(primaries=primaries, secondaries=secondaries)


def place_round_robin(
    graph: QueryGraph, view: NetworkView, load: Load, rng: np.random.Generator
) -> Replicas:
    """The node with the fewest replicas for every primary and secondary in turn.

    Parameters
    ----------
    load
        Without this query.
    rng
        Draws among nodes with equally many.

    Raises
    ------
    NoNode
        If fewer than two nodes run operators.
    """
    _check_hosts(graph, view, 2)
    primaries = _pinned(graph, view)
    secondaries: dict[str, str] = {}
    for name in graph.to_place:
        first = _least_loaded(view.host_indices, load, rng)
        load = load.with_replicas(view.names([first]))
        others = view.host_indices[view.host_indices != first]
        second = _least_loaded(others, load, rng)
        load = load.with_replicas(view.names([second]))
        primaries[name], secondaries[name] = view.names([first, second])
    return Replicas(primaries=primaries, secondaries=secondaries)


def place_upstream(
    graph: QueryGraph, view: NetworkView, primaries: Mapping[str, str], *, apart: bool = False
) -> Replicas:
    """A secondary where the operator's largest input comes from.

    Parameters
    ----------
    primaries
        Node of every operator, as another placer chose them.
    apart
        Whether a secondary must take another node than its primary.

    Raises
    ------
    NoNode
        If no node, or with `apart` no second one, runs operators.
    """
    _check_hosts(graph, view, 2 if apart else 1)
    idle = np.zeros(len(view.nodes))
    secondaries: dict[str, str] = {}
    for name in graph.to_place:
        start = primaries[max(graph.inputs[name], key=_rate).source]
        is_free = not (apart and start == primaries[name])
        if view.can_host(start) and is_free:
            secondaries[name] = start
            continue
        nearest = view.names(view.nearest(view.node(start).position_ms, idle, count=2))
        secondaries[name] = next(
            node for node in nearest if not (apart and node == primaries[name])
        )
    return Replicas(primaries=dict(primaries), secondaries=secondaries)


def _check_hosts(graph: QueryGraph, view: NetworkView, needed: int) -> None:
    if graph.to_place and len(view.hosts) < needed:
        raise NoNode(
            graph.name,
            graph.to_place[0],
            f"needs {needed} nodes that run operators, and the network has {len(view.hosts)}",
        )


def _pinned(graph: QueryGraph, view: NetworkView) -> dict[str, str]:
    return {
        operator.name: view.node(operator.pinned).name
        for operator in graph.operators
        if operator.pinned is not None
    }


def _least_loaded(nodes: IntArray, load: Load, rng: np.random.Generator) -> int:
    replicas = load.replicas[nodes]
    return int(rng.choice(nodes[replicas == replicas.min()]))


def _rate(link: Link) -> float:
    return link.rate_bytes_s
