"""Where fragments begin that have lost their state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from ha.beginning import Beginning
from ha.roles import ReplicaRole
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.undelivered import undelivered
from orchestrator.control.observe.view import ClusterView
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import Overflow, ReplicaStatus
from orchestrator.records.hosts import NOTHING_DELIVERED
from streams.vectors.chunk import NO_WATERMARK
from tests.obedient_cluster import ObedientCluster, query_manifest, stream_manifest

STATEMENTS = """
REGISTER QUERY high RSTREAM(SELECT x FROM north [NOW] WHERE x > 1);
REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM high [RANGE 5 SECONDS SLIDE 1 SECONDS]);
REGISTER QUERY newest ISTREAM(SELECT n FROM counts [ROWS 3]);
"""
SITE, OTHER = "control-centre", "south-receiver"
EVERYTHING = Beginning(after_ms=NO_WATERMARK, delivered_ms=NO_WATERMARK)


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    query = query_manifest("q", STATEMENTS, outputs={"newest": SITE})
    apply(made, query)
    return made


def apply(cluster: ObedientCluster, *queries: QueryManifest) -> None:
    streams = (stream_manifest("north"),)
    cluster.apply(Manifests(cluster=None, streams=streams, queries=queries))
    cluster.settle()


def keep(cluster: ObedientCluster, site: str, **kept_ms: int | None) -> None:
    """Have a site say up to where its sinks have kept results."""
    sinks = {s: structs.replace(NOTHING_DELIVERED, kept_ms=ms) for s, ms in kept_ms.items()}
    cluster.hosts[site].tell(sinks=sinks)


def begins(view: ClusterView, fragment: str, now_us: int = 0) -> Beginning | str | None:
    pending = PendingDecision(view, now_us, DecisionSettings())
    return undelivered(pending, pending.fragments[f"q.{fragment}"])


def test_what_was_not_delivered_enters_again_with_the_windows_that_it_leads_to(
    cluster: ObedientCluster,
) -> None:
    keep(cluster, SITE, newest=100_000)
    view = cluster.view()
    assert begins(view, "newest") == Beginning(after_ms=100_000, delivered_ms=100_000)
    assert begins(view, "counts") == Beginning(after_ms=94_000, delivered_ms=100_000)
    # [NOW] holds a timestamp, a millisecond.
    assert begins(view, "high") == Beginning(after_ms=93_999, delivered_ms=100_000)


def test_windows_of_fragments_that_go_on_need_nothing_from_before(cluster: ObedientCluster) -> None:
    keep(cluster, SITE, newest=100_000)
    record = cluster.view().fragments["q.counts"].record
    for output_ms, after_ms in ((99_999, 93_999), (100_000, 99_999)):
        status = ReplicaStatus(
            role=ReplicaRole.STANDBY, epoch=record.epoch, output_watermark_ms=output_ms
        )
        assert record.secondary is not None
        host = cluster.hosts[record.secondary.node]
        host.tell(replicas=host.record.replicas | {"counts": status})
        assert begins(cluster.view(), "high") == Beginning(after_ms=after_ms, delivered_ms=100_000)


def test_of_a_sink_that_has_kept_nothing_all_input_is_needed(cluster: ObedientCluster) -> None:
    assert begins(cluster.view(), "high") == EVERYTHING


def test_a_site_that_is_away_is_waited_for(cluster: ObedientCluster) -> None:
    cluster.kill(SITE)
    patience_us = DecisionSettings().site_patience_us
    view = replace(cluster.view(), orphaned_since_us={"q.high": 5})
    assert begins(view, "high", now_us=5 + patience_us - 1) == SITE
    assert begins(view, "high", now_us=5 + patience_us) == EVERYTHING


def test_a_fragment_whose_output_nobody_takes_out_reads_what_comes() -> None:
    cluster = ObedientCluster()
    apply(cluster, query_manifest("q", STATEMENTS, outputs={"high": SITE}))
    assert begins(cluster.view(), "newest") is None


@pytest.mark.parametrize(("overflow", "least_ms"), [(Overflow.WAIT, 50), (Overflow.DROP, 100)])
def test_the_output_counts_that_has_come_least_far_unless_its_owner_lets_it_be_dropped(
    overflow: Overflow, least_ms: int
) -> None:
    cluster = ObedientCluster()
    text = "REGISTER QUERY again RSTREAM(SELECT x FROM high [NOW]);"
    other = query_manifest("r", text, outputs={"again": OTHER})
    record = structs.replace(other.record, overflow={"again": overflow})
    query = query_manifest("q", STATEMENTS, outputs={"high": SITE, "newest": SITE})
    apply(cluster, query, structs.replace(other, record=record))
    keep(cluster, SITE, high=100, newest=10_000)
    keep(cluster, OTHER, again=50)
    found = begins(cluster.view(), "high")
    assert isinstance(found, Beginning)
    assert found.delivered_ms == least_ms
