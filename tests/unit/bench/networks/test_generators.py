"""Networks that are drawn: their sizes, their names, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.networks.generators import (
    GeneratorError,
    TransitStub,
    domain_of,
    grid,
    line,
    ring,
    transit_stub,
    transit_stub_graph,
    two_clusters,
)


def test_the_default_is_the_papers_hundred_nodes():
    matrix = transit_stub(TransitStub(), np.random.default_rng(1))
    assert len(matrix.names) == TransitStub().nodes == 100
    assert matrix.names[:5] == ("t0.0", "t0.1", "t0.2", "t0.3", "s0.0")
    assert domain_of("s11.7") == "s11"
    assert len(set(map(domain_of, matrix.names))) == 1 + 12


def test_a_stub_is_near_itself_and_far_from_others():
    rtt_ms = transit_stub(TransitStub(), np.random.default_rng(2)).rtt_ms
    first, other = slice(4, 12), slice(12, 20)
    within = rtt_ms[first, first]
    # A walk through all eight nodes of a stub at most, each step across its square at most.
    assert within.max() <= 2 * 7 * 6 * np.sqrt(2)
    # Down one up-link and up another: each as long as 30 ms less half of the stub's diagonal.
    assert rtt_ms[first, other].min() >= 2 * 2 * (30 - 3 * np.sqrt(2))


def test_every_kind_of_link_is_drawn():
    bare = TransitStub(transit_domains=3, transit_nodes=2, stubs_per_transit_node=2, stub_nodes=3)
    extra = TransitStub(
        transit_domains=3,
        transit_nodes=2,
        stubs_per_transit_node=2,
        stub_nodes=3,
        extra_transit_stub=4,
        extra_stub_stub=5,
    )
    links = [
        transit_stub_graph(parameters, np.random.default_rng(3)).one_way_ms.nnz / 2
        for parameters in (bare, extra)
    ]
    assert links[0] < links[1] <= links[0] + 9


def test_without_any_chance_of_a_link_domains_are_trees():
    sparse = TransitStub(transit_domains=2, domain_edge=0, transit_edge=0, stub_edge=0)
    graph = transit_stub_graph(sparse, np.random.default_rng(4))
    assert graph.is_connected()
    assert graph.one_way_ms.nnz / 2 == sparse.nodes - 1


def test_links_are_as_long_as_their_ends_are_apart():
    graph = transit_stub_graph(TransitStub(), np.random.default_rng(5))
    links = graph.one_way_ms.tocoo()
    apart = np.linalg.norm(graph.places[links.row] - graph.places[links.col], axis=1)
    assert np.allclose(links.data, apart)


@pytest.mark.slow
def test_ten_thousand_nodes_are_drawn_as_a_graph():
    large = TransitStub(
        transit_domains=10, transit_nodes=10, stubs_per_transit_node=5, stub_nodes=20
    )
    graph = transit_stub_graph(large, np.random.default_rng(6))
    assert len(graph.names) == large.nodes == 10_100
    assert graph.latencies_from([0, 10_099]).shape == (2, 10_100)


def test_lattices_measure_in_steps():
    assert line(4, 10).rtt_ms[0].tolist() == [0, 10, 20, 30]
    # Two rows of three: numbers go down the columns.
    assert grid(2, 3, 10).rtt_ms[0].tolist() == [0, 10, 10, 20, 20, 30]
    assert ring(5, 10).rtt_ms[0].tolist() == [0, 10, 20, 20, 10]
    assert two_clusters(2, 1, 50).rtt_ms[0].tolist() == [0, 1, 50, 50]
    assert line(1, 10).names == ("n0",)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"transit_domains": 0}, "transit_domains 0 is not ≥ 1"),
        ({"stub_nodes": -1}, "stub_nodes -1 is not ≥ 1"),
        ({"stubs_per_transit_node": -1}, "stubs_per_transit_node -1 is not ≥ 0"),
        ({"stub_edge": 1.5}, r"stub_edge 1.5 is not a probability in \[0, 1\]"),
        ({"transit_edge": float("nan")}, "transit_edge nan is not a probability"),
        ({"stub_extent_ms": 0.0}, "stub_extent_ms 0.0 is not a number of ms > 0"),
        ({"stub_distance_ms": float("inf")}, "stub_distance_ms inf is not a number of ms > 0"),
        ({"stubs_per_transit_node": 0, "extra_transit_stub": 1}, "not possible without stubs"),
        (
            {"transit_nodes": 1, "stubs_per_transit_node": 1, "extra_stub_stub": 1},
            "extra_stub_stub 1 is not possible without two stubs",
        ),
    ],
)
def test_a_parameter_of_which_no_network_can_be_made_is_refused(
    parameters: dict[str, Any], message: str
):
    with pytest.raises(GeneratorError, match=message):
        TransitStub(**parameters)


def test_lattices_refuse_what_is_no_metric():
    with pytest.raises(GeneratorError, match="nodes 0 is not ≥ 1"):
        ring(0, 10)
    with pytest.raises(GeneratorError, match="latency -1 is not a number of ms > 0"):
        line(3, -1)
    with pytest.raises(GeneratorError, match="near_ms 30 is not ≤ 2 × far_ms = 20"):
        two_clusters(2, 30, 10)
