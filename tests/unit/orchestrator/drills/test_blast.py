"""What a drill would hit, and lose, is known before it is run."""

from __future__ import annotations

import msgspec
import pytest

from ha.failure_detector import LAGS_GRANTED
from orchestrator.control.observe.published import read_figures
from orchestrator.drills.blast import (
    blast_of_switchover,
    blast_radius,
    planned_recoveries_ms,
    primary_on,
)
from orchestrator.drills.disturbances import DRILLS, aimed_at
from orchestrator.errors import InvalidInput
from orchestrator.records import Guarantee, SourceSpec
from tests.obedient_cluster import ObedientCluster, aircraft

RECORDED = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)


def cluster_with(source: SourceSpec | None) -> ObedientCluster:
    made, manifests = ObedientCluster(), aircraft()
    streams = tuple(
        msgspec.structs.replace(each, record=msgspec.structs.replace(each.record, source=source))
        for each in manifests.streams
    )
    made.apply(msgspec.structs.replace(manifests, streams=streams))
    made.settle()
    return made


@pytest.fixture
def cluster() -> ObedientCluster:
    return cluster_with(RECORDED)


def test_a_switchover_hits_one_primary_and_leaves_nothing_unprotected(
    cluster: ObedientCluster,
) -> None:
    view = cluster.view()
    node = view.fragments["proximity.alerts"].record.primary.node
    blast = blast_of_switchover(view, node)
    assert blast.primaries == (primary_on(view, node),)
    assert (blast.secondaries, blast.unprotected, blast.would_lose) == ((), (), ())
    assert blast.outputs == ("alerts",)
    assert blast_of_switchover(view, "north-receiver").primaries == ()


def test_a_node_that_fails_hits_its_replicas_and_their_outputs(cluster: ObedientCluster) -> None:
    view = cluster.view()
    node = view.fragments["proximity.alerts"].record.primary.node
    blast = blast_radius(view, [node])
    here = {n for n, f in view.fragments.items() if f.record.primary.node == node}
    assert set(blast.primaries) == here
    assert set(blast.unprotected) == {*blast.primaries, *blast.secondaries}
    assert (blast.outputs, blast.bound_ms, blast.would_lose) == (("alerts",), 300.0, ())
    for part in (node, "proximity.alerts", "bound 300 ms"):
        assert part in blast.summary


def test_hosts_that_are_late_are_part_of_what_the_plan_says(cluster: ObedientCluster) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    assert record.secondary is not None
    cluster.publish_figures()
    figures = read_figures(cluster.store)
    before_ms = planned_recoveries_ms(cluster.view(), figures)["proximity.alerts"]
    cluster.hosts[record.primary.node].tell(lag_ms=20.0)
    cluster.hosts[record.secondary.node].tell(lag_ms=5.0)
    after_ms = planned_recoveries_ms(cluster.view(), figures)["proximity.alerts"]
    assert after_ms - before_ms == pytest.approx(LAGS_GRANTED * 20.0 + 5.0)


def test_what_is_planned_is_told_of_present_places_alone(cluster: ObedientCluster) -> None:
    cluster.publish_figures()
    figures = read_figures(cluster.store)
    assert planned_recoveries_ms(cluster.view(), figures).keys() == cluster.view().fragments.keys()
    found = cluster.view().fragments["proximity.alerts"]
    cluster.take_over(found.record, found.version)
    assert "proximity.alerts" not in planned_recoveries_ms(cluster.view(), figures)
    cluster.settle()
    cluster.publish_figures()
    healed = planned_recoveries_ms(cluster.view(), read_figures(cluster.store))
    assert healed.keys() == cluster.view().fragments.keys()


def test_a_fragment_without_a_warm_secondary_would_lose_its_state(
    cluster: ObedientCluster,
) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    assert record.secondary is not None
    host = cluster.hosts[record.secondary.node]
    host.cold = True
    host.obey()
    lost = blast_radius(cluster.view(), [record.primary.node]).would_lose
    assert "the state of proximity.alerts, which has no warm secondary" in lost


@pytest.mark.parametrize(("source", "loses"), [(RECORDED, False), (SourceSpec(driver="s"), True)])
def test_a_source_that_cannot_resume_would_lose_what_enters(
    source: SourceSpec, *, loses: bool
) -> None:
    blast = blast_radius(cluster_with(source).view(), ["north-receiver"])
    assert (blast.streams, blast.outputs) == (("north",), ("alerts",))
    assert bool(blast.would_lose) is loses


def test_without_the_store_nothing_is_protected_a_second_time(cluster: ObedientCluster) -> None:
    blast = blast_radius(cluster.view(), [])
    assert set(blast.unprotected) == cluster.view().fragments.keys()
    assert blast.would_lose == ()


def test_disturbances_are_aimed_by_stream_output_or_site(cluster: ObedientCluster) -> None:
    view = cluster.view()
    source, sink = DRILLS["kill-source-site"], DRILLS["fill-disk"]
    assert aimed_at(view, source, "south") == "south-receiver"
    assert aimed_at(view, source, "south-receiver") == "south-receiver"
    assert aimed_at(view, source, None) == "north-receiver"
    assert aimed_at(view, sink, "alerts") == aimed_at(view, sink, None) == "control-centre"
    assert aimed_at(view, DRILLS["pause-zookeeper"], None) == ""
    store = DRILLS["kill-zookeeper"]
    for drill, target in ((source, "alerts"), (sink, "paris"), (store, "x")):
        with pytest.raises(InvalidInput, match=f"target: '{target}' is "):
            aimed_at(view, drill, target)
