"""The kinds of objects that the rig's API serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

Object = dict[str, Any]
"""An object as it stands in JSON."""

NOTHING: Object = {}
"""What a missing part of an object is read as; nobody writes into it."""


def is_object(value: Any) -> TypeGuard[Object]:
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of objects.

    Attributes
    ----------
    group, version
        Of its API; the group of the core's is empty.
    plural, short
        Its name in paths, and on command lines.
    namespaced
        Whether its objects are in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    short: str = ""
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        """Path of its API."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def has_scale(self) -> bool:
        return self.kind in ("Deployment", "StatefulSet", "ReplicaSet")


POD = Kind("", "v1", "pods", "Pod", "po")
SERVICE = Kind("", "v1", "services", "Service", "svc")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap", "cm")
SECRET = Kind("", "v1", "secrets", "Secret")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount", "sa")
CLAIM = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc")
EVENT = Kind("", "v1", "events", "Event", "ev")
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", "ns", namespaced=False)
NODE = Kind("", "v1", "nodes", "Node", "no", namespaced=False)
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment", "deploy")
REPLICA_SET = Kind("apps", "v1", "replicasets", "ReplicaSet", "rs")
STATEFUL_SET = Kind("apps", "v1", "statefulsets", "StatefulSet", "sts")
JOB = Kind("batch", "v1", "jobs", "Job")
CRON_JOB = Kind("batch", "v1", "cronjobs", "CronJob", "cj")
BUDGET = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb")
POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol")
INGRESS = Kind("networking.k8s.io", "v1", "ingresses", "Ingress", "ing")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
BINDING = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")

KINDS = (
    POD, SERVICE, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, CLAIM, EVENT, NAMESPACE, NODE, DEPLOYMENT,
    REPLICA_SET, STATEFUL_SET, JOB, CRON_JOB, BUDGET, POLICY, INGRESS, ROLE, BINDING,
)  # fmt: skip

BY_PATH: Mapping[tuple[str, str], Kind] = {(kind.base, kind.plural): kind for kind in KINDS}

BY_KIND: Mapping[str, Kind] = {kind.kind: kind for kind in KINDS}


def pod_template(found: Object) -> Object | None:
    """Where an object's pods, or it itself, are specified: what has `metadata` and `spec`."""
    spec = found.get("spec") or NOTHING
    match found["kind"]:
        case "Pod":
            return found
        case "CronJob":
            return spec["jobTemplate"]["spec"]["template"]
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "Job":
            return spec["template"]
        case _:
            return None


def name_of(found: Object) -> str:
    return found["metadata"]["name"]


def owner_uids(found: Object) -> set[str]:
    """Whom an object goes with."""
    return {owner["uid"] for owner in found["metadata"].get("ownerReferences") or ()}


def controlled_by(found: Object, owner: Object) -> bool:
    return owner["metadata"]["uid"] in owner_uids(found)


def owner_reference(owner: Object) -> Object:
    """That makes an object one of its controller's."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
