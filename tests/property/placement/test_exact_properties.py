"""Exact placement against all placements there are, and against every other placer."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.placement_assessment import assess
from bench.placement_baselines import place_at_random, place_round_robin, place_upstream
from placement.dag_model import DagTask
from placement.evaluation.load import Load
from placement.exact import place_exactly
from placement.exact_dag import solve_dag
from placement.exact_tree import ExactTask, StandbyTerms, is_tree, place_tree
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import plan
from placement.primaries import PrimaryTask, nearest_nodes
from placement.records import Request
from placement.secondaries import SecondarySearch
from placement.settings import Placer, Settings
from tests.property.placement import definitions
from tests.property.placement.random_problems import network, query, tree
from topology.cpu import Linear

Places = dict[str, str]

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)
bounds_ms = st.one_of(st.just(math.inf), st.floats(0, 60))


def load_of(view: NetworkView) -> Load:
    return Load(view, operator_load=0.2, cpu=Linear(10))


def task_of(rng: np.random.Generator, graph: QueryGraph, view: NetworkView) -> ExactTask:
    """With some of the hosts as candidates of each operator, and as places where sources flow."""
    hosts = len(view.hosts)
    flows_to = rng.random((len(graph.operators), hosts)) < rng.choice([0.0, 0.4])
    operators = tuple(
        replace(each, flows_to=frozenset(n.name for n, f in zip(view.hosts, at, strict=True) if f))
        if each.pinned is not None
        else each
        for each, at in zip(graph.operators, flows_to, strict=True)
    )
    return ExactTask(
        graph=replace(graph, operators=operators),
        view=view,
        candidates={
            name: rng.choice(view.host_indices, size=rng.integers(1, hosts + 1), replace=False)
            for name in graph.to_place
        },
        price_bytes=rng.uniform(0, 20, size=len(view.nodes)),
        crossing_ms=max(float(rng.uniform(-10, 20)), 0.0),
    )


def every_placement(task: ExactTask) -> list[Places]:
    pinned = {o.name: o.pinned for o in task.graph.operators if o.pinned is not None}
    choices = [task.view.names(task.candidates[name]) for name in task.graph.to_place]
    return [
        pinned | dict(zip(task.graph.to_place, nodes, strict=True)) for nodes in product(*choices)
    ]


def load_price(task: ExactTask, node: str) -> float:
    return float(task.price_bytes[task.view.index[node]])


def cost_of(task: ExactTask, primaries: Places) -> float:
    """The objective of `exact_tree`, term by term."""
    graph, view = task.graph, task.view
    paid = [
        link
        for link in graph.links
        if primaries[link.target] not in graph.by_name[link.source].flows_to
    ]
    cost = sum(
        definitions.link_usage(
            link.rate_bytes_s, primaries[link.source], primaries[link.target], view
        )
        for link in paid
    )
    cost += sum(
        link.rate_bytes_s * task.crossing_ms / 1e3
        for link in paid
        if primaries[link.source] != primaries[link.target]
    )
    for name in graph.to_place:
        cost += load_price(task, primaries[name])
        cost += 0.0 if task.standby is None else standby_cost(task, task.standby, name, primaries)
    together = any(
        primaries[link.source] == primaries[link.target]
        for link in graph.links
        if link.source in graph.to_place and link.target in graph.to_place
    )
    return math.inf if task.apart and together else cost


def standby_cost(task: ExactTask, standby: StandbyTerms, operator: str, primaries: Places) -> float:
    """The cheapest secondary under Active Standby, one node after the other."""
    graph, view = task.graph, task.view
    home = view.node(primaries[operator])
    costs = [math.inf]
    for name in view.names(standby.nodes):
        is_apart = definitions.apart(view, name, home.name)
        delays_ms = [
            view.one_way_ms(primaries[link.source], name) for link in graph.inputs[operator]
        ]
        if not is_apart or max(delays_ms) > standby.catch_up_ms:
            continue
        usage = sum(
            definitions.link_usage(link.rate_bytes_s, primaries[link.source], name, view)
            for link in graph.inputs[operator]
            if name not in graph.by_name[link.source].flows_to
        )
        costs.append(usage + load_price(task, name))
    return min(costs)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, st.booleans())
def test_primaries_equal_brute_force(seed: int, size: int, apart: bool):
    rng = np.random.default_rng(seed)
    task = replace(task_of(rng, tree(rng, "q", size), network(rng, 3)), apart=apart)
    found = place_tree(task)
    least = min(cost_of(task, primaries) for primaries in every_placement(task))
    assert found.cost == pytest.approx(least)
    assert cost_of(task, found.primaries) == pytest.approx(least)


@settings(max_examples=80, deadline=None)
@given(
    seeds,
    st.integers(1, 3),
    st.integers(4, 6),
    st.integers(1, 3),
    st.integers(0, 4),
    bounds_ms,
    st.booleans(),
)
def test_primaries_with_secondaries_equal_brute_force(
    seed: int,
    size: int,
    hosts: int,
    domains: int,
    labels: int,
    catch_up_ms: float,
    apart: bool,
):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts, domains=domains, labels=labels)
    nodes = rng.choice(view.host_indices, size=rng.integers(1, hosts + 1), replace=False)
    task = replace(
        task_of(rng, tree(rng, "q", size), view),
        standby=StandbyTerms(nodes=nodes, catch_up_ms=catch_up_ms),
        apart=apart,
    )
    found = place_tree(task)
    least = min(cost_of(task, primaries) for primaries in every_placement(task))
    assert found.cost == pytest.approx(least)
    assert cost_of(task, found.primaries) == pytest.approx(least)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 6), st.booleans())
def test_both_solvers_agree_on_trees(seed: int, size: int, apart: bool):
    rng = np.random.default_rng(seed)
    view = network(rng, 6)
    task = task_of(rng, tree(rng, "q", size), view)
    # All hosts: with few candidates, operators apart may have no place.
    anywhere = dict.fromkeys(task.graph.to_place, view.host_indices)
    task = replace(task, candidates=anywhere, apart=apart)
    milp = solve_dag(
        DagTask(
            graph=task.graph,
            view=view,
            candidates=anywhere,
            price_bytes=task.price_bytes,
            apart=apart,
            crossing_ms=task.crossing_ms,
        )
    )
    found = place_tree(task)
    assert found.cost == pytest.approx(milp.cost, rel=1e-5)
    assert found.primaries == milp.primaries or found.cost == pytest.approx(milp.cost)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 6), sizes)
def test_no_other_placer_has_cheaper_primaries(seed: int, hosts: int, size: int):
    rng = np.random.default_rng(seed)
    view = network(rng, hosts)
    graph = query(rng, "q", size)
    load = load_of(view)
    task = ExactTask(
        graph=graph,
        view=view,
        candidates=dict.fromkeys(graph.to_place, view.host_indices),
        price_bytes=load.price_bytes(graph.mean_input_rate),
    )
    cost = place_exactly(task, load).cost
    points_ms = {name: rng.uniform(0, 100, size=2) for name in graph.to_place}
    nearest = nearest_nodes(
        PrimaryTask(request=Request(graph, 1e9, 1e9, 0), points_ms=points_ms, view=view, load=load)
    )
    others = [
        place_at_random(graph, view, rng).primaries,
        place_round_robin(graph, view, load, rng).primaries,
        nearest,
    ]
    for primaries in others:
        assert cost <= cost_of(task, primaries) * (1 + 1e-5)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 7), sizes)
def test_no_other_plan_uses_less_network(seed: int, hosts: int, size: int):
    """Load and bounds aside, on a tree: primaries and standby traffic together."""
    rng = np.random.default_rng(seed)
    view = network(rng, hosts, domains=1, idle=True)
    graph = tree(rng, "q", size)
    assert is_tree(graph)
    request = Request(graph, 1e6, 1e6, 0)
    ours = plan([request], view, settings=Settings(operator_load=0), rng=np.random.default_rng(1))
    paper = Settings(
        operator_load=0, placer=Placer.NEAREST, secondary_search=SecondarySearch.OUTWARDS
    )
    usage = ours.queries[0].network_usage
    papers = plan([request], view, settings=paper, rng=np.random.default_rng(1))
    assert usage <= papers.queries[0].network_usage * (1 + 1e-9)
    primaries = {p.operator: p.primary for p in papers.placements}
    primaries |= {o.name: o.pinned for o in graph.operators if o.pinned is not None}
    for other in (
        place_at_random(graph, view, rng),
        place_round_robin(graph, view, load_of(view), rng),
        place_upstream(graph, view, primaries, apart=True),
    ):
        replicas = {
            name: (other.primaries[name], other.secondaries[name]) for name in graph.to_place
        }
        assert usage <= assess([request], replicas, view).network_usage[0] * (1 + 1e-9)
