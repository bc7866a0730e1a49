"""Fields that the API fills in, as far as the rig's parts read them."""

from __future__ import annotations

from typing import Any

from tests.platform.kinds import NOTHING, Kind, Object, pod_template


def fill_in(kind: Kind, found: Object) -> None:
    """Fill in an object's defaults."""
    found.setdefault("metadata", {})
    found["apiVersion"], found["kind"] = kind.api_version, kind.kind
    template = pod_template(found) if found.get("spec") else None
    if template is not None:
        _pod(template, found["kind"])
    spec: Object = found.get("spec") or {}
    match kind.kind:
        case "Deployment":
            _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
            strategy = spec.setdefault("strategy", {})
            strategy.setdefault("type", "RollingUpdate")
            if strategy["type"] == "RollingUpdate":
                _set(strategy.setdefault("rollingUpdate", {}), maxSurge="25%", maxUnavailable="25%")
        case "ReplicaSet":
            _set(spec, replicas=1)
        case "StatefulSet":
            _set(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
            update = spec.setdefault("updateStrategy", {})
            update.setdefault("type", "RollingUpdate")
            if update["type"] == "RollingUpdate":
                _set(update.setdefault("rollingUpdate", {}), partition=0)
        case "Job":
            _set(spec, backoffLimit=6, completions=1, parallelism=1, completionMode="NonIndexed")
            _set(spec, suspend=False)
        case "Service":
            _service(spec)
        case "Secret":
            found["type"] = found.get("type") or "Opaque"
        case _:
            pass


def _set(found: Object, **values: Any) -> None:
    for name, value in values.items():
        found.setdefault(name, value)


def _service(spec: Object) -> None:
    _set(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        _set(port, protocol="TCP", targetPort=port.get("port"))


def _pod(template: Object, owner: str) -> None:
    template.setdefault("metadata", {})
    spec = template["spec"]
    _set(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler")
    _set(spec, terminationGracePeriodSeconds=30, securityContext={}, enableServiceLinks=True)
    if owner == "Pod":
        _set(spec, serviceAccountName="default")
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _set(container, terminationMessagePath="/dev/termination-log", resources={})
        _set(container, terminationMessagePolicy="File", imagePullPolicy="IfNotPresent")
        for port in container.get("ports") or ():
            _set(port, protocol="TCP")
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            if name in container:
                _set(container[name], timeoutSeconds=1, periodSeconds=10, failureThreshold=3)
                _set(container[name], successThreshold=1)
                if "httpGet" in container[name]:
                    _set(container[name]["httpGet"], path="/", scheme="HTTP")
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or NOTHING).get("fieldRef")
            if reference is not None:
                _set(reference, apiVersion="v1")
        requests = container["resources"].get("requests") or NOTHING
        if limits := container["resources"].get("limits"):
            container["resources"]["requests"] = {**limits, **requests}
    for volume in spec.get("volumes") or ():
        for name in ("secret", "configMap"):
            if name in volume:
                _set(volume[name], defaultMode=0o644)
