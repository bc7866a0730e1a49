"""What controllers share: the pods of an owner, how they are made and removed, and what is told."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.platform.api import Api, Sender
from tests.platform.kinds import (
    NOTHING,
    POD,
    Kind,
    Object,
    controlled_by,
    name_of,
    owner_reference,
)
from tests.platform.objects import now
from tests.platform.schemas import check_schema

SENDER = Sender(user="admin", manager="kube-controller-manager")


class Controller:
    """Base of controllers, each of which takes the next step of one object."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.objects = api.objects

    def step(self, found: Object) -> None:
        """Take the next step of an object."""
        raise NotImplementedError

    def owned(self, kind: Kind, owner: Object) -> list[Object]:
        place = owner["metadata"]["namespace"]
        return [each for each in self.objects.list(kind, place) if controlled_by(each, owner)]

    def alive(self, owner: Object) -> list[Object]:
        return [
            pod
            for pod in self.owned(POD, owner)
            if not is_leaving(pod) and pod["status"]["phase"] in ("Pending", "Running")
        ]

    def make_pod(self, owner: Object, template: Object, name: str, *, exact: bool = False) -> None:
        made: Object = json.loads(json.dumps(template))
        metadata = made.setdefault("metadata", {})
        metadata["name" if exact else "generateName"] = name
        metadata["ownerReferences"] = [owner_reference(owner)]
        self.create(POD, owner, made)

    def create(self, kind: Kind, owner: Object, made: Object) -> None:
        made["apiVersion"], made["kind"] = kind.api_version, kind.kind
        self.api.create(kind, owner["metadata"]["namespace"], made, SENDER)

    def delete_pod(self, pod: Object) -> None:
        if not is_leaving(pod):
            self.objects.delete(POD, pod["metadata"]["namespace"], name_of(pod))

    def report(self, kind: Kind, found: Object, status: Object) -> None:
        if (found.get("status") or NOTHING) == status:
            return

        def change(each: Object) -> None:
            each["status"] = status
            check_schema(kind, each, self.api.version)

        self.objects.change(kind, found["metadata"]["namespace"], name_of(found), change)


def digest_of(template: Any) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def conditions_of(found: Object, **wanted: tuple[bool, str]) -> list[Object]:
    """Conditions, with the times of those that stay as they were."""
    known = {
        each["type"]: each for each in (found.get("status") or NOTHING).get("conditions") or ()
    }
    conditions: list[Object] = []
    for kind, (holds, reason) in wanted.items():
        status = "True" if holds else "False"
        was = known.get(kind)
        if was is not None and (was["status"], was["reason"]) == (status, reason):
            conditions.append(was)
        else:
            moment = {"lastTransitionTime": now(), "message": ""}
            conditions.append({"type": kind, "status": status, "reason": reason, **moment})
    return conditions
