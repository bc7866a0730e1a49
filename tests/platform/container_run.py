"""One container of a pod in all its lives: started again when it ends, probed, ended in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.platform.containers import Container
from tests.platform.kinds import NOTHING, Object
from tests.platform.objects import now
from tests.platform.pod_files import NotThere, PodFiles, Surroundings
from tests.platform.probes import Probe

WAIT_S = 0.3
"""Before a container whose ConfigMap or Secret is missing looks again."""

FIRST_PAUSE_S, MOST_PAUSE_S = 0.5, 20.0
"""Before a container that has ended is started again."""

_log = logging.getLogger("platform.kubelet")


class ItsPod(Protocol):
    """The pod of a container."""

    @property
    def pod(self) -> Object: ...

    @property
    def around(self) -> Surroundings: ...


FROM_LOG, MOST_OF_LOG = "FallbackToLogsOnError", 2048
"""What takes the end of a log for a message, and how much of it."""


class ContainerRun:
    """One container of a pod, in all its lives."""

    def __init__(
        self, run: ItsPod, files: PodFiles, spec: Object, namespace: str, policy: str
    ) -> None:
        self._run = run
        self._files = files
        self._spec = spec
        self._namespace = namespace
        self._policy = policy
        self._lock = threading.RLock()
        self.restarts = 0
        self.status_code: int | None = None
        self._last: Object = {}
        self._waits: Object | None = None
        self._again_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._is_ending = False
        self._probes: list[Probe] = []
        self.container: Container | None = None
        self._start()

    def has_ended(self) -> bool:
        """Whether it has ended for good; it is started again if it is to be."""
        with self._lock:
            if self.container is None:
                if self._waits is not None and time.monotonic() >= self._again_s:
                    self._start()
                return self._waits is None and self.status_code is not None
            code = self.container.poll()
            if code is None:
                return False
            self._stop_probes()
            self.container.kill()
            message = self.container.message
            if code and not message and self._spec["terminationMessagePolicy"] == FROM_LOG:
                message = self.log.read_text("utf-8", errors="replace")[-MOST_OF_LOG:]
            self.status_code = code
            self._last = {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                "startedAt": self._started_at,
                "finishedAt": now(),
                "containerID": self._id,
            }
            if message:
                self._last["message"] = message
            self.container = None
            again = self._policy == "Always" or (self._policy == "OnFailure" and code != 0)
            if not again or self._is_ending:
                self._waits = None
                return True
            self._waits = {"reason": "CrashLoopBackOff"}
            self._again_s = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
            return False

    def is_running(self) -> bool:
        with self._lock:
            return self.container is not None and self.container.poll() is None

    def end(self) -> None:
        """Run what is to run before the end, then ask it to end."""
        with self._lock:
            self._is_ending = True
            self._stop_probes()
            container = self.container
        if container is None:
            return
        before = ((self._spec.get("lifecycle") or NOTHING).get("preStop") or NOTHING).get("exec")
        if before is not None:
            container.run(before["command"], self._run.pod["spec"]["terminationGracePeriodSeconds"])
        container.terminate()

    def kill(self) -> None:
        with self._lock:
            self._is_ending = True
            self._waits = None
            self._stop_probes()
            if self.container is not None:
                self.container.kill()

    def terminate(self) -> None:
        """Ask it to end; it is started again as after any end."""
        with self._lock:
            if self.container is not None:
                self.container.terminate()

    def crash(self) -> None:
        """Kill all of its processes; it is started again as after any end."""
        with self._lock:
            if self.container is not None:
                self.container.kill()

    @property
    def log(self) -> Path:
        """What it writes."""
        return self._files.folder / "logs" / f"{self._spec['name']}.log"

    def status(self) -> Object:
        with self._lock:
            if self.container is not None:
                state: Object = {"running": {"startedAt": self._started_at}}
            elif self._waits is not None:
                state = {"waiting": self._waits}
            else:
                state = {"terminated": self._last}
            running = self.container is not None
            status: Object = {
                "name": self._spec["name"],
                "image": self._spec["image"],
                "imageID": self._spec["image"],
                "containerID": self._id,
                "restartCount": self.restarts,
                "ready": running and self._started and self._ready,
                "started": running and self._started,
                "state": state,
                "lastState": {"terminated": self._last} if running and self._last else {},
            }
            return status

    def _start(self) -> None:
        if self._waits is not None:
            self.restarts += 1
        self._waits = self.status_code = None
        self._started_at = now()
        self._id = f"rig://{self._run.pod['metadata']['uid']}-{self._spec['name']}-{self.restarts}"
        try:
            self.container = Container(
                self._run.around, self._files, self._run.pod, self._spec, self._namespace
            )
        except NotThere as missing:
            self._waits = {"reason": "CreateContainerConfigError", "message": str(missing)}
            self._again_s = time.monotonic() + WAIT_S
            return
        self._started = "startupProbe" not in self._spec
        self._ready = "readinessProbe" not in self._spec
        if not self._started:
            self._probe("startupProbe", self._startup)
        else:
            self._probe_further()

    def _probe_further(self) -> None:
        self._probe("readinessProbe", self._set_ready)
        self._probe("livenessProbe", self._alive)

    def _probe(self, name: str, changed: Callable[[bool], None]) -> None:
        spec, container = self._spec.get(name), self.container
        if spec is None or container is None:
            return
        ports = {
            p["name"]: p["containerPort"] for p in self._spec.get("ports") or () if "name" in p
        }
        address = self._run.pod["status"]["podIP"]

        def told(passes: bool) -> None:
            with self._lock:
                if self.container is container and not self._is_ending:
                    changed(passes)

        self._probes.append(Probe(spec, container, ports, address, told))

    def _startup(self, passes: bool) -> None:
        if passes:
            self._stop_probes()
            self._started = True
            self._probe_further()
        else:
            self._fail("startup")

    def _set_ready(self, passes: bool) -> None:
        self._ready = passes

    def _alive(self, passes: bool) -> None:
        if not passes:
            self._fail("liveness")

    def _fail(self, which: str) -> None:
        _log.warning("%s of %s fails", which, self._run.pod["metadata"]["name"])
        if self.container is not None:
            self.container.kill()

    def _stop_probes(self) -> None:
        for probe in self._probes:
            probe.stop()
        self._probes.clear()
