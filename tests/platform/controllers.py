"""All controllers: what makes pods of Deployments, StatefulSets and Jobs, and what budgets allow.

They look at everything when something has changed. Each look takes the one next step of an object.
"""

from __future__ import annotations

import logging
import threading

from tests.platform.api import Api
from tests.platform.budgets import Budgets
from tests.platform.controller import Controller
from tests.platform.deployments import Deployments, ReplicaSets
from tests.platform.jobs import Jobs
from tests.platform.kinds import BUDGET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET, Kind, name_of
from tests.platform.objects import ApiError
from tests.platform.stateful_sets import StatefulSets

LOOK_S = 0.05
DUE_S = 1.0
"""What becomes due by time alone is looked for as often."""

_log = logging.getLogger("platform.controllers")


class Controllers:
    """All controllers, until they are closed."""

    def __init__(self, api: Api) -> None:
        self._objects = api.objects
        self._each: dict[Kind, Controller] = {
            DEPLOYMENT: Deployments(api),
            REPLICA_SET: ReplicaSets(api),
            STATEFUL_SET: StatefulSets(api),
            JOB: Jobs(api),
            BUDGET: Budgets(api),
        }
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Take steps whenever something has changed."""
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()

    def step(self) -> None:
        """Take the next step of each object."""
        for kind, controller in self._each.items():
            for found in self._objects.list(kind):
                if "deletionTimestamp" in found["metadata"]:
                    continue
                try:
                    with self._objects.lock:
                        controller.step(found)
                except ApiError as error:
                    _log.warning("%s %s: %s", kind.kind, name_of(found), error)

    def _run(self) -> None:
        seen = 0
        while not self._ending.wait(LOOK_S):
            seen = self._objects.await_change(seen, DUE_S)
            self.step()
