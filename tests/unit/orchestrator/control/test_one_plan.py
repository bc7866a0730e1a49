"""A query is planned once: `apply` submits its plan, the leader carries it out or says why not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from orchestrator import api
from orchestrator.api import applying
from orchestrator.clock import now_us
from orchestrator.control.decide import admission
from orchestrator.control.decide.admission import admit
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.placing import put_retimed, with_first_epochs
from orchestrator.control.decide.writes import decide
from orchestrator.control.planning import replicas
from orchestrator.control.planning.planner import Planning
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import Refused, Unreachable
from orchestrator.manifest import Manifests
from orchestrator.records import PlanRecord
from orchestrator.store.protocol import CLUSTER, FRAGMENTS, PLANS, QUERIES, STREAMS
from placement.planner import plan as place_operators
from placement.records import Plan
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest

COUNTING = query_manifest(
    "counting",
    "REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM alerts [RANGE 1 MINUTE]);",
    outputs={"counts": "control-centre"},
)
GRACE_US = DecisionSettings().submission_grace_us


@pytest.fixture
def cluster() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.now_us = now_us()
    return cluster


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Queries in the order in which anybody planned them; every plan goes through `place`."""
    queries: list[str] = []
    place = Planning.place

    def counted(
        planning: Planning, query: str, *, relaxed: bool = False, without_sites: bool = False
    ) -> Plan:
        queries.append(query)
        return place(planning, query, relaxed=relaxed, without_sites=without_sites)

    monkeypatch.setattr(Planning, "place", counted)
    return queries


def apply(
    cluster: ObedientCluster,
    manifests: Manifests,
    before: Callable[[], None] = lambda: None,
    **options: bool,
) -> api.Applied:
    """Apply; `before` happens after the plan was submitted and before the leader looks."""
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")

    def progress(step: str, detail: str) -> None:
        before()
        cluster.now_us = now_us()
        cluster.settle()

    return api.apply(api.Cluster(reach, cluster.store), manifests, on_progress=progress, **options)


def only(*queries: object) -> Manifests:
    return msgspec.structs.replace(aircraft(), streams=(), queries=queries)


def plans(cluster: ObedientCluster) -> list[str]:
    return [*cluster.view().plans]


def places(document: api.PlanDocument) -> dict[str, tuple[str, str | None]]:
    return {each.fragment: (each.primary, each.secondary) for each in document.fragments}


