"""A cluster whose processes are pods of the rig: ZooKeeper, a coordinator, sites, and a driver for
each application, which has Spark make the pods of its executors."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder
from orchestrator.spark.hosts.kubernetes import APPLICATION_LABEL
from tests.platform.cluster_pods import ClusterPods
from tests.platform.kinds import Object
from tests.platform.rig import Rig

SECRET = "known to all pods of the cluster"

HEALTH = 9650

MOUNTS: Mapping[str, str] = {
    "secret": "/run/vivace",
    "config": "/etc/vivace",
    "work": "/vivace",
    "run": "/run/vivace-host",
}

GRACE_S = 90
"""Of an executor's pod."""

LEAVE = ["vivace-container", "leave", "--within", "75s"]
"""What an executor's pod runs before its end."""

OF_PROCESSES = ("secret", "config", "work")
"""Volumes of other pods."""

_shared = """\
apiVersion: v1
kind: Secret
metadata: {{name: vivace}}
data: {{secret: {secret}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: driver}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: driver}}
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, list, watch, delete, deletecollection]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, deletecollection]
- apiGroups: [""]
  resources: [services]
  verbs: [deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: driver}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: driver}}
subjects: [{{kind: ServiceAccount, name: driver}}]
---
apiVersion: v1
kind: Service
metadata: {{name: zookeeper}}
spec:
  clusterIP: None
  selector: {{app: zookeeper}}
  ports: [{{port: 2181}}]
"""

_config = """\
manifest: cluster.yaml
zookeeper: zookeeper:2181
secretFile: /run/vivace/secret
bind: 0.0.0.0
work: /vivace/work
archive: /vivace/archive
grace: 900
sparkMaster: k8s://https://kubernetes.default.svc
sparkSettings:
  spark.kubernetes.container.image: vivace
  spark.kubernetes.executor.podTemplateFile: /etc/vivace/executor.yaml
"""

_zookeeper = """\
tickTime=500
dataDir=/vivace/data
clientPort=2181
admin.enableServer=false
"""


