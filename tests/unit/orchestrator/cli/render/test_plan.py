"""The plan on the terminal."""

from __future__ import annotations

from orchestrator import api
from orchestrator.cli.render.plan import plan_view
from tests.unit.orchestrator.cli.render.test_loads import shown

WHY = "every tuple: Active Standby, as its manifest says"


def plan(secondary: str | None) -> api.PlanDocument:
    fragment = api.FragmentPlan(
        query="q",
        fragment="tracks",
        primary="paris",
        secondary=secondary,
        detection_ms=175.0,
        transfer_ms=5.0,
        reprocess_ms=0.0,
        recovery_ms=180.0,
        bound_ms=300.0,
        runs=True,
        standby_bytes_s=None if secondary is None else 6320.0,
        standby_why=None if secondary is None else WHY,
    )
    query = api.QueryPlan(
        query="q",
        latency_ms=1.0,
        deadline_ms=2.0,
        recovery_ms=180.0,
        bound_ms=300.0,
        network_usage_bytes=1.0,
        standby_usage_bytes=1.0,
        path=(),
    )
    return api.PlanDocument(fragments=(fragment,), queries=(query,), waiting={})


def test_why_a_secondary_is_sent_what_it_is_sent_is_told_on_request() -> None:
    told = shown(plan_view(plan("lyon"), explain=True))
    assert WHY in told
    assert "6.32 KB/s" in told
    assert WHY not in shown(plan_view(plan("lyon")))


def test_a_fragment_without_a_secondary_is_not_explained() -> None:
    assert "6.32 KB/s" not in shown(plan_view(plan(None), explain=True))
