"""Random networks, queries and running placements, and their figures by definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from placement.evaluation.load import Load
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.rebalancing.moves import Move, MoveKind, RebalanceSettings, Rebalancing
from placement.rebalancing.rebalance import rebalance
from placement.records import Request
from placement.settings import Settings
from tests.property.placement import definitions
from tests.property.placement.definitions import looseness
from topology.cpu import Power

DETECTION_MS = 20.0

Places = dict[str, tuple[str, str]]

PLANNER = Settings(cpu=Power(ms_per_core=20, exponent=2), operator_load=0.3, hop_overhead_ms=2)

ANY_GAIN = RebalanceSettings(
    hysteresis_share=0, horizon_s=1e12, max_moves=1_000, bandwidth_bytes_s=1e9
)
"""Whatever lowers the objective is worth it."""


def network(rng: np.random.Generator, hosts: int, *, domains: int = 3) -> NetworkView:
    """Nodes and three sites anywhere in 100 ms × 100 ms, some pairs measured; half of the networks
    have zones and machines."""
    labels = 3 if domains and rng.integers(2) else 1
    nodes = [
        Node(
            name=f"n{i}" if i < hosts else f"site{i - hosts}",
            position_ms=rng.uniform(0, 100, size=2),
            capacity_cores=float(rng.uniform(0.3, 2)) if i < hosts else math.inf,
            domain=f"domain{rng.integers(domains)}" if domains else "",
            machine=f"machine{rng.integers(labels)}",
            zone=f"zone{rng.integers(labels)}",
            hosts_operators=i < hosts,
            operators=int(rng.integers(2)),
        )
        for i in range(hosts + 3)
    ]
    rtt_ms = {
        (x.name, y.name): float(rng.uniform(0, 100))
        for x in nodes
        for y in nodes
        if x is not y and rng.random() < 0.1
    }
    return NetworkView(nodes=tuple(nodes), rtt_ms=rtt_ms)


def query(rng: np.random.Generator, name: str, operators: int) -> QueryGraph:
    """Two sources, operators fed by one or two before them, a sink."""
    free = [
        Operator(name=f"{name}.o{i}", cost_us=float(rng.uniform(0, 500))) for i in range(operators)
    ]
    before = [f"{name}.s0", f"{name}.s1"]
    links: list[Link] = []
    for target in (*(operator.name for operator in free), f"{name}.sink"):
        count = 1 if target.endswith("sink") else int(rng.integers(1, 3))
        chosen: list[str] = rng.choice(before, size=count, replace=False).tolist()
        links += [
            Link(
                source=source,
                target=target,
                rate_bytes_s=float(10 ** rng.uniform(2, 5)),
                tuples_s=float(10 ** rng.uniform(0, 3)),
            )
            for source in chosen
        ]
        before.append(target)
    pinned = {f"{name}.s0": "site0", f"{name}.s1": "site1", f"{name}.sink": "site2"}
    fixed = [Operator(name=operator, pinned=node) for operator, node in pinned.items()]
    return QueryGraph(name=name, operators=(*fixed, *free), links=tuple(links))


def problem(
    rng: np.random.Generator, hosts: int, queries: int, size: int, *, domains: int = 3
) -> tuple[NetworkView, list[QueryGraph], Places]:
    """A network, queries, and their operators somewhere; few nodes, so that some share one."""
    view = network(rng, hosts, domains=domains)
    graphs = [query(rng, f"q{i}", size) for i in range(queries)]
    names = [node.name for node in view.hosts]
    running: Places = {}
    for graph in graphs:
        for name in graph.to_place:
            primary, secondary = rng.choice(names[: max(hosts // 2, 2)], size=2, replace=False)
            running[name] = str(primary), str(secondary)
    return view, graphs, running


def asking(graphs: Sequence[QueryGraph], bound_ms: float, deadline_ms: float) -> list[Request]:
    return [Request(graph, deadline_ms, bound_ms, DETECTION_MS) for graph in graphs]


def primaries_of(graph: QueryGraph, places: Places) -> dict[str, str]:
    pinned = {o.name: o.pinned for o in graph.operators if o.pinned is not None}
    return pinned | {name: places[name][0] for name in graph.to_place}


def objective(graphs: Sequence[QueryGraph], places: Places, view: NetworkView) -> float:
    """What plans minimise, from scratch."""
    load = Load(view, operator_load=PLANNER.operator_load, cpu=PLANNER.cpu)
    load = load.with_replicas(node for pair in places.values() for node in pair)
    axis_ms = load.axis_ms()
    total = 0.0
    for graph in graphs:
        primaries = primaries_of(graph, places)
        secondaries = {name: places[name][1] for name in graph.to_place}
        total += definitions.primary_usage(graph, primaries, view)
        total += definitions.standby_usage(graph, primaries, secondaries, view)
        for name in graph.to_place:
            for node in places[name]:
                total += graph.mean_input_rate * float(axis_ms[view.index[node]]) / 1e3
    return total


def recoveries_ms(graph: QueryGraph, places: Places, view: NetworkView) -> dict[str, float]:
    standbys: dict[str, definitions.Standby] = {}
    for name in graph.to_place:
        node = places[name][1]
        recovery = definitions.recovery(
            graph, name, node, primaries_of(graph, places), standbys, view, DETECTION_MS
        )
        standbys[name] = definitions.Standby(node=node, recovery=recovery)
    return {name: standby.recovery.total_ms for name, standby in standbys.items()}


def path_ms(graph: QueryGraph, places: Places, view: NetworkView) -> float:
    return definitions.longest_path_ms(
        graph, primaries_of(graph, places), view, PLANNER.hop_overhead_ms
    )


def cores_by_node(graphs: Sequence[QueryGraph], places: Places) -> dict[str, float]:
    used: dict[str, float] = {}
    for graph in graphs:
        for name in graph.to_place:
            for node in places[name]:
                used[node] = used.get(node, 0.0) + graph.cores(name)
    return used


def moved(places: Places, move: Move) -> Places:
    primary, secondary = places[move.operator]
    if move.kind is MoveKind.SWAP:
        assert (move.source, move.target) == (primary, secondary)
        pair = secondary, primary
    elif move.kind is MoveKind.PRIMARY:
        assert move.source == primary
        pair = move.target, secondary
    else:
        assert move.source == secondary
        pair = primary, move.target
    return places | {move.operator: pair}


def assert_pair_is_legal(
    view: NetworkView, before: tuple[str, str], after: tuple[str, str]
) -> None:
    assert after[0] != after[1]
    assert all(view.can_host(node) for node in after)
    assert looseness(view, *after) <= looseness(view, *before)


def perturbed(rng: np.random.Generator, view: NetworkView, error_ms: float) -> NetworkView:
    """The view of an observer whose coordinates are up to that far off, and who knows it."""

    def off(node: Node) -> Node:
        direction = rng.normal(size=2)
        step = direction / np.linalg.norm(direction) * rng.uniform(0, error_ms)
        return replace(node, position_ms=node.position_ms + step, error_ms=error_ms)

    return NetworkView(nodes=tuple(map(off, view.nodes)), rtt_ms=view.rtt_ms)


def rebalanced(
    requests: Sequence[Request],
    running: Places,
    view: NetworkView,
    rebalancing: RebalanceSettings = ANY_GAIN,
    state_bytes: dict[str, float] | None = None,
) -> Rebalancing:
    return rebalance(
        requests,
        running,
        view,
        state_bytes=state_bytes or {},
        settings=PLANNER,
        rebalancing=rebalancing,
    )


seeds = st.integers(0, 2**32 - 1)
host_counts = st.integers(2, 8)
sizes = st.integers(1, 5)
query_counts = st.integers(1, 3)
bounds_ms = st.floats(20, 150)
deadlines_ms = st.floats(20, 300)
