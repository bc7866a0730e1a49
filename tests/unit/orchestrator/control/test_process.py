"""Two candidates, and what each may do in each state of its session."""

from __future__ import annotations

from orchestrator.control.process import Coordination
from orchestrator.store.protocol import LEADER, LeaderRecord
from tests.obedient_cluster import ObedientCluster, aircraft


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