class VivacePods(ClusterPods):
    """The cluster of a Cluster manifest, whose applications have equally many nodes.

    Parameters
    ----------
    manifest
        Its content.
    """

    def __init__(self, rig: Rig, java: Java, manifest: Mapping[str, Any]) -> None:
        number = manifest["applications"]
        each = len(manifest["nodes"]) // number
        names = {f"application-{at}": each for at in range(1, number + 1)}
        sites = [site if isinstance(site, str) else site["name"] for site in manifest["sites"]]
        super().__init__(rig, manifest["name"], names, sites)
        self._java = java
        self._manifest = manifest

    def start(self) -> None:
        """Start everything but ZooKeeper, at once."""
        secret = base64.b64encode(SECRET.encode()).decode()
        self.rig.apply(_shared, secret=secret)
        files = {
            "cluster.yaml": yaml.safe_dump(dict(self._manifest)),
            "vivace.yaml": _config,
            "executor.yaml": yaml.safe_dump(self._executor()),
            "zoo.cfg": _zookeeper,
        }
        config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "data": files}
        self.rig.put({**config, "metadata": {"name": "vivace"}})
        self._deploy("coordinator", "deploy.coordinator")
        for site in self.sites:
            self._deploy(site, "deploy.site", VIVACE_SITE=site)
        for name, nodes in self.applications.items():
            self._deploy(name, "deploy.host_pool", account="driver", VIVACE_APPLICATION=name)
            self._keep_most(name, nodes)

    def _keep_most(self, application: str, nodes: int) -> None:
        """Let one executor of an application be evicted at a time.

        Their pods have no controller with a scale: Kubernetes takes an integer alone.
        """
        chosen = {APPLICATION_LABEL: application, "spark-role": "executor"}
        spec = {"minAvailable": nodes - 1, "selector": {"matchLabels": chosen}}
        metadata = {"name": f"executors-{application}"}
        budget: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        self.rig.put({**budget, "metadata": metadata, "spec": spec})

    def start_zookeeper(self) -> None:
        """Start the last one."""
        jars = str(pyspark_folder() / "jars" / "*")
        server = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [str(self._java.executable), "-cp", jars, server, "/etc/vivace/zoo.cfg"]
        container = self._container("zookeeper", command, {})
        container["readinessProbe"] = {"tcpSocket": {"port": 2181}, "periodSeconds": 1}
        pods = self._template("zookeeper", container)
        spec: Object = {
            "serviceName": "zookeeper",
            "replicas": 1,
            "selector": {"matchLabels": {"app": "zookeeper"}},
            "template": pods,
        }
        made = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "zookeeper"}}
        self.rig.put({**made, "spec": spec})

    @property
    def zookeeper(self) -> str:
        return "zookeeper-0"

    @property
    def secret(self) -> str:
        return SECRET

    def archive(self, site: str) -> Path:
        (pod,) = self.rig.pods(app=site)
        return self.volume(pod, "work") / "archive"

    def driver(self, application: str) -> Object:
        (pod,) = self.rig.pods(app=application)
        return pod

    def _deploy(self, name: str, module: str, account: str = "default", **own: str) -> None:
        command = [sys.executable, "-m", f"orchestrator.{module}"]
        command += ["--config", "/etc/vivace/vivace.yaml"]
        container = self._container(name, command, own)
        container["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": HEALTH}}
        container["readinessProbe"] |= {"periodSeconds": 1, "timeoutSeconds": 5}
        spec: Object = {
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": self._template(name, container, serviceAccountName=account),
        }
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
        self.rig.put({**made, "spec": spec})

    def _container(self, name: str, command: Sequence[str], own: Mapping[str, str]) -> Object:
        variables = [{"name": key, "value": value} for key, value in own.items()]
        variables += [
            {"name": "VIVACE_HEALTH", "value": f"0.0.0.0:{HEALTH}"},
            _from_field("VIVACE_POD", "metadata.name"),
            _from_field("VIVACE_MACHINE", "spec.nodeName"),
        ]
        mounts = [{"name": volume, "mountPath": MOUNTS[volume]} for volume in OF_PROCESSES]
        found: Object = {"name": name, "image": "vivace", "command": list(command)}
        return {**found, "env": variables, "volumeMounts": mounts}

    def _template(self, name: str, container: Object, **fields: Any) -> Object:
        volumes: list[Object] = [
            {"name": "secret", "secret": {"secretName": "vivace"}},
            {"name": "config", "configMap": {"name": "vivace"}},
            {"name": "work", "emptyDir": {}},
        ]
        spec: Object = {"terminationGracePeriodSeconds": 20, "volumes": volumes, **fields}
        return {
            "metadata": {"labels": {"app": name}},
            "spec": {**spec, "containers": [container]},
        }

    def _executor(self) -> Object:
        """The template of executors' pods. Their command is the image's, of which this is one."""
        container = {
            "name": "executor",
            "env": [
                _from_field("VIVACE_MACHINE", "spec.nodeName"),
                {"name": "VIVACE_HEALTH", "value": f"0.0.0.0:{HEALTH}"},
                {"name": "VIVACE_RUN", "value": MOUNTS["run"]},
            ],
            "volumeMounts": [
                {"name": name, "mountPath": MOUNTS[name]} for name in ("secret", "run")
            ],
            "lifecycle": {"preStop": {"exec": {"command": LEAVE}}},
            "readinessProbe": {
                "httpGet": {"path": "/readyz", "port": HEALTH},
                "periodSeconds": 1,
                "timeoutSeconds": 5,
            },
        }
        spec: Object = {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": GRACE_S,
            "volumes": [
                {"name": "secret", "secret": {"secretName": "vivace"}},
                {"name": "run", "emptyDir": {}},
            ],
            "containers": [container],
        }
        return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
