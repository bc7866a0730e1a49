"""Moves that nobody asks for do not flap: what was moved stays, and comes back for a reason."""

from __future__ import annotations

import math

import msgspec
import pytest

from orchestrator.control.decide import steadiness as subject
from orchestrator.control.decide.automation import PROPOSED
from orchestrator.control.decide.rebalancing import rebalance
from orchestrator.control.decide.steadiness import AUTOMATION, HORIZON_US, HOUR_US, Steadiness
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    AutomationMode,
    MovePlan,
    MoveStep,
    RebalancePlan,
    StatedFigures,
)
from orchestrator.store.protocol import MOVES
from placement.rebalancing.moves import RebalanceSettings
from tests.automated import AutomatedCluster

pytestmark = pytest.mark.slow

ALERTS, HOME = "proximity.alerts", "london"

EAGER = RebalanceSettings(hysteresis_share=0, horizon_s=1e12)
"""Whatever lowers the cost is worth it."""


def eager(_: ClusterView) -> RebalanceSettings:
    return EAGER


def always(_: object) -> bool:
    return True


def moved(by: str, stated: StatedFigures | None, node: str = "zurich") -> AutomatedCluster:
    """A cluster in which the primary of the alerts has just been moved far away."""
    cluster = AutomatedCluster(AutomationMode.APPLY)
    plan = MovePlan(
        name="away",
        steps=(MoveStep(fragment=ALERTS, role="primary", node=node),),
        submitted_us=cluster.now_us,
        by=by,
        stated=stated,
    )
    cluster.store.create(MOVES.key("away"), plan)
    cluster.settle()
    cluster.want(mode=AutomationMode.OFF)
    assert all(step.done for step in cluster.view().moves["away"].record.steps)
    return cluster


def planned(view: ClusterView, now_us: int) -> RebalancePlan:
    plans = [found.record for found in view.moves.values()]
    return rebalance(view, (), margins=EAGER, steadiness=Steadiness(plans, now_us))


def goes_home(plan: RebalancePlan) -> bool:
    """Whether the primary of the alerts goes back to where it was."""
    return {each.fragment: each.primary for each in plan.after}[ALERTS] == HOME


def as_it_is(view: ClusterView, uncertainty: float, by_ms: float = 0.0) -> StatedFigures:
    """What would have been stated by the measurements of now, with every round trip so much
    longer."""
    plan = rebalance(view, (), margins=EAGER)
    return StatedFigures(
        uncertainty_bytes=(uncertainty,),
        round_trips_ms={
            f"{each.source}:{each.target}": each.rtt_ms + by_ms for each in plan.round_trips
        },
        rates_bytes_s={each.stream: each.bytes_s for each in plan.rates},
    )


def restated(cluster: AutomatedCluster, stated: StatedFigures) -> ClusterView:
    found = cluster.view().moves["away"]
    record = msgspec.structs.replace(found.record, stated=stated)
    cluster.store.update(MOVES.key("away"), record, found.version)
    return cluster.view()


def test_what_somebody_has_moved_is_not_taken_back_for_an_hour_without_figures() -> None:
    cluster = moved("somebody", None)
    view, begun_us = cluster.view(), cluster.now_us
    assert goes_home(rebalance(view, (), margins=EAGER))
    plan = planned(view, begun_us)
    assert not goes_home(plan)
    assert plan.rejected["undoes a move"] > 0
    assert any("nobody has given figures for" in each.problem for each in plan.refused)
    assert goes_home(planned(view, begun_us + HOUR_US))


def test_a_move_is_taken_back_only_if_measurements_say_otherwise_since() -> None:
    cluster = moved("somebody", None)
    same = planned(restated(cluster, as_it_is(cluster.view(), 0.0)), cluster.now_us)
    assert not goes_home(same)
    told = next(each.problem for each in same.refused if each.reason == "undoes a move")
    assert "primary → zurich of away: taking it back would have gained" in told
    other = as_it_is(cluster.view(), 1.0, by_ms=40.0)
    changed = planned(restated(cluster, other), cluster.now_us)
    assert goes_home(changed)
    (undoes,) = {move.undoes for move in changed.moves if move.undoes}
    assert undoes.startswith("primary → zurich of away: taking it back would have gained")
    assert undoes.endswith("uncertainty 1")
    vague = msgspec.structs.replace(other, uncertainty_bytes=(math.inf,))
    plan = Steadiness(
        [msgspec.structs.replace(cluster.view().moves["away"].record, stated=vague)],
        cluster.now_us,
    )
    kept = rebalance(cluster.view(), (), margins=EAGER, steadiness=plan)
    assert not goes_home(kept)


def test_what_the_leader_has_moved_stays_for_the_horizon_unless_that_gains_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = moved(AUTOMATION, None)
    view = restated(cluster, as_it_is(cluster.view(), 1.0, by_ms=40.0))
    ended_us = view.moves["away"].record.ended_us
    assert ended_us is not None
    monkeypatch.setattr(subject, "usual_margins", eager)
    monkeypatch.setattr(subject, "MARGINS", math.inf)
    held = planned(view, ended_us + HORIZON_US - 1)
    assert ALERTS not in {move.fragment for move in held.moves}
    assert held.rejected["moved lately"] > 0
    assert any("was moved less than 10 min ago" in each.problem for each in held.refused)
    after = planned(view, ended_us + HORIZON_US)
    assert ALERTS in {move.fragment for move in after.moves}
    monkeypatch.setattr(subject, "MARGINS", 0.0)
    assert ALERTS in {move.fragment for move in planned(view, ended_us).moves}


def test_a_broken_promise_is_reason_enough_to_move_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = moved(AUTOMATION, None)
    monkeypatch.setattr(subject, "_is_broken", always)
    plan = planned(cluster.view(), cluster.now_us)
    assert ALERTS in {move.fragment for move in plan.moves}
    assert "primary → zurich of away: a promise is broken" in {m.undoes for m in plan.moves}


def test_back_and_forth_is_told_with_both_moves() -> None:
    """The secondary goes where it is near, and back once that is the farther one by more."""
    cluster = AutomatedCluster(AutomationMode.APPLY)
    cluster.run(120)
    home = cluster.nodes()[1]
    cluster.farther(home, 100.0)
    cluster.run(120)
    away = cluster.nodes()[1]
    assert away != home
    cluster.farther(home, -100.0)
    cluster.farther(away, 300.0)
    cluster.run(120)
    told = cluster.told(PROPOSED)
    if cluster.nodes()[1] == home:
        assert f"takes back secondary → {away} of rebalance-" in told[-1]
