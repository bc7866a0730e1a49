"""StatefulSets: numbered members with volumes of their own."""

from __future__ import annotations

import json

from tests.platform.api import is_ready
from tests.platform.controller import Controller, digest_of, is_leaving
from tests.platform.kinds import (
    CLAIM,
    NOTHING,
    POD,
    STATEFUL_SET,
    Object,
    name_of,
)

REVISION = "controller-revision-hash"
ORDINAL = "apps.kubernetes.io/pod-index"


class StatefulSets(Controller):
    """Members, in order or at once; a new template from the last one down."""

    def step(self, found: Object) -> None:
        spec = found["spec"]
        digest = digest_of(spec["template"])
        pods = {_ordinal(pod): pod for pod in self.owned(POD, found)}
        first = (spec.get("ordinals") or NOTHING).get("start", 0)
        wanted = range(first, first + spec["replicas"])
        in_order = spec["podManagementPolicy"] == "OrderedReady"
        settled = True
        for number in wanted:
            pod = pods.get(number)
            if pod is not None and pod["status"]["phase"] in ("Failed", "Succeeded"):
                self.delete_pod(pod)
            if pod is None:
                self._make_member(found, number, digest)
            if pod is None or not is_ready(pod) or is_leaving(pod):
                settled = False
                if in_order:
                    break
        extra = sorted((n for n in pods if n not in wanted), reverse=True)
        if settled or not in_order:
            for number in extra[: 1 if in_order else None]:
                self.delete_pod(pods[number])
        if settled and not extra and spec["updateStrategy"]["type"] == "RollingUpdate":
            partition = spec["updateStrategy"]["rollingUpdate"].get("partition", 0)
            for number in reversed(wanted):
                if number >= partition and _revision_of(pods[number]) != digest:
                    self.delete_pod(pods[number])
                    break
        present = [pods[n] for n in wanted if n in pods]
        ready = [pod for pod in present if is_ready(pod)]
        updated = [pod for pod in present if _revision_of(pod) == digest]
        before = (found.get("status") or NOTHING).get("currentRevision")
        done = len(updated) == spec["replicas"] == len(ready)
        current = digest if done or before is None else before
        status: Object = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": len(present),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready),
            "updatedReplicas": len(updated),
            "currentReplicas": sum(_revision_of(pod) == current for pod in present),
            "currentRevision": current,
            "updateRevision": digest,
        }
        self.report(STATEFUL_SET, found, status)

    def _make_member(self, found: Object, number: int, digest: str) -> None:
        spec, name = found["spec"], f"{name_of(found)}-{number}"
        template = json.loads(json.dumps(spec["template"]))
        template["metadata"].setdefault("labels", {}).update({
            REVISION: digest, ORDINAL: str(number), "statefulset.kubernetes.io/pod-name": name,
        })  # fmt: skip
        template["spec"] |= {"hostname": name, "subdomain": spec.get("serviceName", "")}
        for claim in spec.get("volumeClaimTemplates") or ():
            claim_name = f"{name_of(claim)}-{name}"
            place = found["metadata"]["namespace"]
            if self.objects.find(CLAIM, place, claim_name) is None:
                made = json.loads(json.dumps(claim))
                labels = dict(spec["selector"].get("matchLabels") or NOTHING)
                made["metadata"] = {"name": claim_name, "labels": labels}
                self.create(CLAIM, found, made)
            volume = {"name": name_of(claim), "persistentVolumeClaim": {"claimName": claim_name}}
            template["spec"].setdefault("volumes", []).append(volume)
        self.make_pod(found, template, name, exact=True)


def _ordinal(pod: Object) -> int:
    return int(name_of(pod).rpartition("-")[2])


def _revision_of(pod: Object) -> str:
    return pod["metadata"]["labels"].get(REVISION, "")
