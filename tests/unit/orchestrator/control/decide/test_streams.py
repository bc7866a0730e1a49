"""The life of a stream that enters from outside: it starts, waits, begins anew, and is gone."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.writes import decide
from orchestrator.manifest import Manifests
from orchestrator.records import Guarantee, Shed, SourceSpec, SourceStatus
from orchestrator.store.protocol import ASSIGNMENTS, QUERIES, RUNNING_STREAMS, STREAMS
from tests.obedient_cluster import ObedientCluster, aircraft


def with_source(source: SourceSpec | None, shed: Shed | None) -> Manifests:
    streams = [
        msgspec.structs.replace(
            each, record=msgspec.structs.replace(each.record, source=source, shed=shed)
        )
        for each in aircraft().streams
    ]
    return msgspec.structs.replace(aircraft(), streams=tuple(streams))


RECORDED = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)


def generations(cluster: ObedientCluster) -> dict[str, int]:
    """Generations of the sources that sites are assigned."""
    assigned = [found.record for found in cluster.view().assignments.values()]
    return {source.stream: source.generation for each in assigned for source in each.sources}


@pytest.mark.parametrize(
    ("source", "shed", "anew"),
    [
        (RECORDED, None, False),
        (RECORDED, Shed(tuples=1, per_ms=10.0), True),
        (SourceSpec(driver="sensor"), None, True),
    ],
    ids=["resumes", "sheds", "cannot resume"],
)
def test_stream_begins_anew_only_if_its_restarted_site_cannot_resume_it(
    source: SourceSpec, shed: Shed | None, anew: bool
) -> None:
    cluster = ObedientCluster()
    cluster.apply(with_source(source, shed))
    cluster.settle()
    before = generations(cluster)
    for lives in range(1, 4):
        cluster.up("north-receiver")
        cluster.settle()
        raised = lives if anew else 0
        assert generations(cluster) == {
            "north": before["north"] + raised,
            "south": before["south"],
        }
        events = cluster.history().count("stream begins anew: north")
        assert events == raised
    cluster.check_invariants()


@pytest.mark.parametrize(("source", "anew"), [(RECORDED, 0), (SourceSpec(driver="sensor"), 1)])
def test_stream_that_its_site_was_relieved_of_begins_anew_unless_it_resumes(
    source: SourceSpec, anew: int
) -> None:
    # Its host has discarded the log, and would number the tuples from 0 again.
    cluster = ObedientCluster()
    cluster.apply(with_source(source, None))
    cluster.settle()
    before = generations(cluster)
    site = ASSIGNMENTS.key("north-receiver")
    found = cluster.store.get(site)
    assert found is not None
    without = msgspec.structs.replace(found.record, sources=())
    cluster.store.update(site, without, found.version)
    cluster.settle()
    assert generations(cluster) == {"north": before["north"] + anew, "south": before["south"]}
    assert cluster.history().count("stream begins anew: north") == anew
    cluster.check_invariants()


def slips(cluster: ObedientCluster, slipped_ms: float, *, throttled: bool) -> float:
    """What the store keeps after the site of `north` reports so much."""
    status = SourceStatus(next_seq=0, slipped_ms=slipped_ms, throttled=throttled)
    cluster.hosts["north-receiver"].tell(sources={"north": status})
    cluster.settle_coordinator()
    return cluster.view().entering["north"].running.slipped_ms


def assigned_slip_ms(cluster: ObedientCluster) -> float:
    (source,) = cluster.view().assignments["north-receiver"].record.sources
    return source.slipped_ms


def test_a_restarted_site_is_told_how_far_its_source_had_slipped() -> None:
    cluster = ObedientCluster()
    cluster.apply(with_source(RECORDED, None))
    cluster.settle()
    assert slips(cluster, 900.0, throttled=True) == 0
    assert slips(cluster, 1500.0, throttled=True) == 1500
    assert slips(cluster, 1600.0, throttled=True) == 1500, "written in steps while it grows"
    assert slips(cluster, 1600.0, throttled=False) == 1600
    assert slips(cluster, 0.0, throttled=False) == 1600, "it never gets less"
    assert assigned_slip_ms(cluster) == 0, "the host knows better"
    cluster.up("north-receiver")
    cluster.settle()
    assert assigned_slip_ms(cluster) == 1600
    cluster.check_invariants()


def test_stream_whose_site_has_lost_its_session_only_does_not_begin_anew() -> None:
    cluster = ObedientCluster()
    cluster.apply(with_source(SourceSpec(driver="sensor"), None))
    cluster.settle()
    before = generations(cluster)
    host = cluster.hosts["north-receiver"]
    host.store.expire()
    cluster.settle_coordinator()
    host.store.resume()
    host.tell()
    cluster.settle()
    assert generations(cluster) == before


def test_stream_that_has_not_started_does_not_begin_anew() -> None:
    cluster = ObedientCluster()
    for host in cluster.hosts.values():
        host.cold = True
    cluster.apply(with_source(SourceSpec(driver="sensor"), None))
    cluster.settle()
    before = generations(cluster)
    cluster.up("north-receiver")
    cluster.settle()
    assert generations(cluster) == before


def test_stream_and_query_of_a_former_name_are_told_apart() -> None:
    cluster = ObedientCluster()
    lives: list[tuple[dict[str, int], set[int]]] = []
    for _ in range(2):
        cluster.apply(with_source(RECORDED, None))
        cluster.settle()
        assigned = [found.record for found in cluster.view().assignments.values()]
        sinks = {sink.life for each in assigned for sink in each.sinks}
        lives.append((generations(cluster), sinks))
        view = cluster.view()
        cluster.store.delete(QUERIES.key("proximity"), view.queries["proximity"].version)
        for name, found in view.streams.items():
            cluster.store.delete(STREAMS.key(name), found.version)
        cluster.settle()
    (first, first_sinks), (second, second_sinks) = lives
    assert all(second[name] > first[name] for name in first)
    assert len(first_sinks) == len(second_sinks) == 1
    assert first_sinks != second_sinks


def delete(cluster: ObedientCluster) -> None:
    """Write what `vivace delete` writes."""
    view = cluster.view()
    cluster.store.delete(QUERIES.key("proximity"), view.queries["proximity"].version)
    for name, found in view.streams.items():
        cluster.store.delete(STREAMS.key(name), found.version)


def started() -> ObedientCluster:
    """A cluster whose stream north cannot resume, and has begun anew once."""
    cluster = ObedientCluster()
    cluster.apply(with_source(SourceSpec(driver="sensor"), None))
    cluster.settle()
    cluster.up("north-receiver")
    cluster.settle()
    return cluster


def test_what_was_decided_of_a_stream_goes_with_it() -> None:
    cluster = started()
    assert cluster.view().running_streams.keys() == {"north", "south"}
    delete(cluster)
    cluster.settle()
    assert cluster.view().running_streams == {}
    cluster.check_invariants()


def test_a_leader_that_has_missed_a_deletion_takes_nothing_from_the_former_stream() -> None:
    """Whichever of its writes is the last one before another leader goes on."""
    writes = 1
    made = 0
    while made < writes:
        cluster = started()
        former = cluster.view().running_streams["north"].record
        assert former.generation > cluster.view().streams["north"].created
        delete(cluster)
        cluster.apply(with_source(SourceSpec(driver="sensor"), None))
        stream = cluster.view().entering["north"]
        assert stream.running.start_at_us is None
        assert stream.running.generation == cluster.view().streams["north"].created
        decided = decide(cluster.view(), cluster.now_us, DecisionSettings()).writes
        writes, made = len(decided), made + 1
        for write in decided[:made]:
            cluster.write(write)
        cluster.settle()
        after = cluster.view().running_streams["north"].record
        assert after.generation == cluster.view().streams["north"].created > former.generation
        assert after.epoch > former.epoch
        assert after.start_at_us is not None
        assert cluster.history().count("stream begins anew: north") == 1
        cluster.check_invariants()


def test_a_stream_without_what_was_decided_of_it_has_not_started() -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    stream = cluster.view().entering["north"]
    assert "north" not in cluster.view().running_streams
    assert stream.running.start_at_us is None
    assert stream.feeding_site == stream.spec.site
    cluster.settle()
    assert cluster.view().running_streams["north"].record.start_at_us is not None
    assert cluster.view().streams["north"].version == 0, "what people wrote stays as they wrote it"


def test_what_cannot_be_read_of_a_deleted_stream_goes_too() -> None:
    cluster = started()
    cluster.server.plant(RUNNING_STREAMS.key("north").path, b"{")
    cluster.settle()
    assert "north" in cluster.view().unreadable_streams
    delete(cluster)
    cluster.settle()
    assert cluster.store.list(RUNNING_STREAMS).invalid == ()
    cluster.check_invariants()
