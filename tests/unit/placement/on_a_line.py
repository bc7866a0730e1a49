"""Networks on a line and queries in one word, for tests that are computed by hand.

One-way latencies are the distances of the places. Operators have one letter; those in capitals are
pinned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from foundation.arrays import IntArray
from placement.evaluation.load import Load
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from topology.cpu import Linear


def line(
    hosts: Mapping[str, float],
    sites: Mapping[str, float] | None = None,
    *,
    domains: Mapping[str, str] | None = None,
    capacity_cores: Mapping[str, float] | None = None,
    cpu_ms: Mapping[str, float] | None = None,
) -> NetworkView:
    """Nodes at places given in ms of one-way latency; hosts first, in the order given."""
    nodes = [
        Node(
            name=name,
            # Coordinates tell round trips.
            position_ms=np.array([2.0 * place_ms]),
            domain=(domains or {}).get(name, "everywhere"),
            capacity_cores=(capacity_cores or {}).get(name, math.inf),
            cpu_ms=(cpu_ms or {}).get(name, 0.0),
            hosts_operators=name in hosts,
        )
        for name, place_ms in (*hosts.items(), *(sites or {}).items())
    ]
    return NetworkView(nodes=tuple(nodes))


def query(
    rates: Mapping[str, float], pins: Mapping[str, str], *, cost_us: float = 0.0
) -> QueryGraph:
    """Links such as `Sa` at bytes/s, a hundred bytes a tuple."""
    names = sorted(set("".join(rates)))
    return QueryGraph(
        name="q",
        operators=tuple(
            Operator(name=name, pinned=pins.get(name), cost_us=0 if name in pins else cost_us)
            for name in names
        ),
        links=tuple(
            Link(source=pair[0], target=pair[1], rate_bytes_s=rate, tuples_s=rate / 100)
            for pair, rate in rates.items()
        ),
    )


def load_of(view: NetworkView, operator_load: float = 0.0) -> Load:
    """Where a core counts for 10 ms."""
    return Load(view, operator_load=operator_load, cpu=Linear(10))


def nodes(view: NetworkView, names: str) -> IntArray:
    """Indices of nodes by names, separated by blanks."""
    return np.array([view.index[name] for name in names.split()], dtype=np.int64)
