"""What Kubernetes demands of pods beyond their schemas, and Pod Security's profile *restricted*."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.platform.kinds import NOTHING, Object
from tests.platform.quantities import amount

_name = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_port_name = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_variable = re.compile(r"[^=\x00]+")

_volumes_of_restricted = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
})  # fmt: skip

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def pod_problems(template: Object, owner: str) -> Iterator[str]:
    """What is wrong with a pod, or with a template of pods."""
    spec = template["spec"]
    volumes: list[Object] = spec.get("volumes") or []
    names = [volume["name"] for volume in volumes]
    if len({*names}) < len(names):
        yield f"spec.volumes: Duplicate value in {names}"
    for name in names:
        if not _name.fullmatch(name):
            yield f"spec.volumes.name: Invalid value: {name!r}"
    if spec["restartPolicy"] not in ("Always", "OnFailure", "Never"):
        yield f"spec.restartPolicy: Unsupported value: {spec['restartPolicy']!r}"
    if not spec.get("containers"):
        yield "spec.containers: Required value"
    # StatefulSets bring volumes of their own.
    known = None if owner == "StatefulSet" else {*names}
    containers = list(_containers(spec))
    seen = [container["name"] for container in containers]
    if len({*seen}) < len(seen):
        yield f"spec.containers.name: Duplicate value in {seen}"
    for container in containers:
        for problem in _container(container, known):
            yield f"spec.containers[{container['name']}].{problem}"
    for each in spec.get("topologySpreadConstraints") or ():
        if each["whenUnsatisfiable"] not in ("DoNotSchedule", "ScheduleAnyway"):
            yield "spec.topologySpreadConstraints.whenUnsatisfiable: Unsupported value"


def _containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _container(container: Object, volumes: set[str] | None) -> Iterator[str]:
    if not _name.fullmatch(container["name"]):
        yield "name: Invalid value"
    if not container.get("image"):
        yield "image: Required value"
    paths = [mount["mountPath"] for mount in container.get("volumeMounts") or ()]
    if len({*paths}) < len(paths):
        yield f"volumeMounts.mountPath: must be unique: {paths}"
    for mount in container.get("volumeMounts") or ():
        if volumes is not None and mount["name"] not in volumes:
            yield f"volumeMounts.name: Not found: {mount['name']!r}"
    ports = container.get("ports") or ()
    for port in ports:
        if (name := port.get("name")) is not None and not _port_name.fullmatch(name):
            yield f"ports.name: Invalid value: {name!r}: must be no more than 15 characters"
        if not 0 < port["containerPort"] < 2**16:
            yield f"ports.containerPort: Invalid value: {port['containerPort']}"
    for variable in container.get("env") or ():
        if not _variable.fullmatch(variable["name"]):
            yield f"env.name: Invalid value: {variable['name']!r}"
        if "value" in variable and "valueFrom" in variable:
            yield "env.valueFrom: may not be specified when `value` is not empty"
    yield from _resources(container["resources"])
    for name in PROBES:
        if name in container:
            yield from _probe(name, container[name], {port.get("name") for port in ports})


def _resources(resources: Object) -> Iterator[str]:
    limits, requests = resources.get("limits") or NOTHING, resources.get("requests") or NOTHING
    for field, given in (("limits", limits), ("requests", requests)):
        for name, quantity in given.items():
            try:
                if amount(quantity) < 0:
                    yield f"resources.{field}[{name}]: must be greater than or equal to 0"
            except ValueError as error:
                yield f"resources.{field}[{name}]: {error}"
                return
    for name, quantity in requests.items():
        if name in limits and amount(quantity) > amount(limits[name]):
            yield f"resources.requests: Invalid value: must be less than or equal to {name} limit"


def _probe(name: str, probe: Object, ports: set[str | None]) -> Iterator[str]:
    kinds = probe.keys() & {"httpGet", "tcpSocket", "exec", "grpc"}
    if len(kinds) != 1:
        yield f"{name}: must specify exactly one handler type"
    if name != "readinessProbe" and probe["successThreshold"] != 1:
        yield f"{name}.successThreshold: must be 1"
    for kind in kinds & {"httpGet", "tcpSocket"}:
        port = probe[kind]["port"]
        if isinstance(port, str) and port not in ports:
            yield f"{name}.{kind}.port: no port is named {port!r}"


def restricted_problems(pod: Object) -> list[str]:
    """What Pod Security's profile *restricted* has against a pod."""
    spec = pod["spec"]
    context = spec.get("securityContext") or NOTHING
    problems = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    problems += [
        f"volume {volume['name']!r} uses restricted type {sorted(other)}"
        for volume in spec.get("volumes") or ()
        if (other := volume.keys() - {"name"} - _volumes_of_restricted)
    ]
    for container in _containers(spec):
        problems += [
            f"container {container['name']!r} {each}" for each in _open(container, context)
        ]
    if context.get("runAsUser") == 0:
        problems.append("runAsUser=0")
    return problems


def _open(container: Object, pod: Object) -> Iterator[str]:
    own = container.get("securityContext") or NOTHING
    if own.get("privileged"):
        yield "must not set privileged=true"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "must set allowPrivilegeEscalation=false"
    capabilities = own.get("capabilities") or NOTHING
    if "ALL" not in (capabilities.get("drop") or ()):
        yield 'must set capabilities.drop=["ALL"]'
    if {*(capabilities.get("add") or ())} - {"NET_BIND_SERVICE"}:
        yield "must not add capabilities"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "must set runAsNonRoot=true"
    if own.get("runAsUser") == 0:
        yield "must not set runAsUser=0"
    profile = (own.get("seccompProfile") or pod.get("seccompProfile") or NOTHING).get("type")
    if profile not in ("RuntimeDefault", "Localhost"):
        yield "must set seccompProfile.type to RuntimeDefault or Localhost"
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            yield "must not use host ports"
