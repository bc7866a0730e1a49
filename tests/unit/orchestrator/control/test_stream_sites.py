"""Which of a stream's two sites feeds its consumers, as the leader records it."""

from __future__ import annotations

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.control.planning.planner import Planning
from orchestrator.records import Assignment, SourceSpec, SourceStatus, StreamRecord
from orchestrator.store.protocol import STREAMS
from tests.obedient_cluster import ObedientCluster, aircraft

REFUSED = SourceSpec(driver="side", resumable=True, waits=True)
NORTH, SOUTH = "north-receiver", "south-receiver"


@pytest.fixture
def cluster() -> ObedientCluster:
    """The stream north enters at two sites."""
    made = ObedientCluster()
    manifests = aircraft()
    recorded = SourceSpec(driver="replay", resumable=True, waits=True, read_alike=True)
    two = {"standby": SOUTH, "source": recorded}
    streams = tuple(
        msgspec.structs.replace(m, record=msgspec.structs.replace(m.record, **two))
        if m.record.name == "north"
        else m
        for m in manifests.streams
    )
    made.apply(msgspec.structs.replace(manifests, streams=streams))
    made.settle()
    return made


def north(cluster: ObedientCluster) -> StreamRecord:
    return cluster.view().streams["north"].record


def first_epoch(cluster: ObedientCluster) -> int:
    return cluster.view().streams["north"].created


def assigned(cluster: ObedientCluster, site: str) -> tuple[str, int, str | None]:
    found: Assignment = cluster.view().assignments[site].record
    (source,) = (each for each in found.sources if each.stream == "north")
    return source.role, source.epoch - first_epoch(cluster), source.peer_site


def report(
    cluster: ObedientCluster, site: str, role: ReplicaRole, epoch: int, slipped_ms: float = 0.0
) -> None:
    """Have a site say something of its source; epochs are counted from 0."""
    host = cluster.hosts[site]
    epoch += first_epoch(cluster)
    status = SourceStatus(next_seq=0, role=role, epoch=epoch, slipped_ms=slipped_ms)
    host.tell(sources=host.record.sources | {"north": status})


def told(cluster: ObedientCluster) -> list[str]:
    events = [entry.event for entry in cluster.store.history()]
    return [each.detail for each in events if each.kind == "source taken over"]


def test_both_sites_are_assigned_the_stream(cluster: ObedientCluster) -> None:
    assert assigned(cluster, NORTH) == ("primary", 0, SOUTH)
    assert assigned(cluster, SOUTH) == ("secondary", 0, NORTH)
    assert told(cluster) == []


def producers(cluster: ObedientCluster) -> set[tuple[str, ...]]:
    return {
        found.record.producers["north"]
        for found in cluster.view().assignments.values()
        if "north" in found.record.producers
    }


def test_consumers_know_both_sites_the_primary_first(cluster: ObedientCluster) -> None:
    assert producers(cluster) == {(NORTH, SOUTH)}


def test_consumers_do_not_wait_for_a_site_that_cannot_open_the_source(
    cluster: ObedientCluster,
) -> None:
    """New secondaries need an answer of all producers before they fetch their state."""
    opened = cluster.hosts[SOUTH].record.sources
    cluster.hosts[SOUTH].tell(sources={})
    cluster.settle_coordinator()
    assert producers(cluster) == {(NORTH,)}
    cluster.hosts[SOUTH].tell(sources=opened)
    cluster.settle_coordinator()
    assert producers(cluster) == {(NORTH, SOUTH)}


def test_consumers_know_the_site_that_is_to_feed_them_before_it_has_opened_the_source(
    cluster: ObedientCluster,
) -> None:
    cluster.hosts[NORTH].tell(sources={})
    cluster.settle_coordinator()
    assert producers(cluster) == {(NORTH, SOUTH)}


def test_a_takeover_is_recorded_and_the_site_that_comes_back_stands_by(
    cluster: ObedientCluster,
) -> None:
    report(cluster, SOUTH, ReplicaRole.PRIMARY, 1)
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (SOUTH, 1)
    assert assigned(cluster, SOUTH) == ("primary", 1, NORTH)
    assert assigned(cluster, NORTH) == ("secondary", 1, SOUTH)
    assert len(told(cluster)) == 1
    assert not cluster.coordination.run_once(cluster.now_us)


