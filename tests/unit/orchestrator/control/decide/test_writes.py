"""Coordination as stories: the events of the history, and where replicas end up."""

from __future__ import annotations

import pytest

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.writes import decide
from orchestrator.records import Record
from orchestrator.store.protocol import QUERIES, STREAMS, Key
from tests.obedient_cluster import ObedientCluster, aircraft, places_ms, query_manifest, replica

ALERTS = "proximity.alerts"
GRACE_US = DecisionSettings().takeover_grace_us


def running() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def since(cluster: ObedientCluster, seen: int) -> list[str]:
    return cluster.history()[seen:]


def test_new_query_is_planned_and_streams_start_together_once_it_is_protected() -> None:
    cluster = running()
    view = cluster.view()
    first = view.queries["proximity"].created
    assert {name: f.record.epoch for name, f in view.fragments.items()} == {
        ALERTS: first,
        "proximity.north_tracks": first,
        "proximity.south_tracks": first,
    }
    assert cluster.history() == [
        "planned: proximity",
        f"redundancy restored: {ALERTS}",
        "redundancy restored: proximity.north_tracks",
        "redundancy restored: proximity.south_tracks",
        "stream starts: north",
        "stream starts: south",
    ]
    starts = {s.running.start_at_us for s in view.entering.values()}
    assert starts == {cluster.now_us + DecisionSettings().start_delay_us}
    cluster.check_invariants()


def test_streams_wait_for_a_cold_secondary() -> None:
    cluster = ObedientCluster()
    for host in cluster.hosts.values():
        host.cold = True
    cluster.apply(aircraft())
    cluster.settle()
    assert all(s.running.start_at_us is None for s in cluster.view().entering.values())
    for host in cluster.hosts.values():
        host.cold = False
    cluster.settle()
    assert all(s.running.start_at_us is not None for s in cluster.view().entering.values())


def test_query_waits_for_a_second_executor() -> None:
    cluster = ObedientCluster(("paris", "north-receiver", "south-receiver", "control-centre"))
    cluster.apply(aircraft())
    cluster.settle()
    assert cluster.view().fragments == {}
    assert cluster.coordination.problems == ("queries proximity wait until the network is known",)
    cluster.up("lyon")
    cluster.settle()
    assert {(f.record.primary.node) for f in cluster.view().fragments.values()} <= {"paris", "lyon"}


def test_secondary_killed_is_replaced_at_once_and_returning_node_is_free() -> None:
    cluster = running()
    before = cluster.view().fragments[ALERTS].record
    assert before.secondary is not None
    victim, seen = before.secondary.node, len(cluster.history())
    cluster.kill(victim)
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert after.secondary is not None
    assert after.secondary.node not in (victim, before.primary.node)
    assert (after.primary, after.epoch) == (before.primary, before.epoch)
    assert f"node lost: {victim}" in since(cluster, seen)
    assert f"secondary replaced: {ALERTS}" in since(cluster, seen)
    assert f"redundancy restored: {ALERTS}" in since(cluster, seen)
    cluster.up(victim)
    cluster.settle()
    assert cluster.view().fragments[ALERTS].record == after


def test_lost_secondary_is_replaced_at_once_although_its_record_is_still_there() -> None:
    cluster = running()
    found = cluster.view().fragments[ALERTS]
    before = found.record
    assert before.secondary is not None
    victim, seen = before.secondary.node, len(cluster.history())
    cluster.now_us += 1
    cluster.lose_secondary(before, found.version)
    cluster.settle_coordinator()
    view = cluster.view()
    after = view.fragments[ALERTS].record
    assert victim in view.nodes
    assert view.suspected(victim)
    assert after.secondary is not None
    assert after.secondary.node not in (victim, before.primary.node)
    assert (after.primary, after.epoch) == (before.primary, before.epoch)
    assert f"secondary replaced: {ALERTS}" in since(cluster, seen)


