"""Deployments and the ReplicaSets that they roll over."""

from __future__ import annotations

import json

from tests.platform.api import is_ready, scaled
from tests.platform.controller import Controller, conditions_of, digest_of
from tests.platform.kinds import (
    DEPLOYMENT,
    NOTHING,
    POD,
    REPLICA_SET,
    Object,
    name_of,
    owner_reference,
)

HASH = "pod-template-hash"


class Deployments(Controller):
    """One ReplicaSet for each template that a Deployment has had."""

    def step(self, found: Object) -> None:
        spec = found["spec"]
        mine = self.owned(REPLICA_SET, found)
        digest = digest_of(spec["template"])
        new = next((s for s in mine if s["metadata"]["labels"].get(HASH) == digest), None)
        others = [each for each in mine if each is not new]
        old_pods = sum(len(self.owned(POD, each)) for each in others)
        if new is None:
            waits = spec["strategy"]["type"] == "Recreate" and old_pods
            if not waits:
                self._make_set(found, digest, mine)
            for each in others if waits else ():
                self._resize(each, 0)
            self._tell(found, None, mine)
            return
        self._roll(found, new, others, old_pods)
        for each in sorted(others, key=_revision)[: -spec["revisionHistoryLimit"] or None]:
            if (
                not self.owned(POD, each)
                and each["spec"]["replicas"] == 0
                and len(others) > spec["revisionHistoryLimit"]
            ):
                self.objects.delete(REPLICA_SET, found["metadata"]["namespace"], name_of(each))
        self._tell(found, new, mine)

    def _roll(self, found: Object, new: Object, others: list[Object], old_pods: int) -> None:
        spec, wanted = found["spec"], found["spec"]["replicas"]
        if spec["strategy"]["type"] == "Recreate":
            for each in others:
                self._resize(each, 0)
            if not old_pods:
                self._resize(new, wanted)
            return
        rolling = spec["strategy"]["rollingUpdate"]
        surge = scaled(rolling["maxSurge"], wanted, up=True)
        missing = scaled(rolling["maxUnavailable"], wanted, up=False)
        if not surge and not missing:
            missing = 1
        old = sum(each["spec"]["replicas"] for each in others)
        self._resize(new, max(min(wanted, wanted + surge - old), 0))
        # One that is to end counts no more, even if it still serves.
        ready = sum(is_ready(p) for each in [new, *others] for p in self.alive(each))
        spare = ready - (wanted - missing)
        for each in sorted(others, key=_revision):
            idle = sum(not is_ready(pod) for pod in self.alive(each))
            fewer = min(each["spec"]["replicas"], max(spare, 0) + idle)
            if fewer > 0:
                self._resize(each, each["spec"]["replicas"] - fewer)
                spare -= fewer

    def _make_set(self, found: Object, digest: str, mine: list[Object]) -> None:
        template = json.loads(json.dumps(found["spec"]["template"]))
        labels = template["metadata"].setdefault("labels", {})
        labels[HASH] = digest
        number = max((_revision(each) for each in mine), default=0) + 1
        selector = json.loads(json.dumps(found["spec"]["selector"]))
        selector.setdefault("matchLabels", {})[HASH] = digest
        made: Object = {
            "metadata": {
                "name": f"{name_of(found)}-{digest}",
                "labels": dict(labels),
                "annotations": {"deployment.kubernetes.io/revision": str(number)},
                "ownerReferences": [owner_reference(found)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        self.create(REPLICA_SET, found, made)

    def _tell(self, found: Object, new: Object | None, sets: list[Object]) -> None:
        pods = [pod for each in sets for pod in self.owned(POD, each)]
        updated = self.owned(POD, new) if new is not None else []
        ready = sum(is_ready(pod) for pod in pods)
        wanted = found["spec"]["replicas"]
        available = ready >= wanted or (bool(wanted) and ready >= wanted - scaled(
            (found["spec"]["strategy"].get("rollingUpdate") or NOTHING).get("maxUnavailable", 0),
            wanted, up=False,
        ))  # fmt: skip
        done = new is not None and len(pods) == len(updated) == wanted == ready
        status: Object = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": len(updated),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
        }
        reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        status["conditions"] = conditions_of(
            found,
            Available=(available, "MinimumReplicas"),
            Progressing=(True, reason),
        )
        self.report(DEPLOYMENT, found, status)

    def _resize(self, found: Object, replicas: int) -> None:
        def change(each: Object) -> None:
            each["spec"]["replicas"] = replicas

        if found["spec"]["replicas"] != replicas:
            place = found["metadata"]["namespace"]
            self.objects.change(REPLICA_SET, place, name_of(found), change)


class ReplicaSets(Controller):
    """As many pods as a ReplicaSet wants."""

    def step(self, found: Object) -> None:
        pods = self.alive(found)
        wanted = found["spec"]["replicas"]
        for _ in range(wanted - len(pods)):
            self.make_pod(found, found["spec"]["template"], f"{name_of(found)}-")
        if len(pods) > wanted:
            for pod in sorted(pods, key=is_ready)[: len(pods) - wanted]:
                self.delete_pod(pod)
        everything = self.owned(POD, found)
        ready = sum(is_ready(pod) for pod in everything)
        status = {"replicas": len(everything), "readyReplicas": ready, "availableReplicas": ready}
        status["observedGeneration"] = found["metadata"]["generation"]
        self.report(REPLICA_SET, found, status)


def _revision(found: Object) -> int:
    annotations = found["metadata"].get("annotations") or NOTHING
    return int(annotations.get("deployment.kubernetes.io/revision", 0))
