"""Why fragments are where they are, and what would have to change for a query to be admitted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from orchestrator.control.decide.explaining import explain_fragment, explain_refusal
from orchestrator.control.decide.proposing import answer
from orchestrator.control.decide.rebalancing import rebalance
from orchestrator.errors import InvalidInput
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import (
    CordonRecord,
    ExplainRequest,
    FragmentExplanation,
    MovePlan,
    MoveStep,
    RebalanceLimits,
    RequestRecord,
)
from orchestrator.store.protocol import CORDONS, MOVES, Versioned
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def test_a_fragment_that_stands_best_has_no_cheaper_node(cluster: ObedientCluster) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    found = explain_fragment(cluster.view(), "alerts")
    assert found.fragment == "proximity.alerts"
    assert not found.measured
    assert record.secondary is not None
    for place, node in (
        (found.primary, record.primary.node),
        (found.secondary, record.secondary.node),
    ):
        assert place.node == node
        assert {each.node for each in place.candidates} == set(EXECUTORS)
        totals = [each.total_bytes for each in place.candidates]
        assert totals == sorted(totals)
        (here,) = [each for each in place.candidates if each.problem is None]
        assert here.node == node
        told = {each.problem for each in place.candidates if each.reason == "cost"}
        assert told == {
            f"cost: {each.total_bytes:,.0f} bytes, {here.total_bytes:,.0f} on {node}"
            for each in place.candidates
            if each.reason == "cost"
        }
    assert {each.fragment for each in found.primary.streams if each.incoming} == {
        "north_tracks",
        "south_tracks",
    }
    (peer,) = [each for each in found.primary.candidates if each.node == found.secondary.node]
    assert peer.problem is not None
    assert "both replicas would be on" in peer.problem


def test_candidates_are_worth_what_a_rebalancing_says_of_them(cluster: ObedientCluster) -> None:
    steps = (MoveStep(fragment="proximity.alerts", role="primary", node="zurich"),)
    plan = MovePlan(name="away", steps=steps, submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("away"), plan)
    cluster.settle()
    view = cluster.view()
    found = rebalance(view, (), RebalanceLimits(max_moves=0))
    said = {
        each.steps[0]: f"{each.reason}: {each.problem}"
        for each in found.refused
        if len(each.steps) == 1 and each.reason == "margin"
    }
    compared = 0
    for step, told in said.items():
        explained = explain_fragment(view, step.fragment)
        place = explained.primary if step.role == "primary" else explained.secondary
        if step.node not in (explained.primary.node, explained.secondary.node):
            compared += 1
            assert {each.node: each.problem for each in place.candidates}[step.node] == told
    assert compared


def test_every_obstacle_is_that_of_a_move(cluster: ObedientCluster) -> None:
    """A cordoned node is a candidate, and the cheapest one binds."""
    home = cluster.view().fragments["proximity.alerts"].record.primary.node
    steps = (MoveStep(fragment="proximity.alerts", role="primary", node="zurich"),)
    plan = MovePlan(name="away", steps=steps, submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("away"), plan)
    cluster.settle()
    open_place = explain_fragment(cluster.view(), "alerts").primary
    assert open_place.binding is None
    assert open_place.candidates[0].node == home
    assert open_place.candidates[0].reason == "margin"
    cordon = CordonRecord(node=home, since_us=cluster.now_us)
    cluster.store.create(CORDONS.key(home), cordon)
    place = explain_fragment(cluster.view(), "alerts").primary
    assert place.candidates[0].reason == "cordoned"
    assert place.binding is not None
    assert f"{home} is cordoned" in place.binding


def test_the_leader_responds_with_an_explanation(cluster: ObedientCluster) -> None:
    request = RequestRecord(wish=ExplainRequest(fragment="alerts"))
    asked = Versioned(record=request, version=0, created=7)
    found = answer(cluster.view(), asked, None)
    assert isinstance(found.explanation, FragmentExplanation)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    unknown = RequestRecord(wish=ExplainRequest(fragment="alarms"))
    refused = answer(cluster.view(), Versioned(record=unknown, version=0, created=8), None)
    assert refused.refusal is not None
    with pytest.raises(InvalidInput, match="alarms"):
        raise refused.refusal.error


def with_limits(manifests: Manifests, deadline_ms: float, bound_ms: float) -> list[QueryManifest]:
    return [
        msgspec.structs.replace(
            each,
            record=msgspec.structs.replace(
                each.record, deadline_ms=deadline_ms, recovery_bound_ms=bound_ms
            ),
        )
        for each in manifests.queries
    ]


def needs(queries: Sequence[QueryManifest]) -> dict[str, tuple[float, ...]]:
    """The changes of which each alone would do, and that each does."""
    cluster, manifests = ObedientCluster(), aircraft()
    view = cluster.view()
    found = explain_refusal(view, manifests.streams, queries, None)
    assert found.problem is not None
    for change in found.changes:
        (own,) = queries
        deadline_ms, bound_ms = own.record.deadline_ms, own.record.recovery_bound_ms
        if change.field != "recoveryBound":
            deadline_ms = change.needed[0]
        if change.field != "deadline":
            bound_ms = change.needed[-1]
        asked = with_limits(manifests, deadline_ms, bound_ms)
        assert explain_refusal(view, manifests.streams, asked, None).problem is None
        tighter = with_limits(manifests, 0.9 * deadline_ms, 0.9 * bound_ms)
        assert explain_refusal(view, manifests.streams, tighter, None).problem is not None
    return {change.field: change.needed for change in found.changes}


def test_the_least_that_would_admit_a_query_is_told() -> None:
    manifests = aircraft()
    (stated,) = [each.record for each in manifests.queries]
    late = needs(with_limits(manifests, 20.0, stated.recovery_bound_ms))
    assert late.keys() == {"deadline"}
    slow = needs(with_limits(manifests, stated.deadline_ms, 160.0))
    assert slow.keys() == {"recoveryBound"}
    both = needs(with_limits(manifests, 20.0, 160.0))
    assert both.keys() == {"deadline and recoveryBound"}


def test_what_is_admitted_has_no_problem() -> None:
    manifests = aircraft()
    found = explain_refusal(ObedientCluster().view(), manifests.streams, manifests.queries, None)
    assert (found.problem, found.changes) == (None, ())
