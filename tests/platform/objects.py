"""The rig's objects, their revisions, and what has changed since a revision.

Everything is in one revision's order, as in etcd. Whoever changes something holds `lock`.
"""

from __future__ import annotations

import datetime
import marshal
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.platform.kinds import BY_KIND, KINDS, NOTHING, POD, Kind, Object, owner_uids

MOST_CHANGES = 20_000
"""Changes that are remembered: who watches from before them is sent away."""

DEFAULT_GRACE_S = 30


class ApiError(Exception):
    """A request that is refused, with the status that its sender gets."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or NOTHING

    def status(self) -> Object:
        """As clients read it."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def not_found(kind: Kind, name: str) -> ApiError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return ApiError(404, "NotFound", f'{kind.plural} "{name}" not found', details)


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    message = f'Operation cannot be fulfilled on {kind.plural} "{name}": {why}'
    return ApiError(409, "Conflict", message, details)


def copied(found: Any) -> Any:
    """A copy of what stands in JSON, ten times as fast as any: everybody looks all the time."""
    return marshal.loads(marshal.dumps(found))


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an object: ADDED, MODIFIED or DELETED, and the object afterwards."""

    revision: int
    kind: Kind
    event: str
    found: Object
    before: Object | None


class Objects:
    """All objects. What is returned is a copy; what is given is kept as a copy."""

    def __init__(self) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.revision = 1
        self._found: dict[Kind, dict[tuple[str, str], Object]] = {kind: {} for kind in KINDS}
        self._changes: deque[Change] = deque(maxlen=MOST_CHANGES)

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """An object; an error if there is none."""
        with self.lock:
            found = self._found[kind].get((namespace, name))
            if found is None:
                raise not_found(kind, name)
            return copied(found)

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        with self.lock:
            return copied(self._found[kind].get((namespace, name)))

    def list(self, kind: Kind, namespace: str = "") -> list[Object]:
        """All objects of a kind, of one namespace or of all."""
        with self.lock:
            return [
                copied(found)
                for (place, _), found in sorted(self._found[kind].items())
                if namespace in ("", place)
            ]

    def create(self, kind: Kind, given: Object) -> Object:
        """Keep a new object."""
        with self.lock:
            found = copied(given)
            metadata = found["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            if key in self._found[kind]:
                details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural}
                message = f'{kind.plural} "{metadata["name"]}" already exists'
                raise ApiError(409, "AlreadyExists", message, details)
            metadata["uid"] = str(uuid.uuid4())
            metadata["creationTimestamp"] = now()
            metadata["generation"] = 1
            return self._put(kind, key, found, "ADDED", None)

    def replace(self, kind: Kind, given: Object) -> Object:
        """Keep another state of an object, of the revision that its sender has read if it says so.

        An object that waits to be deleted for its finalizers alone is deleted with the last one.
        """
        with self.lock:
            found = copied(given)
            metadata = found["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            before = self._found[kind].get(key)
            if before is None:
                raise not_found(kind, metadata["name"])
            known = before["metadata"]
            if metadata.get("resourceVersion") not in (None, "", known["resourceVersion"]):
                raise conflict(kind, metadata["name"], "the object has been modified")
            if metadata.get("uid") not in (None, known["uid"]):
                raise conflict(kind, metadata["name"], "it is another object of this name")
            for field in ("uid", "creationTimestamp", "deletionTimestamp"):
                if field in known:
                    metadata[field] = known[field]
            metadata["resourceVersion"] = known["resourceVersion"]
            metadata["generation"] = known["generation"] + (found.get("spec") != before.get("spec"))
            if found == before:
                return copied(found)
            replaced = self._put(kind, key, found, "MODIFIED", before)
            if "deletionTimestamp" in metadata and not metadata.get("finalizers") and kind != POD:
                self.remove(kind, *key)
            return replaced

    def change(
        self, kind: Kind, namespace: str, name: str, how: Callable[[Object], object]
    ) -> Object | None:
        """Have a function change an object; None if it is gone."""
        with self.lock:
            found = self.find(kind, namespace, name)
            if found is None:
                return None
            how(found)
            return self.replace(kind, found)

    def delete(self, kind: Kind, namespace: str, name: str, grace_s: int | None = None) -> Object:
        """Have an object deleted: a pod once its processes have ended, others when nothing holds
        them."""
        with self.lock:
            found = self.get(kind, namespace, name)
            metadata = found["metadata"]
            if kind == POD:
                if grace_s is None:
                    seconds = found["spec"].get("terminationGracePeriodSeconds")
                    grace_s = DEFAULT_GRACE_S if seconds is None else seconds
                if not found["spec"].get("nodeName"):
                    grace_s = 0
                grace_s = min(grace_s, metadata.get("deletionGracePeriodSeconds", grace_s))
            if (kind != POD or grace_s == 0) and not metadata.get("finalizers"):
                return self.remove(kind, namespace, name)
            if metadata.get("deletionGracePeriodSeconds") == grace_s:
                return found
            metadata.setdefault("deletionTimestamp", now())
            if grace_s is not None:
                metadata["deletionGracePeriodSeconds"] = grace_s
            key = namespace, name
            return self._put(kind, key, found, "MODIFIED", self._found[kind][key])

    def remove(self, kind: Kind, namespace: str, name: str) -> Object:
        """Forget an object now, and delete what is left without an owner."""
        with self.lock:
            before = self._found[kind].pop((namespace, name), None)
            if before is None:
                raise not_found(kind, name)
            self.revision += 1
            found = copied(before)
            found["metadata"]["resourceVersion"] = str(self.revision)
            self._note(Change(self.revision, kind, "DELETED", found, before))
            self._collect()
            return copied(found)

    def since(self, revision: int, timeout_s: float) -> list[Change]:
        """What has changed since a revision; nothing if nothing does in time.

        Raises
        ------
        ApiError
            It is too long ago.
        """
        with self.lock:
            if self.revision <= revision:
                self.lock.wait(timeout_s)
            if self._changes and len(self._changes) == MOST_CHANGES:
                oldest = self._changes[0].revision
                if revision < oldest - 1:
                    raise ApiError(410, "Expired", f"too old resource version: {revision}")
            changed: list[Change] = []
            for change in reversed(self._changes):
                if change.revision <= revision:
                    break
                changed.append(change)
            return changed[::-1]

    def await_change(self, revision: int, timeout_s: float) -> int:
        """Wait until something has changed since a revision, or time is over; the revision now."""
        with self.lock:
            if self.revision <= revision:
                self.lock.wait(timeout_s)
            return self.revision

    def _put(
        self, kind: Kind, key: tuple[str, str], found: Object, event: str, before: Object | None
    ) -> Object:
        self.revision += 1
        found["metadata"]["resourceVersion"] = str(self.revision)
        self._found[kind][key] = found
        self._note(Change(self.revision, kind, event, copied(found), before))
        return copied(found)

    def _note(self, change: Change) -> None:
        self._changes.append(change)
        self.lock.notify_all()

    def _collect(self) -> None:
        uids = {found["metadata"]["uid"] for _, found in self._everything()}
        for kind, found in list(self._everything()):
            owners = owner_uids(found)
            if owners and not owners & uids:
                metadata = found["metadata"]
                place = metadata.get("namespace", "")
                if self.find(kind, place, metadata["name"]) is not None:
                    self.delete(kind, place, metadata["name"])

    def _everything(self) -> Iterator[tuple[Kind, Object]]:
        return ((kind, found) for kind in KINDS for found in self._found[kind].values())


def kind_of(found: Object) -> Kind:
    """Of an object that says so."""
    return BY_KIND[found["kind"]]
