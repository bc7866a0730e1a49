"""Moves that nobody asks for: proposed, carried out within the budget, and never back and forth."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from orchestrator.control.decide.automation import OVER, PROPOSED, left
from orchestrator.control.decide.moving import REMEMBERED_US
from orchestrator.control.decide.steadiness import AUTOMATION
from orchestrator.records import (
    ApplyPlanRequest,
    AutomationMode,
    MovePlan,
    MoveRequest,
    MoveStep,
    ProposedMoves,
    QuietHours,
)
from orchestrator.records.automation import LASTS_US
from orchestrator.simulation.world.memory_store import OutOfWrites
from orchestrator.store.protocol import AUTOMATION as AUTOMATION_KEY
from orchestrator.store.protocol import MOVES, PROPOSAL
from tests.automated import NORTH, AutomatedCluster
from tests.long_tests import mostly_long
from tests.obedient_cluster import EXECUTORS

MINUTE_US = 60_000_000

SOUTH = "proximity.south_tracks"

pytestmark = pytest.mark.slow


def proposed(cluster: AutomatedCluster) -> ProposedMoves:
    found = cluster.view().proposed
    assert found is not None
    return found.record


def drifting(mode: AutomationMode = AutomationMode.PROPOSE, **wanted: Any) -> AutomatedCluster:
    """A cluster in which the secondary of `NORTH` lies far away for a minute and a half."""
    cluster = AutomatedCluster(mode, **wanted)
    cluster.run(120)
    assert cluster.nodes() == ("london", "amsterdam")
    cluster.farther("amsterdam", 100.0)
    cluster.run(120)
    return cluster


def test_moves_that_are_worth_it_are_proposed_with_figures_and_reasons_and_nothing_moves() -> None:
    cluster = drifting()
    found = proposed(cluster)
    assert [(m.fragment, m.role, m.node) for m in found.file.moves] == [
        (NORTH, "secondary", "paris")
    ]
    (told,) = cluster.told(PROPOSED)
    assert "1 move of an unknown number of bytes; cost 16,060 → 12,176 bytes; gain 3,884" in told
    assert "because round trip amsterdam–" in told
    assert told.endswith("3 more")
    assert cluster.nodes() == ("london", "amsterdam")
    assert not cluster.view().moves
    assert not cluster.view().requests
    cluster.settle()
    assert not cluster.view().proposals


def test_whoever_consents_gets_exactly_the_proposal_and_it_ends() -> None:
    cluster = drifting()
    cluster.ask(ApplyPlanRequest(plan=proposed(cluster).file))
    cluster.consent()
    cluster.settle()
    assert cluster.nodes() == ("london", "paris")
    assert cluster.view().proposed is None
    assert cluster.told(OVER)[0].startswith("it is carried out as rebalance-")


def test_a_proposal_that_drifts_or_gets_old_or_is_wanted_no_longer_ends() -> None:
    drifted = drifting()
    target = next(iter({"lyon", "zurich"} - {*drifted.nodes()}))
    drifted.ask(MoveRequest(fragment=NORTH, role="primary", node=target))
    drifted.consent()
    drifted.settle()
    assert drifted.view().proposed is None
    assert drifted.told(OVER) == [
        f"fragments/{NORTH} was london, amsterdam, and is {target}, amsterdam"
    ]
    old = drifting()
    old.now_us = proposed(old).made_us + LASTS_US - 1
    old.settle()
    assert old.view().proposed is not None
    old.now_us += 1
    old.settle()
    assert old.view().proposed is None
    assert old.told(OVER) == ["nobody has applied it within 15 min"]
    off = drifting()
    off.want(mode=AutomationMode.OFF)
    off.settle()
    assert off.view().proposed is None


def test_a_newer_proposal_replaces_the_one_before_and_none_ends_it() -> None:
    cluster = drifting()
    before = proposed(cluster).file.digest
    cluster.farther("amsterdam", 50.0)
    cluster.run(120)
    assert proposed(cluster).file.digest != before
    assert len(cluster.told(PROPOSED)) == 2
    cluster.farther("amsterdam", -150.0)
    cluster.run(120)
    assert cluster.view().proposed is None
    assert cluster.told(OVER) == ["nothing would be worth it any more"]


def test_what_is_to_be_applied_is_moved_by_the_leader_itself() -> None:
    cluster = drifting(AutomationMode.APPLY)
    assert cluster.nodes() == ("london", "paris")
    (plan,) = (found.record for found in cluster.view().moves.values())
    assert (plan.by, plan.outcome) == (AUTOMATION, "1 of 1 done")
    assert plan.stated is not None
    assert plan.stated.round_trips_ms["amsterdam:london"] == pytest.approx(111.7, abs=0.1)
    assert "paris:zurich" not in plan.stated.round_trips_ms
    assert plan.stated.rates_bytes_s["north"] == 100_000.0
    assert left(cluster.view(), cluster.now_us).moves == 9
    cluster.settle()
    view = cluster.view()
    assert (view.proposed, dict(view.requests), dict(view.proposals)) == (None, {}, {})


def test_switching_to_apply_applies_what_is_proposed() -> None:
    cluster = drifting()
    cluster.want(mode=AutomationMode.APPLY)
    cluster.settle()
    assert cluster.nodes() == ("london", "paris")


@pytest.mark.parametrize("writes", mostly_long(range(10)))
def test_any_leader_goes_on_wherever_one_has_stopped(writes: int) -> None:
    """Every write of the way is the last one of its leader."""
    cluster = AutomatedCluster(AutomationMode.APPLY)
    cluster.run(120)
    cluster.farther("amsterdam", 100.0)
    cluster.run(60)
    cluster.coordinator_store.writes_left = writes
    with suppress(OutOfWrites):
        cluster.run(60)
    cluster.another_leader()
    cluster.run(180)
    assert cluster.nodes() == ("london", "paris")
    assert len(cluster.view().moves) == 1
    assert cluster.view().proposed is None


@pytest.mark.parametrize(
    "wanted",
    [
        {"paused": True},
        {"paused": True, "paused_until_us": 10**12},
        {"quiet": (QuietHours(begin_min=0, end_min=30),)},
        {"mode": AutomationMode.OFF},
        {"moves_an_hour": 0},
    ],
)
def test_nothing_is_looked_for_while_it_rests_and_the_reasons_wait(
    wanted: dict[str, Any],
) -> None:
    cluster = drifting(**{"mode": AutomationMode.APPLY, **wanted})
    assert not cluster.told(PROPOSED)
    assert cluster.nodes() == ("london", "amsterdam")
    cluster.want(
        mode=AutomationMode.APPLY, paused=False, quiet=(), moves_an_hour=10, paused_until_us=None
    )
    cluster.run(200)
    assert cluster.nodes() == ("london", "paris")


def test_a_pause_that_is_over_pauses_nothing() -> None:
    cluster = drifting(AutomationMode.APPLY, paused=True, paused_until_us=5 * MINUTE_US)
    cluster.now_us = 5 * MINUTE_US
    cluster.run(60)
    assert cluster.nodes() == ("london", "paris")


def test_settings_that_cannot_be_read_count_as_off() -> None:
    cluster = AutomatedCluster(AutomationMode.APPLY)
    cluster.server.plant(AUTOMATION_KEY.path, b'{"mode": "sometimes"}')
    cluster.settle()
    assert cluster.view().automation.mode is AutomationMode.OFF
    assert any("automation: is not a AutomationRecord" in p for p in cluster.coordination.problems)


def test_a_proposal_that_cannot_be_read_is_deleted() -> None:
    cluster = drifting()
    cluster.server.plant(PROPOSAL.path, b"{}")
    cluster.settle()
    assert cluster.store.get(PROPOSAL) is None
    assert not cluster.view().invalid


def test_what_the_budget_does_not_cover_is_not_moved() -> None:
    cluster = drifting(AutomationMode.APPLY, bytes_an_hour=1000.0)
    # The size of the state is unknown: it may be as large as the queues of its host.
    assert cluster.nodes() == ("london", "amsterdam")
    assert not cluster.told(PROPOSED)


def test_a_proposal_of_unknown_states_is_not_applied_within_a_small_budget() -> None:
    cluster = drifting()
    assert proposed(cluster).file.moves[0].state_bytes is None
    cluster.want(mode=AutomationMode.APPLY, bytes_an_hour=1000.0)
    cluster.settle()
    assert cluster.nodes() == ("london", "amsterdam")


def test_what_was_moved_counts_for_an_hour() -> None:
    cluster = drifting(AutomationMode.APPLY)
    (plan,) = (found.record for found in cluster.view().moves.values())
    begun_us = plan.steps[0].begun_us
    assert begun_us is not None
    hour_us = 60 * MINUTE_US
    view = cluster.view()
    assert left(view, begun_us + hour_us - 1).moves == 9
    assert left(view, begun_us + hour_us).moves == 10
    assert plan.ended_us is not None
    cluster.now_us = plan.ended_us + REMEMBERED_US
    cluster.settle()
    assert not cluster.view().moves


@pytest.mark.parametrize(
    "wanted",
    [
        {"paused": True},
        {"quiet": (QuietHours(begin_min=0, end_min=59),)},
        {"mode": AutomationMode.OFF},
        {"mode": AutomationMode.PROPOSE},
    ],
)
@pytest.mark.parametrize("by", [AUTOMATION, "local"])
def test_a_pause_stops_what_the_leader_moves_by_itself_and_nothing_else(
    wanted: dict[str, Any], by: str
) -> None:
    cluster = AutomatedCluster(AutomationMode.APPLY)
    cluster.run(120)
    before = {key: cluster.nodes(key) for key in (NORTH, SOUTH)}
    free = {key: next(n for n in EXECUTORS if n not in before[key]) for key in before}
    cluster.hosts[free[NORTH]].cold = True
    steps = tuple(MoveStep(fragment=key, role="secondary", node=node) for key, node in free.items())
    plan = MovePlan(name="there", steps=steps, submitted_us=cluster.now_us, by=by)
    cluster.store.create(MOVES.key("there"), plan)
    cluster.settle()
    cluster.want(**wanted)
    cluster.hosts[free[NORTH]].cold = False
    cluster.settle()
    ended = cluster.view().moves["there"].record
    # A move that was begun is brought to its end.
    assert cluster.nodes(NORTH) == (before[NORTH][0], free[NORTH])
    assert (cluster.nodes(SOUTH) == before[SOUTH]) == (by == AUTOMATION), ended.outcome
    assert ended.ended_us is not None


def test_a_plan_that_a_pause_has_stopped_is_a_reason_to_look_again() -> None:
    cluster = AutomatedCluster(AutomationMode.APPLY)
    cluster.run(120)
    cluster.farther("amsterdam", 100.0)
    cluster.run(60)
    cluster.now_us += MINUTE_US
    while not cluster.view().moves:
        cluster.step()
    cluster.want(paused=True)
    cluster.run(120)
    (plan,) = (found.record for found in cluster.view().moves.values())
    assert "not moved by itself any more: it is paused" in plan.outcome
    assert cluster.nodes() == ("london", "amsterdam")
    cluster.want(paused=False)
    cluster.run(120)
    assert cluster.nodes() == ("london", "paris")
