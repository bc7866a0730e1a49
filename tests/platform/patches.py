"""How objects are patched: JSON patches, merge patches, and strategic merge patches.

Server-side apply is in `field_managers.py`, which takes the keys of lists from here.

What differs from Kubernetes: the keys of lists are found by their field's name, not by the type
that the field is in; `$setElementOrder` is dropped, and new elements are put at the end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from tests.platform.kinds import Object, is_list, is_object
from tests.platform.objects import ApiError

LIST_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "containers": (("name",),),
    "initContainers": (("name",),),
    "ephemeralContainers": (("name",),),
    "volumes": (("name",),),
    "env": (("name",),),
    "imagePullSecrets": (("name",),),
    "secrets": (("name",),),
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "volumeMounts": (("mountPath",),),
    "hostAliases": (("ip",),),
    "ownerReferences": (("uid",),),
    "conditions": (("type",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}
"""Field → keys that tell its elements apart; other lists are replaced as a whole."""

SETS = frozenset({"finalizers"})
"""Fields whose lists of values are merged."""

DEFAULT_KEYS = {"protocol": "TCP"}

MERGED_BY = {"ports": (("containerPort",), ("port",))}
"""Where a strategic merge patch goes by fewer keys than server-side apply."""


def list_keys(field: str, elements: list[Any], *, strategic: bool = False) -> tuple[str, ...]:
    """The keys of a list of objects; none, if it is replaced as a whole.

    `ports` of a network policy have neither of the keys, and are replaced.
    """
    known = (MERGED_BY if strategic else {}).get(field) or LIST_KEYS.get(field, ())
    for keys in known:
        if elements and all(is_object(each) and keys[0] in each for each in elements):
            return keys
    return ()


def key_values(element: Object, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(element.get(key, DEFAULT_KEYS.get(key)) for key in keys)


def merge(found: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not is_object(patch):
        return copy.deepcopy(patch)
    changes: Object = patch
    merged: Object = dict(found) if is_object(found) else {}
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic_merge(found: Any, patch: Any, field: str = "") -> Any:
    """A strategic merge patch: lists are merged by the keys of their elements."""
    if is_object(patch):
        return _strategic_object(found, patch)
    if not is_list(patch):
        return copy.deepcopy(patch)
    elements: list[Any] = patch
    present: list[Any] = found if is_list(found) else []
    if field in SETS:
        return [*present, *(each for each in elements if each not in present)]
    plain = [e for e in elements if not (is_object(e) and e.keys() == {"$patch"})]
    if len(plain) < len(elements) and {"$patch": "replace"} in elements:
        return copy.deepcopy(plain)
    keys = list_keys(field, [*present, *plain], strategic=True)
    if not keys:
        return copy.deepcopy(plain)
    merged: list[Any] = copy.deepcopy(present)
    for element in plain:
        places = [
            i for i, e in enumerate(merged) if key_values(e, keys) == key_values(element, keys)
        ]
        if element.get("$patch") == "delete":
            for place in reversed(places):
                del merged[place]
        elif places:
            merged[places[0]] = strategic_merge(merged[places[0]], element)
        else:
            merged.append(strategic_merge({}, element))
    return merged


def _strategic_object(found: Any, patch: Object) -> Object:
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    merged: Object = dict(found) if is_object(found) else {}
    retained: list[str] | None = patch.get("$retainKeys")
    if retained is not None:
        merged = {name: value for name, value in merged.items() if name in retained}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            merged[field] = [each for each in merged.get(field, []) if each not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = strategic_merge(merged.get(name), value, name)
    return merged


def json_patch(found: Any, operations: list[Object]) -> Any:
    """A JSON patch (RFC 6902)."""
    patched = copy.deepcopy(found)
    for each in operations:
        steps = [s.replace("~1", "/").replace("~0", "~") for s in each["path"].split("/")[1:]]
        if not steps:
            if each["op"] in ("add", "replace"):
                patched = copy.deepcopy(each["value"])
            continue
        try:
            parent = _walk(patched, steps[:-1])
            _operate(patched, parent, steps[-1], each)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            message = f"the server rejected our request due to an error in our request: {error!r}"
            raise ApiError(422, "Invalid", message) from error
    return patched


def _operate(whole: Any, parent: Any, last: str, operation: Object) -> None:
    match operation["op"]:
        case "add":
            _add(parent, last, copy.deepcopy(operation["value"]))
        case "replace":
            _walk(parent, [last])
            parent[_index(parent, last)] = copy.deepcopy(operation["value"])
        case "remove":
            del parent[_index(parent, last)]
        case "test":
            if _walk(parent, [last]) != operation["value"]:
                raise ValueError(f"{operation['path']} is another value")
        case "copy" | "move" as kind:
            steps = operation["from"].split("/")[1:]
            taken_from = _walk(whole, steps[:-1])
            value = copy.deepcopy(taken_from[_index(taken_from, steps[-1])])
            if kind == "move":
                del taken_from[_index(taken_from, steps[-1])]
            _add(parent, last, value)
        case other:
            raise ValueError(f"{other} is no operation")


def _walk(value: Any, steps: list[str]) -> Any:
    for step in steps:
        value = value[_index(value, step)]
    return value


def _index(parent: Any, step: str) -> Any:
    return int(step) if is_list(parent) else step


def _add(parent: Any, last: str, value: Any) -> None:
    if is_list(parent):
        values: list[Any] = parent
        values.insert(len(values) if last == "-" else int(last), value)
    else:
        parent[last] = value


PATCHES: Mapping[str, Callable[[Any, Any], Any]] = {
    "application/json-patch+json": json_patch,
    "application/merge-patch+json": merge,
    "application/strategic-merge-patch+json": strategic_merge,
}
"""Type of content → how it patches."""
