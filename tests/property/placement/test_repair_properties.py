"""Repair of missed deadlines against all placements there are."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement import evaluate
from placement.network import NetworkView
from placement.repair import RepairTask, cheapest_in_time, fastest
from tests.property.placement.random_problems import network, query

seeds = st.integers(0, 2**32 - 1)


def every_placement(candidates: dict[str, list[str]]) -> list[dict[str, str]]:
    return [dict(zip(candidates, nodes, strict=True)) for nodes in product(*candidates.values())]


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
    task = RepairTask(
        graph=graph, view=view, candidates=candidates, hop_overhead_ms=2, steps=10_000
    )
    every = every_placement(candidates)

    def latency_ms(primaries: dict[str, str]) -> float:
        return evaluate.longest_path(graph, primaries, view, 2).latency_ms

    def usage(primaries: dict[str, str]) -> float:
        return evaluate.primary_usage(graph, primaries, view)

    least_ms = min(map(latency_ms, every))
    quickest = fastest(task)
    assert quickest is not None
    assert math.isclose(latency_ms(quickest), least_ms)
    deadline_ms = float(np.median([latency_ms(primaries) for primaries in every]))
    found = cheapest_in_time(task, deadline_ms)
    assert found is not None
    assert latency_ms(found) <= deadline_ms + 1e-9
    least = min(usage(primaries) for primaries in every if latency_ms(primaries) <= deadline_ms)
    assert math.isclose(usage(found), least, rel_tol=1e-9, abs_tol=1e-9)
    assert cheapest_in_time(task, least_ms * 0.99) is None


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(2, 4), st.integers(1, 3), st.floats(0, 0.4))
def test_repair_within_capacities_equals_brute_force(
    seed: int, hosts: int, size: int, most_cores: float
):
    rng = np.random.default_rng(seed)
    view: NetworkView = network(rng, hosts)
    graph = query(rng, "q", size)
    room_cores = rng.uniform(0, max(most_cores, 1e-6), size=len(view.nodes))
    candidates = {
        o.name: [o.pinned] if o.pinned is not None else [node.name for node in view.hosts]
        for o in graph.operators
    }

    def fits(primaries: dict[str, str]) -> bool:
        used = np.zeros(len(view.nodes))
        for name in graph.to_place:
            used[view.index[primaries[name]]] += graph.cores(name)
        return bool((used <= room_cores + 1e-9).all())

    task = RepairTask(
        graph=graph,
        view=view,
        candidates=candidates,
        hop_overhead_ms=2,
        steps=10_000,
        room_cores=room_cores,
    )
    every = [primaries for primaries in every_placement(candidates) if fits(primaries)]
    found = cheapest_in_time(task, 1e6)
    if not every:
        assert found is None
        assert fastest(task) is None
        return
    assert found is not None
    assert fits(found)
    least = min(evaluate.primary_usage(graph, primaries, view) for primaries in every)
    assert math.isclose(
        evaluate.primary_usage(graph, found, view), least, rel_tol=1e-9, abs_tol=1e-9
    )
