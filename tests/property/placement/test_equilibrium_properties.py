"""What holds where operators rest, on random trees and other acyclic graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.arrays import FloatArray
from placement.equilibrium import UsageSettings, least_usage, minimise
from placement.graph import Link, Operator, QueryGraph
from placement.relaxation import RelaxationSettings, relax
from placement.spring_system import MIN_RATE_BYTES_S, SpringSystem

Positions = dict[str, FloatArray]

seeds = st.integers(0, 2**32 - 1)
sizes = st.lists(st.integers(0, 7), min_size=1, max_size=4)


def queries(seed: int, sizes: list[int]) -> tuple[list[QueryGraph], list[Positions]]:
    """Three sources and a sink each, some of them at one place; operators with 1 to 3 inputs."""
    rng = np.random.default_rng(seed)
    graphs: list[QueryGraph] = []
    pinned_ms: list[Positions] = []
    for number, size in enumerate(sizes):
        before = ["s0", "s1", "s2"]
        links: list[Link] = []
        for name in [*(f"o{i}" for i in range(size)), "sink"]:
            sources: list[str] = rng.choice(before, rng.integers(1, 4), replace=False).tolist()
            links.extend(
                Link(
                    source=source,
                    target=name,
                    rate_bytes_s=float(rng.choice([0, 10 ** rng.uniform(0, 6)])),
                    tuples_s=1,
                )
                for source in sources
            )
            before.append(name)
        operators = [Operator(name=n, pinned=None if n[0] == "o" else "n") for n in before]
        graphs.append(QueryGraph(name=f"q{number}", operators=tuple(operators), links=tuple(links)))
        places_ms = rng.uniform(0, 100, size=(2, 3))
        pinned_ms.append({n: places_ms[rng.integers(2)] for n in ("s0", "s1", "s2", "sink")})
    return graphs, pinned_ms


def usage(graph: QueryGraph, points_ms: Positions) -> float:
    """Network usage (2), link by link, of links that something can move."""
    return sum(
        max(link.rate_bytes_s, MIN_RATE_BYTES_S)
        * float(np.linalg.norm(points_ms[link.source] - points_ms[link.target]))
        / 2e3
        for link in graph.links
        if link.source in graph.to_place or link.target in graph.to_place
    )


@settings(max_examples=60, deadline=None)
@given(seeds, sizes)
def test_a_batch_rests_where_each_query_relaxes_to(seed: int, sizes: list[int]):
    graphs, pinned_ms = queries(seed, sizes)
    patient = RelaxationSettings(rest_ms=1e-6, max_rounds=300)
    springs = SpringSystem.of(graphs, pinned_ms)
    rests = springs.wrap(springs.balance(springs.rates))
    for graph, pins, points_ms in zip(graphs, pinned_ms, rests, strict=True):
        relaxed = relax(graph, pins, np.full((len(graph.to_place), 3), 50.0), patient)
        assert points_ms.keys() == relaxed.points_ms.keys()
        for name, point_ms in points_ms.items():
            np.testing.assert_allclose(point_ms, relaxed.points_ms[name], atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes)
def test_usage_lies_between_its_bound_and_its_start(seed: int, sizes: list[int]):
    graphs, pinned_ms = queries(seed, sizes)
    springs = SpringSystem.of(graphs, pinned_ms)
    rests = springs.wrap(springs.balance(springs.rates))
    found = least_usage(graphs, pinned_ms, UsageSettings(max_rounds=500))
    for graph, pins, rest_ms, least in zip(graphs, pinned_ms, rests, found, strict=True):
        reached = usage(graph, pins | least.points_ms)
        assert np.isclose(least.network_usage, reached, rtol=1e-9, atol=1e-9)
        assert reached <= usage(graph, pins | rest_ms) * (1 + 1e-9) + 1e-9
        slack = 1e-6 * sum(max(link.rate_bytes_s, 1.0) for link in graph.links)
        assert least.lower_bound <= reached + 1e-9
        assert reached <= least.lower_bound * 1.002 + slack


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, st.floats(1e-3, 100))
def test_no_points_nearby_or_at_anchors_are_below_the_bound(
    seed: int, sizes: list[int], spread_ms: float
):
    graphs, pinned_ms = queries(seed, sizes)
    rng = np.random.default_rng(seed)
    for graph, pins, least in zip(graphs, pinned_ms, least_usage(graphs, pinned_ms), strict=True):
        nearby = {
            name: point_ms + rng.normal(scale=spread_ms, size=3)
            for name, point_ms in least.points_ms.items()
        }
        at_an_anchor = {name: pins[str(rng.choice(list(pins)))] for name in least.points_ms}
        for points_ms in (nearby, at_an_anchor):
            assert usage(graph, pins | points_ms) >= least.lower_bound * (1 - 1e-6) - 1e-6


@settings(max_examples=40, deadline=None)
@given(seeds, sizes, st.integers(0, 20))
def test_no_query_ends_above_any_start(seed: int, sizes: list[int], max_rounds: int):
    graphs, pinned_ms = queries(seed, sizes)
    springs = SpringSystem.of(graphs, pinned_ms)
    shape = springs.balance(springs.rates).shape
    start_ms = np.random.default_rng(seed).uniform(-50, 150, size=shape)
    found = minimise(springs, start_ms, UsageSettings(max_rounds=max_rounds))
    before = springs.by_query(springs.rates * springs.lengths_ms(start_ms)) / 2e3
    points_ms = [point_ms for each in found for point_ms in each.points_ms.values()]
    reached_ms = np.array(points_ms).reshape(shape)
    after = springs.by_query(springs.rates * springs.lengths_ms(reached_ms)) / 2e3
    assert (after <= before).all()
    np.testing.assert_allclose(after, [each.network_usage for each in found])


@settings(max_examples=40, deadline=None)
@given(seeds, sizes)
def test_points_are_the_same_bit_by_bit_in_any_batch(seed: int, sizes: list[int]):
    """Or the same job in other partitions would place otherwise where costs are equal."""
    graphs, pinned_ms = queries(seed, sizes)
    together = least_usage(graphs, pinned_ms)
    for graph, pins, found in zip(graphs, pinned_ms, together, strict=True):
        (alone,) = least_usage([graph], [pins])
        assert alone.points_ms.keys() == found.points_ms.keys()
        for name, point_ms in alone.points_ms.items():
            np.testing.assert_array_equal(found.points_ms[name], point_ms)
