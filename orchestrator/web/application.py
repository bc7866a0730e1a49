"""The HTTP API as an application of litestar: a route for each operation of the table."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from litestar import Litestar, Request, Response, route
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from orchestrator.errors import error_report
from orchestrator.health import Health
from orchestrator.operations.operation import AccessRole, Manner, Operation
from orchestrator.operations.parameters import (
    TUPLE_ID,
    EventsParameters,
    Parameters,
    TailParameters,
)
from orchestrator.operations.table import OPERATIONS
from orchestrator.records import TokenRecord
from orchestrator.store.protocol import StoreUnavailable
from orchestrator.web.access import Access, Author
from orchestrator.web.failures import Forbidden, Unauthorized, retry_after_s, status_of
from orchestrator.web.limits import RateLimit
from orchestrator.web.openapi import PREFIX, document
from orchestrator.web.requests import parameters_of
from orchestrator.web.service import Service

MOST_BODY_BYTES = 4 * 2**20

BODY_S = 30.0
"""Time within which a body must have come."""

JSON, TEXT = "application/json", "text/plain"

AGE = "Vivace-View-Age"

ApiRequest = Request[Any, Any, State]
Handle = Callable[[ApiRequest, Author], Awaitable[Response[Any]]]

_event_id = re.compile(r"-1|[0-9]{1,18}")
_field = re.compile(r"{(\w+)}")
_OF = "of_"
"""Before the names of what stands in a path: litestar keeps some, such as `query`, to itself."""


class Application:
    """Routes, and what they have in common.

    Parameters
    ----------
    cors_allow
        Whose pages a browser lets read responses; usually none.
    """

    def __init__(
        self, service: Service, access: Access, health: Health, cors_allow: Sequence[str] = ()
    ) -> None:
        self._service = service
        self._access = access
        self._health = health
        self._rates = RateLimit()
        self._description = msgspec.json.encode(document(OPERATIONS))
        handles = {
            Manner.DIRECT: self._direct,
            Manner.LONG: self._begun,
            Manner.STREAM: self._stream,
        }
        # Those of OPTIONS first: else litestar adds its own.
        routes = _options()
        routes += [
            self._guarded(PREFIX + each.path, each.method, each, handles[each.manner](each))
            for each in OPERATIONS
        ]
        routes += [
            self._guarded(f"{PREFIX}openapi.json", "GET", None, self._described),
            self._guarded("/metrics", "GET", None, self._metrics),
            *self._probes(),
        ]
        self.asgi = Litestar(
            routes,
            openapi_config=None,
            logging_config=None,
            request_max_body_size=MOST_BODY_BYTES,
            cors_config=_cors(cors_allow) if cors_allow else None,
            exception_handlers={Exception: _raised},
        )

    def _guarded(
        self,
        path: str,
        method: Literal["GET", "POST", "DELETE"],
        operation: Operation[Any, Any] | None,
        handle: Handle,
    ) -> HTTPRouteHandler:
        """A route for whoever has a token that permits it: to read, if it is no operation."""

        async def guarded(request: ApiRequest) -> Response[Any]:
            by = request.client.host if request.client else ""
            try:
                author = await self._author(request, by)
                by = str(author)
                author.check(AccessRole.READ if operation is None else operation.role)
                return await handle(request, author)
            # Whatever it is, the client is told as of any other error.
            except Exception as error:  # noqa: BLE001
                if isinstance(error, Unauthorized | Forbidden) and operation and operation.changes:
                    await self._service.refused(operation, by, str(error))
                return self._failure(request, error)

        return route(_routed(path), http_method=method, status_code=HTTPStatus.OK)(guarded)

    async def _author(self, request: ApiRequest, address: str) -> Author:
        """Whose request it is; counted."""
        try:
            author = await self._known(request, address)
        except Unauthorized:
            self._rates.count(address)
            raise
        self._rates.count(author.token)
        return author

    async def _known(self, request: ApiRequest, address: str) -> Author:
        known: dict[str, TokenRecord] = {}
        with suppress(StoreUnavailable):
            known = await self._service.tokens()
        return self._access.author(request.headers.get("Authorization", ""), address, known)

    def _direct(self, operation: Operation[Any, Any]) -> Handle:
        async def handle(request: ApiRequest, author: Author) -> Response[Any]:
            asked = await _parameters(operation, request)
            result = await self._service.result(operation, asked, author)
            headers = self._age()
            if operation.method == "GET":
                headers["ETag"] = tag = f'"{hashlib.sha256(result).hexdigest()[:32]}"'
                if tag in request.headers.get("If-None-Match", ""):
                    status = HTTPStatus.NOT_MODIFIED
                    return Response(b"", status_code=status, headers=headers, media_type=JSON)
            return Response(result, status_code=HTTPStatus.OK, headers=headers, media_type=JSON)

        return handle

    def _begun(self, operation: Operation[Any, Any]) -> Handle:
        async def handle(request: ApiRequest, author: Author) -> Response[Any]:
            asked = await _parameters(operation, request)
            status = await self._service.begin(operation, asked, author)
            return Response(
                msgspec.json.encode(status),
                status_code=HTTPStatus.ACCEPTED,
                headers={**self._age(), "Location": f"{PREFIX}operations/{status.name}"},
                media_type=JSON,
            )

        return handle

    def _stream(self, operation: Operation[Any, Any]) -> Handle:
        async def handle(request: ApiRequest, author: Author) -> Response[Any]:
            asked = _resumed(await _parameters(operation, request), request)

            async def permitted() -> bool:
                with suppress(Unauthorized):
                    return await self._known(request, author.address) == author
                return False

            events = await self._service.stream(asked, permitted)
            headers = {**self._age(), "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
            return Stream(
                events, status_code=HTTPStatus.OK, headers=headers, media_type="text/event-stream"
            )

        return handle

    async def _described(self, _request: ApiRequest, _author: Author) -> Response[Any]:
        return Response(self._description, status_code=HTTPStatus.OK, media_type=JSON)

    async def _metrics(self, _request: ApiRequest, _author: Author) -> Response[Any]:
        found = await self._service.exposition()
        return Response(found, status_code=HTTPStatus.OK, headers=self._age(), media_type=TEXT)

    def _probes(self) -> list[HTTPRouteHandler]:
        """Whether the process works: for everybody, a word."""

        async def livez(request: ApiRequest) -> Response[Any]:
            return _judged(self._health.lives, "alive", "stuck")

        async def readyz(request: ApiRequest) -> Response[Any]:
            return _judged(self._health.ready, "ready", "unready")

        return [
            route("/livez", http_method="GET")(livez),
            route("/readyz", http_method="GET")(readyz),
        ]

    def _age(self) -> dict[str, str]:
        age_s = self._service.view.age_s
        return {"Age": f"{age_s:.0f}", AGE: f"{age_s:.3f}"} if age_s < 1e9 else {}

    def _failure(self, request: ApiRequest, error: Exception) -> Response[Any]:
        response = _raised(request, error)
        response.headers.update(self._age())
        return response


def _routed(path: str) -> str:
    """A path as litestar has it."""
    return _field.sub(rf"{{{_OF}\1:str}}", path)


def _options() -> list[HTTPRouteHandler]:
    """What may be done with a path; of one with several methods litestar itself tells only one."""
    methods: dict[str, set[str]] = {}
    for each in OPERATIONS:
        methods.setdefault(PREFIX + each.path, {"OPTIONS"}).add(each.method)

    def told(path: str, allowed: set[str]) -> HTTPRouteHandler:
        async def options() -> Response[None]:
            headers = {"Allow": ", ".join(sorted(allowed))}
            return Response(None, status_code=HTTPStatus.NO_CONTENT, headers=headers)

        status = HTTPStatus.NO_CONTENT
        return route(_routed(path), http_method="OPTIONS", status_code=status)(options)

    return [told(path, allowed) for path, allowed in methods.items()]


def _cors(allowed: Sequence[str]) -> CORSConfig:
    return CORSConfig(
        allow_origins=[*allowed],
        allow_headers=["Authorization", "If-None-Match", "Last-Event-ID"],
        # Of other headers a browser tells a page nothing.
        expose_headers=[AGE, "ETag", "Location", "Retry-After"],
    )


async def _parameters(operation: Operation[Any, Any], request: ApiRequest) -> Any:
    async with asyncio.timeout(BODY_S):
        body = await request.body() if operation.method == "POST" else b""
    query = request.query_params.multi_items()
    return parameters_of(operation, _in_path(request), query, body)


def _resumed(asked: Parameters, request: ApiRequest) -> Parameters:
    """What is asked for, from where the client says that it was; the id of no event is ignored."""
    last = request.headers.get("Last-Event-ID", "")
    match asked:
        case EventsParameters() if _event_id.fullmatch(last):
            return msgspec.structs.replace(asked, after=int(last))
        case TailParameters() if re.fullmatch(TUPLE_ID, last):
            return msgspec.structs.replace(asked, after=last)
        case _:
            return asked


def _in_path(request: ApiRequest) -> dict[str, str]:
    return {name.removeprefix(_OF): str(each) for name, each in request.path_params.items()}


def _judged(good: bool, yes: str, no: str) -> Response[Any]:
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(f"{yes if good else no}\n", status_code=status, media_type=TEXT)


def _raised(request: ApiRequest, error: Exception) -> Response[Any]:
    """What went wrong, as the command line's `--json` tells it."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        # Of litestar: there is no such route, or the body is too large.
        status = HTTPStatus(error.status_code)
        headers = dict(error.headers or {})
        told = {"type": status.phrase.title().replace(" ", ""), "message": error.detail}
        report: dict[str, dict[str, object]] = {"error": {**told, "exit_status": 2}}
    elif isinstance(error, TimeoutError):
        status = HTTPStatus.REQUEST_TIMEOUT
        told = {"type": "RequestTimeout", "message": f"the body has not come within {BODY_S:g} s"}
        report = {"error": {**told, "exit_status": 2}}
    else:
        status = status_of(error, _in_path(request))
        report = error_report(error).document
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if (retry_s := retry_after_s(error, status)) is not None:
        headers["Retry-After"] = str(retry_s)
    content = msgspec.json.encode(report, enc_hook=repr)
    return Response(content, status_code=status, headers=headers, media_type=JSON)
