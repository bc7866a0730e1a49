"""What the rig's controllers make of Deployments, StatefulSets, Jobs and budgets."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable

import pytest

from tests.platform.api import Api, Sender, is_ready
from tests.platform.controllers import Controllers
from tests.platform.kinds import (
    BUDGET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NOTHING,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Object,
    name_of,
)
from tests.platform.objects import ApiError, Objects, kind_of

SENDER = Sender(user="admin", manager="test")

READY: Object = {"type": "Ready", "status": "True"}

STEPS = 60


class Platform:
    """An API with controllers, and a kubelet that does what the test says."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.api = Api(self.objects)
        space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        self.api.create(NAMESPACE, "", space, SENDER)
        self._controllers = Controllers(self.api)
        self.seen: list[list[str]] = []
        """The pods that served after each step, and were not to end."""
        self.linger = 0
        """Steps that a pod which is to end goes on for."""
        self._ending = Counter[str]()

    def put(self, kind: str, spec: Object, name: str = "x", version: str = "apps/v1") -> Object:
        given: Object = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        given["spec"] = copy.deepcopy(spec)
        return self.api.create(kind_of(given), "default", given, SENDER)

    def change(self, found: Object, how: Callable[[Object], object]) -> None:
        place = found["metadata"]["namespace"]
        self.objects.change(kind_of(found), place, name_of(found), how)

    def pods(self) -> list[Object]:
        return self.objects.list(POD, "default")

    def settle(self, until: Callable[[], bool], phase: str = "Running") -> None:
        """Take steps; pods come to serve, and end when they are told to."""
        for _ in range(STEPS):
            self._controllers.step()
            if until():
                return
            for pod in self.pods():
                if "deletionTimestamp" in pod["metadata"] or not pod["spec"].get("nodeName"):
                    self._treat(pod)
                elif not is_ready(pod):
                    self.change(pod, lambda found: found["status"].update(ready(phase)))
            self.seen.append([
                name_of(pod)
                for pod in self.pods()
                if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
            ])  # fmt: skip
        raise AssertionError(f"not within {STEPS} steps")

    def _treat(self, pod: Object) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._ending[name_of(pod)] += 1
            if self._ending[name_of(pod)] > self.linger:
                self.objects.remove(POD, "default", name_of(pod))
        else:
            self.change(pod, lambda found: found["spec"].update(nodeName="node-1"))


def ready(phase: str) -> Object:
    return {"phase": phase, "conditions": [READY] if phase == "Running" else []}


def template(image: str = "first") -> Object:
    container = {"name": "c", "image": image}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}


SELECTOR: Object = {"matchLabels": {"app": "x"}}


@pytest.fixture
def platform() -> Platform:
    return Platform()


def images(platform: Platform) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in platform.pods()]


def renew(found: Object) -> None:
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "second"


@pytest.mark.parametrize("linger", [0, 5])
def test_a_rolling_deployment_never_has_too_few_pods(platform: Platform, linger: int) -> None:
    platform.linger = linger
    rolling = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    spec = {"replicas": 3, "selector": SELECTOR, "template": template(), "strategy": rolling}
    found = platform.put("Deployment", spec)
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 3)
    platform.seen.clear()
    platform.change(found, renew)
    platform.settle(
        lambda: images(platform) == ["second"] * 3 and all(map(is_ready, platform.pods()))
    )
    assert min(map(len, platform.seen)) == 2
    assert max(map(len, platform.seen)) == 3
    status = platform.objects.get(DEPLOYMENT, "default", "x")["status"]
    platform.settle(lambda: True)
    assert status["updatedReplicas"] >= 2


def test_a_recreating_deployment_ends_all_before_it_makes_new_ones(platform: Platform) -> None:
    strategy = {"type": "Recreate"}
    spec = {"replicas": 2, "selector": SELECTOR, "template": template(), "strategy": strategy}
    found = platform.put("Deployment", spec)
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 2)
    platform.change(found, renew)
    mixed: list[set[str]] = []

    def renewed() -> bool:
        mixed.append({*images(platform)})
        return images(platform) == ["second"] * 2

    platform.settle(renewed)
    assert all(len(each) < 2 for each in mixed)


