"""What holds for every plan, on random networks and random queries."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.errors import BoundUnattainable, DeadlineUnattainable, NoNode
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import plan
from placement.records import Plan, Request
from placement.secondaries import SecondarySearch
from placement.settings import Placer, Settings
from tests.property.placement import definitions
from tests.property.placement.random_problems import network, query

DETECTION_MS = 20.0


def planned(
    view: NetworkView,
    graphs: list[QueryGraph],
    deadline_ms: float = 1e6,
    bound_ms: float = 1e6,
    keep: dict[str, tuple[str, str | None]] | None = None,
    way: Settings | None = None,
) -> Plan:
    requests = [Request(graph, deadline_ms, bound_ms, DETECTION_MS) for graph in graphs]
    return plan(requests, view, keep=keep, settings=way, rng=np.random.default_rng(5))


Refused = BoundUnattainable | DeadlineUnattainable | NoNode


def planned_or_refused(
    view: NetworkView,
    graphs: list[QueryGraph],
    deadline_ms: float,
    bound_ms: float,
    way: Settings | None = None,
) -> Plan | Refused:
    try:
        return planned(view, graphs, deadline_ms, bound_ms, way=way)
    except (BoundUnattainable, DeadlineUnattainable, NoNode) as error:
        return error


def is_justified(error: Refused, view: NetworkView, deadline_ms: float, bound_ms: float) -> bool:
    """Whether the figures of a refusal say why."""
    if isinstance(error, BoundUnattainable):
        return error.best_ms > bound_ms and view.can_host(error.best_node)
    if isinstance(error, DeadlineUnattainable):
        return error.best_ms > deadline_ms
    return "cores left" in error.reason


def used_cores(graphs: list[QueryGraph], result: Plan) -> dict[str, float]:
    cores = {name: graph.cores(name) for graph in graphs for name in graph.to_place}
    used: dict[str, float] = {}
    for p in result.placements:
        for node in (p.primary, p.secondary):
            used[node] = used.get(node, 0.0) + cores[p.operator]
    return used


def places(result: Plan) -> dict[str, tuple[str, str]]:
    return {p.operator: (p.primary, p.secondary) for p in result.placements}


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)
host_counts = st.integers(2, 9)
ours = Settings()
papers = Settings(placer=Placer.NEAREST, secondary_search=SecondarySearch.OUTWARDS)
in_batches = Settings(batch_size=50)
ways = st.sampled_from((ours, papers, in_batches))


@settings(max_examples=100, deadline=None)
@given(seeds, host_counts, sizes, st.floats(0, 150), st.floats(0, 300), ways)
def test_a_plan_keeps_its_promises_or_none_is_made(
    seed: int, hosts: int, size: int, bound_ms: float, deadline_ms: float, way: Settings
):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts)
    graph = query(rng, "q", size)
    result = planned_or_refused(view, [graph], deadline_ms, bound_ms, way)
    if not isinstance(result, Plan):
        # Of two nodes with room for anything, one can always stand by for the other.
        assert not isinstance(result, NoNode)
        assert is_justified(result, view, deadline_ms, bound_ms)
        return
    assert tuple(p.operator for p in result.placements) == graph.to_place
    primaries = {o.name: o.pinned for o in graph.operators if o.pinned is not None}
    primaries |= {p.operator: p.primary for p in result.placements}
    standbys: dict[str, definitions.Standby] = {}
    for p in result.placements:
        assert view.can_host(p.primary)
        assert view.can_host(p.secondary)
        assert p.primary != p.secondary
        known = {} if way is papers else standbys
        recovery = definitions.recovery(
            graph,
            p.operator,
            p.secondary,
            primaries,
            known,
            view,
            DETECTION_MS,
            way.batch_size,
        )
        assert p.recovery_ms == recovery.total_ms <= bound_ms
        if way is not papers:
            assert definitions.apart(view, p.primary, p.secondary)
        standbys[p.operator] = definitions.Standby(node=p.secondary, recovery=recovery)
    (figures,) = result.queries
    assert figures.latency_ms <= deadline_ms
    assert math.isfinite(figures.network_usage)


@settings(max_examples=80, deadline=None)
@given(seeds, host_counts, sizes, st.floats(0.05, 1), st.floats(20, 300))
def test_no_node_is_given_more_than_it_has(
    seed: int, hosts: int, size: int, most_cores: float, deadline_ms: float
):
    """Neither to begin with, nor when another query comes, nor when a node goes."""
    rng = np.random.default_rng(seed)
    view = network(rng, hosts, domains=1, capacity_cores=(0.02, most_cores))
    graphs = [query(rng, "q", size), query(rng, "r", size)]
    first = planned_or_refused(view, graphs[:1], deadline_ms, 1e6)
    if not isinstance(first, Plan):
        assert is_justified(first, view, deadline_ms, 1e6)
        return
    running: dict[str, tuple[str, str | None]] = {**places(first)}
    try:
        both = planned(view, graphs, deadline_ms, keep=running)
    except (NoNode, DeadlineUnattainable):
        return
    assert running.items() <= places(both).items()
    # Primaries that took over are not asked to move, so what they take may be more.
    gone = first.placements[0].primary
    left = NetworkView(
        nodes=tuple(node for node in view.nodes if node.name != gone), rtt_ms=view.rtt_ms
    )
    results = [first, both]
    with contextlib.suppress(NoNode, DeadlineUnattainable):
        results.append(planned(left, graphs, deadline_ms, keep={**places(both)}))
    for result in results:
        for name, cores in used_cores(graphs, result).items():
            assert cores <= view.node(name).capacity_cores + 1e-9


@settings(max_examples=30, deadline=None)
@given(seeds, host_counts, sizes, ways)
def test_the_same_seed_gives_the_same_plan(seed: int, hosts: int, size: int, way: Settings):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts, domains=1)
    graphs = [query(rng, "q", size), query(rng, "r", size)]
    assert planned(view, graphs, way=way) == planned(view, graphs, way=way)


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
