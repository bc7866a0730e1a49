"""What every rendering of the chart must keep to."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator

import yaml

from tests.integration.charts.vivace.rendering import COMPONENT, Rendered, labels_of
from tests.platform.defaults import fill_in
from tests.platform.kinds import BY_KIND, NOTHING, POD, Object, name_of
from tests.platform.objects import ApiError
from tests.platform.pod_rules import restricted_problems
from tests.platform.rules import check
from tests.platform.schemas import check_schema
from tests.platform.selectors import chosen

WITHOUT_SCHEMA = {"ServiceMonitor", "PrometheusRule", "HTTPRoute"}
"""Kinds that others define."""

MOST_NAME = 63


def judge(found: Rendered, *versions: str) -> None:
    """All of the below."""
    _check_objects(found, versions)
    _check_names(found)
    _check_pods(found)
    _check_references(found)
    _check_selectors(found)
    _check_budgets(found)
    _check_secrets(found)


def _check_objects(found: Rendered, versions: tuple[str, ...]) -> None:
    """Kubernetes takes them: its schemas, and what they do not hold."""
    executors = [pod for owner, pod in found.pods() if owner.startswith("executors")]
    # Spark fills these in.
    whole: list[Object] = [
        {**pod, "metadata": {**pod["metadata"], "name": "executor"}} for pod in executors
    ]
    for each in (*found.objects, *whole):
        if each["kind"] in WITHOUT_SCHEMA:
            continue
        kind = BY_KIND[each["kind"]]
        for version in versions:
            check_schema(kind, each, version)
        filled = copy.deepcopy(each)
        fill_in(kind, filled)
        try:
            check(kind, filled, None)
        except ApiError as error:
            raise AssertionError(f"{each['kind']} {name_of(each)}: {error}") from error


def _check_names(found: Rendered) -> None:
    names = [(each["apiVersion"], each["kind"], name_of(each)) for each in found.objects]
    assert len({*names}) == len(names), "two objects have one name"
    places = {each["metadata"].get("namespace") for each in found.objects} - {None}
    assert len(places) == 1, places
    for each in found.objects:
        name = name_of(each)
        assert len(name) <= MOST_NAME, name
    for each in found.of("StatefulSet"):
        # Of a label of its pods, beside a digest.
        assert len(name_of(each)) <= MOST_NAME - len("-0123456789"), name_of(each)


def _check_pods(found: Rendered) -> None:
    """Pod Security's profile *restricted*, a read-only root, tokens for drivers alone."""
    for owner, pod in found.pods():
        filled = copy.deepcopy({**pod, "kind": "Pod"})
        fill_in(POD, filled)
        assert not restricted_problems(filled), (owner, restricted_problems(filled))
        spec = pod["spec"]
        is_driver = labels_of(pod)[COMPONENT] == "driver"
        assert spec["automountServiceAccountToken"] is is_driver, owner
        assert spec["enableServiceLinks"] is False, owner
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, owner
        container = spec["containers"][0]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, owner
        assert not container["image"].endswith(":latest"), owner


def _check_references(found: Rendered) -> None:
    """Whatever a pod names is there, or somebody's whom the values name."""
    for owner, pod in found.pods():
        spec = pod["spec"]
        if account := spec.get("serviceAccountName"):
            assert found.find("ServiceAccount", account), (owner, account)
        claims = _claims(found, owner)
        volumes = {each["name"]: each for each in spec.get("volumes") or ()}
        for container in _containers(spec):
            for mount in container.get("volumeMounts") or ():
                assert mount["name"] in volumes.keys() | claims, (owner, mount)
        for volume in volumes.values():
            _check_source(found, owner, volume)
    for each in found.of("RoleBinding"):
        assert found.find("Role", each["roleRef"]["name"])
        assert all(found.find("ServiceAccount", subject["name"]) for subject in each["subjects"])
    for each in found.of("StatefulSet"):
        assert found.find("Service", each["spec"]["serviceName"])
    for each in found.of("Ingress"):
        for rule in each["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = found.find("Service", path["backend"]["service"]["name"])
                assert service is not None
                names = {port["name"] for port in service["spec"]["ports"]}
                assert path["backend"]["service"]["port"]["name"] in names


def _check_source(found: Rendered, owner: str, volume: Object) -> None:
    for kind, field, key in (
        ("ConfigMap", "configMap", "name"),
        ("Secret", "secret", "secretName"),
    ):
        source = volume.get(field)
        if source is None:
            continue
        there = found.find(kind, source[key])
        # A hook that comes first needs what comes with it; another one comes after all others.
        if there is None:
            assert not source[key].startswith(("r-vivace", "streams-", "r" * 20)), (owner, source)
            continue
        for item in source.get("items") or ():
            assert item["key"] in there["data"], (owner, item)


def _claims(found: Rendered, owner: str) -> set[str]:
    kind, _, name = owner.partition(" ")
    each = found.find(kind, name)
    templates = (each or NOTHING).get("spec", NOTHING).get("volumeClaimTemplates") or ()
    return {name_of(template) for template in templates}


def _containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec["containers"]


def _check_selectors(found: Rendered) -> None:
    """Each selector chooses its own pods and no others; each port of a Service is theirs."""
    pods = dict(found.pods())
    for each in (*found.of("Deployment"), *found.of("StatefulSet")):
        own = f"{each['kind']} {name_of(each)}"
        selected = {
            o for o, pod in pods.items() if chosen(labels_of(pod), each["spec"]["selector"])
        }
        assert selected == {own}, (own, selected)
    for each in found.of("Service"):
        selector = {"matchLabels": each["spec"]["selector"]}
        selected = [pod for pod in pods.values() if chosen(labels_of(pod), selector)]
        assert len(selected) == 1, name_of(each)
        ports = {
            port.get("name")
            for container in selected[0]["spec"]["containers"]
            for port in container.get("ports") or ()
        }
        assert {port["targetPort"] for port in each["spec"].get("ports") or ()} <= ports
    for each in found.of("NetworkPolicy"):
        assert any(chosen(labels_of(pod), each["spec"]["podSelector"]) for pod in pods.values())


def _check_budgets(found: Rendered) -> None:
    """One pod of several may go; of one alone, nobody says so."""
    manifest = yaml.safe_load(found.one("ConfigMap", "-cluster")["data"]["cluster.yaml"])
    nodes = {each["name"]: len(each["nodes"]) for each in manifest["applications"]}
    pods = list(found.pods())
    seen: dict[str, int] = {}
    for each in found.of("PodDisruptionBudget"):
        spec = each["spec"]
        ((owner, pod),) = [(o, p) for o, p in pods if chosen(labels_of(p), spec["selector"])]
        labels = labels_of(pod)
        if labels[COMPONENT] == "executor":
            application = labels["vivace-application"]
            seen[application] = spec["minAvailable"]
            assert type(spec["minAvailable"]) is int
            assert spec["minAvailable"] == nodes[application] - 1 > 0
        else:
            kind, _, name = owner.partition(" ")
            several = found.find(kind, name)
            assert several is not None
            assert several["spec"]["replicas"] > 1, owner
            assert spec["maxUnavailable"] == 1
    assert seen.keys() == {name for name, number in nodes.items() if number > 1}


def _check_secrets(found: Rendered) -> None:
    """What a Secret holds stands nowhere else."""
    secrets = [text for each in found.of("Secret") for text in each["data"].values()]
    elsewhere = json.dumps([each for each in found.objects if each["kind"] != "Secret"])
    assert not any(text in elsewhere for text in secrets)
    assert not re.search(r"VIVACE_SECRET\b", elsewhere)
