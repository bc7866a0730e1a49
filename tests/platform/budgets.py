"""How many pods a PodDisruptionBudget lets go now."""

from __future__ import annotations

from tests.platform.api import is_ready, wanted_healthy
from tests.platform.controller import Controller, conditions_of, is_leaving
from tests.platform.kinds import (
    BUDGET,
    NOTHING,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Object,
)
from tests.platform.selectors import chosen


class Budgets(Controller):
    """What evictions are judged by."""

    def step(self, found: Object) -> None:
        place = found["metadata"]["namespace"]
        pods = [
            pod
            for pod in self.objects.list(POD, place)
            if chosen(pod["metadata"].get("labels") or NOTHING, found["spec"].get("selector"))
            and pod["status"]["phase"] in ("Pending", "Running")
        ]
        healthy = sum(is_ready(pod) and not is_leaving(pod) for pod in pods)
        owners = {
            each["uid"]: each for p in pods for each in p["metadata"].get("ownerReferences") or ()
        }
        scales = [self._wanted(place, owner) for owner in owners.values()]
        allowed, reason = 0, "InsufficientPods"
        expected = sum(scale for scale in scales if scale is not None) or len(pods)
        spec = found["spec"]
        plain = "minAvailable" in spec and not str(spec["minAvailable"]).endswith("%")
        if (None in scales or not owners) and not plain:
            # Pods of no controller with a scale: Kubernetes takes an integer `minAvailable` alone.
            reason = "SyncFailed"
        else:
            desired = wanted_healthy(found, expected)
            allowed = max(0, healthy - desired)
            reason = "SufficientPods" if allowed else reason
        status: Object = {
            "observedGeneration": found["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": wanted_healthy(found, expected),
            "expectedPods": expected,
            "conditions": conditions_of(found, DisruptionAllowed=(bool(allowed), reason)),
        }
        self.report(BUDGET, found, status)

    def _wanted(self, namespace: str, owner: Object) -> int | None:
        kind = next((k for k in (REPLICA_SET, STATEFUL_SET) if k.kind == owner["kind"]), None)
        found = None if kind is None else self.objects.find(kind, namespace, owner["name"])
        return None if found is None else found["spec"]["replicas"]
