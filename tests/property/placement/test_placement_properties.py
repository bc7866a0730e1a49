"""What holds for every plan, on random networks and random queries."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import evaluate
from placement.errors import BoundUnattainable, DeadlineUnattainable
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.planner import plan
from placement.records import Plan, Request
from placement.relaxation import MIN_RATE_BYTES_S, relax
from placement.repair import RepairTask, cheapest_in_time, fastest

DETECTION_MS = 20.0


def network(rng: np.random.Generator, hosts: int, measured: bool = True) -> NetworkView:
    """Nodes and three sites anywhere in 100 ms × 100 ms, half of the pairs measured with noise."""
    nodes = [
        Node(
            name=f"n{i}" if i < hosts else f"site{i - hosts}",
            position_ms=rng.uniform(0, 100, size=2),
            cpu_ms=float(rng.uniform(0, 5)),
            domain=f"domain{rng.integers(2)}",
            hosts_operators=i < hosts,
            operators=int(rng.integers(3)),
        )
        for i in range(hosts + 3)
    ]
    rtt_ms: dict[tuple[str, str], float] = {}
    for x, y in product(nodes, nodes):
        if measured and x is not y and rng.random() < 0.3:
            distance_ms = float(np.linalg.norm(x.position_ms - y.position_ms))
            rtt_ms[x.name, y.name] = distance_ms * float(rng.uniform(0.8, 1.4))
    return NetworkView(nodes=tuple(nodes), rtt_ms=rtt_ms)


def query(rng: np.random.Generator, name: str, operators: int) -> QueryGraph:
    """A random acyclic graph: two sources, a sink, each operator fed by one or two before it."""
    fixed = [
        Operator(name=f"{name}.s0", pinned="site0"),
        Operator(name=f"{name}.s1", pinned="site1"),
    ]
    free = [
        Operator(name=f"{name}.o{i}", cost_us=float(rng.uniform(0, 200))) for i in range(operators)
    ]
    before = [operator.name for operator in fixed]
    links: list[Link] = []

    def connect(target: str, inputs: int) -> None:
        chosen: list[str] = rng.choice(before, size=inputs, replace=False).tolist()
        links.extend(
            Link(
                source=source,
                target=target,
                rate_bytes_s=float(10 ** rng.uniform(0, 6)),
                tuples_s=float(10 ** rng.uniform(0, 3)),
            )
            for source in chosen
        )

    for operator in free:
        connect(operator.name, int(rng.integers(1, 3)))
        before.append(operator.name)
    connect(f"{name}.sink", 1)
    sink = Operator(name=f"{name}.sink", pinned="site2")
    return QueryGraph(name=name, operators=(*fixed, *free, sink), links=tuple(links))


def planned(
    view: NetworkView,
    graphs: list[QueryGraph],
    deadline_ms: float = 1e6,
    bound_ms: float = 1e6,
    keep: dict[str, tuple[str, str | None]] | None = None,
) -> Plan:
    requests = [Request(graph, deadline_ms, bound_ms, DETECTION_MS) for graph in graphs]
    return plan(requests, view, keep=keep, rng=np.random.default_rng(5))


def planned_or_refused(
    view: NetworkView, graph: QueryGraph, deadline_ms: float, bound_ms: float
) -> Plan | BoundUnattainable | DeadlineUnattainable:
    try:
        return planned(view, [graph], deadline_ms, bound_ms)
    except (BoundUnattainable, DeadlineUnattainable) as error:
        return error


def places(result: Plan) -> dict[str, tuple[str, str]]:
    return {p.operator: (p.primary, p.secondary) for p in result.placements}


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)
host_counts = st.integers(2, 9)


@settings(max_examples=100, deadline=None)
@given(seeds, host_counts, sizes, st.floats(0, 150), st.floats(0, 300))
def test_a_plan_keeps_its_promises_or_none_is_made(
    seed: int, hosts: int, size: int, bound_ms: float, deadline_ms: float
):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts)
    graph = query(rng, "q", size)
    result = planned_or_refused(view, graph, deadline_ms, bound_ms)
    if isinstance(result, BoundUnattainable):
        assert result.best_ms > bound_ms
        return
    if isinstance(result, DeadlineUnattainable):
        assert result.best_ms > deadline_ms
        return
    assert tuple(p.operator for p in result.placements) == graph.to_place
    primaries = {o.name: o.pinned for o in graph.operators if o.pinned is not None}
    primaries |= {p.operator: p.primary for p in result.placements}
    standbys: dict[str, evaluate.Standby] = {}
    for p in result.placements:
        assert view.can_host(p.primary)
        assert view.can_host(p.secondary)
        assert p.primary != p.secondary
        recovery = {
            node.name: evaluate.recovery(
                graph, p.operator, node.name, primaries, standbys, view, DETECTION_MS
            )
            for node in view.hosts
        }
        assert p.recovery_ms == recovery[p.secondary].total_ms <= bound_ms
        # A secondary shares its primary's failure domain only where no other keeps the bound.
        domain = view.node(p.primary).domain
        if view.node(p.secondary).domain == domain:
            for node in view.hosts:
                assert node.domain == domain or recovery[node.name].total_ms > bound_ms
        standbys[p.operator] = evaluate.Standby(node=p.secondary, recovery=recovery[p.secondary])
    (figures,) = result.queries
    assert figures.latency_ms <= deadline_ms
    assert math.isfinite(figures.network_usage)


@settings(max_examples=50, deadline=None)
@given(seeds, host_counts, sizes)
def test_only_the_content_of_the_input_matters(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts)
    graphs = [query(rng, "q", size), query(rng, "r", size)]
    shuffle: list[int] = rng.permutation(len(view.nodes)).tolist()
    shuffled_view = NetworkView(
        nodes=tuple(view.nodes[i] for i in shuffle),
        rtt_ms=dict(reversed(list(view.rtt_ms.items()))),
    )
    shuffled = [
        replace(graph, operators=graph.operators[::-1], links=graph.links[::-1]) for graph in graphs
    ]
    assert planned(view, graphs) == planned(shuffled_view, shuffled)


@settings(max_examples=50, deadline=None)
@given(seeds, host_counts, sizes)
def test_renaming_nodes_changes_only_names(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts)
    graph = query(rng, "q", size)
    numbers: list[int] = rng.permutation(hosts).tolist()
    renamed = {f"n{i}": f"m{number}" for i, number in enumerate(numbers)}
    renamed |= {f"site{i}": f"site{i}" for i in range(3)}
    other = NetworkView(
        nodes=tuple(replace(node, name=renamed[node.name]) for node in view.nodes),
        rtt_ms={(renamed[x], renamed[y]): rtt_ms for (x, y), rtt_ms in view.rtt_ms.items()},
    )
    before, after = places(planned(view, [graph])), places(planned(other, [graph]))
    assert after == {name: (renamed[p], renamed[s]) for name, (p, s) in before.items()}


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(3, 9), sizes)
def test_a_plan_is_stable_under_noise(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts, measured=False)
    graph = query(rng, "q", size)
    before = places(planned(view, [graph]))
    noisy = NetworkView(
        nodes=tuple(
            replace(node, position_ms=node.position_ms + rng.normal(size=2)) for node in view.nodes
        )
    )
    assert places(planned(noisy, [graph], keep=dict(before))) == before


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 6))
def test_no_force_is_left_where_operators_rest(seed: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, 2)
    graph = query(rng, "q", size)
    points_ms = {
        operator.name: view.node(operator.pinned).position_ms
        for operator in graph.operators
        if operator.pinned is not None
    }
    result = relax(graph, points_ms, rng.uniform(-500, 500, size=(size, 2)))
    points_ms |= result.points_ms
    weakest = min(max(link.rate_bytes_s, MIN_RATE_BYTES_S) for link in graph.links)
    for name in graph.to_place:
        force = np.zeros(2)
        for link in (*graph.inputs[name], *graph.outputs[name]):
            other = link.target if link.source == name else link.source
            force += max(link.rate_bytes_s, 1.0) * (points_ms[other] - points_ms[name])
        assert np.all(np.isfinite(points_ms[name]))
        assert float(np.linalg.norm(force)) < 2e-3 * weakest


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(2, 4), st.integers(1, 3))
def test_repair_equals_brute_force(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts)
    graph = query(rng, "q", size)
    candidates = {
        o.name: [o.pinned] if o.pinned is not None else [node.name for node in view.hosts]
        for o in graph.operators
    }
    task = RepairTask(graph=graph, view=view, candidates=candidates, hop_ms=2, steps=10_000)
    every = [dict(zip(candidates, nodes, strict=True)) for nodes in product(*candidates.values())]

    def latency_ms(primaries: dict[str, str]) -> float:
        return evaluate.longest_path(graph, primaries, view, 2).latency_ms

    def usage(primaries: dict[str, str]) -> float:
        return evaluate.primary_usage(graph, primaries, view)

    least_ms = min(map(latency_ms, every))
    assert math.isclose(latency_ms(fastest(task)), least_ms)
    deadline_ms = float(np.median([latency_ms(primaries) for primaries in every]))
    found = cheapest_in_time(task, deadline_ms)
    assert found is not None
    assert latency_ms(found) <= deadline_ms + 1e-9
    least = min(usage(primaries) for primaries in every if latency_ms(primaries) <= deadline_ms)
    assert math.isclose(usage(found), least, rel_tol=1e-9, abs_tol=1e-9)
    assert cheapest_in_time(task, least_ms * 0.99) is None
