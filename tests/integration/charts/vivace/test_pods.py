"""Fields of `pods` and of each component's own `pod` arrive; what the chart says itself stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.charts.vivace.rendering import COMPONENT, labels_of, render
from tests.platform.kinds import Object, is_object
from tests.platform.selectors import chosen

pytestmark = [pytest.mark.chart, pytest.mark.slow]

SPEC: dict[str, Any] = {
    "volumes": [{"name": "mine", "emptyDir": {}}],
    "nodeSelector": {"mine": "yes"},
    "tolerations": [{"key": "mine"}],
    "affinity": {"nodeAffinity": {"mine": "yes"}},
    "topologySpreadConstraints": [{"maxSkew": 7}],
    "priorityClassName": "mine",
    "schedulerName": "mine",
    "runtimeClassName": "mine",
    "initContainers": [{"name": "mine"}],
    "securityContext": {"fsGroup": 7},
}
CONTAINER: dict[str, Any] = {
    "env": [{"name": "MINE"}],
    "envFrom": [{"secretRef": {"name": "mine"}}],
    "volumeMounts": [{"name": "tmp", "mountPath": "/mine"}],
}
METADATA: dict[str, Any] = {"labels": {"mine": "yes"}, "annotations": {"mine": "yes"}}
ALL: dict[str, Any] = {
    **SPEC, **CONTAINER, **METADATA, "sidecars": [{"name": "mine"}], "probes": {"periodSeconds": 7}
}  # fmt: skip

PLACES = {
    "coordinators": "coordinator", "drivers": "driver", "executors": "executor",
    "siteDefaults": "site", "web": "web", "jobs": "job", "zookeeper": "zookeeper",
}  # fmt: skip
"""Where values have a `pod` → the component."""

DRIVERS_OWN = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 30,
}

QUERIES = {"queries": {"manifests": {"a.yaml": "kind: Stream"}}}


def _holds(found: Any, wanted: Any) -> bool:
    """Whether a field has, maybe beside others, what values say of it."""
    if isinstance(wanted, str):
        return found == wanted
    if found is None:
        return False
    if is_object(wanted):
        return all(found.get(key) == value for key, value in wanted.items())
    return all(each in found for each in wanted)


def _missing(pod: Object) -> set[str]:
    """The fields that have not arrived in a pod."""
    container, *others = pod["spec"]["containers"]
    found = {
        name for name, value in METADATA.items() if not _holds(pod["metadata"].get(name), value)
    }
    found |= {name for name, value in SPEC.items() if not _holds(pod["spec"].get(name), value)}
    found |= {name for name, value in CONTAINER.items() if not _holds(container.get(name), value)}
    found |= set() if others == ALL["sidecars"] else {"sidecars"}
    probes = [container[name] for name in container if name.endswith("Probe")]
    asked = bool(probes) and all(probe["periodSeconds"] == 7 for probe in probes)
    return found if asked else found | {"probes"}


def _unasked(pod: Object) -> set[str]:
    """Fields that cannot arrive: nobody asks a Job whether it works."""
    return {"probes"} if labels_of(pod)[COMPONENT] == "job" else set()


def test_each_field_arrives_in_all_pods(tmp_path: Path) -> None:
    for owner, pod in render(tmp_path, {"pods": ALL, **QUERIES}).pods():
        assert _missing(pod) == _unasked(pod), owner


@pytest.mark.parametrize("place", PLACES)
def test_each_field_of_a_component_arrives_in_its_pods_alone(place: str, tmp_path: Path) -> None:
    for owner, pod in render(tmp_path, {place: {"pod": ALL}, **QUERIES}).pods():
        own = labels_of(pod)[COMPONENT] == PLACES[place]
        assert _missing(pod) == (_unasked(pod) if own else {*ALL}), owner


def test_a_components_own_fields_win(tmp_path: Path) -> None:
    other = {"tolerations": [{"key": "other"}], "probes": {"periodSeconds": 9}}
    values = {"pods": other, **{place: {"pod": ALL} for place in PLACES}}
    for owner, pod in render(tmp_path, {**values, **QUERIES}).pods():
        assert _missing(pod) == _unasked(pod), owner
        assert {"key": "other"} not in pod["spec"]["tolerations"], owner


@pytest.mark.parametrize("where", ["nobody", "pods", "application"])
def test_a_driver_goes_elsewhere_soon_after_its_machine_is_lost(where: str, tmp_path: Path) -> None:
    spot = [{"key": "spot"}]
    values: dict[str, Any] = {
        "nobody": {},
        "pods": {"pods": {"tolerations": spot}},
        "application": {"applications": [{"name": "a", "nodes": 2, "tolerations": spot}]},
    }[where]
    for owner, pod in render(tmp_path, values).pods():
        found = pod["spec"].get("tolerations", [])
        assert (DRIVERS_OWN in found) == (labels_of(pod)[COMPONENT] == "driver"), owner
        expected = labels_of(pod)[COMPONENT] in ("driver", "executor") or where == "pods"
        assert (spot[0] in found) == (expected and where != "nobody"), owner


def test_an_applications_executors_spread_over_machines(tmp_path: Path) -> None:
    for _, pod in render(tmp_path, {}).pods():
        if labels_of(pod)[COMPONENT] == "executor":
            (spread,) = pod["spec"]["topologySpreadConstraints"]
            assert spread["topologyKey"] == "kubernetes.io/hostname"
            assert chosen(labels_of(pod), spread["labelSelector"])


def test_applications_are_kept_apart_with_their_drivers(tmp_path: Path) -> None:
    """The loss of a machine with both drivers, or with one and the other's executor, ends both
    replicas of a fragment."""
    pods = [pod for _, pod in render(tmp_path, {}).pods()]
    parts = [pod for pod in pods if labels_of(pod)[COMPONENT] in ("driver", "executor")]
    assert len(parts) == 4
    for pod in parts:
        affinity = pod["spec"]["affinity"]["podAntiAffinity"]
        (rather,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        avoided = [
            labels_of(each)
            for each in pods
            if chosen(labels_of(each), rather["podAffinityTerm"]["labelSelector"])
        ]
        own = labels_of(pod)["vivace-application"]
        assert avoided == [
            labels_of(each) for each in parts if labels_of(each)["vivace-application"] != own
        ]