def test_a_takeover_counts_although_the_former_primary_still_reports(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.PRIMARY, 0)
    report(cluster, SOUTH, ReplicaRole.PRIMARY, 1)
    cluster.settle_coordinator()
    assert north(cluster).feeding_site == SOUTH


def test_a_standby_that_was_not_ready_is_named_once_it_is(cluster: ObedientCluster) -> None:
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    cluster.kill(NORTH)
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (SOUTH, 1)
    assert assigned(cluster, SOUTH) == ("primary", 1, NORTH)


def test_a_primary_that_has_stepped_down_for_nobody_is_named_again(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.STANDBY, 3)
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (NORTH, 4)


def test_a_site_that_has_yet_to_hear_of_its_role_or_to_open_the_source_is_waited_for(
    cluster: ObedientCluster,
) -> None:
    report(cluster, SOUTH, ReplicaRole.PRIMARY, 1)
    cluster.settle_coordinator()
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    report(cluster, NORTH, ReplicaRole.STANDBY, 1)
    cluster.settle_coordinator()
    cluster.hosts[SOUTH].tell(sources={})
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (SOUTH, 1)


def test_sites_that_are_started_again_slip_as_the_one_did_that_fed_consumers_last(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.PRIMARY, 0, slipped_ms=30_000.0)
    cluster.settle_coordinator()
    assert north(cluster).slipped_ms == 30_000.0
    report(cluster, SOUTH, ReplicaRole.PRIMARY, 1, slipped_ms=500.0)
    cluster.settle_coordinator()
    assert north(cluster).slipped_ms == 500.0
    assert not cluster.coordination.run_once(cluster.now_us)


def test_a_site_whose_source_has_failed_is_relieved_of_the_stream(cluster: ObedientCluster) -> None:
    report(cluster, NORTH, ReplicaRole.WARMING, 0)
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    cluster.hosts[NORTH].tell(failed_sources=("north",))
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (SOUTH, 1)


def test_a_site_that_cannot_open_the_source_is_not_waited_for(cluster: ObedientCluster) -> None:
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    cluster.hosts[NORTH].tell(sources={})
    cluster.settle_coordinator()
    assert north(cluster).feeding_site == NORTH
    cluster.hosts[NORTH].tell(failed_sources=("north",))
    cluster.settle_coordinator()
    assert north(cluster).feeding_site == SOUTH


def test_while_the_source_has_failed_at_both_sites_neither_is_named(
    cluster: ObedientCluster,
) -> None:
    for site in (NORTH, SOUTH):
        report(cluster, site, ReplicaRole.WARMING, 0)
        cluster.hosts[site].tell(failed_sources=("north",))
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (NORTH, 0)
    assert told(cluster) == []


def test_of_two_sites_that_stand_by_the_one_is_named_that_does_not_lag(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.STANDBY, 3)
    report(cluster, SOUTH, ReplicaRole.STANDBY, 3)
    lagging = msgspec.structs.replace(cluster.hosts[NORTH].record.sources["north"], lags=True)
    cluster.hosts[NORTH].tell(sources=cluster.hosts[NORTH].record.sources | {"north": lagging})
    cluster.settle_coordinator()
    assert (north(cluster).feeding_site, north(cluster).epoch) == (SOUTH, 4)


def test_what_stands_beside_a_stream_is_opened_before_the_stream(cluster: ObedientCluster) -> None:
    """The stream may refuse tuples as soon as it is open."""
    stream = north(cluster)
    for side in ("late", "rejected"):
        beside = msgspec.structs.replace(
            stream, name=f"north.{side}", standby=None, beside="north", source=REFUSED
        )
        cluster.store.create(STREAMS.key(beside.name), beside)
    cluster.settle_coordinator()
    found = cluster.view().assignments[NORTH].record.sources
    assert [each.stream for each in found] == ["north.rejected", "north.late", "north"]


def test_while_the_first_of_two_sites_is_away_queries_are_placed_by_the_other(
    cluster: ObedientCluster,
) -> None:
    report(cluster, SOUTH, ReplicaRole.PRIMARY, 1)
    cluster.kill(NORTH)
    cluster.settle()
    view = cluster.view()
    planning = Planning(view, view.stream_records, view.query_records, view.dataflow)
    assert planning.task("proximity").pinned["north"] == SOUTH
