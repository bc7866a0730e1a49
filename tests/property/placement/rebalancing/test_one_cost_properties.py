"""Planner, rebalancing and definitions price the same places alike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placement.errors import PlacementError
from placement.evaluation.cost import Reader, StandbyRates, TrafficCost, placed_cost
from placement.evaluation.load import Load
from placement.evaluation.single import as_batch
from placement.exact_tree import ExactTask, StandbyTerms, is_tree, place_tree
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import plan
from placement.rebalancing.descent import descend
from placement.rebalancing.moves import RebalanceSettings
from placement.rebalancing.rebalance import improve
from placement.rebalancing.running import RunningQuery, running_load
from placement.records import Plan, Request
from placement.secondaries import StandbyTask, place_secondaries
from placement.settings import Settings
from tests.property.placement import definitions
from tests.property.placement.rebalancing.running_problems import (
    DETECTION_MS,
    PLANNER,
    network,
    primaries_of,
    problem,
    query,
    seeds,
    sizes,
)
from topology.cpu import Linear

FREE = 1e6
"""A limit that nothing breaks, ms."""

MEASURED = Settings(cpu=Linear(ms_per_core=0), operator_load=0.0, crossing_ms=3.0)
"""Nodes are as busy as was measured, whatever is placed there: only then is the price that a tree
is placed by the one that it pays."""


def shared(rng: np.random.Generator, graph: QueryGraph, view: NetworkView) -> QueryGraph:
    """The query, whose sources flow to some nodes anyway."""
    names = [node.name for node in view.hosts]
    return replace(
        graph,
        operators=tuple(
            replace(each, flows_to=frozenset(n for n in names if rng.random() < 0.3))
            if each.pinned is not None and not each.name.endswith("sink")
            else each
            for each in graph.operators
        ),
    )


def measured(rng: np.random.Generator, hosts: int) -> NetworkView:
    view = network(rng, hosts)
    nodes = tuple(
        replace(node, cpu_ms=float(rng.uniform(0, 20)), capacity_cores=1e9) for node in view.nodes
    )
    return NetworkView(nodes=nodes, rtt_ms=view.rtt_ms)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(3, 8), sizes)
def test_a_tree_costs_the_planner_what_it_costs_rebalancing(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = measured(rng, hosts)
    graph = shared(rng, query(rng, "q", size), view)
    assume(is_tree(graph))
    load = Load(view, operator_load=MEASURED.operator_load, cpu=MEASURED.cpu)
    task = ExactTask(
        graph=graph,
        view=view,
        candidates=dict.fromkeys(graph.to_place, view.host_indices),
        price_bytes=load.price_bytes(graph.mean_input_rate),
        standby=StandbyTerms(nodes=view.host_indices, catch_up_ms=FREE),
        crossing_ms=MEASURED.crossing_ms,
    )
    found = place_tree(task)
    assume(math.isfinite(found.cost))
    standby_task = StandbyTask(
        graph=graph, view=view, primaries=found.primaries, detection_ms=0.0, bound_ms=FREE
    )
    standbys = place_secondaries(standby_task, load, {})
    secondaries = {name: standby.node for name, standby in standbys.items()}
    traffic = TrafficCost(graph, view, crossing_ms=MEASURED.crossing_ms)
    batch = as_batch(graph, view, found.primaries, secondaries)
    # The planner counts secondaries 1e-9 dearer than they are.
    cost = placed_cost(traffic, batch, graph, load)
    assert cost == pytest.approx(found.cost, rel=1.1e-9, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(3, 8), sizes, st.booleans())
def test_the_cost_is_that_of_its_definition(seed: int, hosts: int, size: int, is_fed: bool):
    rng = np.random.default_rng(seed)
    view, (plain,), places = problem(rng, hosts, 1, size)
    graph = shared(rng, plain, view)
    readers = [
        Reader(name, f"n{rng.integers(hosts)}", float(rng.uniform(1, 1e4)), bool(rng.integers(2)))
        for name in graph.to_place
    ]
    standbys = {
        name: StandbyRates(
            inputs={link.source: rng.random() * link.rate_bytes_s for link in graph.inputs[name]},
            own=float(rng.uniform(1, 1e3)),
        )
        for name in graph.to_place
    }
    given_standbys = standbys if is_fed else {}
    traffic = TrafficCost(graph, view, crossing_ms=3.0, standbys=given_standbys, readers=readers)
    primaries = primaries_of(graph, places)
    secondaries = {name: places[name][1] for name in graph.to_place}
    expected = definitions.cost(graph, primaries, secondaries, view, 3.0, given_standbys, readers)
    batch = as_batch(graph, view, primaries, secondaries)
    assert float(traffic.of(batch)[0]) == pytest.approx(expected, rel=1e-9)


EAGER = RebalanceSettings(hysteresis_share=0, horizon_s=1e12)


def as_planned(request: Request, made: Plan, view: NetworkView) -> RunningQuery:
    places = {
        each.operator: (view.index[each.primary], view.index[each.secondary])
        for each in made.placements
        if each.query == request.graph.name
    }
    # The measurement knows nothing of replicas that were placed a moment ago.
    return RunningQuery(request=request, places=places, is_measured=False)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(3, 9), sizes, st.integers(1, 3), st.sampled_from((4, 128)))
def test_what_was_just_planned_is_not_rebalanced(
    seed: int, hosts: int, size: int, count: int, exact_hosts: int
):
    """Even without hysteresis, with busy nodes, streams that flow anyway, and crossings."""
    rng = np.random.default_rng(seed)
    view = measured(rng, hosts)
    planner = replace(PLANNER, crossing_ms=3.0, exact_hosts=exact_hosts, candidates=2)
    requests = [
        Request(shared(rng, query(rng, f"q{i}", size), view), 300.0, 300.0, DETECTION_MS)
        for i in range(count)
    ]
    try:
        made = plan(requests, view, settings=planner, rng=rng)
    except PlacementError:
        return
    running = [as_planned(request, made, view) for request in requests]
    found = improve(running, view, state_bytes={}, settings=planner, rebalancing=EAGER)
    assert found.changes == ()


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(3, 8), sizes)
def test_after_a_descent_by_standby_schemes_nothing_is_left_to_do(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = measured(rng, hosts)
    graph = shared(rng, query(rng, "q", size), view)
    request = Request(graph, 300.0, 300.0, DETECTION_MS)
    try:
        made = plan([request], view, settings=PLANNER, rng=rng)
    except PlacementError:
        return
    running = as_planned(request, made, view)
    running.standbys = {
        name: StandbyRates(
            inputs={link.source: rng.random() * link.rate_bytes_s for link in graph.inputs[name]},
            own=float(rng.uniform(1, 1e3)),
        )
        for name in graph.to_place
    }
    running.readers = [Reader(n, f"n{rng.integers(hosts)}", 1e4) for n in graph.to_place]
    descend(running, running_load(view, PLANNER, [running]), view, PLANNER)
    found = improve([running], view, state_bytes={}, settings=PLANNER, rebalancing=EAGER)
    assert found.changes == ()
