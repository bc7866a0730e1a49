"""What clients read before anything else: versions, resources, and types (OpenAPI v3)."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.platform.kinds import KINDS, VERBS, Kind, Object, is_list, is_object
from tests.platform.schemas import definitions


def document(path: str, version: str) -> Object | None:
    """What a path of discovery has; None if it is none."""
    path = path.rstrip("/")
    match path.split("/")[1:]:
        case ["version"]:
            major, minor = version.split(".")
            return {"major": major, "minor": minor, "gitVersion": f"v{version}.0"}
        case ["healthz" | "livez" | "readyz"]:
            return {"status": "ok"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()}
        case ["api", _] | ["apis", _, _]:
            return _resources(path)
        case ["openapi", "v3"]:
            paths = {
                kind.base[1:]: {"serverRelativeURL": f"/openapi/v3{kind.base}"} for kind in KINDS
            }
            return {"paths": paths}
        case ["openapi", "v3", *rest]:
            return _openapi("/" + "/".join(rest), version)
        case _:
            return None


def _groups() -> list[Object]:
    groups: dict[str, Object] = {}
    for kind in KINDS:
        if kind.group:
            served = {"groupVersion": kind.api_version, "version": kind.version}
            groups[kind.group] = {
                "name": kind.group,
                "versions": [served],
                "preferredVersion": served,
            }
    return list(groups.values())


def _resources(path: str) -> Object | None:
    kinds = [kind for kind in KINDS if kind.base == path]
    if not kinds:
        return None
    resources: list[Object] = []
    for kind in kinds:
        resources.append(_resource(kind, kind.plural, VERBS))
        resources.append(_resource(kind, f"{kind.plural}/status", ("get", "patch", "update")))
        if kind.has_scale:
            resources.append(_resource(kind, f"{kind.plural}/scale", ("get", "patch", "update")))
        if kind.kind == "Pod":
            resources.append(_resource(kind, "pods/log", ("get",)))
            resources.append(_resource(kind, "pods/eviction", ("create",)))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
    }


def _resource(kind: Kind, name: str, verbs: tuple[str, ...]) -> Object:
    resource: Object = {
        "name": name,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(verbs),
    }
    if kind.short and "/" not in name:
        resource["shortNames"] = [kind.short]
    if name == "pods/eviction":
        resource |= {"kind": "Eviction", "group": "policy", "version": "v1"}
    return resource


@cache
def _openapi(base: str, version: str) -> Object | None:
    kinds = [kind for kind in KINDS if kind.base == base]
    if not kinds:
        return None
    schemas = _moved(definitions(version))
    paths: Object = {}
    for kind in kinds:
        named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        for schema in schemas.values():
            if named in (schema.get("x-kubernetes-group-version-kind") or ()):
                schema["x-kubernetes-group-version-kind"] = [named]
        place = "/namespaces/{namespace}" if kind.namespaced else ""
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ]
        operation = {
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": named,
        }
        path = f"{base}{place}/{kind.plural}"
        paths[path] = {"post": {**operation, "x-kubernetes-action": "post"}}
        paths[f"{path}/{{name}}"] = {"patch": {**operation, "x-kubernetes-action": "patch"}}
    info = {"title": "Kubernetes", "version": f"v{version}.0"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _moved(value: Any) -> Any:
    """Types with references to each other as OpenAPI has them."""
    if is_object(value):
        members: Object = value
        moved = {name: _moved(each) for name, each in members.items()}
        if isinstance(reference := moved.get("$ref"), str):
            moved["$ref"] = "#/components/schemas/" + reference.rpartition("/")[2]
        if is_list(kinds := moved.get("type")):
            choices: list[str] = kinds
            moved["type"] = next((each for each in choices if each != "null"), "object")
        return moved
    if is_list(value):
        elements: list[Any] = value
        return [_moved(each) for each in elements]
    return value
