"""What holds for plans in rounds, on random networks and random queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.bulk import (
    Around,
    BulkPlan,
    BulkSettings,
    Candidate,
    Outcome,
    PlaceRound,
    place_apart,
    plan_in_rounds,
)
from placement.errors import BoundUnattainable, DeadlineUnattainable, NoNode
from placement.evaluation.load import ROUNDING_CORES, Load
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import plan
from placement.records import Plan, Request
from placement.secondaries import SecondarySearch
from placement.settings import Placer, Settings
from tests.property.placement import definitions
from tests.property.placement.random_problems import network, query, tree
from topology.cpu import Linear

seeds = st.integers(0, 2**32 - 1)
query_counts = st.integers(1, 6)
round_sizes = st.integers(1, 7)
excesses = st.integers(0, 2)

OURS = Settings(cpu=Linear(10.0), operator_load=1.0)
PAPERS = Settings(
    placer=Placer.NEAREST,
    secondary_search=SecondarySearch.OUTWARDS,
    cpu=Linear(10.0),
    operator_load=1.0,
)
ways = st.sampled_from([OURS, PAPERS])
CAPACITY_CORES = (0.05, 0.6)
"""Of nodes in the tests of capacity: room for some of the queries."""


def requests_of(
    rng: np.random.Generator, count: int, bound_ms: float = 1e6, deadline_ms: float = 1e6
) -> list[Request]:
    graphs = [
        (tree if rng.integers(2) else query)(rng, f"q{i}", int(rng.integers(1, 4)))
        for i in range(count)
    ]
    return [Request(graph, deadline_ms, bound_ms, 0.0) for graph in graphs]


def in_rounds(
    requests: Sequence[Request],
    view: NetworkView,
    *,
    way: Settings = OURS,
    round_size: int = 100,
    excess: int = 1,
    place: PlaceRound | None = None,
) -> BulkPlan:
    return plan_in_rounds(
        requests,
        view,
        bulk=BulkSettings(round_size=round_size, excess=excess),
        settings=way,
        rng=np.random.default_rng(5),
        place=place,
    )


def divided(view: NetworkView, way: Settings, parts: int, rng: np.random.Generator) -> PlaceRound:
    """Deals a round out to several workers, whose results come in any order."""

    def shuffled(count: int) -> list[int]:
        return rng.permutation(count).tolist()

    def place(queries: Sequence[Candidate], around: Around) -> Iterable[Outcome]:
        worker = rng.integers(parts, size=len(queries))
        outcomes: list[Outcome] = []
        for one in range(parts):
            share = [queries[i] for i in shuffled(len(queries)) if worker[i] == one]
            outcomes += place_apart(share, around, view, way)
        return [outcomes[i] for i in shuffled(len(outcomes))]

    return place


def graphs_placed(requests: Sequence[Request], found: BulkPlan) -> list[QueryGraph]:
    return [each.graph for each in requests if each.graph.name not in found.refused]


@settings(deadline=None, max_examples=20)
@given(seed=seeds, count=query_counts, way=ways)
def test_rounds_of_one_are_the_planner(seed: int, count: int, way: Settings) -> None:
    """But that ours improves all queries once more when all are placed."""
    rng = np.random.default_rng(seed)
    view, requests = network(rng, 5), requests_of(rng, count)
    found = in_rounds(requests, view, way=way, round_size=1)
    assert not found.refused
    planned = plan(requests, view, settings=way, rng=np.random.default_rng(5))
    if way.placer is Placer.NEAREST or count == 1:
        assert found.plan == planned
    assert _cost(planned, requests, view, way) <= _cost(found.plan, requests, view, way) * (
        1 + 1e-9
    )


def _cost(made: Plan, requests: Sequence[Request], view: NetworkView, way: Settings) -> float:
    load = Load(view, operator_load=way.operator_load, cpu=way.cpu)
    pairs = {each.operator: (each.primary, each.secondary) for each in made.placements}
    for request in requests:
        load = load.with_operators(request.graph, {n: pairs[n] for n in request.graph.to_place})
    return sum(each.network_usage for each in made.queries) + load.total_price_bytes()


@settings(deadline=None, max_examples=20)
@given(seed=seeds, size=round_sizes, excess=excesses, parts=st.integers(1, 4), way=ways)
def test_how_a_round_is_divided_makes_no_difference(
    seed: int, size: int, excess: int, parts: int, way: Settings
) -> None:
    rng = np.random.default_rng(seed)
    view = network(rng, 6, capacity_cores=CAPACITY_CORES)
    requests = requests_of(rng, 6, bound_ms=60.0)
    alone = in_rounds(requests, view, way=way, round_size=size, excess=excess)
    place = divided(view, way, parts, rng)
    assert alone == in_rounds(requests, view, way=way, round_size=size, excess=excess, place=place)


@settings(deadline=None, max_examples=15)
@given(seed=seeds, count=query_counts, size=round_sizes, excess=excesses, way=ways)
def test_every_query_is_placed_or_refused_once_and_rounds_end(
    seed: int, count: int, size: int, excess: int, way: Settings
) -> None:
    rng = np.random.default_rng(seed)
    view = network(rng, 4, capacity_cores=CAPACITY_CORES)
    requests = requests_of(rng, count, bound_ms=60.0, deadline_ms=300.0)
    found = in_rounds(requests, view, way=way, round_size=size, excess=excess)
    names = [request.graph.name for request in requests]
    answered = [each.query for each in found.plan.queries]
    assert answered == [name for name in names if name not in found.refused]
    assert list(found.refused) == [name for name in names if name not in answered]
    # A round places one query at least.
    assert -(-count // size) <= found.rounds <= count
    assert count <= found.placings <= found.rounds * size


@settings(deadline=None, max_examples=20)
@given(seed=seeds, size=round_sizes, excess=excesses, way=ways)
def test_bounds_deadlines_and_failure_domains_are_kept(
    seed: int, size: int, excess: int, way: Settings
) -> None:
    rng = np.random.default_rng(seed)
    view = network(rng, 7, domains=3)
    requests = requests_of(rng, 5, bound_ms=50.0, deadline_ms=200.0)
    found = in_rounds(requests, view, way=way, round_size=size, excess=excess)
    for figures in found.plan.queries:
        assert figures.recovery_ms <= 50.0
        assert figures.latency_ms <= 200.0
    for each in found.plan.placements:
        primary, secondary = view.node(each.primary), view.node(each.secondary)
        assert primary.hosts_operators
        assert secondary.hosts_operators
        assert primary is not secondary
        if way is OURS:
            assert definitions.apart(view, each.primary, each.secondary)
    pinned = {
        operator.name: operator.pinned
        for graph in graphs_placed(requests, found)
        for operator in graph.operators
        if operator.pinned is not None
    }
    assert not pinned.keys() & {each.operator for each in found.plan.placements}
    on_path = [step.split(" @ ") for figures in found.plan.queries for step in figures.path]
    assert all(pinned.get(name, node) == node for name, node in on_path)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, size=round_sizes, excess=excesses)
def test_capacity_is_kept(seed: int, size: int, excess: int) -> None:
    """Our placer's; the paper's knows of no capacity."""
    rng = np.random.default_rng(seed)
    view = network(rng, 5, capacity_cores=CAPACITY_CORES)
    requests = requests_of(rng, 6)
    found = in_rounds(requests, view, round_size=size, excess=excess)
    cores = {
        name: graph.cores(name)
        for graph in graphs_placed(requests, found)
        for name in graph.to_place
    }
    used = dict.fromkeys(view.by_name, 0.0)
    for each in found.plan.placements:
        for node in (each.primary, each.secondary):
            used[node] += cores[each.operator]
    for name, node in view.by_name.items():
        assert used[name] <= node.capacity_cores + 1e3 * ROUNDING_CORES


@settings(deadline=None, max_examples=20)
@given(seed=seeds, way=ways)
def test_a_query_is_refused_for_what_the_planner_would_refuse_it_for(
    seed: int, way: Settings
) -> None:
    """Of several, the first: those behind meet another load."""
    rng = np.random.default_rng(seed)
    view, requests = network(rng, 4), requests_of(rng, 1, bound_ms=20.0, deadline_ms=100.0)
    found = in_rounds(requests, view, way=way)
    if found.refused:
        with pytest.raises((NoNode, BoundUnattainable, DeadlineUnattainable)) as refusal:
            plan(requests, view, settings=way, rng=np.random.default_rng(5))
        assert found.refused == {"q0": str(refusal.value)}
        assert "query q0" in str(refusal.value)
    else:
        assert found.plan == plan(requests, view, settings=way, rng=np.random.default_rng(5))