def test_primary_killed_waits_for_the_takeover_then_restores_redundancy() -> None:
    cluster = running()
    found = cluster.view().fragments[ALERTS]
    assert found.record.secondary is not None
    cluster.kill(found.record.primary.node)
    cluster.settle()
    assert cluster.view().fragments[ALERTS] == found, "the secondary's to change"
    cluster.take_over(found.record, found.version)
    seen = len(cluster.history())
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert (after.primary, after.epoch) == (found.record.secondary, found.record.epoch + 1)
    assert after.generation == found.record.generation
    assert after.secondary is not None
    assert since(cluster, seen)[:3] == [
        f"took over: {ALERTS}",
        f"secondary replaced: {ALERTS}",
        f"redundancy restored: {ALERTS}",
    ]


def test_restarted_primary_is_not_mistaken_for_its_former_life() -> None:
    cluster = running()
    found = cluster.view().fragments[ALERTS]
    primary = found.record.primary.node
    cluster.up(primary)
    cluster.settle()
    assert cluster.view().fragments[ALERTS] == found
    assignment = cluster.view().assignments[primary].record
    assert assignment.incarnation == replica(cluster, primary).incarnation
    assert "alerts" not in [a.fragment for a in assignment.fragments]
    cluster.take_over(found.record, found.version)
    cluster.settle()
    cluster.check_invariants()


def test_warm_secondary_that_never_takes_over_is_promoted_after_the_grace() -> None:
    cluster = running()
    before = cluster.view().fragments[ALERTS].record
    cluster.kill(before.primary.node)
    cluster.settle()
    cluster.now_us += GRACE_US
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert (after.primary, after.epoch) == (before.secondary, before.epoch + 1)
    assert after.generation == before.generation
    assert f"promoted: {ALERTS}" in cluster.history()


def test_cold_secondary_without_primary_starts_over_after_the_grace() -> None:
    cluster = running()
    before = cluster.view().fragments[ALERTS].record
    assert before.secondary is not None
    cluster.hosts[before.secondary.node].cold = True
    cluster.settle()
    cluster.kill(before.primary.node)
    cluster.settle()
    assert cluster.view().fragments[ALERTS].record == before
    cluster.now_us += GRACE_US
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert after.epoch == after.generation == before.epoch + 1
    assert f"state lost: {ALERTS}" in cluster.history()


def test_both_replicas_restarted_starts_over_at_once() -> None:
    cluster = running()
    before = cluster.view().fragments[ALERTS].record
    assert before.secondary is not None
    cluster.up(before.primary.node)
    cluster.up(before.secondary.node)
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert after.epoch == after.generation == before.epoch + 1
    assert cluster.view().alive(after.primary)
    assert cluster.view().alive(after.secondary)


def test_both_sessions_expired_of_living_processes_changes_no_primary() -> None:
    cluster = running()
    before = cluster.view().fragments[ALERTS].record
    assert before.secondary is not None
    pair = (before.primary.node, before.secondary.node)
    for name in pair:
        cluster.hosts[name].store.expire()
    cluster.settle_coordinator()
    for name in pair:
        cluster.hosts[name].store.resume()
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert (after.primary, after.epoch) == (before.primary, before.epoch)


def test_bound_that_no_node_keeps_any_more_still_gets_a_secondary_and_says_so() -> None:
    cluster = ObedientCluster(
        ("paris", "london", "north-receiver", "south-receiver", "control-centre", "zurich")
    )
    cluster.store.create(STREAMS.key("north"), aircraft().streams[0].record)
    query = query_manifest(
        statements="REGISTER QUERY near RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"near": "control-centre"},
        recovery_bound_ms=182.0,
    )
    cluster.store.create(QUERIES.key("proximity"), query.record)
    cluster.settle()
    record = cluster.view().fragments["proximity.near"].record
    assert record.secondary is not None
    cluster.kill(record.secondary.node)
    cluster.settle()
    after = cluster.view().fragments["proximity.near"].record
    assert cluster.view().alive(after.secondary)


def test_deleted_query_is_retired() -> None:
    cluster = running()
    found = cluster.view().queries["proximity"]
    cluster.store.delete(QUERIES.key("proximity"), found.version)
    cluster.settle()
    view = cluster.view()
    assert view.fragments == {}
    assert all(a.record.fragments == () for a in view.assignments.values())
    assert cluster.history().count(f"retired: {ALERTS}") == 1