def test_what_a_deployment_owns_goes_with_it(platform: Platform) -> None:
    platform.put("Deployment", {"selector": SELECTOR, "template": template()})
    platform.settle(lambda: any(map(is_ready, platform.pods())))
    platform.objects.delete(DEPLOYMENT, "default", "x")
    platform.settle(lambda: not platform.pods())
    assert not platform.objects.list(REPLICA_SET)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_members_of_a_stateful_set_start_as_its_policy_says(
    platform: Platform, policy: str
) -> None:
    spec = {"replicas": 3, "selector": SELECTOR, "template": template(), "serviceName": "s"}
    platform.put("StatefulSet", {**spec, "podManagementPolicy": policy})
    platform.settle(lambda: len(platform.pods()) > 0)
    assert len(platform.pods()) == (3 if policy == "Parallel" else 1)
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 3)
    assert [name_of(pod) for pod in platform.pods()] == ["x-0", "x-1", "x-2"]
    assert platform.pods()[1]["spec"]["hostname"] == "x-1"


def test_a_stateful_set_rolls_from_its_last_member_down_to_its_partition(
    platform: Platform,
) -> None:
    spec = {"replicas": 3, "selector": SELECTOR, "template": template(), "serviceName": "s"}
    found = platform.put("StatefulSet", spec)
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 3)

    def renew_some(found: Object) -> None:
        renew(found)
        found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 1

    platform.change(found, renew_some)
    platform.settle(
        lambda: (
            images(platform) == ["first", "second", "second"]
            and all(map(is_ready, platform.pods()))
        )
    )
    assert {*map(len, platform.seen[-3:])} <= {2, 3}
    assert platform.objects.get(STATEFUL_SET, "default", "x")["spec"]["replicas"] == 3


def test_a_job_that_fails_too_often_has_failed(platform: Platform) -> None:
    once = {**template()["spec"], "restartPolicy": "Never"}
    platform.put("Job", {"backoffLimit": 1, "template": {"spec": once}}, version="batch/v1")

    def conditions() -> set[str]:
        status = platform.objects.get(JOB, "default", "x").get("status") or NOTHING
        return {each["type"] for each in status.get("conditions") or ()}

    platform.settle(lambda: bool(conditions()), phase="Failed")
    assert conditions() == {"Failed"}
    assert len(platform.pods()) == 2


def test_an_eviction_waits_for_its_budget(platform: Platform) -> None:
    platform.put("Deployment", {"replicas": 2, "selector": SELECTOR, "template": template()})
    budget = {"selector": SELECTOR, "maxUnavailable": 1}
    platform.put("PodDisruptionBudget", budget, version="policy/v1")
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 2)
    platform.settle(lambda: allowed(platform) == 1)
    first, second = map(name_of, platform.pods())
    platform.api.evict("default", first, {}, SENDER)
    with pytest.raises(ApiError, match="disruption budget") as refused:
        platform.api.evict("default", second, {}, SENDER)
    assert refused.value.code == 429
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 2)
    platform.settle(lambda: allowed(platform) == 1)
    platform.api.evict("default", second, {}, SENDER)


def test_pods_without_a_scale_have_a_budget_by_an_integer_alone(platform: Platform) -> None:
    """Executors' pods, which their driver's pod owns, are such."""
    driver = platform.put("Pod", {"containers": [{"name": "c", "image": "i"}]}, version="v1")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": driver["metadata"]["uid"]}
    for name in ("e-1", "e-2", "e-3"):
        labels = {"spark-role": "executor"}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        given: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        given["spec"] = {"containers": [{"name": "c", "image": "i"}]}
        platform.api.create(POD, "default", given, SENDER)
    selector = {"matchLabels": {"spark-role": "executor"}}
    for name, wants in (("whole", {"minAvailable": 2}), ("part", {"maxUnavailable": 1})):
        spec = {"selector": selector, **wants}
        platform.put("PodDisruptionBudget", spec, name, version="policy/v1")
    platform.settle(lambda: sum(map(is_ready, platform.pods())) == 4)
    platform.settle(lambda: allowed(platform, "whole") == 1)
    assert allowed(platform, "part") == 0


def allowed(platform: Platform, name: str = "x") -> int:
    status = platform.objects.get(BUDGET, "default", name).get("status") or NOTHING
    return status.get("disruptionsAllowed", 0)
