"""What Kubernetes demands of objects beyond their schemas: names, references, quantities, what may
not change.

Pods are in `pod_rules.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.platform.kinds import NOTHING, Kind, Object, pod_template
from tests.platform.objects import ApiError
from tests.platform.pod_rules import pod_problems
from tests.platform.quantities import amount
from tests.platform.selectors import chosen

MOST_NAME, MOST_LABEL = 253, 63

_label = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_service_name = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_subdomain = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_value = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_key = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_data_key = re.compile(r"[-._a-zA-Z0-9]+")

_labels_alone = ("Service", "StatefulSet", "Namespace")
"""Kinds whose names become parts of host names: 63 characters and no dot."""

_may_change = {
    "StatefulSet": {
        "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
    },
    "Job": {
        "parallelism", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "suspend",
    },
    "PersistentVolumeClaim": {"resources", "volumeName", "volumeAttributesClassName"},
    "Pod": {
        "activeDeadlineSeconds", "tolerations", "containers", "initContainers", "nodeName",
        "terminationGracePeriodSeconds", "schedulingGates",
    },
}  # fmt: skip
"""Kind → fields of its specification that may change; those of other kinds may all."""


def check(kind: Kind, found: Object, before: Object | None) -> None:
    """Refuse what Kubernetes would.

    Parameters
    ----------
    before
        The object as it was, if it is not new.

    Raises
    ------
    ApiError
        With all problems.
    """
    problems = [*_metadata(kind, found)]
    if not problems:
        problems += _specification(kind, found)
        template = pod_template(found)
        if template is not None:
            problems += pod_problems(template, kind.kind)
        if before is not None:
            problems += _changed(kind, before, found)
    if problems:
        name = found["metadata"].get("name", "")
        message = f'{kind.kind} "{name}" is invalid: ' + "; ".join(problems)
        raise ApiError(422, "Invalid", message, {"kind": kind.kind, "name": name})


def _metadata(kind: Kind, found: Object) -> Iterator[str]:
    metadata = found["metadata"]
    name = metadata.get("name", "")
    most = MOST_LABEL if kind.kind in _labels_alone else MOST_NAME
    form = _label if kind.kind in _labels_alone else _subdomain
    if kind.kind == "Service":
        form = _service_name
    if kind.group != "rbac.authorization.k8s.io" and (len(name) > most or not form.fullmatch(name)):
        yield f"metadata.name: Invalid value: {name!r}"
    yield from label_problems("metadata.labels", metadata.get("labels") or NOTHING)
    for key in metadata.get("annotations") or NOTHING:
        if not _key.fullmatch(key):
            yield f"metadata.annotations: Invalid value: {key!r}"


def label_problems(where: str, labels: dict[str, Any]) -> Iterator[str]:
    """What is wrong with labels."""
    for key, value in labels.items():
        prefix, _, name = key.rpartition("/")
        if not _key.fullmatch(key) or len(name) > MOST_LABEL or len(prefix) > MOST_NAME:
            yield f"{where}: Invalid value: {key!r}"
        if len(value) > MOST_LABEL or not _value.fullmatch(value):
            yield f"{where}: Invalid value: {value!r}: must be a label of 63 characters at most"


def _specification(kind: Kind, found: Object) -> Iterator[str]:
    spec: Object = found.get("spec") or {}
    match kind.kind:
        case "Deployment" | "StatefulSet" | "ReplicaSet":
            yield from _with_replicas(spec)
        case "Job":
            if spec["template"]["spec"]["restartPolicy"] == "Always":
                yield "spec.template.spec.restartPolicy: must be OnFailure or Never"
        case "PodDisruptionBudget":
            if ("minAvailable" in spec) == ("maxUnavailable" in spec):
                yield "spec: exactly one of minAvailable and maxUnavailable must be set"
        case "Service":
            yield from _service(spec)
        case "PersistentVolumeClaim":
            yield from _storage(spec)
        case "ConfigMap" | "Secret":
            for field in ("data", "binaryData", "stringData"):
                for key in found.get(field) or NOTHING:
                    if not _data_key.fullmatch(key) or len(key) > MOST_NAME:
                        yield f"{field}: Invalid value: {key!r}"
        case "NetworkPolicy":
            yield from _policy(spec)
        case "RoleBinding":
            if found["roleRef"].get("kind") not in ("Role", "ClusterRole"):
                yield "roleRef.kind: Unsupported value"
        case "Role":
            for i, rule in enumerate(found.get("rules") or ()):
                if not rule.get("verbs") or not rule.get("resources") or "apiGroups" not in rule:
                    yield f"rules[{i}]: verbs, resources and apiGroups are required"
        case _:
            pass


def _with_replicas(spec: Object) -> Iterator[str]:
    if spec.get("replicas", 1) < 0:
        yield "spec.replicas: must be greater than or equal to 0"
    labels = spec["template"]["metadata"].get("labels") or NOTHING
    if not chosen(labels, spec["selector"]):
        yield "spec.template.metadata.labels: `selector` does not match template `labels`"
    if spec["template"]["spec"]["restartPolicy"] != "Always":
        yield "spec.template.spec.restartPolicy: Unsupported value: must be Always"
    strategy = spec.get("strategy") or NOTHING
    if strategy.get("type") == "Recreate" and "rollingUpdate" in strategy:
        yield "spec.strategy.rollingUpdate: may not be specified when strategy `type` is 'Recreate'"
    if strategy.get("type") not in (None, "Recreate", "RollingUpdate"):
        yield f"spec.strategy.type: Unsupported value: {strategy['type']!r}"
    rolling = strategy.get("rollingUpdate") or NOTHING
    if rolling and not any(
        int(str(rolling[name]).rstrip("%")) for name in ("maxSurge", "maxUnavailable")
    ):
        yield "spec.strategy.rollingUpdate.maxUnavailable: may not be 0 when `maxSurge` is 0"
    for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        for problem in _storage(claim["spec"]):
            yield f"spec.volumeClaimTemplates[{i}].{problem}"


def _service(spec: Object) -> Iterator[str]:
    ports: list[Object] = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield "spec.ports: Required value"
    if spec["type"] not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        yield f"spec.type: Unsupported value: {spec['type']!r}"
    names = [port.get("name", "") for port in ports]
    if len(ports) > 1 and "" in names:
        yield "spec.ports.name: Required value"
    if len({*names}) < len(names):
        yield "spec.ports.name: Duplicate value"
    for port in ports:
        if not 0 < port["port"] < 2**16:
            yield f"spec.ports.port: Invalid value: {port['port']}"
        if (name := port.get("name")) and (len(name) > MOST_LABEL or not _label.fullmatch(name)):
            yield f"spec.ports.name: Invalid value: {name!r}"


def _storage(spec: Object) -> Iterator[str]:
    if not spec.get("accessModes"):
        yield "spec.accessModes: at least 1 access mode is required"
    try:
        if amount(spec["resources"]["requests"]["storage"]) <= 0:
            yield "spec.resources.requests.storage: must be greater than zero"
    except (KeyError, ValueError, TypeError) as error:
        yield f"spec.resources.requests.storage: {error}"


def _policy(spec: Object) -> Iterator[str]:
    for each in spec.get("policyTypes") or ():
        if each not in ("Ingress", "Egress"):
            yield f"spec.policyTypes: Unsupported value: {each!r}"
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            if port.get("protocol", "TCP") not in ("TCP", "UDP", "SCTP"):
                yield f"ports.protocol: Unsupported value: {port['protocol']!r}"
        for peer in [*(rule.get("from") or ()), *(rule.get("to") or ())]:
            if "ipBlock" in peer and len(peer) > 1:
                yield "may not specify both ipBlock and another peer"
            if not peer:
                yield "must specify a peer"


def _changed(kind: Kind, before: Object, found: Object) -> Iterator[str]:
    old, new = before.get("spec") or NOTHING, found.get("spec") or NOTHING
    different = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    allowed = _may_change.get(kind.kind)
    if allowed is not None and (fixed := different - allowed):
        yield f"spec: Forbidden: updates to {', '.join(sorted(fixed))} are forbidden"
    match kind.kind:
        case "Deployment" | "ReplicaSet":
            if "selector" in different:
                yield "spec.selector: field is immutable"
        case "Service":
            if old.get("clusterIP") and "clusterIP" in different and old["type"] == new["type"]:
                yield "spec.clusterIP: field is immutable"
        case "Pod":
            yield from _changed_pod(old, new)
        case "PersistentVolumeClaim":
            yield from _changed_claim(old, new)
        case "ConfigMap" | "Secret":
            fields = ("data", "binaryData", "immutable")
            if before.get("immutable") and any(before.get(f) != found.get(f) for f in fields):
                yield "data: Forbidden: field is immutable when `immutable` is set"
            if kind.kind == "Secret" and before.get("type") != found.get("type"):
                yield "type: field is immutable"
        case "RoleBinding":
            if before["roleRef"] != found["roleRef"]:
                yield "roleRef: cannot change roleRef"
        case _:
            pass


def _changed_pod(old: Object, new: Object) -> Iterator[str]:
    if old.get("nodeName") and old["nodeName"] != new.get("nodeName"):
        yield "spec.nodeName: field is immutable"
    for field in ("containers", "initContainers"):
        plain = [
            [{**container, "image": ""} for container in spec.get(field) or ()]
            for spec in (old, new)
        ]
        if plain[0] != plain[1]:
            yield f"spec.{field}: Forbidden: pod updates may not change fields other than image"


def _changed_claim(old: Object, new: Object) -> Iterator[str]:
    before, after = (amount(spec["resources"]["requests"]["storage"]) for spec in (old, new))
    if after < before:
        yield "spec.resources.requests.storage: can not be less than previous value"
