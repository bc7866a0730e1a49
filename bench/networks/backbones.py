"""Real backbones: maps of networks with the length of each link, converted to latencies.

The maps come with the package TopoHub (Jurkiewicz: "TopoHub: a repository of reference Gabriel
graph and real-world topologies for networking research", SoftwareX 24, 2023): `backbone/…` are
continents with their sea cables, `sndlib/…` and `topozoo/…` are networks of operators, `caida/…`
are measured ones and `gabriel/<nodes>/<number>` synthetic ones. A link takes `FIBRE_MS_PER_KM` per
kilometre, and packets take the fastest route.

If a map distinguishes cities from bends and landing points of sea cables, only cities are nodes;
paths lead through all points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec
import numpy as np
import topohub

from bench.networks.latency_graph import LatencyGraph, links
from foundation.suggestions import closest
from topology.latency import LatencyMatrix, LatencyMatrixError

FIBRE_MS_PER_KM = 4.9e-3
"""One-way latency of fibre, ms per km: its refractive index of 1.468 over the speed of light,
299,792 km/s. Switching and queueing are neglected; on long links they are much smaller."""

LEAST_LINK_KM = 1.0
"""Least length of a link. Maps locate nodes to a hundredth of a degree, so two nodes at one point
may be a kilometre apart, and shortest paths ignore links of length zero."""


class UnknownBackbone(LatencyMatrixError):
    """A map that the package does not contain."""

    def __init__(self, key: str, known: list[str]) -> None:
        close = closest(key, known)
        remedy = f"did you mean {close}?" if close else "see https://www.topohub.org"
        super().__init__(f"no backbone {key!r}; {remedy}")
        self.key = key


class _Node(msgspec.Struct):
    id: int | str
    pos: tuple[float, float]
    name: str | None = None
    type: str | None = None


class _Link(msgspec.Struct):
    source: int | str
    target: int | str
    dist: float


class _Map(msgspec.Struct):
    nodes: list[_Node]
    edges: list[_Link]


def backbone(key: str) -> LatencyMatrix:
    """Round trips between the cities of a backbone.

    Parameters
    ----------
    key
        Key in TopoHub: `sndlib/germany50`, `topozoo/Abilene`, `backbone/europe`, …

    Raises
    ------
    UnknownBackbone
        With the nearest keys.
    Unreachable
        If the map is not connected.

    Examples
    --------
    >>> abilene = backbone("topozoo/Abilene")
    >>> round(abilene.one_way_ms("New York", "Seattle"), 1)
    22.9
    """
    content = _read(key)
    typed = any(node.type == "City" for node in content.nodes)
    cities = [i for i, node in enumerate(content.nodes) if not typed or node.type == "City"]
    return _graph(content).latency_matrix(cities)


def backbone_graph(key: str) -> LatencyGraph:
    """Links and positions of a backbone, including bends and landing points.

    Raises
    ------
    UnknownBackbone
        With the nearest keys.
    """
    return _graph(_read(key))


def backbones() -> list[str]:
    """Keys of all maps, several thousand."""
    data = resources.files(topohub).joinpath("data")
    return sorted(_keys(data, ""))


def _keys(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _keys(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            yield prefix + entry.name.removesuffix(".json")


def _read(key: str) -> _Map:
    # The package would open any file that a key leads to.
    if ".." in key or key.startswith("/"):
        raise UnknownBackbone(key, backbones())
    try:
        return msgspec.convert(topohub.get(key), _Map)
    except KeyError:
        raise UnknownBackbone(key, backbones()) from None


def _graph(content: _Map) -> LatencyGraph:
    index = {node.id: i for i, node in enumerate(content.nodes)}
    ends = np.array([(index[link.source], index[link.target]) for link in content.edges])
    kilometres = np.array([max(link.dist, LEAST_LINK_KM) for link in content.edges])
    names = _names(content.nodes)
    return LatencyGraph(
        names=names,
        domains=names,
        places=np.array([node.pos for node in content.nodes]),
        one_way_ms=links(len(names), ends, FIBRE_MS_PER_KM * kilometres),
    )


def _names(nodes: list[_Node]) -> tuple[str, ...]:
    """Names of the map; nodes without a name of their own also get their number."""
    counts = Counter(node.name for node in nodes)
    return tuple(
        node.name
        if node.name is not None and counts[node.name] == 1
        else f"{node.name or node.type or 'node'} {node.id}"
        for node in nodes
    )
