"""Strict schemas of Kubernetes' objects, those of `kubernetes-validate`.

They refuse unknown fields and wrong types. What they do not hold is in `rules.py`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.platform.kinds import Kind, Object
from tests.platform.objects import ApiError

VERSION = "1.37"
"""Of Kubernetes, unless something else is said."""


def check_schema(kind: Kind, given: Object, version: str = VERSION) -> None:
    """Refuse what the kind's schema does not permit.

    Raises
    ------
    ApiError
        With the path of each field.
    """
    problems = [
        f"{'.'.join(str(step) for step in error.absolute_path) or '<root>'}: {error.message}"
        for error in _validator(kind, version).iter_errors(given)
    ]
    if problems:
        name = given["metadata"].get("name", "")
        message = f'{kind.kind} "{name}" is invalid: ' + "; ".join(sorted(problems)[:5])
        raise ApiError(422, "Invalid", message)


@cache
def _folder(version: str) -> Any:
    root = resources.files("kubernetes_validate").joinpath("kubernetes-json-schema")
    return root.joinpath(f"v{version}.0-local-strict")


@cache
def _registry(version: str) -> Any:
    content = json.loads(_folder(version).joinpath("_definitions.json").read_text("utf-8"))
    definitions: Any = Resource[Any].from_contents(content)
    return definitions @ Registry[Any]()


@cache
def _validator(kind: Kind, version: str) -> Any:
    group = kind.group.partition(".")[0]
    name = "-".join(filter(None, [kind.kind.lower(), group, kind.version]))
    schema = json.loads(_folder(version).joinpath(f"{name}.json").read_text("utf-8"))
    return Draft202012Validator(schema, registry=_registry(version))


def definitions(version: str = VERSION) -> Object:
    """All types, by name, with the references among them."""
    return json.loads(_folder(version).joinpath("_definitions.json").read_text("utf-8"))["$defs"]
