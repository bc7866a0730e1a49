"""Two candidates, what each may do in each state of its session, and what a bug may not do."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.control import process as loop
from orchestrator.control.decide import placing
from orchestrator.control.decide import writes as deciding
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.healing import heal
from orchestrator.control.process import (
    INTERVAL_S,
    LONGEST_RETRY_S,
    Coordination,
    least_rest_s,
    rest_s,
)
from orchestrator.records import Record
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.store.protocol import (
    LEADER,
    PROBLEMS,
    QUERIES,
    Key,
    LeaderRecord,
    StoreFailed,
)
from streams.language import parse
from streams.language.ast import Statement
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest


def second_candidate(cluster: ObedientCluster) -> Coordination:
    return Coordination(cluster.server.connect(), "coordinator-2")


def test_one_of_two_candidates_leads() -> None:
    cluster = ObedientCluster()
    second = second_candidate(cluster)
    cluster.apply(aircraft())
    cluster.settle()
    assert cluster.coordination.election.leads
    assert not second.run_once(cluster.now_us)
    assert not second.election.leads


def test_suspended_leader_publishes_nothing_and_goes_on_afterwards() -> None:
    cluster = ObedientCluster()
    cluster.settle()
    cluster.coordinator_store.suspend()
    cluster.apply(aircraft())
    assert not cluster.coordination.election.leads
    before = dict(cluster.server.entries)
    assert not cluster.coordination.run_once(cluster.now_us)
    assert cluster.server.entries == before
    cluster.coordinator_store.resume()
    assert cluster.coordination.election.leads
    cluster.settle()
    assert len(cluster.view().fragments) == 3


def test_lost_leader_is_succeeded_and_does_not_lead_again_by_itself() -> None:
    cluster = ObedientCluster()
    cluster.settle()
    second = second_candidate(cluster)
    cluster.coordinator_store.suspend()
    cluster.coordinator_store.expire()
    cluster.apply(aircraft())
    while second.run_once(cluster.now_us):
        pass
    assert second.election.leads
    assert len(cluster.view().fragments) == 3
    cluster.coordinator_store.resume()
    assert not cluster.coordination.run_once(cluster.now_us)
    assert not cluster.coordination.election.leads


def test_candidate_clears_what_its_own_lost_session_left() -> None:
    cluster = ObedientCluster()
    # As if the answer to its creation had been lost with the connection.
    cluster.store.create(LEADER, LeaderRecord(candidate="coordinator-1"), ephemeral=True)
    assert not cluster.coordination.run_once(cluster.now_us)
    cluster.coordination.run_once(cluster.now_us)
    assert cluster.coordination.election.leads


def test_resigned_leader_makes_way() -> None:
    cluster = ObedientCluster()
    cluster.settle()
    second = second_candidate(cluster)
    cluster.coordination.election.resign()
    second.run_once(cluster.now_us)
    assert second.election.leads


def test_candidate_that_does_not_lead_asks_the_store_only_when_the_leader_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ObedientCluster()
    cluster.settle()
    store = cluster.server.connect()
    woken: list[bool] = []
    second = Coordination(store, "coordinator-2", wake=lambda: woken.append(True))
    attempts: list[str] = []
    create = MemoryStore.create

    def counted(self: MemoryStore, key: Key[Record], *given: Any, **more: Any) -> int:
        if self is store:
            attempts.append(key.path)
        return create(self, key, *given, **more)

    monkeypatch.setattr(MemoryStore, "create", counted)
    for _ in range(20):
        assert not second.run_once(cluster.now_us)
    assert attempts == ["candidates/coordinator-2", LEADER.path]
    woken.clear()
    cluster.coordination.election.resign()
    assert woken
    second.run_once(cluster.now_us)
    assert second.election.leads


def test_candidate_whose_attempt_was_cut_off_tries_again() -> None:
    cluster = ObedientCluster()
    store = cluster.server.connect()
    second = Coordination(store, "coordinator-2")
    store.suspend()
    assert not second.run_once(cluster.now_us)
    store.resume()
    second.run_once(cluster.now_us)
    assert second.election.leads


def published(cluster: ObedientCluster) -> str:
    found = cluster.store.get(PROBLEMS)
    return "" if found is None else "\n".join(found.record.problems)


def test_bug_in_a_step_is_logged_counted_said_and_tried_again_more_and_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ObedientCluster()
    cluster.settle()
    cluster.raises_bugs = False

    def fails(*_: object) -> None:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(loop, "decide", fails)
    pauses_s: list[float] = []
    for _ in range(8):
        assert not cluster.coordination.run_once(cluster.now_us)
        pauses_s.append(cluster.coordination.retry_s)
    assert "ZeroDivisionError('unforeseen')" in published(cluster)
    assert cluster.coordination.internal_errors == 8
    assert caplog.text.count("Traceback") == 1
    assert pauses_s == sorted(pauses_s)
    assert 0 < pauses_s[0] < pauses_s[-1] == LONGEST_RETRY_S
    monkeypatch.undo()
    cluster.apply(aircraft())
    cluster.settle()
    assert len(cluster.view().fragments) == 3
    assert published(cluster) == ""
    assert cluster.coordination.retry_s == 0


def test_call_that_the_store_refuses_is_said_and_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ObedientCluster()
    cluster.settle()

    def refuses(*_: object) -> None:
        raise StoreFailed("fragments", "the server refused (NewConfigNoQuorumError: )")

    monkeypatch.setattr(loop, "decide", refuses)
    assert not cluster.coordination.run_once(cluster.now_us)
    assert published(cluster) == "fragments: the server refused (NewConfigNoQuorumError: )"
    assert (cluster.coordination.internal_errors, cluster.coordination.retry_s) == (0, 0)


def test_bug_about_one_fragment_keeps_no_other_from_being_healed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    before = cluster.view().fragments
    for found in before.values():
        cluster.lose_secondary(found.record, found.version)
    cluster.now_us += 1
    for host in cluster.hosts.values():
        host.tell(reported_us=cluster.now_us)

    def fails_for_alerts(pending: PendingDecision, name: str) -> None:
        heal(pending, name)
        if name.endswith("alerts"):
            raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(deciding, "heal", fails_for_alerts)
    cluster.raises_bugs = False
    cluster.settle_coordinator()
    after = {name: found.record.secondary for name, found in cluster.view().fragments.items()}
    assert after.pop("proximity.alerts") is None
    assert all(after.values())
    assert "proximity.alerts: nothing is decided, internal error" in published(cluster)
    monkeypatch.undo()
    cluster.settle()
    assert cluster.view().protected(cluster.view().fragments["proximity.alerts"].record)
    assert published(cluster) == ""


def test_bug_about_one_query_keeps_no_other_from_being_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    other = query_manifest(
        "counting",
        "REGISTER QUERY counts RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"counts": "control-centre"},
    )
    cluster.store.create(QUERIES.key("counting"), other.record)
    plan_query = placing.plan_query

    def fails_for_proximity(pending: PendingDecision, query: str, *, relax: bool) -> object:
        plan = plan_query(pending, query, relax=relax)
        if query == "proximity":
            raise ZeroDivisionError("unforeseen")
        return plan

    monkeypatch.setattr(placing, "plan_query", fails_for_proximity)
    cluster.raises_bugs = False
    cluster.settle()
    assert cluster.view().fragments.keys() == {"counting.counts"}
    assert "query proximity: nothing is decided" in published(cluster)


def test_bug_of_the_compiler_concerns_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    other = query_manifest("odd", "REGISTER QUERY odd RSTREAM(SELECT id FROM north [NOW]);")
    cluster.store.create(QUERIES.key("odd"), other.record)

    def fails_for_odd(text: str) -> tuple[Statement, ...]:
        if "QUERY odd" in text:
            raise RecursionError("unforeseen")
        return parse(text)

    monkeypatch.setattr("orchestrator.control.observe.dataflow.parse", fails_for_odd)
    cluster.settle()
    assert len(cluster.view().fragments) == 3
    assert "query odd: statements: cannot be compiled, internal error" in published(cluster)


@pytest.mark.parametrize(
    ("took_s", "waits_s"), [(0.0, INTERVAL_S), (0.02, INTERVAL_S), (0.05, 0.45), (5.0, 1.0)]
)
def test_deciding_takes_a_tenth_of_a_processor_at_most(took_s: float, waits_s: float) -> None:
    assert rest_s(took_s) == pytest.approx(waits_s)


@pytest.mark.parametrize(
    ("took_s", "waits_s"), [(-0.5, 0.0), (0.004, 0.004), (0.1, 0.1), (9.0, 0.5)]
)
def test_a_change_waits_as_long_as_the_last_step_took(took_s: float, waits_s: float) -> None:
    assert least_rest_s(took_s) == pytest.approx(waits_s)
    assert least_rest_s(took_s) <= rest_s(took_s)
