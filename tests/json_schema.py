"""Judges a document by a JSON schema, as far as msgspec's schemas go."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}

KNOWN = {
    "$ref", "$defs", "$schema", "$comment", "title", "description", "default", "type", "anyOf",
    "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems",
    "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "maxLength", "minLength",
    "format", "pattern", "discriminator",
}  # fmt: skip
"""Keywords that are judged, or say nothing of validity."""


SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def wrong(document: Any, schema: str) -> list[str]:
    """What is wrong with a document by a schema of the docs, with its place."""
    root = json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    return [*_faults(document, root, root, "$")]


def _faults(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str
) -> Iterator[str]:
    assert schema.keys() <= KNOWN, schema.keys() - KNOWN
    if (ref := schema.get("$ref")) is not None:
        yield from _faults(value, root["$defs"][ref.removeprefix("#/$defs/")], root, place)
    if (kind := schema.get("type")) is not None:
        is_bool = isinstance(value, bool) and kind != "boolean"
        if is_bool or not isinstance(value, KINDS[kind]):
            yield f"{place}: {value!r} is no {kind}"
            return
    if "anyOf" in schema and all([*_faults(value, e, root, place)] for e in schema["anyOf"]):
        yield f"{place}: {value!r} is none of {schema['anyOf']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not in {schema['enum']}"
    if isinstance(value, dict):
        yield from _of_object(cast(dict[str, Any], value), schema, root, place)
    elif isinstance(value, list):
        yield from _of_array(cast(list[Any], value), schema, root, place)
    elif isinstance(value, str) and "pattern" in schema:
        if re.search(schema["pattern"], value) is None:
            yield f"{place}: {value!r} does not match"
    elif isinstance(value, int | float) and not schema.get("minimum", value) <= value:
        yield f"{place}: {value} is too little"


def _of_object(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], place: str
) -> Iterator[str]:
    fields = schema.get("properties", {})
    yield from (f"{place}: {name} is missing" for name in {*schema.get("required", ())} - {*value})
    others = schema.get("additionalProperties", True)
    for name, each in value.items():
        if name in fields:
            yield from _faults(each, fields[name], root, f"{place}.{name}")
        elif others is False:
            yield f"{place}: {name} is unknown"
        elif others is not True:
            yield from _faults(each, others, root, f"{place}.{name}")


def _of_array(
    value: list[Any], schema: Mapping[str, Any], root: Mapping[str, Any], place: str
) -> Iterator[str]:
    first = schema.get("prefixItems", [])
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place}: {len(value)} items"
    for number, each in enumerate(value):
        items = first[number] if number < len(first) else schema.get("items", True)
        if isinstance(items, dict):
            yield from _faults(each, cast(dict[str, Any], items), root, f"{place}[{number}]")
