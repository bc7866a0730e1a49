"""Links and the latencies along their shortest paths."""

from __future__ import annotations

import numpy as np
import pytest

from bench.networks import latency_graph
from bench.networks.latency_graph import LatencyGraph, TooManyNodes, Unreachable, links


def graph(names: str, ends: list[tuple[str, str]], one_way_ms: list[float]) -> LatencyGraph:
    """Nodes named by single letters."""
    numbers = np.array([[names.index(a), names.index(b)] for a, b in ends])
    return LatencyGraph(
        names=tuple(names),
        domains=tuple(names),
        places=np.zeros((len(names), 2)),
        one_way_ms=links(len(names), numbers, np.array(one_way_ms)),
    )


def test_a_pair_is_as_far_apart_as_its_quickest_way():
    triangle = graph("abc", [("a", "b"), ("b", "c"), ("a", "c")], [1.0, 2.0, 10.0])
    assert triangle.latencies_from([0]).tolist() == [[0.0, 1.0, 3.0]]
    assert triangle.latency_matrix().rtt_ms[0].tolist() == [0.0, 2.0, 6.0]


def test_of_parallel_links_the_quickest_counts_in_whatever_direction_it_was_given():
    doubled = graph("ab", [("a", "b"), ("b", "a"), ("a", "b")], [5.0, 3.0, 4.0])
    assert doubled.one_way_ms.toarray().tolist() == [[0.0, 3.0], [3.0, 0.0]]


def test_paths_lead_through_nodes_that_the_table_leaves_out():
    line = graph("abc", [("a", "b"), ("b", "c")], [1.0, 2.0])
    matrix = line.latency_matrix([2, 0])
    assert matrix.names == ("c", "a")
    assert matrix.one_way_ms("a", "c") == 3.0


def test_an_unreachable_pair_is_named():
    parts = graph("abcd", [("a", "b"), ("c", "d")], [1.0, 1.0])
    assert not parts.is_connected()
    with pytest.raises(Unreachable, match="no path joins 'b' and 'c'") as raised:
        parts.latencies_from([1])
    assert (raised.value.source, raised.value.target) == ("b", "c")


def test_a_table_that_is_too_large_is_refused_but_its_rows_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(latency_graph, "DENSE_NODES", 2)
    line = graph("abc", [("a", "b"), ("b", "c")], [1.0, 2.0])
    with pytest.raises(TooManyNodes, match=r"3 × 3 .* use latencies_from"):
        line.latency_matrix()
    assert line.latencies_from([1]).tolist() == [[1.0, 0.0, 2.0]]
