"""What a cluster finds of an earlier one in a ZooKeeper that runs already."""

from __future__ import annotations

import pytest

from orchestrator.deploy.context import ClusterExists
from orchestrator.deploy.local import cluster
from orchestrator.deploy.local.cluster import await_former_processes
from tests.obedient_cluster import ObedientCluster


def test_a_cluster_that_runs_elsewhere_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "EXPIRY_S", 0.0)
    running = ObedientCluster(hosts=("paris",))
    with pytest.raises(ClusterExists, match=r"aircraft runs already .* \(paris\)"):
        await_former_processes(running.store, "aircraft")
    assert running.store.get(cluster.NODES.key("paris")) is not None


def test_one_that_has_ended_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records end with their sessions, a moment later than its processes."""
    former = ObedientCluster(hosts=("paris",))
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        former.hosts.pop("paris").store.close()

    monkeypatch.setattr(cluster.time, "sleep", sleep)
    await_former_processes(former.store, "aircraft")
    assert len(naps) == 1
