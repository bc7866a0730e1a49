"""Looking into blocks finds what looking at all hosts finds."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.placement_methods import OURS
from foundation.arrays import IntArray
from placement.evaluation.load import Load
from placement.graph import Link, Operator, QueryGraph
from placement.host_blocks import HostBlocks
from placement.network import NetworkView, Node
from placement.secondaries import StandbyTask, place_secondaries

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 2_000), st.integers(1, 4), st.integers(1, 50), st.floats(0, 1))
def test_the_best_of_blocks_are_the_best_of_all(
    seed: int, hosts: int, dimensions: int, count: int, impossible: float
):
    rng = np.random.default_rng(seed)
    # Few positions and prices, so that many hosts cost the same: then names decide.
    positions_ms = rng.integers(12, size=(hosts + 3, dimensions)).astype(np.float64)
    price = rng.integers(4, size=hosts + 3).astype(np.float64)
    by_name = rng.permutation(hosts + 3)[:hosts]
    allowed = rng.random(hosts + 3) >= impossible
    point_ms = rng.uniform(-2, 14, size=dimensions)

    def values(nodes: IntArray) -> np.ndarray:
        apart_ms = np.linalg.norm(positions_ms[nodes] - point_ms, axis=1)
        return np.where(allowed[nodes], apart_ms + price[nodes], math.inf)

    blocks = HostBlocks.of(positions_ms, by_name)
    blocks_hold = np.sort(blocks.nodes)
    assert np.array_equal(blocks_hold, np.sort(by_name))
    bounds = blocks.apart_ms(point_ms) + blocks.least(price)
    found, costs = blocks.best(bounds, values, count)
    everything = values(by_name)
    ranked = np.argsort(everything, kind="stable")
    expected = ranked[np.isfinite(everything[ranked])][:count]
    assert found.tolist() == by_name[expected].tolist()
    assert costs.tolist() == everything[expected].tolist()


def chain(nodes: tuple[str, str, str]) -> QueryGraph:
    """Two sources, a join to be placed and a filter behind it, a sink."""
    pinned = {"left": nodes[0], "right": nodes[1], "sink": nodes[2]}
    ends = [("left", "join"), ("right", "join"), ("join", "filter"), ("filter", "sink")]
    return QueryGraph(
        name="chain",
        operators=(
            *(Operator(name=name, pinned=node) for name, node in pinned.items()),
            Operator(name="join"),
            Operator(name="filter"),
        ),
        links=tuple(
            Link(source=source, target=target, rate_bytes_s=1e3 / (1 + i), tuples_s=1.0)
            for i, (source, target) in enumerate(ends)
        ),
    )


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(40, 600), st.floats(0, 40), st.integers(1, 40))
def test_secondaries_are_those_found_by_looking_at_all_hosts(
    seed: int, hosts: int, busiest: float, domains: int
):
    rng = np.random.default_rng(seed)
    nodes = tuple(
        Node(
            name=f"n{i:03}",
            position_ms=rng.uniform(0, 100, size=3),
            operators=int(rng.uniform(0, busiest)),
            domain=f"d{rng.integers(domains)}" if domains > 1 else "",
        )
        for i in range(hosts)
    )
    names = [node.name for node in nodes]
    a, b, c, d, e = rng.choice(names, 5, replace=False).tolist()
    # Which looks at all hosts: a latency that was measured may be any.
    apart_ms = float(np.linalg.norm(nodes[0].position_ms - nodes[1].position_ms))
    plain = NetworkView(nodes=nodes)
    measured = NetworkView(nodes=nodes, rtt_ms={(names[0], names[1]): apart_ms})
    primaries = {"left": a, "right": b, "sink": c, "join": d, "filter": rng.choice([d, e]).item()}
    graph = chain((a, b, c))

    def found(view: NetworkView):
        load = Load(view, operator_load=OURS.operator_load, cpu=OURS.cpu)
        task = StandbyTask(
            graph=graph, view=view, primaries=primaries, detection_ms=5.0, bound_ms=300.0
        )
        return place_secondaries(task, load, {})

    assert found(plain) == found(measured)
