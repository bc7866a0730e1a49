"""A query is planned once: the leader proposes, and carries out what a client has consented to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from orchestrator import api
from orchestrator.api import applying
from orchestrator.clock import now_us
from orchestrator.control.decide import admission, proposing
from orchestrator.control.decide.admission import admit
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.placing import put_retimed, with_first_epochs
from orchestrator.control.decide.proposing import plan_document
from orchestrator.control.planning import replicas
from orchestrator.control.planning.planner import Planning
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import Refused, Unreachable
from orchestrator.manifest import Manifests
from orchestrator.records import ApplyRequest, QueryPlacement, RequestRecord
from orchestrator.store.protocol import (
    CLUSTER,
    FRAGMENTS,
    PROPOSALS,
    REQUESTS,
    STREAMS,
    StoreFailed,
)
from placement.records import Plan
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest, short_reigns

COUNTING = query_manifest(
    "counting",
    "REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM alerts [RANGE 1 MINUTE]);",
    outputs={"counts": "control-centre"},
)


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
    *,
    dry_run: bool = False,
) -> api.Applied:
    """Apply; `before` happens after the plan was submitted and before the leader looks."""

    def progress(step: str, detail: str) -> None:
        before()
        follow(cluster)

    return api.apply(connected(cluster), manifests, dry_run=dry_run, on_progress=progress)


def follow(cluster: ObedientCluster, *_: str) -> None:
    """Have coordinator and hosts do all they have to do, while a client waits."""
    cluster.now_us = now_us()
    cluster.settle()


def planned_document(cluster: ObedientCluster) -> api.PlanDocument:
    return api.plan(connected(cluster), on_progress=partial(follow, cluster))


def only(*queries: object) -> Manifests:
    return msgspec.structs.replace(aircraft(), streams=(), queries=queries)


def places(document: api.PlanDocument) -> dict[str, tuple[str, str | None]]:
    return {each.fragment: (each.primary, each.secondary) for each in document.fragments}


def test_apply_plans_once_for_client_and_leader(
    cluster: ObedientCluster, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimised: list[str] = []

    def counted(name: str) -> None:
        solve = getattr(replicas, name)

        def solves(*args: object) -> object:
            optimised.append(name)
            return solve(*args)

        monkeypatch.setattr(replicas, name, solves)

    counted("choose_replicas")
    counted("place_secondaries")
    applied = apply(cluster, aircraft())
    assert applied.protected
    assert planned == ["proximity"]
    # Secondaries once as if they were sent everything, and once together with what they are sent.
    assert optimised == ["choose_replicas", "place_secondaries", "place_secondaries"]
    assert applied.planned_again == {}
    assert all(each.runs for each in applied.plan.fragments)
    assert cluster.history().count("planned: proximity") == 1
    # Nor does it take a plan to show what runs, or to apply it again.
    assert places(planned_document(cluster)) == places(applied.plan)
    api.status(connected(cluster))
    apply(cluster, aircraft())
    assert planned == ["proximity"]
    assert len(optimised) == 3


def test_each_of_several_queries_is_planned_once(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    both = msgspec.structs.replace(aircraft(), queries=(COUNTING, *aircraft().queries))
    applied = apply(cluster, both)
    assert planned == ["proximity", "counting"]
    assert applied.planned_again == {}


def test_figures_of_what_runs_are_those_that_were_planned(cluster: ObedientCluster) -> None:
    promised = apply(cluster, aircraft(), dry_run=True).plan
    assert not any(each.runs for each in promised.fragments)
    running = apply(cluster, aircraft()).plan
    assert places(running) == places(promised)
    (before,), (after,) = promised.queries, running.queries
    assert msgspec.structs.astuple(before) == msgspec.structs.astuple(after)


def test_dry_run_and_plan_leave_nothing(cluster: ObedientCluster, planned: list[str]) -> None:
    cluster.settle()
    before = dict(cluster.server.entries)
    applied = apply(cluster, aircraft(), dry_run=True)
    assert not applied.applied
    assert planned == ["proximity"]
    cluster.settle()
    assert cluster.server.entries == before


def test_proposal_names_all_it_rests_on(cluster: ObedientCluster) -> None:
    first = cluster.propose(aircraft())
    nodes = {path for path in first.basis if path.startswith("nodes/")}
    assert {"nodes/control-centre", "nodes/north-receiver", "nodes/south-receiver"} <= nodes
    created = [record for placed in first.placements for record in placed.created]
    assert {f"nodes/{record.primary.node}" for record in created} <= nodes
    assert set(first.basis) - nodes == {"cluster"}
    cluster.consent()
    cluster.settle()
    second = cluster.propose(only(COUNTING), "second")
    assert {"queries/proximity", "fragments/proximity.alerts", "streams/north"} <= set(second.basis)


def other_settings(cluster: ObedientCluster) -> None:
    found = cluster.store.get(CLUSTER)
    assert found is not None
    changed = msgspec.structs.replace(found.record, batch_ms=found.record.batch_ms + 1.0)
    cluster.store.update(CLUSTER, changed, found.version)


def other_node(cluster: ObedientCluster) -> None:
    cluster.up(cluster.proposal().placements[0].created[0].primary.node)


def other_stream(cluster: ObedientCluster) -> None:
    found = cluster.view().streams["north"]
    changed = msgspec.structs.replace(found.record, rate_bytes_s=90_000.0)
    cluster.store.update(STREAMS.key("north"), changed, found.version)


@pytest.mark.parametrize(
    ("change", "named"),
    [(other_settings, "cluster"), (other_node, "nodes/"), (other_stream, "streams/north")],
)
def test_what_has_changed_before_the_consent_is_said_and_nothing_is_done(
    cluster: ObedientCluster,
    planned: list[str],
    change: Callable[[ObedientCluster], None],
    named: str,
) -> None:
    cluster.apply(msgspec.structs.replace(aircraft(), queries=()))
    cluster.settle()
    cluster.propose(only(*aircraft().queries))
    change(cluster)
    found = cluster.view().proposals["asked"]
    consented = msgspec.structs.replace(found.record, consented=True)
    cluster.store.update(PROPOSALS.key("asked"), consented, found.version)
    cluster.settle()
    (changed,) = cluster.proposal().changed
    assert named in changed
    assert not cluster.proposal().accepted
    assert not cluster.view().queries
    assert planned == ["proximity"]


def test_command_that_is_overtaken_has_the_leader_plan_again(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch, planned: list[str]
) -> None:
    checks = iter(range(100))

    def changes_once(*_: object) -> None:
        if next(checks) == 0:
            other_settings(cluster)

    monkeypatch.setattr(applying, "check_edges", changes_once)
    assert apply(cluster, aircraft()).protected
    assert planned == ["proximity", "proximity"]


def test_command_that_is_overtaken_again_and_again_says_what_has_changed(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes_meanwhile(*_: object) -> None:
        other_settings(cluster)

    monkeypatch.setattr(applying, "check_edges", changes_meanwhile)
    with pytest.raises(Refused, match=r"cluster changed after the plan was made"):
        apply(cluster, aircraft())
    assert not cluster.view().queries


def test_fragment_that_came_meanwhile_is_a_change(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    apply(cluster, aircraft())
    other = query_manifest(
        "other",
        "REGISTER QUERY seen RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"seen": "control-centre"},
    )
    cluster.propose(only(COUNTING))
    apply(cluster, only(other))
    cluster.consent()
    cluster.settle_coordinator()
    assert planned == ["proximity", "counting", "other"]
    assert "counting" not in cluster.view().queries
    # Whoever still asks learns why; nobody does here.
    assert not cluster.view().proposals


def test_streams_that_start_meanwhile_are_no_change(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    cluster.apply(aircraft())
    cluster.settle_coordinator()
    cluster.propose(only(COUNTING))
    cluster.settle()
    assert cluster.view().entering["north"].running.start_at_us is not None
    cluster.consent()
    cluster.settle()
    assert planned == ["proximity", "counting"]


def test_measured_costs_are_no_change(cluster: ObedientCluster, planned: list[str]) -> None:
    """As where the first of several queries has begun to run, and costs other than was planned."""
    cluster.apply(aircraft())
    cluster.settle()
    cluster.propose(only(COUNTING))
    for key, found in cluster.view().fragments.items():
        timing = found.record.timing
        timing = msgspec.structs.replace(timing, cost_ms=7 * timing.cost_ms)
        noted = msgspec.structs.replace(found.record, timing=timing)
        cluster.store.update(FRAGMENTS.key(key), noted, found.version)
    cluster.consent()
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


def test_leader_that_dies_at_any_write_leaves_the_proposal_to_its_successor(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    cluster.apply(aircraft())
    cluster.settle()
    wanted = cluster.propose(only(COUNTING))
    cluster.consent()
    events = [f"{w.event.kind}: {w.event.subject}" for w in short_reigns(cluster) if w.event]
    assert "applied: query counting" in events
    assert "sub-deadline changed: proximity.alerts" in events
    assert "planned: counting" in events
    assert "planned again: counting" not in events
    assert planned == ["proximity", "counting"]
    assert not cluster.view().proposals
    (made,) = wanted.placements
    assert with_first_epochs(cluster.view(), made) == tuple(
        cluster.view().fragments[record.key].record for record in made.created
    )


def test_new_streams_and_queries_come_whole_or_not_at_all(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    """Whatever the last write of a leader was, what it has accepted is carried out."""
    cluster.propose(aircraft())
    cluster.consent()
    accepted = False
    for write in short_reigns(cluster):
        view = cluster.view()
        assert accepted or not (view.streams or view.queries)
        accepted |= write.key.path == "proposals/asked"
    view = cluster.view()
    assert view.streams.keys() == {"north", "south"}
    assert view.queries.keys() == {"proximity"}
    assert len(view.fragments) == 3
    assert planned == ["proximity"]


def test_node_that_goes_after_the_consent_has_the_query_planned_again(
    cluster: ObedientCluster, planned: list[str]
) -> None:
    proposal = cluster.propose(aircraft())
    cluster.consent()
    for write in short_reigns(cluster):
        if write.key.path == "queries/proximity":
            break
    cluster.kill(proposal.placements[0].created[0].primary.node)
    cluster.settle()
    assert cluster.history().count("planned again: proximity") == 1
    assert planned == ["proximity", "proximity"]
    assert len(cluster.view().fragments) == 3
    assert not cluster.view().proposals


def test_proposal_of_a_client_that_died_is_deleted(cluster: ObedientCluster) -> None:
    cluster.propose(aircraft())
    cluster.store.delete(REQUESTS.key("asked"), 0)
    cluster.settle()
    assert not cluster.view().proposals
    assert not cluster.view().queries


def test_names_that_are_taken_meanwhile_are_a_change(cluster: ObedientCluster) -> None:
    cluster.propose(aircraft())
    cluster.apply(msgspec.structs.replace(aircraft(), queries=()))
    found = cluster.view().proposals["asked"]
    consented = msgspec.structs.replace(found.record, consented=True)
    cluster.store.update(PROPOSALS.key("asked"), consented, found.version)
    cluster.settle()
    assert cluster.proposal().changed == ("streams/north", "streams/south")
    assert not cluster.view().queries


def test_what_is_refused_says_where_it_is_written(cluster: ObedientCluster) -> None:
    query = query_manifest(deadline_ms=1.0)
    proposal = cluster.propose(msgspec.structs.replace(aircraft(), queries=(query,)))
    assert proposal.refusal is not None
    error = proposal.refusal.error
    assert isinstance(error, Refused)
    assert error.subject == "query proximity (query.yaml:1)"


def test_a_bug_is_told_to_whoever_asks(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.raises_bugs = False

    def fails(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(proposing, "admit", fails)
    proposal = cluster.propose(aircraft())
    assert proposal.refusal is not None
    assert "oops" in str(proposal.refusal.error)


def test_a_request_that_was_lost_is_not_waited_for(cluster: ObedientCluster) -> None:
    """The leader forgets it with the session of whoever asked."""

    def lost() -> None:
        for name, asked in cluster.view().requests.items():
            cluster.store.delete(REQUESTS.key(name), asked.version)

    with pytest.raises(Unreachable, match="was lost with the session"):
        apply(cluster, aircraft(), lost)


def test_what_the_store_does_not_take_is_written_later(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = cluster.coordinator_store.create

    def fails(key: Any, *of: Any, **how: Any) -> int:
        if key.path.startswith("proposals/"):
            raise StoreFailed(key.path, "cannot be written now")
        return create(key, *of, **how)

    monkeypatch.setattr(cluster.coordinator_store, "create", fails)
    request = ApplyRequest(streams=aircraft().streams, queries=aircraft().queries)
    cluster.store.create(REQUESTS.key("asked"), RequestRecord(wish=request))
    cluster.settle()
    # On a thread of its own, an error would be the last that anybody hears of it.
    for responder in cluster.coordination.responders:
        cluster.coordination.respond(responder)
    assert not cluster.view().proposals
    monkeypatch.undo()
    cluster.settle()
    assert cluster.proposal().placements


def test_broken_proposals_are_problems_and_deleted(cluster: ObedientCluster) -> None:
    cluster.server.plant("proposals/garbage", b"{")
    cluster.apply(aircraft())
    cluster.settle()
    assert not [path for path in cluster.server.entries if path.startswith("proposals/")]
    assert len(cluster.view().fragments) == 3


def with_ghost(plan: QueryPlacement) -> QueryPlacement:
    ghost = msgspec.structs.replace(plan.created[0], fragment="ghost")
    return msgspec.structs.replace(plan, updated=(ghost,))


def with_foreign_fragment(plan: QueryPlacement) -> QueryPlacement:
    foreign = msgspec.structs.replace(plan.created[0], query="other")
    return msgspec.structs.replace(plan, created=(foreign, *plan.created))


def with_both_replicas_on_one_node(plan: QueryPlacement) -> QueryPlacement:
    created = [msgspec.structs.replace(r, secondary=r.primary) for r in plan.created]
    return msgspec.structs.replace(plan, created=tuple(created))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (with_ghost, "changes proximity.ghost, which it does not rest on"),
        (with_foreign_fragment, "of another query"),
        (with_both_replicas_on_one_node, "has two replicas on"),
    ],
)
def test_proposal_that_contradicts_itself_is_a_problem_and_deleted(
    cluster: ObedientCluster, spoil: Callable[[QueryPlacement], QueryPlacement], problem: str
) -> None:
    proposal = cluster.propose(aircraft())
    spoilt = msgspec.structs.replace(
        proposal, placements=tuple(spoil(each) for each in proposal.placements), accepted=True
    )
    cluster.store.update(PROPOSALS.key("asked"), spoilt, 0)
    cluster.store.delete(REQUESTS.key("asked"), 0)
    cluster.apply(aircraft())
    (broken,) = cluster.view().invalid
    assert problem in str(broken)
    cluster.settle()
    assert not cluster.view().proposals
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
    api.delete(connected(cluster), "proximity", on_progress=cluster.step)
    assert apply(cluster, NORTH_ALONE).protected
    assert planned == ["proximity", "proximity"]
    assert "retired: proximity.alerts" in cluster.history()
    assert [*cluster.view().fragments] == ["proximity.alerts"]


def test_query_is_not_planned_over_the_fragments_of_a_deleted_namesake(
    cluster: ObedientCluster,
) -> None:
    apply(cluster, aircraft())
    api.delete(connected(cluster), "proximity", on_progress=cluster.step)
    with pytest.raises(Refused, match=r"proximity.*was deleted.*still run"):
        admit(cluster.view(), NORTH_ALONE.streams, NORTH_ALONE.queries)


def test_apply_says_that_nobody_retires_a_deleted_namesake(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(cluster, aircraft())
    api.delete(connected(cluster), "proximity", on_progress=cluster.step)
    monkeypatch.setattr(applying, "RETIRED_TIMEOUT_S", 0.0)
    before = dict(cluster.server.entries)
    with pytest.raises(Unreachable, match="end of the deleted proximity"):
        api.apply(connected(cluster), NORTH_ALONE)
    assert cluster.server.entries == before


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
    document = plan_document(cluster.view(), admit(cluster.view()))
    (alerts,) = (each for each in document.fragments if each.fragment == "alerts")
    assert (alerts.secondary, alerts.recovery_ms) == (None, None)
    assert document.queries[0].recovery_ms is None
    assert document.queries[0].latency_ms < 300.0
