"""The placers of reliable placement §5 that know neither latency nor bound, or not load."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bench.placement_baselines import Replicas, place_at_random, place_round_robin, place_upstream
from placement.errors import NoNode
from placement.evaluation.load import Load
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from topology.cpu import Linear


def network(hosts: int, *running: int) -> NetworkView:
    """Hosts n0, n1, … on a line, with replicas that run already, and a site beside n0."""
    counts = (*running, *[0] * (hosts - len(running)))
    nodes = [
        Node(name=f"n{i}", position_ms=np.array([10.0 * i]), operators=counts[i])
        for i in range(hosts)
    ]
    site = Node(name="site", position_ms=np.array([-1.0]), hosts_operators=False)
    return NetworkView(nodes=(site, *nodes))


def query(name: str = "q", source: str = "site", sink: str = "n3") -> QueryGraph:
    """S feeds a and b, these feed the join j; b sends more."""
    rates = {"Sa": 500, "Sb": 900, "aj": 100, "bj": 300, "jT": 50}
    return QueryGraph(
        name=name,
        operators=(
            Operator(name="S", pinned=source),
            Operator(name="T", pinned=sink),
            *(Operator(name=letter) for letter in "abj"),
        ),
        links=tuple(
            Link(source=pair[0], target=pair[1], rate_bytes_s=rate, tuples_s=1)
            for pair, rate in rates.items()
        ),
    )


def load_of(view: NetworkView) -> Load:
    return Load(view, operator_load=0.1, cpu=Linear(10))


def nodes_of(replicas: Replicas) -> list[str]:
    return [*(replicas.primaries[name] for name in "abj"), *replicas.secondaries.values()]


def test_random_reaches_every_pair_about_equally_often():
    view, rng = network(3), np.random.default_rng(7)
    graph = query(sink="n2")
    pairs: Counter[tuple[str, str]] = Counter()
    for _ in range(400):
        replicas = place_at_random(graph, view, rng)
        pairs.update((replicas.primaries[name], replicas.secondaries[name]) for name in "abj")
    assert len(pairs) == 6
    assert min(pairs.values()) > 150
    assert all(primary != secondary for primary, secondary in pairs)


def test_random_repeats_under_a_seed():
    view = network(9)
    first, second = (place_at_random(query(), view, np.random.default_rng(3)) for _ in range(2))
    assert first == second
    assert first != place_at_random(query(), view, np.random.default_rng(4))


def test_random_and_round_robin_leave_pins_alone_and_sites_empty():
    view, rng = network(4), np.random.default_rng(1)
    for replicas in (
        place_at_random(query(), view, rng),
        place_round_robin(query(), view, load_of(view), rng),
    ):
        assert replicas.primaries["S"] == "site"
        assert replicas.primaries["T"] == "n3"
        assert replicas.secondaries.keys() == {"a", "b", "j"}
        assert "site" not in nodes_of(replicas)
        assert replicas.unprotected == ()


def test_round_robin_spreads_evenly():
    """Table 2 of the paper: variance 0."""
    view, rng = network(5), np.random.default_rng(1)
    load = load_of(view)
    for i in range(10):
        replicas = place_round_robin(query(f"q{i}"), view, load, rng)
        load = load.with_replicas(nodes_of(replicas))
    assert load.replicas.tolist() == [0, 12, 12, 12, 12, 12]


def test_round_robin_fills_the_idle_nodes_first():
    view = network(4, 9, 0, 9, 0)
    replicas = place_round_robin(query(), view, load_of(view), np.random.default_rng(1))
    assert Counter(nodes_of(replicas)) == {"n1": 3, "n3": 3}


def test_round_robin_draws_among_equals():
    view = network(6)
    firsts = {
        place_round_robin(query(), view, load_of(view), np.random.default_rng(seed)).primaries["a"]
        for seed in range(40)
    }
    assert len(firsts) == 6


def test_upstream_stands_by_where_the_largest_input_comes_from():
    primaries = {"S": "site", "T": "n3", "a": "n1", "b": "n2", "j": "n3"}
    replicas = place_upstream(query(), network(4), primaries)
    assert replicas.primaries == primaries
    assert replicas.secondaries["j"] == "n2"


def test_upstream_takes_the_node_nearest_to_a_site():
    """Busy or not."""
    primaries = {"S": "site", "T": "n3", "a": "n1", "b": "n2", "j": "n3"}
    replicas = place_upstream(query(), network(4, 50), primaries)
    assert replicas.secondaries["a"] == replicas.secondaries["b"] == "n0"


def test_upstream_by_the_paper_model_leaves_unprotected_what_stands_at_its_source():
    primaries = {"S": "n1", "T": "n3", "a": "n1", "b": "n2", "j": "n2"}
    graph = query(source="n1")
    paper_model = place_upstream(graph, network(4), primaries)
    assert paper_model.secondaries == {"a": "n1", "b": "n1", "j": "n2"}
    assert paper_model.unprotected == ("a", "j")
    apart = place_upstream(graph, network(4), primaries, apart=True)
    assert apart.secondaries["b"] == "n1"
    assert apart.secondaries["a"] in {"n0", "n2"}
    assert apart.secondaries["j"] in {"n1", "n3"}
    assert apart.unprotected == ()


def test_upstream_apart_passes_over_a_primary_beside_the_site():
    primaries = {"S": "site", "T": "n3", "a": "n0", "b": "n2", "j": "n3"}
    replicas = place_upstream(query(), network(4), primaries, apart=True)
    assert replicas.secondaries["a"] == "n1"
    assert replicas.secondaries["b"] == "n0"


def test_one_node_is_not_enough_for_two_replicas():
    view, rng = network(1), np.random.default_rng(1)
    graph = query(sink="n0")
    alone = dict.fromkeys("STabj", "n0")
    for place in (
        lambda: place_at_random(graph, view, rng),
        lambda: place_round_robin(graph, view, load_of(view), rng),
        lambda: place_upstream(graph, view, alone, apart=True),
    ):
        with pytest.raises(NoNode, match=r"query q, operator a: needs 2 nodes .* has 1"):
            place()
    assert place_upstream(graph, view, alone).unprotected == ("a", "b", "j")
