"""The network as the planner sees it: nodes in coordinate space, and measured latencies.

Coordinates answer for pairs that were never measured; where a round trip was measured, it counts.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from placement.errors import NetworkError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One place an operator can run, or where streams enter and leave.

    Attributes
    ----------
    position_ms
        Coordinate, ms, shape (d,); distances approximate round trips.
    cpu_ms
        The CPU axis as measured, ≥ 0 (`topology.cpu`).
    domain
        Failure domain; nodes of one domain may die together.
    hosts_operators
        False for sites: nothing is placed there.
    operators
        Copies of operators it runs that are not part of this plan.
    """

    name: str
    position_ms: FloatArray
    cpu_ms: float = 0.0
    domain: str = ""
    hosts_operators: bool = True
    operators: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkView:
    """All nodes, and what was measured between them.

    Parameters
    ----------
    nodes
        With distinct names and coordinates of the same dimension.
    rtt_ms
        Measured round trips, ms, by pair. Where both directions were measured their mean counts.

    Raises
    ------
    NetworkError
        Naming the node or pair, and the value.
    """

    nodes: tuple[Node, ...]
    rtt_ms: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    by_name: dict[str, Node] = field(init=False, repr=False)
    hosts: tuple[Node, ...] = field(init=False, repr=False)
    """Nodes that operators may be placed on, by name."""
    _host_positions: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Node] = {}
        for node in self.nodes:
            if node.name in by_name:
                raise NetworkError(f"node {node.name!r} occurs twice")
            _check_node(node, self.nodes[0])
            by_name[node.name] = node
        for (source, target), rtt_ms in self.rtt_ms.items():
            if not math.isfinite(rtt_ms) or rtt_ms < 0:
                raise NetworkError(f"{source} to {target}: {rtt_ms} is no round-trip time in ms")
        hosts = tuple(by_name[name] for name in sorted(by_name) if by_name[name].hosts_operators)
        object.__setattr__(self, "by_name", by_name)
        object.__setattr__(self, "hosts", hosts)
        object.__setattr__(self, "_host_positions", np.array([h.position_ms for h in hosts]))

    def node(self, name: str) -> Node:
        """A node by name.

        Raises
        ------
        NetworkError
            With the nearest name, if there is no such node.
        """
        try:
            return self.by_name[name]
        except KeyError:
            close = difflib.get_close_matches(name, sorted(self.by_name), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise NetworkError(f"no node is named {name!r}{hint}") from None

    def can_host(self, name: str | None) -> bool:
        """Whether an operator may be on that node."""
        return name is not None and name in self.by_name and self.by_name[name].hosts_operators

    def one_way_ms(self, source: str, target: str) -> float:
        """One-way latency, ms: half of the measured round trip, else of the distance.

        Zero within a node: nothing travels.
        """
        if source == target:
            return 0.0
        measured = [
            self.rtt_ms[pair]
            for pair in ((source, target), (target, source))
            if pair in self.rtt_ms
        ]
        if measured:
            return sum(measured) / len(measured) / 2
        apart = self.node(source).position_ms - self.node(target).position_ms
        return float(np.linalg.norm(apart)) / 2

    def nearest(self, point_ms: FloatArray, cpu_ms: Mapping[str, float]) -> tuple[Node, ...]:
        """Nodes that may host operators, nearest to a point first.

        The distance is that of the coordinate space with the CPU axis (reliable placement, §4.2),
        the point itself lying at CPU = 0: of two equally near nodes the idle one comes first.

        Parameters
        ----------
        point_ms
            Shape (d,), ms.
        cpu_ms
            The CPU axis by node, ms, ≥ 0.
        """
        if not self.hosts:
            return ()
        latency_ms = np.linalg.norm(self._host_positions - point_ms, axis=1)
        load_ms = np.array([cpu_ms[node.name] for node in self.hosts])
        distance_ms = np.hypot(latency_ms, load_ms)
        order: list[int] = np.argsort(distance_ms, kind="stable").tolist()
        return tuple(self.hosts[i] for i in order)


def _check_node(node: Node, first: Node) -> None:
    if node.position_ms.ndim != 1 or node.position_ms.shape != first.position_ms.shape:
        raise NetworkError(
            f"node {node.name!r} has a coordinate of shape {node.position_ms.shape}, "
            f"node {first.name!r} one of {first.position_ms.shape}"
        )
    if not np.all(np.isfinite(node.position_ms)):
        raise NetworkError(f"node {node.name!r} has coordinate {node.position_ms.tolist()}")
    if not math.isfinite(node.cpu_ms) or node.cpu_ms < 0:
        raise NetworkError(f"node {node.name!r} has cpu_ms {node.cpu_ms}, not a number ≥ 0")
    if node.operators < 0:
        raise NetworkError(f"node {node.name!r} has {node.operators} operators")