def test_apply_plans_once_for_client_and_leader(
    cluster: ObedientCluster, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimised: list[int] = []

    def counted(*args: object, **options: object) -> Plan:
        optimised.append(1)
        return place_operators(*args, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(replicas, "plan", counted)
    applied = apply(cluster, aircraft())
    assert applied.protected
    assert planned == ["proximity"]
    assert len(optimised) == 1
    assert applied.planned_again == {}
    assert all(each.runs for each in applied.plan.fragments)
    assert plans(cluster) == []
    assert cluster.history().count("planned: proximity") == 1
    # Nor does it take a plan to show what runs, or to apply it again.
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    connected = api.Cluster(reach, cluster.store)
    assert places(api.plan(connected)) == places(applied.plan)
    api.status(connected)
    apply(cluster, aircraft())
    assert planned == ["proximity"]
    assert len(optimised) == 1


def test_each_of_several_queries_is_planned_once(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    both = msgspec.structs.replace(aircraft(), queries=(COUNTING, *aircraft().queries))
    applied = apply(cluster, both)
    assert planned == ["proximity", "counting"]
    assert applied.planned_again == {}
    assert plans(cluster) == []


def test_figures_of_what_runs_are_those_that_were_planned(cluster: ObedientCluster) -> None:
    promised = apply(cluster, aircraft(), dry_run=True).plan
    assert not any(each.runs for each in promised.fragments)
    running = apply(cluster, aircraft()).plan
    assert places(running) == places(promised)
    (before,), (after,) = promised.queries, running.queries
    assert msgspec.structs.astuple(before) == msgspec.structs.astuple(after)


def test_dry_run_and_plan_submit_nothing(cluster: ObedientCluster, planned: list[str]) -> None:
    before = dict(cluster.server.entries)
    applied = apply(cluster, aircraft(), dry_run=True)
    assert not applied.applied
    assert planned == ["proximity"]
    assert cluster.server.entries == before


def test_plan_is_written_before_its_query_and_names_all_it_rests_on(
    cluster: ObedientCluster,
) -> None:
    apply(cluster, aircraft(), wait=False)
    apply(cluster, only(COUNTING), wait=False)
    order = [path for path in cluster.server.entries if not path.startswith("history/")]
    assert order.index("streams/south") < order.index("plans/proximity")
    assert order.index("plans/proximity") < order.index("queries/proximity")
    first = cluster.view().plans["proximity"].record
    nodes = {path for path in first.basis if path.startswith("nodes/")}
    assert {"nodes/control-centre", "nodes/north-receiver", "nodes/south-receiver"} <= nodes
    assert {f"nodes/{record.primary.node}" for record in first.created} <= nodes
    assert set(first.basis) - nodes == {
        "cluster",
        "queries/proximity",
        "running-streams/north",
        "running-streams/south",
        "streams/north",
        "streams/south",
    }
    second = cluster.view().plans["counting"].record
    assert {"queries/proximity", "fragments/proximity.alerts"} <= set(second.basis)


def other_settings(cluster: ObedientCluster) -> None:
    found = cluster.store.get(CLUSTER)
    assert found is not None
    if found.version == 0:
        changed = msgspec.structs.replace(found.record, batch_ms=11.0)
        cluster.store.update(CLUSTER, changed, 0)


def other_node(cluster: ObedientCluster) -> None:
    found = cluster.view().plans.get("proximity")
    if found is not None:
        cluster.up(found.record.created[0].primary.node)


def other_query(cluster: ObedientCluster) -> None:
    found = cluster.view().queries["proximity"]
    if found.version == 0:
        changed = msgspec.structs.replace(found.record, deadline_ms=299.0)
        cluster.store.update(QUERIES.key("proximity"), changed, 0)


def other_stream(cluster: ObedientCluster) -> None:
    found = cluster.view().streams["north"]
    if found.version == 0:
        changed = msgspec.structs.replace(found.record, rate_bytes_s=90_000.0)
        cluster.store.update(STREAMS.key("north"), changed, 0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_settings, "cluster"),
        (other_node, "nodes/"),
        (other_query, "queries/proximity"),
        (other_stream, "streams/north"),
    ],
)
def test_leader_plans_again_and_says_what_had_changed(
    cluster: ObedientCluster,
    planned: list[str],
    change: Callable[[ObedientCluster], None],
    named: str,
) -> None:
    pending = [change]
    applied = apply(cluster, aircraft(), lambda: pending.pop()(cluster) if pending else None)
    assert planned == ["proximity", "proximity"]
    assert cluster.history().count("planned again: proximity") == 1
    # Unless the new plan is the same, the command says it too.
    assert all(named in why for why in applied.planned_again.values())
    (detail,) = (
        entry.event.detail
        for entry in cluster.store.history()
        if entry.event.kind == "planned again"
    )
    assert named in detail
    assert plans(cluster) == []
    assert applied.protected


def test_command_says_that_a_query_was_planned_again(cluster: ObedientCluster) -> None:
    pending = [other_node]
    applied = apply(cluster, aircraft(), lambda: pending.pop()(cluster) if pending else None)
    assert [*applied.planned_again] == ["proximity"]
    assert "changed after the plan was made" in applied.planned_again["proximity"]


def test_fragment_that_came_meanwhile_is_a_change(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    apply(cluster, aircraft())
    other = query_manifest(
        "other",
        "REGISTER QUERY seen RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"seen": "control-centre"},
    )
    submitted = admit(cluster.view(), (), [COUNTING]).submissions
    apply(cluster, only(other))
    cluster.store.create(PLANS.key("counting"), submitted[0])
    cluster.store.create(QUERIES.key("counting"), COUNTING.record)
    cluster.settle()
    assert planned == ["proximity", "counting", "other", "counting"]
    (why,) = (
        entry.event.detail
        for entry in cluster.store.history()
        if entry.event.kind == "planned again"
    )
    assert why.startswith("fragments/other.seen changed")


def test_streams_that_start_meanwhile_are_no_change(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    cluster.apply(aircraft())
    cluster.settle_coordinator()
    submitted = admit(cluster.view(), (), [COUNTING]).submissions
    cluster.settle()
    assert cluster.view().entering["north"].running.start_at_us is not None
    cluster.store.create(PLANS.key("counting"), submitted[0])
    cluster.store.create(QUERIES.key("counting"), COUNTING.record)
    cluster.settle()
    assert planned == ["proximity", "counting"]


def test_measured_costs_are_no_change(cluster: ObedientCluster, planned: list[str]) -> None:
    """As where the first of several queries has begun to run, and costs other than was planned."""
    cluster.apply(aircraft())
    cluster.settle()
    submitted = admit(cluster.view(), (), [COUNTING]).submissions
    for key, found in cluster.view().fragments.items():
        timing = found.record.timing
        timing = msgspec.structs.replace(timing, cost_ms=7 * timing.cost_ms)
        noted = msgspec.structs.replace(found.record, timing=timing)
        cluster.store.update(FRAGMENTS.key(key), noted, found.version)
    cluster.store.create(PLANS.key("counting"), submitted[0])
    cluster.store.create(QUERIES.key("counting"), COUNTING.record)
    cluster.settle()
    assert planned == ["proximity", "counting"]
    assert "planned again: counting" not in cluster.history()


def test_sub_deadlines_that_read_alike_are_no_event(cluster: ObedientCluster) -> None:
    cluster.apply(aircraft())
    cluster.settle()
    pending = PendingDecision(cluster.view(), cluster.now_us, DecisionSettings())
    (record, *_) = pending.fragments.values()

    def retimed(sub_deadline_ms: float) -> list[str | None]:
        timing = msgspec.structs.replace(record.timing, sub_deadline_ms=sub_deadline_ms)
        before = len(pending.writes)
        put_retimed(pending, [msgspec.structs.replace(record, timing=timing)], "for a test")
        return [w.event and w.event.detail for w in pending.writes[before:]]

    retimed(1974.2)
    assert retimed(1974.3) == [None]
    assert retimed(2471.0) == ["1,974 → 2,471 ms, for a test"]
    assert retimed(2471.0) == []


def test_leader_that_dies_anywhere_leaves_a_plan_for_its_successor(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    cluster.apply(aircraft())
    cluster.settle()
    apply(cluster, only(COUNTING), wait=False)
    settings = DecisionSettings()
    writes = decide(cluster.view(), cluster.now_us, settings).writes
    assert "sub-deadline changed: proximity.alerts" in {
        f"{write.event.kind}: {write.event.subject}" for write in writes if write.event
    }
    for write in writes:
        cluster.write(write)
        cluster.check_invariants()
        assert not any(
            later.event is not None and later.event.kind == "planned again"
            for later in decide(cluster.view(), cluster.now_us, settings).writes
        )
    assert planned == ["proximity", "counting"]
    assert decide(cluster.view(), cluster.now_us, settings).writes == ()
    assert plans(cluster) == []


def submission(cluster: ObedientCluster) -> PlanRecord:
    (plan,) = admit(cluster.view(), aircraft().streams, aircraft().queries).submissions
    return msgspec.structs.replace(plan, submitted_us=cluster.now_us)


def test_plan_whose_client_died_is_deleted_after_the_grace(cluster: ObedientCluster) -> None:
    cluster.store.create(PLANS.key("proximity"), submission(cluster))
    cluster.now_us += GRACE_US - 1
    cluster.settle()
    assert plans(cluster) == ["proximity"]
    cluster.now_us += 1
    cluster.settle()
    assert plans(cluster) == []
    assert cluster.view().fragments == {}


def test_plan_that_waits_for_its_query_is_carried_out(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    plan = submission(cluster)
    cluster.store.create(PLANS.key("proximity"), plan)
    cluster.settle()
    cluster.apply(aircraft())
    cluster.settle()
    assert planned == ["proximity"]
    created = {record.key: record for record in with_first_epochs(cluster.view(), plan)}
    assert {name: found.record for name, found in cluster.view().fragments.items()} == created


def test_plan_of_a_client_that_died_is_replaced(cluster: ObedientCluster) -> None:
    left = msgspec.structs.replace(submission(cluster), basis={})
    cluster.store.create(PLANS.key("proximity"), left)
    assert apply(cluster, aircraft()).planned_again == {}
    assert "planned again: proximity" not in cluster.history()


def test_plan_is_kept_while_the_network_is_unknown(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    apply(cluster, aircraft(), wait=False)
    coordinate = cluster.hosts["zurich"].record.coordinate
    cluster.hosts["zurich"].tell(coordinate=None)
    cluster.settle()
    assert plans(cluster) == ["proximity"]
    cluster.hosts["zurich"].tell(coordinate=coordinate)
    cluster.settle()
    assert plans(cluster) == []
    assert planned == ["proximity"]


def test_broken_plans_are_problems_and_deleted(cluster: ObedientCluster) -> None:
    cluster.server.plant("plans/garbage", b"{")
    cluster.server.plant("plans/proximity", cluster.server.entries["plans/garbage"].data)
    cluster.apply(aircraft())
    for write in decide(cluster.view(), cluster.now_us, DecisionSettings()).writes:
        cluster.write(write)
    assert not [path for path in cluster.server.entries if path.startswith("plans/")]
    assert len(cluster.view().fragments) == 3


def with_ghost(plan: PlanRecord) -> PlanRecord:
    ghost = msgspec.structs.replace(plan.created[0], fragment="ghost")
    return msgspec.structs.replace(plan, updated=(ghost,))


def with_updated_newcomer(plan: PlanRecord) -> PlanRecord:
    return msgspec.structs.replace(plan, updated=plan.created[:1])


def with_foreign_fragment(plan: PlanRecord) -> PlanRecord:
    foreign = msgspec.structs.replace(plan.created[0], query="other")
    return msgspec.structs.replace(plan, created=(foreign, *plan.created))


def with_both_replicas_on_one_node(plan: PlanRecord) -> PlanRecord:
    created = [msgspec.structs.replace(r, secondary=r.primary) for r in plan.created]
    return msgspec.structs.replace(plan, created=tuple(created))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (with_ghost, "changes proximity.ghost, which it does not rest on"),
        (with_updated_newcomer, "which it does not rest on"),
        (with_foreign_fragment, "of another query"),
        (with_both_replicas_on_one_node, "has two replicas on"),
    ],
)
def test_plan_that_contradicts_itself_is_a_problem_and_deleted(
    cluster: ObedientCluster, spoil: Callable[[PlanRecord], PlanRecord], problem: str
) -> None:
    cluster.store.create(PLANS.key("proximity"), spoil(submission(cluster)))
    cluster.apply(aircraft())
    (broken,) = cluster.view().invalid
    assert problem in str(broken)
    cluster.settle()
    assert plans(cluster) == []
    assert len(cluster.view().fragments) == 3
    cluster.check_invariants()


OTHER_ALERTS = query_manifest(
    "proximity", "REGISTER QUERY alerts RSTREAM(SELECT id FROM north [NOW]);"
)
NORTH_ALONE = msgspec.structs.replace(
    aircraft(), streams=aircraft().streams[:1], queries=(OTHER_ALERTS,)
)


def connected(cluster: ObedientCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store)


def test_query_applied_right_after_its_namesake_was_deleted_starts_anew(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    apply(cluster, aircraft())
    api.delete(connected(cluster), "proximity")
    assert apply(cluster, NORTH_ALONE).protected
    assert planned == ["proximity", "proximity"]
    assert "retired: proximity.alerts" in cluster.history()
    assert [*cluster.view().fragments] == ["proximity.alerts"]


def test_query_is_not_planned_over_the_fragments_of_a_deleted_namesake(
    cluster: ObedientCluster,
) -> None:
    apply(cluster, aircraft())
    api.delete(connected(cluster), "proximity")
    with pytest.raises(Refused, match=r"proximity.*was deleted.*still run"):
        admit(cluster.view(), NORTH_ALONE.streams, NORTH_ALONE.queries)


def test_apply_says_that_nobody_retires_a_deleted_namesake(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(cluster, aircraft())
    api.delete(connected(cluster), "proximity")
    monkeypatch.setattr(applying, "RETIRED_TIMEOUT_S", 0.0)
    before = dict(cluster.server.entries)
    with pytest.raises(Unreachable, match="end of the deleted proximity"):
        api.apply(connected(cluster), NORTH_ALONE)
    assert cluster.server.entries == before


def test_client_replaces_a_broken_plan(cluster: ObedientCluster, planned: list[str]) -> None:
    cluster.server.plant("plans/proximity", b"{")
    assert apply(cluster, aircraft()).protected
    assert planned == ["proximity"]


def test_query_that_cannot_be_evaluated_waits_in_the_plan(cluster: ObedientCluster) -> None:
    apply(cluster, aircraft())
    cluster.kill("control-centre")
    found = admission.admit(cluster.view())
    assert found.plan.queries == ()
    assert "control-centre" in found.waiting["proximity"]


def test_fragment_without_secondary_is_shown_without(cluster: ObedientCluster) -> None:
    apply(cluster, aircraft())
    record = cluster.view().fragments["proximity.alerts"].record
    assert record.secondary is not None
    cluster.kill(record.secondary.node)
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    document = api.plan(api.Cluster(reach, cluster.store))
    (alerts,) = (each for each in document.fragments if each.fragment == "alerts")
    assert (alerts.secondary, alerts.recovery_ms) == (None, None)
    assert document.queries[0].recovery_ms is None
    assert document.queries[0].latency_ms < 300.0
