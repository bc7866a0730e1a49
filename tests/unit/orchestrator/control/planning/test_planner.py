"""What planning takes over from the cluster's record and the hosts' records."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.control.observe.dataflow import dataflow
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.task import flowing, network_view
from orchestrator.records import ClusterRecord, Scheme, Standby
from orchestrator.store.protocol import CLUSTER
from tests.obedient_cluster import ObedientCluster, query_manifest
from tests.unit.orchestrator.control.planning.test_feeding import applied, decided
from topology.cpu import DEFAULT_SCALING, Power


@pytest.fixture
def cluster() -> ObedientCluster:
    return ObedientCluster()


def planning(cluster: ObedientCluster) -> Planning:
    return Planning(cluster.view(), {}, {}, dataflow({}, {}))


def test_plans_are_made_with_the_clusters_cpu_scaling(cluster: ObedientCluster) -> None:
    assert planning(cluster).settings.cpu == DEFAULT_SCALING
    found = cluster.store.get(CLUSTER)
    assert found is not None
    scaling = Power(10, exponent=2)
    record = ClusterRecord(name="aircraft", delays_ms={}, cpu=scaling)
    cluster.store.update(CLUSTER, record, found.version)
    assert planning(cluster).settings.cpu == scaling


def test_nodes_come_with_the_uncertainty_of_their_coordinates(cluster: ObedientCluster) -> None:
    hosts = cluster.view().hosts
    told = {name: node.coordinate.error_ms for name, node in hosts.items() if node.coordinate}
    assert {node.name: node.error_ms for node in network_view(hosts, Counter()).nodes} == told


def test_streams_flow_where_replicas_need_every_tuple_of_them() -> None:
    planning = decided(applied(Standby()))
    running = planning.running["a"]
    assert running.secondary is not None
    assert flowing(planning.work, planning.running, ["a"]) == {
        "north": {running.primary, running.secondary},
        "a": {running.primary},
    }
    sparse = decided(applied(Standby(scheme=Scheme.UPSTREAM)))
    assert flowing(sparse.work, sparse.running, ["a"])["north"] == {sparse.running["a"].primary}


def test_a_stream_flows_to_where_as_many_columns_are_used() -> None:
    view = applied(Standby()).view()
    queries = {
        name: query_manifest(
            name,
            f"REGISTER QUERY {name} RSTREAM(SELECT {shown} FROM north [NOW]);",
            outputs={name: "control-centre"},
        ).record
        for name, shown in (("n", "count(*) AS n"), ("all_of_it", "*"), ("ids", "id"))
    }
    streams = view.stream_records
    planning = Planning(view, streams, queries, dataflow(streams, queries))
    planning.place("n")
    node = planning.running["n"].primary
    assert node not in planning.task("all_of_it").graph.by_name["north"].flows_to
    planning.place("all_of_it")
    node = planning.running["all_of_it"].primary
    assert node in planning.task("ids").graph.by_name["north"].flows_to


def test_a_query_is_placed_knowing_where_others_have_its_streams_flow() -> None:
    view = applied(Standby()).view()
    other = "REGISTER QUERY c RSTREAM(SELECT id FROM north [NOW] WHERE x > 1);"
    queries = dict(view.query_records)
    queries["r"] = query_manifest("r", other, outputs={"c": "control-centre"}).record
    planning = Planning(view, view.stream_records, queries, dataflow(view.stream_records, queries))
    running = planning.running["a"]
    flows_to = planning.task("r").graph.by_name["north"].flows_to
    assert flows_to == {running.primary, running.secondary}
    assert planning.task("q").graph.by_name["north"].flows_to == set()
    planning.place("r")
    placed = planning.running["c"]
    assert {placed.primary, placed.secondary} == {running.primary, running.secondary}
