"""Assignments name the nodes that may read each stream."""

from __future__ import annotations

from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentRecord
from orchestrator.store.protocol import STREAMS
from tests.obedient_cluster import ObedientCluster, aircraft

ALERTS = "proximity.alerts"
DESK = "control-centre"


def running() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def nodes_of(record: FragmentRecord) -> set[str]:
    assert record.secondary is not None
    return {record.primary.node, record.secondary.node}


def fragment(view: ClusterView, key: str = ALERTS) -> FragmentRecord:
    return view.fragments[key].record


def may_read(view: ClusterView, node: str, stream: str) -> set[str]:
    return set(view.assignments[node].record.consumers[stream])


def test_replicas_and_sinks_may_read_what_they_read() -> None:
    view = running().view()
    tracks = fragment(view, "proximity.north_tracks")
    assert may_read(view, "north-receiver", "north") == nodes_of(tracks)
    for node in nodes_of(tracks):
        assert may_read(view, node, "north_tracks") == nodes_of(fragment(view))
    for node in nodes_of(fragment(view)):
        assert may_read(view, node, "alerts") == {DESK}


def test_hosts_learn_only_who_may_read_what_they_produce() -> None:
    view = running().view()
    assert view.assignments[DESK].record.consumers == {}
    for node, found in view.assignments.items():
        produced = {each.fragment for each in found.record.fragments}
        produced |= {each.stream for each in found.record.sources}
        assert found.record.consumers.keys() == produced, node


def test_a_new_secondary_may_read_and_the_lost_one_may_not() -> None:
    cluster = running()
    before = fragment(cluster.view())
    assert before.secondary is not None
    cluster.kill(before.secondary.node)
    cluster.settle()
    view = cluster.view()
    after = fragment(view)
    assert nodes_of(after) != nodes_of(before)
    for node in nodes_of(fragment(view, "proximity.north_tracks")) & view.nodes.keys():
        assert may_read(view, node, "north_tracks") == nodes_of(after)


def test_an_observer_may_read_what_it_wants() -> None:
    cluster = running()
    cluster.observe("tail-1", ("alerts", "north"))
    cluster.settle_coordinator()
    view = cluster.view()
    assert "tail-1" in may_read(view, "north-receiver", "north")
    assert "tail-1" not in may_read(view, "south-receiver", "south")
    for node in nodes_of(fragment(view)):
        assert may_read(view, node, "alerts") == {DESK, "tail-1"}


def test_who_reads_may_go_on_while_a_query_cannot_be_read() -> None:
    cluster = running()
    before = may_read(cluster.view(), "north-receiver", "north")
    cluster.server.plant("queries/proximity", b"{")
    cluster.settle()
    view = cluster.view()
    assert may_read(view, "north-receiver", "north") == before
    for node in nodes_of(fragment(view)):
        assert may_read(view, node, "alerts") == {DESK}


def test_nobody_may_read_what_nobody_reads() -> None:
    cluster = ObedientCluster()
    for stream in aircraft().streams:
        cluster.store.create(STREAMS.key(stream.record.name), stream.record)
    cluster.settle()
    assert may_read(cluster.view(), "north-receiver", "north") == set()
