"""Runs pods: one thread a pod, from its volumes to its last process.

What differs from a kubelet: one for all nodes; memory and processors are not limited; ConfigMaps
and Secrets do not change in a running pod.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.platform.container_run import ContainerRun
from tests.platform.kinds import NODE, NOTHING, POD, Object, name_of
from tests.platform.network import Network
from tests.platform.objects import ApiError, Objects, now
from tests.platform.pod_files import NotThere, PodFiles, Surroundings
from tests.platform.policies import Policies
from tests.platform.schemas import check_schema
from tests.platform.selectors import has_node_labels

LOOK_S = 0.1
EXECUTE_S = 10.0
DUE_S = 1.0
WAIT_S = 0.3
"""How often a pod looks again for what it waits for."""


class Kubelet:
    """Runs all pods that are there, until it is closed."""

    def __init__(self, objects: Objects, network: Network, policies: Policies) -> None:
        self._objects = objects
        self._network = network
        self._policies = policies
        self.around: Surroundings | None = None
        self._running: dict[str, PodRun] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self, around: Surroundings) -> None:
        self.around = around
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        for run in self._running.values():
            run.end_now()
        for run in self._running.values():
            run.join()

    def run_of(self, pod: Object) -> PodRun | None:
        return self._running.get(pod["metadata"]["uid"])

    def _watch(self) -> None:
        assert self.around is not None
        seen = 0
        while not self._ending.wait(LOOK_S):
            seen = self._objects.await_change(seen, DUE_S)
            for pod in self._objects.list(POD):
                uid = pod["metadata"]["uid"]
                if not pod["spec"].get("nodeName"):
                    self._schedule(pod)
                elif uid not in self._running:
                    self._running[uid] = PodRun(
                        self._objects, self._network, self._policies, self.around, pod
                    )

    def _schedule(self, pod: Object) -> None:
        """Choose the node that has the fewest pods of the same kind, then of all."""
        labels = pod["metadata"].get("labels") or NOTHING
        alike = {key: value for key, value in labels.items() if not key.endswith("exec-id")}
        pods = self._objects.list(POD)

        def pods_there(node: Object) -> tuple[int, int, str]:
            there = [each for each in pods if each["spec"].get("nodeName") == name_of(node)]
            given = [each["metadata"].get("labels") or NOTHING for each in there]
            same = [labels for labels in given if alike.items() <= labels.items()]
            return len(same), len(there), name_of(node)

        fit = [
            node
            for node in self._objects.list(NODE)
            if has_node_labels(node["metadata"]["labels"], pod["spec"])
            and not node["spec"].get("unschedulable")
        ]
        if fit:
            chosen = name_of(min(fit, key=pods_there))

            def place(found: Object) -> None:
                found["spec"]["nodeName"] = chosen

            self._objects.change(POD, pod["metadata"]["namespace"], name_of(pod), place)


class PodRun:
    """One pod."""

    def __init__(
        self,
        objects: Objects,
        network: Network,
        policies: Policies,
        around: Surroundings,
        pod: Object,
    ) -> None:
        self._objects = objects
        self._network = network
        self._policies = policies
        self._around = around
        self._place = pod["metadata"]["namespace"], name_of(pod)
        self._uid = pod["metadata"]["uid"]
        self._pod = pod
        self._at_once = threading.Event()
        self._files: PodFiles | None = None
        self.containers: dict[str, ContainerRun] = {}
        self._thread = threading.Thread(target=self._run, name=name_of(pod), daemon=True)
        self._thread.start()

    def end_now(self) -> None:
        """Kill everything."""
        self._at_once.set()

    def execute(self, container: str, command: Sequence[str]) -> int:
        """Run a command in a container; its exit status."""
        running = self.containers[container].container
        return 1 if running is None else running.run(command, EXECUTE_S)

    def volume(self, name: str) -> Path:
        """The folder of one of its volumes that are its own."""
        assert self._files is not None, "its volumes are not made yet"
        return self._files.folder / "volumes" / name

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        address = self._network.address()
        try:
            namespace = self._network.join(address)
            self._set(podIP=address, podIPs=[{"ip": address}], hostIP=self._network.gateway)
            self._set(startTime=now())
            self._policies.apply()
            self._files = files = PodFiles(self._around, self._pod)
            if self._wait_for(files.make):
                self._live(files, namespace)
        finally:
            for each in self.containers.values():
                each.kill()
            self._network.leave(address)
            if self._deleted_in_s() is not None and not self._at_once.is_set():
                self._remove()

    def _live(self, files: PodFiles, namespace: str) -> None:
        spec = self._pod["spec"]
        policy = spec["restartPolicy"]
        for each in spec.get("initContainers") or ():
            run = ContainerRun(
                self, files, each, namespace, "OnFailure" if policy == "Always" else policy
            )
            self.containers[each["name"]] = run
            if not self._until(run.has_ended):
                return
            if run.status_code != 0:
                self._set(phase="Failed")
                self._until(lambda: False)
                return
        for each in spec["containers"]:
            run = ContainerRun(self, files, each, namespace, policy)
            self.containers[each["name"]] = run
        main = [self.containers[each["name"]] for each in spec["containers"]]
        self._set(phase="Running")

        def ended() -> bool:
            ends = [run.has_ended() for run in main]
            self._report()
            return all(ends)

        if self._until(ended):
            self._say_ended(main)
            self._until(lambda: False)
            return
        self._terminate(main)
        if not self._at_once.is_set() and all(run.has_ended() for run in main):
            # As kubelets since 1.27: whoever watches sees it ended before it is gone.
            self._say_ended(main)

    def _say_ended(self, main: list[ContainerRun]) -> None:
        self._report()
        self._set(phase="Failed" if any(run.status_code for run in main) else "Succeeded")

    def _until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; False if the pod is deleted before."""
        while True:
            if self._at_once.is_set() or self._deleted_in_s() is not None:
                return False
            if condition():
                return True
            time.sleep(LOOK_S)

    def _wait_for(self, make: Callable[[], Any]) -> bool:
        def made() -> bool:
            try:
                make()
            except NotThere as missing:
                self._set(reason="ContainerCreating", message=str(missing))
                time.sleep(WAIT_S)
                return False
            return True

        return self._until(made)

    def _terminate(self, main: list[ContainerRun]) -> None:
        """Run what comes before the end, ask all to end, and kill those that go on too long."""
        began = time.monotonic()
        ends = [threading.Thread(target=run.end, daemon=True) for run in main]
        for each in ends:
            each.start()
        while any(run.is_running() for run in main):
            grace = self._deleted_in_s()
            if self._at_once.is_set() or grace is None or time.monotonic() - began > grace:
                break
            time.sleep(LOOK_S)
        for run in main:
            run.kill()

    def _deleted_in_s(self) -> float | None:
        """How long it has to end; None if it is not deleted."""
        found = self._objects.find(POD, *self._place)
        if found is None or found["metadata"]["uid"] != self._uid:
            return 0.0
        if "deletionTimestamp" not in found["metadata"]:
            return None
        return found["metadata"].get("deletionGracePeriodSeconds", 0)

    def _remove(self) -> None:
        found = self._objects.find(POD, *self._place)
        if found is not None and found["metadata"]["uid"] == self._uid:
            self._objects.remove(POD, *self._place)

    def _set(self, **fields: Any) -> None:
        def change(found: Object) -> None:
            if found["metadata"]["uid"] == self._uid:
                found.setdefault("status", {}).update(fields)
                check_schema(POD, found)

        try:
            found = self._objects.change(POD, *self._place, change)
        except ApiError:
            return
        if found is not None and found["metadata"]["uid"] == self._uid:
            self._pod = found

    def _report(self) -> None:
        spec = self._pod["spec"]
        names = [each["name"] for each in spec["containers"]]
        statuses = [self.containers[name].status() for name in names]
        first = [
            self.containers[each["name"]].status() for each in spec.get("initContainers") or ()
        ]
        ready = all(status["ready"] for status in statuses)
        known = {each["type"]: each for each in self._pod["status"].get("conditions") or ()}
        conditions: list[Object] = []
        for kind, holds in (
            ("PodScheduled", True), ("Initialized", True),
            ("ContainersReady", ready), ("Ready", ready),
        ):  # fmt: skip
            status = "True" if holds else "False"
            was = known.get(kind)
            if was is not None and was["status"] == status:
                conditions.append(was)
            else:
                moment = {"lastTransitionTime": now()}
                conditions.append({"type": kind, "status": status, **moment})
        fields: Object = {"containerStatuses": statuses, "conditions": conditions}
        if first:
            fields["initContainerStatuses"] = first
        if any(self._pod["status"].get(name) != value for name, value in fields.items()):
            self._set(**fields)

    @property
    def pod(self) -> Object:
        return self._pod

    @property
    def around(self) -> Surroundings:
        return self._around
