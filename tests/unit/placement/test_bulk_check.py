"""Plans made in rounds beside those of the sequential planner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.placement_methods import OURS
from bench.placement_workload import paper_workload
from placement.bulk import BulkPlan, BulkSettings, plan_in_rounds
from placement.bulk_check import BulkComparison, compare
from placement.evaluation.load import Load
from placement.records import Request

WORKLOAD = paper_workload(5, queries=12)


def found(requests: list[Request], round_size: int) -> BulkPlan:
    bulk = BulkSettings(round_size=round_size)
    rng = np.random.default_rng(1)
    return plan_in_rounds(requests, WORKLOAD.view, bulk=bulk, settings=OURS, rng=rng)


def compared(requests: list[Request], plan: BulkPlan, sample: int, seed: int = 1) -> BulkComparison:
    rng = np.random.default_rng(seed)
    return compare(requests, WORKLOAD.view, plan, sample=sample, settings=OURS, rng=rng)


@pytest.mark.parametrize("seed", range(3))
def test_rounds_of_one_query_cost_what_the_sequential_planner_costs(seed: int) -> None:
    requests = list(WORKLOAD.requests)
    comparison = compared(requests, found(requests, 1), 5, seed)
    assert comparison.queries == 5
    assert comparison.difference == 0
    assert comparison.refused_otherwise == ()


def test_the_costs_of_all_queries_are_those_of_the_plan() -> None:
    requests = list(WORKLOAD.requests)
    plan = found(requests, 6)
    load = Load(WORKLOAD.view, operator_load=OURS.operator_load, cpu=OURS.cpu)
    for request in requests:
        own = [each for each in plan.plan.placements if each.query == request.graph.name]
        pairs = {each.operator: (each.primary, each.secondary) for each in own}
        load = load.with_operators(request.graph, pairs)
    usage = sum(figures.network_usage for figures in plan.plan.queries)
    comparison = compared(requests, plan, len(requests))
    assert comparison.bulk_cost == pytest.approx(usage + load.total_price_bytes())
    assert comparison.sequential_cost <= comparison.bulk_cost


def refusing(plan: BulkPlan, name: str) -> BulkPlan:
    """The plan, had it refused a query."""
    placed = plan.plan
    kept = replace(
        placed,
        placements=tuple(each for each in placed.placements if each.query != name),
        queries=tuple(each for each in placed.queries if each.query != name),
    )
    return replace(plan, plan=kept, refused={name: "no"})


def test_queries_that_only_one_of_both_refuses_are_named_and_cost_nothing() -> None:
    requests = list(WORKLOAD.requests)
    # The last one, for the others are placed around it.
    name = requests[-1].graph.name
    comparison = compared(requests, refusing(found(requests, 1), name), len(requests))
    assert comparison.refused_otherwise == (name,)
    assert comparison.difference == 0
    assert comparison.bulk_cost > 0


def test_any_query_may_be_in_the_sample() -> None:
    requests = list(WORKLOAD.requests)
    plan = refusing(found(requests, 1), requests[-1].graph.name)
    noticed = [bool(compared(requests, plan, 3, seed).refused_otherwise) for seed in range(20)]
    assert any(noticed)
    assert not all(noticed)
