"""Hosts whose record has gone are awaited, by a leader that knows them and by one that does not."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from orchestrator.control.observe.missing_hosts import AWAITED_US, MissingHosts
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.process import Coordination
from orchestrator.records import Assignment
from orchestrator.store.protocol import NODES
from tests.obedient_cluster import ObedientCluster, aircraft


def running() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def test_the_last_record_of_a_host_stands_in_for_it_for_a_while() -> None:
    view = running().view()
    awaited = MissingHosts()
    assert awaited.restored(view, 0) is view
    less = without(view, "zurich")
    assert restored(awaited, less, 1_000).nodes == view.nodes
    assert restored(awaited, less, 1_000 + AWAITED_US - 1).nodes == view.nodes
    assert restored(awaited, less, 1_000 + AWAITED_US).nodes == less.nodes
    # It has come back meanwhile: the next time that it goes, it is awaited anew.
    assert awaited.restored(view, 2 * AWAITED_US) is view
    assert restored(awaited, less, 3 * AWAITED_US).nodes == view.nodes


def test_a_leader_that_has_not_read_the_record_waits() -> None:
    less = without(running().view(), "zurich")
    awaited = MissingHosts()
    assert awaited.restored(less, 0) is None
    assert awaited.restored(less, AWAITED_US - 1) is None
    assert awaited.restored(less, AWAITED_US) is less


def test_a_record_of_a_former_process_does_not_stand_in() -> None:
    view = running().view()
    awaited = MissingHosts()
    awaited.restored(view, 0)
    found = view.assignments["zurich"]
    newer = msgspec.structs.replace(found.record, incarnation="another")
    assignments = {**view.assignments, "zurich": replace(found, record=newer)}
    less = without(view, "zurich")
    assert awaited.restored(replace(less, assignments=assignments), 1) is None
    # Another coordinator has led meanwhile, and the node has had another process.
    awaited.await_anew()
    assert awaited.restored(replace(less, assignments=assignments), AWAITED_US + 1) is None


def test_a_new_leader_cuts_nobody_off_while_hosts_come_back() -> None:
    cluster = running()
    peers = {name: assignment(cluster, name).peers for name in cluster.hosts}
    records = {name: found.record for name, found in cluster.view().nodes.items()}
    cluster.coordinator_store.close()
    second = Coordination(cluster.server.connect(), "coordinator-2")
    for host in cluster.hosts.values():
        host.store.expire()
    for name, host in cluster.hosts.items():
        second.run_once(cluster.now_us)
        cluster.now_us += AWAITED_US // 20
        host.store.resume()
        host.store.create(NODES.key(name), records[name], ephemeral=True)
    while second.run_once(cluster.now_us):
        pass
    assert second.election.leads
    assert {name: assignment(cluster, name).peers for name in cluster.hosts} == peers


def assignment(cluster: ObedientCluster, name: str) -> Assignment:
    return cluster.view().assignments[name].record


def without(view: ClusterView, name: str) -> ClusterView:
    nodes = {each: found for each, found in view.nodes.items() if each != name}
    return replace(view, nodes=nodes)


def restored(awaited: MissingHosts, view: ClusterView, now_us: int) -> ClusterView:
    found = awaited.restored(view, now_us)
    assert found is not None
    return found
