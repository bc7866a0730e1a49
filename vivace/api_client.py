"""The client of a cluster's HTTP API: any operation of its table (`orchestrator.operations`).

A request that has not reached the API is sent again for a while. One that only reads is also sent
again if the connection breaks. What is followed goes on after the last event, also if the API's
process is started again meanwhile.
"""

from __future__ import annotations

import http.client
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from orchestrator.errors import InvalidInput, Unreachable, reported
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import FollowParameters
from orchestrator.operations.table import OPERATION_EVENTS
from orchestrator.progress import Progress, silent
from orchestrator.results.operations import OperationStatus
from vivace.exchange import Patience, Unavailable
from vivace.server_events import ServerEvent, server_events

PREFIX = "/api/v1/"
VIEW_AGE = "Vivace-View-Age"
"""Header: how long ago, in seconds, what was read was so for certain."""

PATIENCE_S = 4.0
"""How long the API may be away."""

FOLLOWING_PATIENCE_S = 60.0
"""The same for who follows something, and knows that it was there."""

RESPONSE_S = 90.0
"""How long a response may take: the API gives up after 60 s."""

SILENCE_S = 40.0
"""Whoever follows is sent an event, or a sign of life, at least every 15 s."""

P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request, whole enough to be sent again."""

    method: str
    path: str
    body: bytes | None = None


class ApiClient:
    """Calls the operations of a cluster. Threads may share it.

    Parameters
    ----------
    address
        Such as `https://vivace.example:8650`.
    token, ca_file
        What the API asks for; certificates that vouch for its own.
    remedy
        What to do if it is away, a sentence.
    patience_s
        How long it may be away.

    Attributes
    ----------
    view_age_s
        How old what was read last may be: more than a few seconds while the store is away.

    Raises
    ------
    ValueError
        It is no such address.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        ca_file: str | None = None,
        remedy: str = "",
        patience_s: float = PATIENCE_S,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(
                f"{address!r} is no address of a cluster's API; write http://HOST:PORT"
            )
        self.address = address
        self.view_age_s = 0.0
        self._scheme, self._netloc, self._ca_file = parts.scheme, parts.netloc, ca_file
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._remedy, self._patience_s = remedy, patience_s

    def call(self, operation: Operation[P, R], parameters: P) -> R:
        """Carry out an operation whose result comes at once.

        Raises
        ------
        VivaceError
            What the operation raises.
        Unreachable
            The API is away; or the connection broke, and nobody knows whether it was carried out.
        """
        return msgspec.json.decode(
            self._sent(_written(operation, parameters)), type=operation.result
        )

    def run(self, operation: Operation[P, R], parameters: P, on_progress: Progress = silent) -> R:
        """Carry out a long operation, and follow it to its result; raises as `call`.

        Whoever interrupts that leaves the operation under way, as a note of the exception says.
        """
        begun = self._sent(_written(operation, parameters))
        status = msgspec.json.decode(begun, type=OperationStatus)
        asked = FollowParameters(operation=status.name)
        try:
            for now in self.follow(OPERATION_EVENTS, asked):
                status = now
                if status.state != "running":
                    break
                if status.step:
                    on_progress(status.step, status.detail)
        except KeyboardInterrupt as stop:
            stop.add_note(f"operation {status.name} goes on in the cluster")
            raise
        if status.state != "done":
            raise reported(msgspec.json.decode(status.error))
        return msgspec.json.decode(status.result, type=operation.result)

    def follow(self, operation: Operation[P, R], parameters: P) -> Iterator[R]:
        """Follow something for as long as the caller likes; raises as `call`."""
        request, last = _written(operation, parameters), None
        waiting = Patience(self.address, FOLLOWING_PATIENCE_S)
        while True:
            failure: Exception = ConnectionError("the response has ended")
            try:
                for event in self._events(request, last):
                    waiting.succeeded()
                    last = event.id or last
                    if event.data and event.name != "reset":
                        yield msgspec.json.decode(event.data, type=operation.result)
            except (OSError, http.client.HTTPException) as error:
                failure = error
            with self._unreachable():
                waiting.failed(failure)

    def text(self, path: str) -> str:
        """What the API has at a path of its own, such as `/metrics`; raises as `call`."""
        return self._sent(_Request(method="GET", path=path)).decode()

    def _sent(self, request: _Request) -> bytes:
        """The body of a response that tells of no error."""
        waiting = Patience(self.address, self._patience_s)
        while True:
            reached = False
            try:
                with closing(self._connection(RESPONSE_S)) as connection:
                    connection.connect()
                    reached = True
                    response = self._asked(connection, request, {})
                    body = response.read()
            except (OSError, http.client.HTTPException) as error:
                with self._unreachable():
                    if reached and request.method != "GET":
                        raise Unavailable(
                            f"the connection broke ({error}): nobody knows whether it was done"
                        ) from None
                    waiting.failed(error)
                continue
            if response.status == HTTPStatus.TOO_MANY_REQUESTS:
                with self._unreachable():
                    waiting.failed(RuntimeError("too many requests"))
                continue
            self.check(response, body)
            return body

    def _events(self, request: _Request, last: str | None) -> Iterator[ServerEvent]:
        """The events of a response, after one of them."""
        with closing(self._connection(SILENCE_S)) as connection:
            resumed = {} if last is None else {"Last-Event-ID": last}
            response = self._asked(connection, request, {"Accept": "text/event-stream"} | resumed)
            if response.status in (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE):
                raise ConnectionError(f"the API responds with status {response.status}")
            if response.status != HTTPStatus.OK:
                self.check(response, response.read())
            yield from server_events(response)

    def _asked(
        self, connection: http.client.HTTPConnection, request: _Request, extra: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        typed = {} if request.body is None else {"Content-Type": "application/json"}
        headers = self._headers | typed | dict(extra)
        connection.request(request.method, request.path, request.body, headers)
        return connection.getresponse()

    def check(self, response: http.client.HTTPResponse, body: bytes) -> None:
        """Raise what a response tells of."""
        if response.status in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            self.view_age_s = float(response.headers.get(VIEW_AGE) or 0.0)
            return
        try:
            error = reported(msgspec.json.decode(body)["error"])
        except (msgspec.DecodeError, KeyError, TypeError):
            problem = f"responds with status {response.status}, which is none of its own"
            remedy = "Is that the address of a cluster's HTTP API?"
            raise self._away(problem, remedy) from None
        raise error

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._scheme == "http":
            return http.client.HTTPConnection(self._netloc, timeout=timeout_s)
        import ssl

        trusted = ssl.create_default_context(cafile=self._ca_file)
        return http.client.HTTPSConnection(self._netloc, timeout=timeout_s, context=trusted)

    @contextmanager
    def _unreachable(self) -> Generator[None]:
        try:
            yield
        except Unavailable as error:
            cause = error.__cause__ or error
            raise self._away(f"does not answer ({cause})", self._remedy) from None

    def _away(self, problem: str, remedy: str) -> Unreachable:
        return Unreachable("The cluster's HTTP API", self.address, problem, remedy)


def _written(operation: Operation[P, R], parameters: P) -> _Request:
    """The request for an operation."""
    given = msgspec.to_builtins(parameters)
    named = {name: str(given.pop(name)) for name in operation.path_fields}
    for name, value in named.items():
        if not value or "/" in value:
            problem = "is the name of nothing"
            raise InvalidInput("", name, value, problem, "Names are not empty, and have no slash.")
    path = PREFIX + operation.path.format_map({n: quote(v, safe="") for n, v in named.items()})
    if operation.method == "POST":
        return _Request(method="POST", path=path, body=msgspec.json.encode(given))
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return _Request(method=operation.method, path=f"{path}?{query}" if query else path)
