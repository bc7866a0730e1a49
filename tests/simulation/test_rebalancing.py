"""Plans of moves while tuples flow: carried out and taken back, nothing is lost or repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import api
from orchestrator.api.plan_files import apply_plan, move_plans, rebalance, undo
from orchestrator.control.observe.view import read_view
from orchestrator.records import ApplyPlanRequest
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import FRAGMENTS, NODES, SETTLE_S, Input
from tests.simulation.test_moving import (
    assert_exact,
    cluster,
    free,
    nodes,
    passing,
    records,
    settle,
)


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=14)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    made = Scenario(recording.manifests(tmp_path), seed=1, check_invariants=True, settle_s=SETTLE_S)
    made.begin()
    made.run_for(1)
    return made


def carried_out(scenario: Scenario, plan: api.PlanFile) -> None:
    wish = ApplyPlanRequest(plan=plan, at_a_time=2, throttle_bytes_s=1e6)
    apply_plan(cluster(scenario), wish, wait=False, on_progress=passing(scenario))
    settle(scenario)


def test_what_a_plan_has_moved_is_taken_back(scenario: Scenario, recording: Input) -> None:
    before = {name: nodes(record) for name, record in records(scenario).items()}
    target = next(free(scenario, "pairs"))
    api.move(
        cluster(scenario), "pairs", "primary", target, wait=False, on_progress=passing(scenario)
    )
    settle(scenario)
    carried_out(scenario, undo(cluster(scenario), on_progress=passing(scenario)))
    assert {name: nodes(record) for name, record in records(scenario).items()} == before
    undone, moved = move_plans(cluster(scenario)).plans
    assert (undone.undo_of, undone.outcome) == (moved.name, "1 of 1 done")
    assert_exact(scenario.finish(), recording)


def test_what_is_worth_it_is_moved_and_nothing_is_left_to_move(
    scenario: Scenario, recording: Input
) -> None:
    """Every fragment is moved to where it costs most; the plan brings back what is worth it."""
    for name in FRAGMENTS:
        usage: dict[str, float] = {}
        for node in free(scenario, name):
            planned = api.move(
                cluster(scenario), name, "primary", node, dry_run=True,
                on_progress=passing(scenario),
            )  # fmt: skip
            usage[node] = (planned.moves[0].latency_ms or (0.0, 0.0))[1]
        worst = max(usage, key=lambda node: (usage[node], node))
        api.move(
            cluster(scenario), name, "primary", worst, wait=False, on_progress=passing(scenario)
        )
        settle(scenario)
    plan = rebalance(cluster(scenario), on_progress=passing(scenario))
    assert plan.moves
    assert plan.rebalancing is not None
    assert plan.rebalancing.cost_bytes[1] < plan.rebalancing.cost_bytes[0]
    carried_out(scenario, plan)
    view = read_view(scenario.store)
    expected = {e.fragment: (e.primary, e.secondary) for e in plan.rebalancing.after}
    assert {key: nodes(found.record) for key, found in view.fragments.items()} == expected
    assert not rebalance(cluster(scenario), on_progress=passing(scenario)).moves
    assert {node for pair in expected.values() for node in pair} <= {*NODES}
    assert_exact(scenario.finish(), recording)
