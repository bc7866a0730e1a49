"""Which of a stream's two sites feeds its consumers, as the leader records it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from ha.roles import ReplicaRole
from orchestrator.control.decide.leaving import PATIENT_US
from orchestrator.control.decide.stream_sites import TRIED_US
from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.latencies import latency_uncertainty_ms
from orchestrator.control.observe.missing_hosts import AWAITED_US
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.drills import acting
from orchestrator.records import Assignment, Guarantee, Leaving, SourceSpec, SourceStatus
from orchestrator.store.protocol import NODES, RUNNING_STREAMS, STREAMS
from tests.obedient_cluster import ObedientCluster, aircraft

REFUSED = SourceSpec(driver="side", guarantee=Guarantee.JOURNALED)
NORTH, SOUTH = "north-receiver", "south-receiver"


RECORDED = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)
SENT = SourceSpec(driver="http", guarantee=Guarantee.SENT)
"""What clients send and no site keeps."""
FIELDS = {"altitude": ("state", "altitude")}


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> ObedientCluster:
    """The stream north enters at two sites."""
    made = ObedientCluster()
    manifests = aircraft()
    source = getattr(request, "param", RECORDED)
    two = {"standby": SOUTH, "source": source, "fields": FIELDS}
    streams = tuple(
        msgspec.structs.replace(m, record=msgspec.structs.replace(m.record, **two))
        if m.record.name == "north"
        else m
        for m in manifests.streams
    )
    made.apply(msgspec.structs.replace(manifests, streams=streams))
    made.settle()
    return made


def north(cluster: ObedientCluster) -> EnteringStream:
    return cluster.view().entering["north"]


def first_epoch(cluster: ObedientCluster) -> int:
    return cluster.view().streams["north"].created


def feeds(cluster: ObedientCluster) -> tuple[str, int]:
    """The site that feeds consumers, and the epoch, counted from 0."""
    return north(cluster).feeding_site, north(cluster).running.epoch - first_epoch(cluster)


def begun(cluster: ObedientCluster) -> tuple[str, int]:
    """The site that feeds consumers, and how often the stream has begun anew."""
    return north(cluster).feeding_site, north(cluster).running.generation - first_epoch(cluster)


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


def test_sites_are_told_which_fields_columns_come_from(cluster: ObedientCluster) -> None:
    for site in (NORTH, SOUTH):
        found = cluster.view().assignments[site].record
        assert [each.fields for each in found.sources if each.stream == "north"] == [FIELDS]


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
    assert feeds(cluster) == (SOUTH, 1)
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
    assert feeds(cluster) == (SOUTH, 1)
    assert assigned(cluster, SOUTH) == ("primary", 1, NORTH)


def test_a_primary_that_has_stepped_down_for_nobody_is_named_again(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.STANDBY, 3)
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    cluster.settle_coordinator()
    assert feeds(cluster) == (NORTH, 4)


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
    assert feeds(cluster) == (SOUTH, 1)


def test_sites_that_are_started_again_slip_as_the_one_did_that_fed_consumers_last(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.PRIMARY, 0, slipped_ms=30_000.0)
    cluster.settle_coordinator()
    assert north(cluster).running.slipped_ms == 30_000.0
    report(cluster, SOUTH, ReplicaRole.PRIMARY, 1, slipped_ms=500.0)
    cluster.settle_coordinator()
    assert north(cluster).running.slipped_ms == 500.0
    assert not cluster.coordination.run_once(cluster.now_us)


def test_a_site_whose_source_has_failed_is_relieved_of_the_stream(cluster: ObedientCluster) -> None:
    report(cluster, NORTH, ReplicaRole.WARMING, 0)
    report(cluster, SOUTH, ReplicaRole.STANDBY, 0)
    cluster.hosts[NORTH].tell(failed_sources=("north",))
    cluster.settle_coordinator()
    assert feeds(cluster) == (SOUTH, 1)


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
    assert feeds(cluster) == (NORTH, 0)
    assert told(cluster) == []


def test_of_two_sites_that_stand_by_the_one_is_named_that_does_not_lag(
    cluster: ObedientCluster,
) -> None:
    report(cluster, NORTH, ReplicaRole.STANDBY, 3)
    report(cluster, SOUTH, ReplicaRole.STANDBY, 3)
    lagging = msgspec.structs.replace(cluster.hosts[NORTH].record.sources["north"], lags=True)
    cluster.hosts[NORTH].tell(sources=cluster.hosts[NORTH].record.sources | {"north": lagging})
    cluster.settle_coordinator()
    assert feeds(cluster) == (SOUTH, 4)


def test_what_stands_beside_a_stream_is_opened_before_the_stream(cluster: ObedientCluster) -> None:
    """The stream may refuse tuples as soon as it is open."""
    stream = north(cluster).spec
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
    planning = Planning.of(view)
    assert planning.task("proximity").pinned["north"] == SOUTH


sent = pytest.mark.parametrize("cluster", [SENT], indirect=True)
"""The stream north cannot resume."""


def opened_at(cluster: ObedientCluster) -> set[str]:
    """The sites that are to open the stream north."""
    return {
        site
        for site, found in cluster.view().assignments.items()
        if any(each.stream == "north" for each in found.record.sources)
    }


@sent
def test_what_cannot_resume_is_open_at_one_site(cluster: ObedientCluster) -> None:
    assert north(cluster).running.start_at_us is not None
    assert opened_at(cluster) == {NORTH}
    assert assigned(cluster, NORTH) == ("primary", 0, None)
    assert producers(cluster) == {(NORTH,)}


@sent
def test_it_begins_anew_at_the_other_site_once_its_own_is_gone_and_stays_there(
    cluster: ObedientCluster,
) -> None:
    south = cluster.hosts[SOUTH].record.incarnation
    cluster.kill(NORTH)
    cluster.settle_coordinator()
    assert begun(cluster) == (SOUTH, 1)
    assert north(cluster).running.incarnation == south
    assert opened_at(cluster) == {SOUTH}
    assert producers(cluster) == {(SOUTH,)}
    (detail,) = told(cluster)
    assert detail.startswith(f"{NORTH} is gone; {SOUTH} is to bring it in")
    cluster.up(NORTH)
    cluster.settle()
    assert opened_at(cluster) == {SOUTH}
    assert begun(cluster) == (SOUTH, 1)
    cluster.kill(SOUTH)
    cluster.settle_coordinator()
    assert begun(cluster) == (NORTH, 2)


@sent
def test_it_begins_anew_where_it_was_if_its_site_is_started_again_first(
    cluster: ObedientCluster,
) -> None:
    cluster.restart(NORTH)
    cluster.settle_coordinator()
    assert begun(cluster) == (NORTH, 1)
    assert told(cluster) == []


@sent
def test_it_waits_if_neither_site_is_there(cluster: ObedientCluster) -> None:
    cluster.kill(SOUTH)
    cluster.kill(NORTH)
    cluster.settle_coordinator()
    assert begun(cluster) == (NORTH, 0)
    cluster.up(SOUTH)
    cluster.settle_coordinator()
    assert begun(cluster) == (SOUTH, 1)


@sent
def test_before_it_has_started_it_moves_without_beginning_anew(cluster: ObedientCluster) -> None:
    cluster.hosts[NORTH].tell(sources={})
    cluster.settle_coordinator()
    running = cluster.view().running_streams["north"]
    cluster.store.delete(RUNNING_STREAMS.key("north"), running.version)
    cluster.kill(NORTH)
    cluster.settle_coordinator()
    assert begun(cluster) == (SOUTH, 0)
    assert (north(cluster).running.start_at_us, north(cluster).running.incarnation) == (None, None)
    cluster.settle()
    assert north(cluster).running.start_at_us is not None
    assert north(cluster).running.incarnation == cluster.hosts[SOUTH].record.incarnation


@sent
def test_a_site_whose_record_cannot_be_read_keeps_it(cluster: ObedientCluster) -> None:
    path = NODES.key(NORTH).path
    entry = cluster.server.entries[path]
    newer = msgspec.json.encode(msgspec.json.decode(entry.data) | {"added_later": 1})
    cluster.server.plant(path, newer)
    cluster.now_us += AWAITED_US
    cluster.settle_coordinator()
    assert begun(cluster) == (NORTH, 0)


def fail(cluster: ObedientCluster, site: str) -> None:
    """Have a site say that it cannot open the stream's source."""
    host = cluster.hosts[site]
    rest = {name: each for name, each in host.record.sources.items() if name != "north"}
    host.tell(sources=rest, failed_sources=("north",))


