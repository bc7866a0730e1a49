"""The API's operations on objects: filled in, checked by schema and rules, then kept."""

from __future__ import annotations

import base64
import copy
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.platform import rules
from tests.platform.defaults import fill_in
from tests.platform.field_managers import apply, note_update
from tests.platform.kinds import (
    BUDGET,
    KINDS,
    NAMESPACE,
    NOTHING,
    POD,
    SERVICE_ACCOUNT,
    Kind,
    Object,
    name_of,
)
from tests.platform.objects import ApiError, Objects, conflict
from tests.platform.patches import PATCHES, strategic_merge
from tests.platform.pod_rules import restricted_problems
from tests.platform.quantities import amount
from tests.platform.schemas import VERSION, check_schema
from tests.platform.selectors import chosen

ENFORCE = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: its pods must keep this profile."""

APPLY = "application/apply-patch+yaml"

_first_generated = 5


@dataclass(frozen=True, slots=True)
class Sender:
    """Who asks: the user, and the manager of the fields that change."""

    user: str
    manager: str
    dry_run: bool = False
    force: bool = False


class Api:
    """All operations.

    Parameters
    ----------
    version
        Of Kubernetes, whose schemas hold.
    service_address
        Gives a Service its address.
    """

    def __init__(
        self,
        objects: Objects,
        version: str = VERSION,
        service_address: Callable[[], str] = lambda: "10.96.0.10",
    ) -> None:
        self.objects = objects
        self.version = version
        self._service_address = service_address

    def create(self, kind: Kind, namespace: str, given: Object, sender: Sender) -> Object:
        """Make a new object."""
        found = copy.deepcopy(given)
        metadata = found.setdefault("metadata", {})
        if (prefix := metadata.pop("generateName", "")) and not metadata.get("name"):
            metadata["name"] = prefix + secrets.token_hex(_first_generated)[:_first_generated]
        with self.objects.lock:
            self._prepare(kind, namespace, found)
            if kind != NAMESPACE:
                found.pop("status", None)
            self._begin(kind, found)
            self._check(kind, found, None)
            if kind == POD:
                self._admit(found)
            if not found["metadata"].get("managedFields"):
                note_update(None, found, sender.manager)
            if sender.dry_run:
                return found
            created = self.objects.create(kind, found)
            if kind == NAMESPACE:
                account: Object = {"metadata": {"name": "default", "namespace": name_of(created)}}
                fill_in(SERVICE_ACCOUNT, account)
                self.objects.create(SERVICE_ACCOUNT, account)
            return created

    def update(self, kind: Kind, given: Object, sender: Sender, subresource: str = "") -> Object:
        """Replace an object, or its status alone."""
        with self.objects.lock:
            metadata = given["metadata"]
            before = self.objects.get(kind, metadata.get("namespace", ""), metadata["name"])
            return self._update(kind, before, copy.deepcopy(given), sender, subresource)

    def patch(
        self, kind: Kind, namespace: str, name: str, content: str, patch: Any, sender: Sender,
        subresource: str = "",
    ) -> Object:  # fmt: skip
        """Patch an object, or its status alone; server-side apply makes it if it is missing."""
        with self.objects.lock:
            before = self.objects.find(kind, namespace, name)
            if content == APPLY:
                given: Object = patch
                given["apiVersion"], given["kind"] = kind.api_version, kind.kind
                given.setdefault("metadata", {}).setdefault("name", name)
                if before is None:
                    # Before the server's own fields are filled in: nobody has applied those.
                    return self.create(
                        kind, namespace, apply(None, given, sender.manager, force=False), sender
                    )
                applied = apply(before, given, sender.manager, force=sender.force)
                return self._keep(kind, before, applied, sender, noted=True)
            before = self.objects.get(kind, namespace, name)
            how = PATCHES.get(content)
            if how is None:
                raise ApiError(415, "UnsupportedMediaType", f"{content} is no patch that is known")
            return self._update(kind, before, how(before, patch), sender, subresource)

    def delete(
        self, kind: Kind, namespace: str, name: str, options: Object, sender: Sender
    ) -> Object:
        """Delete an object; its dependents follow, unless they are to be orphaned."""
        with self.objects.lock:
            found = self.objects.get(kind, namespace, name)
            conditions = options.get("preconditions") or NOTHING
            metadata = found["metadata"]
            for field in ("uid", "resourceVersion"):
                if conditions.get(field) not in (None, metadata[field]):
                    raise conflict(kind, name, f"the {field} in the precondition is another")
            if sender.dry_run:
                return found
            if options.get("propagationPolicy") == "Orphan":
                self._orphan(metadata["uid"])
            if kind == NAMESPACE:
                self._empty(name)
            return self.objects.delete(kind, namespace, name, options.get("gracePeriodSeconds"))

    def evict(self, namespace: str, name: str, options: Object, sender: Sender) -> None:
        """Delete a pod, unless a PodDisruptionBudget forbids it now.

        Raises
        ------
        ApiError
            429: a budget does.
        """
        with self.objects.lock:
            pod = self.objects.get(POD, namespace, name)
            labels = pod["metadata"].get("labels") or NOTHING
            budgets = [
                budget
                for budget in self.objects.list(BUDGET, namespace)
                if chosen(labels, budget["spec"].get("selector"))
            ]
            if len(budgets) > 1:
                message = "This pod has more than one PodDisruptionBudget"
                raise ApiError(500, "InternalError", message)
            for budget in budgets:
                status = budget.get("status") or NOTHING
                if is_ready(pod) and status.get("disruptionsAllowed", 0) < 1:
                    message = "Cannot evict pod as it would violate the pod's disruption budget."
                    needs = f"The disruption budget {name_of(budget)} needs"
                    causes = [{"reason": "DisruptionBudget", "message": needs}]
                    raise ApiError(429, "TooManyRequests", message, {"causes": causes})
            self.delete(POD, namespace, name, options, sender)
            for budget in budgets:
                self.objects.change(BUDGET, namespace, name_of(budget), _one_less)

    def read_scale(self, kind: Kind, namespace: str, name: str) -> Object:
        """The subresource `scale`."""
        found = self.objects.get(kind, namespace, name)
        keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {key: found["metadata"][key] for key in keys},
            "spec": {"replicas": found["spec"]["replicas"]},
            "status": {"replicas": (found.get("status") or NOTHING).get("replicas", 0)},
        }

    def write_scale(
        self, kind: Kind, namespace: str, name: str, patch: Object, sender: Sender
    ) -> Object:
        """Change how many pods an object has."""
        scale = strategic_merge(self.read_scale(kind, namespace, name), patch)
        change = {"spec": {"replicas": scale["spec"]["replicas"]}}
        content = "application/merge-patch+json"
        self.patch(kind, namespace, name, content, change, sender)
        return self.read_scale(kind, namespace, name)

    def _update(
        self, kind: Kind, before: Object, found: Object, sender: Sender, subresource: str
    ) -> Object:
        if subresource == "status":
            kept = copy.deepcopy(before)
            kept["status"] = found.get("status") or NOTHING
            if version := found["metadata"].get("resourceVersion"):
                kept["metadata"]["resourceVersion"] = version
            found = kept
        else:
            found.pop("status", None)
            if "status" in before:
                found["status"] = before["status"]
        return self._keep(kind, before, found, sender, subresource)

    def _keep(
        self, kind: Kind, before: Object, found: Object, sender: Sender, subresource: str = "",
        *, noted: bool = False,
    ) -> Object:  # fmt: skip
        metadata = found["metadata"]
        self._prepare(kind, before["metadata"].get("namespace", ""), found)
        for field in ("uid", "creationTimestamp", "generation"):
            metadata.setdefault(field, before["metadata"][field])
        if kind.kind == "Service" and before["spec"].get("clusterIP"):
            for field in ("clusterIP", "clusterIPs"):
                found["spec"].setdefault(field, before["spec"][field])
        if kind.kind == "Job":
            found["spec"].setdefault("selector", before["spec"]["selector"])
        self._check(kind, found, before)
        if not noted:
            note_update(before, found, sender.manager, subresource)
        if sender.dry_run:
            return found
        return self.objects.replace(kind, found)

    def _prepare(self, kind: Kind, namespace: str, found: Object) -> None:
        metadata = found["metadata"]
        if kind.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                message = "the namespace of the provided object does not match the namespace sent"
                raise ApiError(400, "BadRequest", message)
            self.objects.get(NAMESPACE, "", namespace)
        if "stringData" in found and kind.kind == "Secret":
            data: Object = found.setdefault("data", {}) or {}
            for key, text in found.pop("stringData").items():
                data[key] = base64.b64encode(text.encode()).decode()
            found["data"] = data
        check_schema(kind, found, self.version)
        fill_in(kind, found)

    def _check(self, kind: Kind, found: Object, before: Object | None) -> None:
        rules.check(kind, found, before)

    def _begin(self, kind: Kind, found: Object) -> None:
        """What the API itself says of a new object."""
        spec: Object = found.get("spec") or {}
        match kind.kind:
            case "Namespace":
                found["status"] = {"phase": "Active"}
                labels = found["metadata"].setdefault("labels", {})
                labels["kubernetes.io/metadata.name"] = name_of(found)
            case "Service" if spec.get("type") != "ExternalName":
                spec.setdefault("clusterIP", self._service_address())
                spec["clusterIPs"] = [spec["clusterIP"]]
            case "Pod":
                found["status"] = {"phase": "Pending", "qosClass": "Burstable"}
            case "PersistentVolumeClaim":
                spec["volumeName"] = f"pvc-{secrets.token_hex(4)}"
                storage = spec["resources"]["requests"]["storage"]
                found["status"] = {
                    "phase": "Bound",
                    "accessModes": spec["accessModes"],
                    "capacity": {"storage": storage},
                }
            case "Job" if "selector" not in spec:
                uid = secrets.token_hex(8)
                labels = {"batch.kubernetes.io/controller-uid": uid}
                spec["selector"] = {"matchLabels": dict(labels)}
                labels |= {
                    "job-name": name_of(found),
                    "batch.kubernetes.io/job-name": name_of(found),
                }
                template = spec["template"].setdefault("metadata", {})
                template["labels"] = {**(template.get("labels") or NOTHING), **labels}
            case _:
                pass

    def _admit(self, pod: Object) -> None:
        """What admission demands of a new pod."""
        namespace, name = pod["metadata"]["namespace"], name_of(pod)
        account = pod["spec"]["serviceAccountName"]
        if self.objects.find(SERVICE_ACCOUNT, namespace, account) is None:
            message = f'pods "{name}" is forbidden: error looking up service account {account!r}'
            raise ApiError(403, "Forbidden", message)
        labels = self.objects.get(NAMESPACE, "", namespace)["metadata"].get("labels") or NOTHING
        if labels.get(ENFORCE) == "restricted" and (problems := restricted_problems(pod)):
            message = f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": '
            raise ApiError(403, "Forbidden", message + ", ".join(problems))

    def _orphan(self, uid: str) -> None:
        for kind, found in self._everything():
            metadata = found["metadata"]
            owners: list[Object] = metadata.get("ownerReferences") or []
            if left := [owner for owner in owners if owner["uid"] != uid]:
                if left == owners:
                    continue
            elif not owners:
                continue
            metadata["ownerReferences"] = left
            self.objects.replace(kind, found)

    def _empty(self, namespace: str) -> None:
        for kind, found in self._everything():
            is_there = self.objects.find(kind, namespace, name_of(found)) is not None
            if found["metadata"].get("namespace") == namespace and is_there:
                self.objects.delete(kind, namespace, name_of(found))

    def _everything(self) -> Iterator[tuple[Kind, Object]]:
        for kind in KINDS:
            for found in self.objects.list(kind):
                yield kind, found


def is_ready(pod: Object) -> bool:
    """Whether a pod serves."""
    conditions = (pod.get("status") or NOTHING).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _one_less(budget: Object) -> None:
    # Until its controller has counted again.
    budget["status"]["disruptionsAllowed"] = max(0, budget["status"]["disruptionsAllowed"] - 1)


def wanted_healthy(budget: Object, expected: int) -> int:
    """How many pods a budget wants, of so many that there should be."""
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        return max(0, expected - scaled(spec["maxUnavailable"], expected, up=True))
    return scaled(spec["minAvailable"], expected, up=True)


def scaled(value: object, whole: int, *, up: bool) -> int:
    """A number, or a part of a whole."""
    text = str(value)
    if not text.endswith("%"):
        return int(amount(text))
    exact = int(text[:-1]) * whole
    return -(-exact // 100) if up else exact // 100
