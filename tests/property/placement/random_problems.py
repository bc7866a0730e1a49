"""Random networks and query graphs in general position: no two choices cost the same."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node

SITES = 3


def network(
    rng: np.random.Generator,
    hosts: int,
    *,
    measured: bool = True,
    domains: int = 2,
    capacity_cores: tuple[float, float] = (math.inf, math.inf),
    idle: bool = False,
    labels: int = 0,
) -> NetworkView:
    """Nodes and three sites anywhere in 100 ms × 100 ms, half of the pairs measured with noise.

    Parameters
    ----------
    domains, labels
        Different values of the label `domain`, and at most of each other label.
    """

    def label() -> str:
        """Also none."""
        return "" if labels == 0 else ("", *map(str, range(labels)))[rng.integers(labels + 1)]

    nodes = [
        Node(
            name=f"n{i}" if i < hosts else f"site{i - hosts}",
            position_ms=rng.uniform(0, 100, size=2),
            cpu_ms=0.0 if idle else float(rng.uniform(0, 5)),
            domain=f"domain{rng.integers(domains)}",
            application=label(),
            machine=label(),
            zone=label(),
            driver=label(),
            hosts_operators=i < hosts,
            operators=0 if idle else int(rng.integers(3)),
            capacity_cores=math.inf
            if math.isinf(capacity_cores[1])
            else float(rng.uniform(*capacity_cores)),
        )
        for i in range(hosts + SITES)
    ]
    rtt_ms: dict[tuple[str, str], float] = {}
    for x, y in product(nodes, nodes):
        if measured and x is not y and rng.random() < 0.3:
            distance_ms = float(np.linalg.norm(x.position_ms - y.position_ms))
            rtt_ms[x.name, y.name] = distance_ms * float(rng.uniform(0.8, 1.4))
    return NetworkView(nodes=tuple(nodes), rtt_ms=rtt_ms)


def query(rng: np.random.Generator, name: str, operators: int) -> QueryGraph:
    """A random acyclic graph: each operator is fed by one or two before it."""
    before = ["s0", "s1"]
    pairs: list[tuple[str, str]] = []
    for i in range(operators):
        inputs: list[str] = rng.choice(before, size=rng.integers(1, 3), replace=False).tolist()
        pairs += [(source, f"o{i}") for source in inputs]
        before.append(f"o{i}")
    return _graph(rng, name, operators, pairs)


def tree(rng: np.random.Generator, name: str, operators: int) -> QueryGraph:
    """A random tree: each operator feeds one before it or is fed by it; two inputs at most."""
    pairs: list[tuple[str, str]] = []
    inputs = [0] * operators
    for i in range(1, operators):
        j = int(rng.integers(i))
        feeds = bool(rng.integers(2)) and inputs[j] < 2
        pairs.append((f"o{i}", f"o{j}") if feeds else (f"o{j}", f"o{i}"))
        inputs[j if feeds else i] += 1
    from_sources = [i for i in range(operators) if inputs[i] == 0 or rng.random() < 0.3]
    pairs += [(f"s{rng.integers(2)}", f"o{i}") for i in from_sources]
    return _graph(rng, name, operators, pairs)


def _graph(
    rng: np.random.Generator, name: str, operators: int, pairs: list[tuple[str, str]]
) -> QueryGraph:
    """Two sources, and a sink for all that nothing else takes in.

    What comes out of a query decides which replica is the better primary; without it they tie.
    """
    taken = {source for source, _ in pairs}
    ends = [f"o{i}" for i in range(operators) if f"o{i}" not in taken]
    pins = {"s0": "site0", "s1": "site1", "sink": "site2"}
    pinned = [Operator(name=f"{name}.{end}", pinned=site) for end, site in pins.items()]
    free = [
        Operator(name=f"{name}.o{i}", cost_us=float(rng.uniform(0, 200))) for i in range(operators)
    ]
    links = [
        Link(
            source=f"{name}.{source}",
            target=f"{name}.{target}",
            rate_bytes_s=float(10 ** rng.uniform(2, 6)),
            tuples_s=float(10 ** rng.uniform(0, 3)),
        )
        for source, target in (*pairs, *((end, "sink") for end in ends))
    ]
    return QueryGraph(name=name, operators=(*pinned, *free), links=tuple(links))