@sent
def test_it_goes_to_the_other_site_if_its_own_cannot_open_it_and_back_after_a_while(
    cluster: ObedientCluster,
) -> None:
    fail(cluster, NORTH)
    cluster.settle_coordinator()
    assert opened_at(cluster) == {SOUTH}
    cluster.hosts[NORTH].tell(failed_sources=())
    fail(cluster, SOUTH)
    cluster.settle_coordinator()
    assert opened_at(cluster) == {SOUTH}
    cluster.now_us += TRIED_US
    cluster.settle_coordinator()
    assert opened_at(cluster) == {NORTH}
    assert [detail.split(";")[0] for detail in told(cluster)] == [
        f"{NORTH} cannot open its source",
        f"{SOUTH} cannot open its source",
    ]


@sent
def test_nobody_reads_from_a_site_that_still_has_it_open(cluster: ObedientCluster) -> None:
    """It had only lost the store, and has yet to hear that the other one brings the stream in."""
    cluster.kill(NORTH)
    cluster.settle()
    opened = cluster.hosts[SOUTH].record.sources["north"]
    cluster.up(NORTH)
    cluster.hosts[NORTH].tell(sources={"north": opened})
    cluster.settle_coordinator()
    assert producers(cluster) == {(SOUTH,)}


@sent
def test_how_certain_latencies_are_depends_on_the_site_that_feeds(cluster: ObedientCluster) -> None:
    def uncertainty_ms() -> float | None:
        view = cluster.view()
        query = view.query_records["proximity"]
        ((output, site), *_) = query.outputs.items()
        return latency_uncertainty_ms(view, view.dataflow, view.entering, output, site)

    before_ms = uncertainty_ms()
    assert before_ms is not None
    cluster.kill(NORTH)
    cluster.settle()
    assert uncertainty_ms() == before_ms