def test_broken_records_stop_nothing_else() -> None:
    cluster = ObedientCluster()
    cluster.server.plant("queries/garbage", b"{")
    cluster.server.plant("nodes/paris2", cluster.server.entries["nodes/paris"].data)
    cluster.server.plant(
        "streams/odd", b'{"name":"odd","site":"x","columns":{"a":"blob"},"rate_bytes_s":1}'
    )
    cluster.server.plant("assignments/lyon", b"nonsense")
    cluster.apply(aircraft())
    bad = query_manifest("bad", "REGISTER QUERY q RSTREAM(SELECT * FROM nowhere [NOW]);")
    cluster.store.create(QUERIES.key("bad"), bad.record)
    cluster.settle()
    assert len(cluster.view().fragments) == 3
    problems = "\n".join(cluster.coordination.problems)
    for named in ("queries/garbage", "nodes/paris2", "streams/odd", "nowhere"):
        assert named in problems
    assert "lyon" in cluster.view().assignments, "derived, so it is replaced"


def test_undecodable_query_does_not_lose_its_fragments() -> None:
    cluster = running()
    cluster.server.plant("queries/proximity", b"{")
    cluster.settle()
    assert len(cluster.view().fragments) == 3


@pytest.mark.parametrize("data", [b"{", None])
def test_unreadable_fragment_does_not_keep_the_leader_busy(data: bytes | None) -> None:
    cluster = running()
    other = cluster.server.entries["fragments/proximity.south_tracks"].data
    cluster.server.plant(f"fragments/{ALERTS}", other if data is None else data)
    cluster.settle()
    assert f"fragments/{ALERTS}" in "\n".join(cluster.coordination.problems)
    counting = query_manifest(
        "counting",
        "REGISTER QUERY counts RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"counts": "control-centre"},
    )
    cluster.store.create(QUERIES.key("counting"), counting.record)
    cluster.settle()
    assert "counting.counts" in cluster.view().fragments


def test_observer_is_sent_what_it_wants() -> None:
    cluster = running()
    cluster.kill("zurich")
    cluster.observe("tail-1", ("alerts", "north", "no-such-stream"))
    cluster.settle_coordinator()
    assignment = cluster.view().assignments["tail-1"].record
    assert [sink.stream for sink in assignment.sinks] == ["alerts", "north"]
    alerts = cluster.view().fragments[ALERTS].record
    assert alerts.secondary is not None
    assert assignment.producers["alerts"] == (alerts.primary.node, alerts.secondary.node)
    assert assignment.producers["north"] == ("north-receiver",)
    assert {peer.node for peer in assignment.peers} == set(places_ms) - {"zurich"} | {"tail-1"}


def test_every_prefix_of_the_writes_is_a_legal_place_to_stop() -> None:
    for crash in ("none", "primary", "secondary", "both"):
        cluster = running() if crash != "none" else ObedientCluster()
        if crash == "none":
            cluster.apply(aircraft())
        else:
            record = cluster.view().fragments[ALERTS].record
            assert record.secondary is not None
            if crash != "secondary":
                cluster.up(record.primary.node)
            if crash != "primary":
                cluster.up(record.secondary.node)
        decision = decide(cluster.view(), cluster.now_us, DecisionSettings())
        assert decision.writes
        for write in decision.writes:
            cluster.write(write)
            cluster.check_invariants()
            # A successor that reads here decides the rest, and nothing it writes conflicts.
            for later in decide(cluster.view(), cluster.now_us, DecisionSettings()).writes:
                assert_version(cluster, later.key, later.version)
        assert decide(cluster.view(), cluster.now_us, DecisionSettings()).writes == ()


def assert_version(cluster: ObedientCluster, key: Key[Record], version: int | None) -> None:
    entry = cluster.server.entries.get(key.path)
    assert (None if entry is None else entry.version) == version


def test_decided_again_after_its_writes_yields_nothing() -> None:
    cluster = running()
    view = cluster.view()
    assert decide(view, cluster.now_us + 1, DecisionSettings()).writes == ()
