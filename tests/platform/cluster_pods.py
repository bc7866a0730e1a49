"""A cluster of Vivace as pods of a rig, whatever has made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.control.observe.view import ClusterView
from orchestrator.deploy.config import ProcessConfig
from orchestrator.spark.hosts.kubernetes import APPLICATION_LABEL, CLUSTER_LABEL
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.platform.kinds import NOTHING, POD, Object, name_of
from tests.platform.rig import Rig


class ClusterPods(ABC):
    """A cluster.

    Parameters
    ----------
    name
        The cluster's.
    applications
        Name → number of its nodes.
    """

    def __init__(
        self, rig: Rig, name: str, applications: Mapping[str, int], sites: Sequence[str]
    ) -> None:
        self.rig = rig
        self.name = name
        self.applications = dict(applications)
        self.sites = [*sites]
        self._session: tuple[str, ZooKeeperStore] | None = None

    @property
    @abstractmethod
    def zookeeper(self) -> str:
        """Name of a server's pod."""

    @property
    @abstractmethod
    def secret(self) -> str:
        """The cluster's."""

    @abstractmethod
    def archive(self, site: str) -> Path:
        """The folder of a site's outputs, on this machine."""

    @abstractmethod
    def driver(self, application: str) -> Object:
        """The pod of an application's driver."""

    def config(self, **fields: Any) -> ProcessConfig:
        """As a process of the tests, which is outside all pods, reaches the cluster."""
        pod = self.rig.objects.get(POD, "default", self.zookeeper)
        address = f"{pod['status']['podIP']}:2181"
        return ProcessConfig(
            file="test", cluster=self.name, zookeeper=address, secret=self.secret, **fields
        )

    @property
    def store(self) -> ZooKeeperStore:
        """A session with its store: another one once its server has another address."""
        address = self.config().zookeeper
        if self._session is not None and self._session[0] != address:
            self.close()
        if self._session is None:
            self._session = address, self.config().open_store()
        return self._session[1]

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session[1].close()
            self._session = None

    def executors(self, application: str) -> list[Object]:
        """The pods of an application's executors, those of former lives included."""
        return self.rig.pods(
            **{
                CLUSTER_LABEL: self.name,
                APPLICATION_LABEL: application,
                "spark-role": "executor",
            }
        )

    def one_life(self, application: str) -> bool:
        """Whether an application has all executors' pods, of its present life, and they serve."""
        found = self.executors(application)
        lives = {pod["metadata"]["labels"]["spark-app-selector"] for pod in found}
        wanted = self.applications[application]
        if len(found) != wanted or len(lives) != 1:
            return False
        return len(self.rig.ready(**{"spark-app-selector": lives.pop()})) == wanted

    def kill_host(self, view: ClusterView, node: str) -> None:
        """Kill all processes of a host's pod at once."""
        self.rig.kill(name_of(self.pod_of(view, node)))

    def pod_of(self, view: ClusterView, node: str) -> Object:
        """The pod that a host runs in."""
        address = view.nodes[node].record.endpoint.rpartition(":")[0].removeprefix("tcp://")
        pods = {(pod.get("status") or NOTHING).get("podIP"): pod for pod in self.rig.pods()}
        return pods[address]

    def volume(self, pod: Object, name: str) -> Path:
        """The folder of a pod's own volume, on this machine; it outlives the pod."""
        run = self.rig.kubelet.run_of(pod)
        assert run is not None, f"{name_of(pod)} has never run"
        return run.volume(name)

    def restarts(self) -> dict[str, int]:
        """Pod → how often its containers have ended and been started again."""
        return {
            name_of(pod): sum(
                each["restartCount"]
                for each in (pod.get("status") or NOTHING).get("containerStatuses") or ()
            )
            for pod in self.rig.pods()
        }
