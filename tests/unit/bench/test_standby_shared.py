"""What links carry of queries that share a stream, reckoned by hand on a line."""

from __future__ import annotations

import numpy as np
import pytest

from bench.placement_workload import BOUND_MS, Workload
from bench.standby_shared import carried, knowing
from placement.records import Request
from tests.unit.placement.on_a_line import line, query


def load(*streams: dict[str, float]) -> Workload:
    """A query a dictionary; all sources are at 0, nodes at 10 and 20."""
    requests = tuple(
        Request(query(rates, dict.fromkeys((n[0] for n in rates), "s")), 1e9, BOUND_MS, 0.0)
        for rates in streams
    )
    return Workload(view=line({"p": 10, "x": 20}, {"s": 0}), requests=requests)


def test_a_stream_of_two_queries_flows_to_a_host_once() -> None:
    """2 KB/s for 10 and for 20 ms; both queries have their replicas on the same nodes."""
    found = carried(load({"Sa": 2000}, {"Sb": 2000}), {"a": ("p", "x"), "b": ("p", "x")})
    assert found["alone.network_usage"] == pytest.approx(2 * 60)
    assert found["once.network_usage"] == pytest.approx(60)
    assert found["saved_pct"] == pytest.approx(50)


def test_on_other_hosts_nothing_is_shared() -> None:
    found = carried(load({"Sa": 2000}), {"a": ("p", "x")})
    assert found["saved_pct"] == pytest.approx(0)


def test_a_secondary_beside_another_query_s_primary_costs_nothing_more() -> None:
    """The first pair needs 20 + 40, the second one the same two hosts the other way round."""
    found = carried(load({"Sa": 2000}, {"Sb": 2000}), {"a": ("p", "x"), "b": ("x", "p")})
    assert found["alone.network_usage"] == pytest.approx(120)
    assert found["once.network_usage"] == pytest.approx(60)


def test_a_query_is_placed_where_its_source_flows_already() -> None:
    """Idle nodes at 25 would cost a second query less load, but the stream does not flow there."""
    view = line({"p": 10, "x": -10, "y": -25, "z": 25}, {"s": 0})
    both = load({"Sa": 2000}, {"Sb": 2000})
    pairs = knowing(Workload(view=view, requests=both.requests), np.random.default_rng(0))
    assert set(pairs["a"]) == set(pairs["b"])
    assert carried(Workload(view=view, requests=both.requests), pairs)[
        "once.network_usage"
    ] == pytest.approx(40)
