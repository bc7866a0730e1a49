"""Reading the parameters of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from orchestrator.errors import InvalidInput
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import Parameters
from orchestrator.web.failures import REQUEST

_REMEDY = "/api/v1/openapi.json says what it takes."


def parameters_of(
    operation: Operation[Parameters, Any],
    in_path: Mapping[str, str],
    query: Iterable[tuple[str, str]],
    body: bytes,
) -> Parameters:
    """The parameters of an operation, from the request's path and its query or body.

    Raises
    ------
    InvalidInput
        They are not what the operation takes.
    """
    given = _body(body) if operation.method == "POST" else _query(query)
    for name in in_path:
        if name in given:
            raise InvalidInput(REQUEST, name, given[name], "is in the path", "Leave it out.")
    try:
        return msgspec.convert(
            {**given, **in_path}, operation.parameters, strict=operation.method == "POST"
        )
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `$.")
        raise InvalidInput(REQUEST, field.rstrip("`"), None, problem, _REMEDY) from None


def _query(query: Iterable[tuple[str, str]]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in query:
        if name in given:
            raise InvalidInput(REQUEST, name, value, "is given twice", "Keep one of the two.")
        given[name] = value
    return given


def _body(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any]) if body.strip() else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(REQUEST, "", None, f"is no JSON object ({error})", _REMEDY) from None
