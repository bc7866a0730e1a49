"""Plans made in rounds beside those of the sequential planner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.placement_methods import OURS
from bench.placement_workload import paper_workload
from placement.bulk import BulkPlan, BulkSettings, plan_in_rounds
from placement.bulk_check import BulkComparison, compare
from placement.planner import plan
from placement.records import Request

WORKLOAD = paper_workload(5, queries=12)


def found(requests: list[Request], round_size: int) -> BulkPlan:
    bulk = BulkSettings(round_size=round_size)
    rng = np.random.default_rng(1)
    return plan_in_rounds(requests, WORKLOAD.view, bulk=bulk, settings=OURS, rng=rng)


def compared(requests: list[Request], plan: BulkPlan, sample: int) -> BulkComparison:
    rng = np.random.default_rng(1)
    return compare(requests, WORKLOAD.view, plan, sample=sample, settings=OURS, rng=rng)


def test_rounds_of_one_query_cost_what_the_sequential_planner_costs() -> None:
    requests = list(WORKLOAD.requests)
    comparison = compared(requests, found(requests, 1), 5)
    assert comparison.queries == 5
    assert comparison.difference == 0
    assert comparison.refused_otherwise == ()


def test_the_sequential_cost_is_that_of_its_plan() -> None:
    requests = list(WORKLOAD.requests)
    comparison = compared(requests, found(requests, 6), len(requests))
    one_by_one = plan(requests, WORKLOAD.view, settings=OURS, rng=np.random.default_rng(1))
    of_itself = compared(
        requests, BulkPlan(plan=one_by_one, refused={}, rounds=1, placings=1), len(requests)
    )
    assert of_itself.difference == 0
    assert comparison.sequential_cost == of_itself.bulk_cost


def test_queries_that_only_one_of_both_refuses_are_named_and_cost_nothing() -> None:
    requests = list(WORKLOAD.requests)
    name = requests[0].graph.name
    one_by_one = found(requests, 1)
    placed = one_by_one.plan
    kept = replace(
        placed,
        placements=tuple(each for each in placed.placements if each.query != name),
        queries=placed.queries[1:],
    )
    comparison = compared(requests, replace(one_by_one, plan=kept, refused={name: "no"}), 4)
    assert comparison.refused_otherwise == (name,)
    assert comparison.difference == pytest.approx(0, abs=0.2)
    assert comparison.bulk_cost > 0
