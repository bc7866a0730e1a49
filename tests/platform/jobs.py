"""Jobs, until they are complete or have failed."""

from __future__ import annotations

import datetime
import time

from tests.platform.controller import Controller, conditions_of
from tests.platform.kinds import (
    JOB,
    NOTHING,
    POD,
    Object,
    name_of,
)
from tests.platform.objects import now


class Jobs(Controller):
    """Pods until enough have succeeded, too many have failed, or it is too late."""

    def step(self, found: Object) -> None:
        spec, known = found["spec"], found.get("status") or NOTHING
        if any(each["type"] in ("Complete", "Failed") for each in known.get("conditions") or ()):
            return
        pods = self.owned(POD, found)
        phases = [pod["status"]["phase"] for pod in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        restarts = sum(
            each["restartCount"]
            for pod in pods
            for each in pod["status"].get("containerStatuses") or ()
        )
        active = [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]
        began = known.get("startTime") or now()
        limit = spec.get("activeDeadlineSeconds")
        status: Object = {"startTime": began, "active": len(active), "failed": failed}
        status["succeeded"] = succeeded
        if limit is not None and time.time() - _seconds(began) > limit:
            self._finish(found, status, active, "Failed", "DeadlineExceeded")
        elif succeeded >= spec["completions"]:
            status["completionTime"] = now()
            self._finish(found, status, active, "Complete", "CompletionsReached")
        elif failed + restarts > spec["backoffLimit"]:
            self._finish(found, status, active, "Failed", "BackoffLimitExceeded")
        else:
            most = min(spec["parallelism"], spec["completions"] - succeeded)
            for _ in range(0 if spec["suspend"] else most - len(active)):
                self.make_pod(found, spec["template"], f"{name_of(found)}-")
            self.report(JOB, found, status)

    def _finish(
        self, found: Object, status: Object, active: list[Object], kind: str, reason: str
    ) -> None:
        for pod in active:
            self.delete_pod(pod)
        status["active"] = 0
        conditions = conditions_of(found, **{kind: (True, reason)})
        self.report(JOB, found, {**status, "conditions": conditions})


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