@sent
def test_a_drill_does_not_wait_for_a_source_that_has_gone_to_the_other_site(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cluster.view()
    found: list[Callable[[ClusterView], Sequence[str]]] = []

    def ask(
        _acting: object, amiss: Callable[[ClusterView], Sequence[str]], _otherwise: str
    ) -> None:
        found.append(amiss)

    monkeypatch.setattr(acting, "wait_for_view", ask)
    acting.await_successor(
        cast("acting.Acting", SimpleNamespace(view=before)), NORTH, with_drivers=True
    )
    cluster.kill(NORTH)
    cluster.settle()
    assert found[0](cluster.view()) == [f"{NORTH} has not been replaced"]
    cluster.up(NORTH)
    cluster.settle()
    assert found[0](cluster.view()) == []


def test_a_site_that_leaves_has_the_other_one_feed_first(cluster: ObedientCluster) -> None:
    leaving = Leaving(since_us=cluster.now_us, until_us=cluster.now_us + 60_000_000)
    cluster.hosts[NORTH].tell(leaving=leaving)
    cluster.settle_coordinator()
    assert feeds(cluster) == (SOUTH, 1)
    assert "leaves" in told(cluster)[-1]
    # It waits until the other one feeds.
    assert not cluster.assignment(NORTH).may_end
    cluster.settle()
    assert assigned(cluster, NORTH) == ("secondary", 1, SOUTH)
    assert cluster.assignment(NORTH).may_end
    assert feeds(cluster) == (SOUTH, 1)


def test_a_site_that_leaves_does_not_give_way_to_one_that_lags_or_leaves(
    cluster: ObedientCluster,
) -> None:
    status = cluster.hosts[SOUTH].record.sources["north"]
    lagging = msgspec.structs.replace(status, lags=True)
    cluster.hosts[SOUTH].tell(sources=cluster.hosts[SOUTH].record.sources | {"north": lagging})
    leaving = Leaving(since_us=cluster.now_us, until_us=cluster.now_us + 60_000_000)
    cluster.hosts[NORTH].tell(leaving=leaving)
    cluster.settle_coordinator()
    assert feeds(cluster) == (NORTH, 0)
    assert not cluster.assignment(NORTH).may_end
    # Not for ever.
    cluster.now_us += PATIENT_US
    cluster.settle_coordinator()
    assert cluster.assignment(NORTH).may_end
