"""The OpenAPI document of the HTTP API, made of the table of operations."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from orchestrator.operations.operation import Manner, Operation
from orchestrator.results.operations import OperationStatus

PREFIX = "/api/v1/"

_REFERENCE = "#/components/schemas/{name}"

_error = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message", "exit_status"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "exit_status": {"type": "integer"},
            },
        }
    },
}
_age = {
    "Vivace-View-Age": {
        "description": "Seconds since the store has told the last time that this is so.",
        "schema": {"type": "number"},
    }
}


def document(operations: Sequence[Operation[Any, Any]]) -> dict[str, Any]:
    """OpenAPI 3.1 of some operations."""
    types = [each.parameters for each in operations] + [each.result for each in operations]
    schemas, components = msgspec.json.schema_components(
        [*types, OperationStatus], ref_template=_REFERENCE
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation, result in zip(operations, schemas[len(operations) :], strict=False):
        methods = paths.setdefault(PREFIX + operation.path, {})
        fields = components[operation.parameters.__name__]
        methods[operation.method.lower()] = _described(operation, fields, result, schemas[-1])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Vivace",
            "version": version("vivace"),
            "description": "A cluster that runs continuous queries. docs/api.md says more.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(
    operation: Operation[Any, Any],
    fields: dict[str, Any],
    result: dict[str, Any],
    status: dict[str, Any],
) -> dict[str, Any]:
    in_path = operation.path_fields
    properties: dict[str, Any] = fields.get("properties", {})
    required = set(fields.get("required", ()))
    rest = {name: each for name, each in properties.items() if name not in in_path}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": properties[name]}
        for name in in_path
    ]
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Needs the role `{operation.role.value}`.",
        "responses": {**_success(operation, result, status), "default": _failure()},
    }
    if operation.method == "POST":
        body = {
            "type": "object",
            "properties": rest,
            "required": [name for name in rest if name in required],
            "additionalProperties": False,
        }
        found["requestBody"] = {
            "required": bool(body["required"]),
            "content": {"application/json": {"schema": body}},
        }
    else:
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": each}
            for name, each in rest.items()
        ]
    return {**found, "parameters": parameters}


def _success(
    operation: Operation[Any, Any], result: dict[str, Any], status: dict[str, Any]
) -> dict[str, Any]:
    match operation.manner:
        case Manner.LONG:
            told = f"It was begun; follow {PREFIX}operations/{{name}} to its result."
            return {"202": _response(told, "application/json", status)}
        case Manner.STREAM:
            return {"200": _response("Events, until the client ends it.", "text/event-stream", {})}
        case Manner.DIRECT:
            return {"200": _response("The result.", "application/json", result)}


def _response(told: str, media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": told, "headers": _age, "content": {media: {"schema": schema}}}


def _failure() -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name="Error")}
    return {
        "description": "What went wrong, as `--json` of the command line tells it.",
        "content": {"application/json": {"schema": schema}},
    }
