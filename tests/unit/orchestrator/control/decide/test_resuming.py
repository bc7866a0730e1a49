"""Fragments that go on from checkpoints: where, when, and from which of them later."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.control.decide.beginning import SETTLE_PATIENCE_US
from orchestrator.records import (
    ApplyRequest,
    BeginFrom,
    CordonRecord,
    FragmentRecord,
    PauseRecord,
    QueryManifest,
    StoredPosition,
)
from orchestrator.store.protocol import CHECKPOINTS, CORDONS, PAUSES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, places_ms, short_reigns
from tests.saved_cluster import REACHED, READ_AGAIN, SavedCluster

PRODUCER, CONSUMER = "proximity.north_tracks", "proximity.alerts"


@pytest.fixture
def saved(tmp_path: Path) -> SavedCluster:
    return SavedCluster(tmp_path / "state", manifest=tuple(places_ms), source=READ_AGAIN)


def fragment(saved: SavedCluster, key: str) -> FragmentRecord:
    return saved.view.fragments[key].record


def places(saved: SavedCluster) -> dict[str, list[str]]:
    return {
        key: [each.node for each in found.record.replicas if saved.view.alive(each)]
        for key, found in saved.view.fragments.items()
    }


def events(cluster: ObedientCluster, *kinds: str) -> list[str]:
    return [e.event.detail for e in cluster.store.history() if e.event.kind in kinds]


def start_unmeasured(saved: SavedCluster) -> None:
    """Start every host again; one has not measured anything."""
    saved.cluster.down()
    for name in places_ms:
        saved.cluster.up(name)
    saved.cluster.hosts["london"].tell(latencies_ms={})
    saved.cluster.settle()


def test_what_goes_on_where_it_was_waits_for_no_measurement(saved: SavedCluster) -> None:
    before = places(saved)
    saved.cluster.down()
    for name in places_ms:
        assert not any(places(saved).values())
        saved.cluster.up(name)
        saved.cluster.hosts[name].tell(latencies_ms={})
        saved.cluster.settle()
    assert places(saved) == before
    restored = events(saved.cluster, "restored")
    assert len(restored) == len(before)
    assert all(each.startswith("the cluster begins again; epoch") for each in restored)
    assert all("as before" in each for each in restored)
    assert events(saved.cluster, "state lost") == []
    assert "nothing needs a new place" in events(saved.cluster, "start")[-1]
    saved.cluster.check_invariants()


@pytest.mark.parametrize("why", ["no checkpoint", "cordoned"])
def test_what_needs_a_place_waits_until_the_network_is_measured(
    saved: SavedCluster, why: str
) -> None:
    if why == "cordoned":
        node = fragment(saved, CONSUMER).primary.node
        saved.store.create(CORDONS.key(node), CordonRecord(node=node, since_us=0))
    else:
        found = saved.view.checkpoints[PRODUCER]
        saved.store.update(
            CHECKPOINTS.key(PRODUCER), structs.replace(found.record, stored=()), found.version
        )
    start_unmeasured(saved)
    assert not any(places(saved).values())
    saved.cluster.now_us += 4 * SETTLE_PATIENCE_US
    saved.cluster.settle()
    assert all(places(saved).values())
    restored = events(saved.cluster, "restored")
    assert len(restored) == len(places(saved)) - (why != "cordoned")


def test_a_producer_of_one_that_has_gone_back_goes_on_from_no_later_checkpoint(
    saved: SavedCluster,
) -> None:
    """Its consumer runs when the producer is lost another time. It is no further than its own
    checkpoint yet, and would lack what lies before the output that a later one begins with."""
    found = saved.view.checkpoints[PRODUCER]
    (first,) = found.record.stored
    later = structs.replace(
        first,
        name=first.name.replace("2000", "4000"),
        log_base=StoredPosition(next_seq=REACHED.next_seq + 2, watermark_ms=3000),
        output=StoredPosition(next_seq=REACHED.next_seq + 4, watermark_ms=4000),
    )
    saved.store.update(
        CHECKPOINTS.key(PRODUCER),
        structs.replace(found.record, stored=(first, later)),
        found.version,
    )
    saved.cluster.settle()
    start_unmeasured(saved)
    for _ in range(2):
        restored = fragment(saved, PRODUCER).restored
        assert restored is not None
        assert restored.checkpoint == first.name
        # The consumer's primary may be on the same node: its secondary takes over.
        for replica in fragment(saved, PRODUCER).replicas:
            saved.cluster.restart(replica.node)
        saved.cluster.settle()
    assert saved.cluster.history().count(f"restored: {PRODUCER}") == 3


def test_nobody_goes_back_for_a_consumer_that_has_no_place(saved: SavedCluster) -> None:
    """Else the producer, which others may read, would do so again with every decision."""
    cluster, found = saved.cluster, saved.view.fragments[PRODUCER]
    cluster.take_over(found.record, found.version)
    left = fragment(saved, PRODUCER).primary.node
    for name in {*EXECUTORS} - {left}:
        cluster.hosts.pop(name).store.close()
    cluster.settle()
    assert events(cluster, "went back") == []
    assert fragment(saved, PRODUCER).epoch == found.record.epoch + 1
    for name in {*EXECUTORS} - {left}:
        cluster.up(name)
    cluster.settle()
    assert len(events(cluster, "went back")) == 1
    assert len(events(cluster, "restored")) == 2
    assert events(cluster, "state lost") == []


def test_a_paused_query_goes_on_where_it_was_after_everything_has_died(saved: SavedCluster) -> None:
    before, key = places(saved), PAUSES.key("proximity")
    life = saved.view.number_of(saved.view.queries["proximity"])
    saved.store.create(key, PauseRecord(query="proximity", life=life, asked_us=1))
    saved.cluster.settle()
    assert all(fragment(saved, each).paused for each in before)
    start_unmeasured(saved)
    saved.cluster.now_us += 4 * SETTLE_PATIENCE_US
    saved.cluster.settle()
    found = saved.store.get(key)
    assert found is not None
    saved.store.delete(key, found.version)
    saved.cluster.settle()
    assert places(saved) == before


@pytest.mark.parametrize("begin", BeginFrom)
def test_a_fragment_that_was_to_begin_anew_has_lost_nothing(
    saved: SavedCluster, begin: BeginFrom
) -> None:
    """Everything dies between the write of a changed query and the new beginning."""
    cluster, query = saved.cluster, saved.view.queries["proximity"].record
    texts = ("FROM north [NOW]", "FROM south [NOW]"), ("ROWS 1] AS b", "ROWS 2] AS b")
    statements = query.statements.replace(*texts[begin is BeginFrom.BEGINNING])
    changed = structs.replace(query, statements=statements)
    manifest = QueryManifest(file="query.yaml:1", record=changed, statements_line=1)
    assert cluster.ask(ApplyRequest(queries=(manifest,), begin=begin)).refusal is None
    cluster.consent()
    for write in short_reigns(cluster):
        if write.record == changed:
            break
    (anew,) = [key for key in places(saved) if fragment(saved, key).restart is not None]
    start_unmeasured(saved)
    saved.cluster.now_us += 4 * SETTLE_PATIENCE_US
    saved.cluster.settle()
    assert events(cluster, "state lost") == []
    assert "begins from nothing" in events(cluster, "statement changed")[-1]
    assert not any("-" in each for each in events(cluster, "statement changed"))
    assert fragment(saved, anew).generation == fragment(saved, anew).epoch
    assert len(events(cluster, "restored")) == len(places(saved)) - 1


def test_leader_killed_at_every_write_while_everything_goes_on(saved: SavedCluster) -> None:
    before = places(saved)
    saved.cluster.down()
    for name in places_ms:
        saved.cluster.up(name)
    for _ in range(4):
        for _ in short_reigns(saved.cluster):
            pass
        for host in saved.cluster.hosts.values():
            host.obey()
    assert places(saved) == before
    records = [found.record for found in saved.view.fragments.values()]
    # Each goes on once, though the next leader finds that only some do.
    assert {(each.epoch - each.generation, each.restored is not None) for each in records} == {
        (1, True)
    }
