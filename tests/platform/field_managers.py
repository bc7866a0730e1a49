"""Server-side apply: who manages which field, and what follows when several want the same.

`metadata.managedFields` says it, in Kubernetes' own notation: `f:NAME` is a field, `k:{…}` an
element of a list with keys, `v:VALUE` an element of a set, `.` the thing itself.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tests.platform.kinds import Object, is_list, is_object
from tests.platform.objects import ApiError, now
from tests.platform.patches import DEFAULT_KEYS, SETS, key_values, list_keys

Path = tuple[str, ...]

APPLY, UPDATE = "Apply", "Update"

_own = ("apiVersion", "kind")
_of_server = frozenset({
    "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "name",
    "namespace", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
})  # fmt: skip


def fields_of(found: Any, field: str = "", at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The paths of all fields that have values, with these."""
    if is_object(found):
        members: Object = found
        if not members:
            yield at, {}
        for name, value in members.items():
            if (not at and name in _own) or (at == ("f:metadata",) and name in _of_server):
                continue
            yield from fields_of(value, name, (*at, f"f:{name}"))
        return
    if is_list(found):
        elements: list[Any] = found
        if field in SETS:
            for each in elements:
                yield (*at, f"v:{json.dumps(each)}"), each
            return
        if keys := list_keys(field, elements):
            for each in elements:
                step = _element(each, keys)
                yield (*at, step, "."), {}
                yield from fields_of(each, "", (*at, step))
            return
    yield at, found


def _element(element: Object, keys: tuple[str, ...]) -> str:
    values = dict(zip(keys, key_values(element, keys), strict=True))
    return "k:" + json.dumps(values, separators=(",", ":"), sort_keys=True)


def written(paths: set[Path]) -> Object:
    """A set of paths, as managedFields hold it."""
    tree: Object = {}
    for path in sorted(paths):
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
    return tree


def read(tree: Object, at: Path = ()) -> set[Path]:
    """The paths that managedFields hold."""
    if not tree:
        return {at} if at else set()
    paths = set[Path]()
    for step, branch in tree.items():
        paths |= read(branch, (*at, step))
    return paths


def managed(found: Object) -> dict[tuple[str, str, str], set[Path]]:
    """(Manager, operation, subresource) → its fields."""
    return {
        (each["manager"], each["operation"], each.get("subresource", "")): read(each["fieldsV1"])
        for each in found["metadata"].get("managedFields") or ()
    }


def _keep(found: Object, owners: dict[tuple[str, str, str], set[Path]]) -> None:
    before = {
        (each["manager"], each["operation"], each.get("subresource", "")): each
        for each in found["metadata"].get("managedFields") or ()
    }
    entries: list[Object] = []
    for key, paths in owners.items():
        if not paths:
            continue
        fields = written(paths)
        known = before.get(key)
        if known is not None and known["fieldsV1"] == fields:
            entries.append(known)
            continue
        entry: Object = {
            "manager": key[0],
            "operation": key[1],
            "apiVersion": found["apiVersion"],
            "time": now(),
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if key[2]:
            entry["subresource"] = key[2]
        entries.append(entry)
    found["metadata"]["managedFields"] = entries


def note_update(before: Object | None, after: Object, manager: str, subresource: str = "") -> None:
    """Have the fields that a client has changed be its own, and nobody else's."""
    if after["metadata"].get("managedFields") == []:
        # A client may take all ownership away.
        owners: dict[tuple[str, str, str], set[Path]] = {}
    else:
        owners = managed(after)
    old = {} if before is None else dict(fields_of(before))
    new = dict(fields_of(after))
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    key = (manager, UPDATE, subresource)
    for other, paths in owners.items():
        paths &= new.keys()
        if other != key:
            paths -= changed
    owners[key] = owners.get(key, set()) | changed
    _keep(after, owners)


def apply(found: Object | None, given: Object, manager: str, *, force: bool) -> Object:
    """An object after a manager has applied what it wants of it.

    Raises
    ------
    ApiError
        Other managers want other values.
    """
    given = copy.deepcopy(given)
    if found is None:
        _keep(given, {(manager, APPLY, ""): {path for path, _ in fields_of(given)}})
        return given
    owners = managed(found)
    key = (manager, APPLY, "")
    wanted, present = dict(fields_of(given)), dict(fields_of(found))
    disputed = {
        path: other[0]
        for other, paths in owners.items()
        if other != key
        for path in paths & wanted.keys()
        if path in present and present[path] != wanted[path]
    }
    if disputed and not force:
        raise _conflict(disputed)
    for other, paths in owners.items():
        if other != key:
            paths -= disputed.keys()
    others = {path for other, paths in owners.items() if other != key for path in paths}
    dropped = owners.get(key, set()) - wanted.keys() - others
    owners[key] = set(wanted)
    applied = _merged(_without(found, dropped), given)
    _keep(applied, owners)
    return applied


def _conflict(disputed: dict[Path, str]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{manager}"',
            "field": "".join(f".{step[2:]}" for step in path),
        }
        for path, manager in sorted(disputed.items())
    ]
    count = f"{len(causes)} conflict" + "s" * (len(causes) > 1)
    told = ", ".join(f"{each['message']}: {each['field']}" for each in causes)
    message = f"Apply failed with {count}: {told}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def _merged(found: Any, given: Any, field: str = "") -> Any:
    if is_object(given) and is_object(found):
        members: Object = given
        merged: Object = dict(found)
        for name, value in members.items():
            merged[name] = _merged(merged.get(name), value, name)
        return merged
    if is_list(given) and is_list(found):
        elements: list[Any] = given
        present: list[Any] = found
        if field in SETS:
            return [*present, *(each for each in elements if each not in present)]
        if keys := list_keys(field, [*present, *elements]):
            known = {key_values(each, keys): each for each in present}
            order = {key_values(each, keys): each for each in elements}
            both = [_merged(known.get(key, {}), each) for key, each in order.items()]
            return [*both, *(each for key, each in known.items() if key not in order)]
    return copy.deepcopy(given)


def _without(found: Object, dropped: set[Path]) -> Object:
    """An object without some fields, and without objects that held nothing else."""
    left = copy.deepcopy(found)
    # Elements first, as long as they have their keys; then what is within others.
    for path in sorted(dropped, key=lambda path: (path[-1] != ".", -len(path), path)):
        _drop(left, path)
    return left


def _drop(value: Any, path: Path) -> None:
    step, rest = path[0], path[1:]
    if is_list(value):
        elements: list[Any] = value
        for each in [each for each in elements if _is_element(each, step)]:
            if not rest or rest == (".",):
                elements.remove(each)
            else:
                _drop(each, rest)
        return
    name = step.removeprefix("f:")
    if not is_object(value) or name not in value:
        return
    members: Object = value
    if not rest:
        del members[name]
        return
    was = bool(members[name])
    _drop(members[name], rest)
    if was and not members[name]:
        del members[name]


def _is_element(each: Any, step: str) -> bool:
    if step.startswith("v:"):
        return each == json.loads(step[2:])
    keys: Object = json.loads(step[2:])
    return is_object(each) and all(
        each.get(key, DEFAULT_KEYS.get(key)) == value for key, value in keys.items()
    )
