"""Six European regions and a query over them, for tests of plans."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.planner import Keep, plan
from placement.records import Plan, Request
from placement.secondaries import SecondarySearch
from placement.settings import Placer, Settings

regions = (
    "france-central",
    "france-south",
    "germany-west-central",
    "switzerland-north",
    "uk-south",
    "west-europe",
)
RTT_MS = [
    [0, 15, 12, 17, 11, 13],
    [15, 0, 20, 14, 20, 25],
    [12, 20, 0, 9, 17, 12],
    [17, 14, 9, 0, 23, 18],
    [11, 20, 17, 23, 0, 12],
    [13, 25, 12, 18, 12, 0],
]
"""Round trips published for Azure, ms."""

POSITIONS_MS = [(0.0, 2.0), (0.0, -13.0), (9.0, -2.0), (12.0, -11.0), (-6.0, 11.0), (5.0, 13.0)]
"""Coordinates near these round trips."""


def europe(
    *,
    domains: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
    sites: bool = True,
    capacity_cores: float = math.inf,
) -> NetworkView:
    """A node in each region, and three sites (1 ms away from the node of their region)."""
    at: dict[str, tuple[float, float]] = dict(zip(regions, POSITIONS_MS, strict=True))
    nodes = [
        Node(
            name=name,
            position_ms=np.array(at[name]),
            domain=(domains or {}).get(name, "app"),
            capacity_cores=capacity_cores,
        )
        for name in regions
        if name not in without
    ]
    homes = {"north": "west-europe", "south": "france-south", "centre": "uk-south"}
    nodes += [
        Node(name=site, position_ms=np.array(at[region]), hosts_operators=False)
        for site, region in homes.items()
        if sites
    ]
    rtt_ms: dict[tuple[str, str], float] = {}
    for x, y in combinations((*regions, *homes), 2):
        i, j = (regions.index(homes.get(name, name)) for name in (x, y))
        rtt_ms[x, y] = float(RTT_MS[i][j]) if i != j else 1.0
    return NetworkView(nodes=tuple(nodes), rtt_ms=rtt_ms)


def proximity(name: str = "proximity", prefix: str = "") -> QueryGraph:
    """Two filters, a join and an aggregate; alerts and their count to the control centre."""
    operators = [
        Operator(name=f"{prefix}north", pinned="north"),
        Operator(name=f"{prefix}south", pinned="south"),
        Operator(name=f"{prefix}centre", pinned="centre"),
    ]
    operators += [
        Operator(name=f"{prefix}{operator}", cost_us=20)
        for operator in ("north_tracks", "south_tracks", "alerts", "per_minute")
    ]
    links = [
        ("north", "north_tracks", 150_000, 1500),
        ("south", "south_tracks", 100_000, 1000),
        ("north_tracks", "alerts", 75_000, 750),
        ("south_tracks", "alerts", 50_000, 500),
        ("alerts", "per_minute", 500, 5),
        ("alerts", "centre", 500, 5),
        ("per_minute", "centre", 10, 0.1),
    ]
    return QueryGraph(
        name=name,
        operators=tuple(operators),
        links=tuple(
            Link(source=prefix + source, target=prefix + target, rate_bytes_s=rate, tuples_s=tuples)
            for source, target, rate, tuples in links
        ),
    )


def planned(
    *graphs: QueryGraph,
    view: NetworkView | None = None,
    deadline_ms: float = 300,
    bound_ms: float = 300,
    detection_ms: float = 150,
    keep: Keep | None = None,
    settings: Settings | None = None,
) -> Plan:
    requests = [Request(g, deadline_ms, bound_ms, detection_ms) for g in graphs or (proximity(),)]
    rng = np.random.default_rng(7)
    return plan(requests, view or europe(), keep=keep, settings=settings, rng=rng)


def nodes_of(result: Plan) -> dict[str, tuple[str, str]]:
    return {p.operator: (p.primary, p.secondary) for p in result.placements}


idle = Settings(operator_load=0)
"""Placement by latency alone."""


def papers_own(operator_load: float = 0) -> Settings:
    """The paper's steps: nearest nodes, secondaries searched outwards."""
    return Settings(
        operator_load=operator_load,
        placer=Placer.NEAREST,
        secondary_search=SecondarySearch.OUTWARDS,
    )
