"""What planning takes over from the cluster's record and the hosts' records."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.control.dataflow import dataflow
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.task import network_view
from orchestrator.records import ClusterRecord
from orchestrator.store.protocol import CLUSTER
from tests.obedient_cluster import ObedientCluster
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
