"""A cluster's HTTP API without a cluster: operations are functions of a test.

Connections break, and events end, where a test says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from orchestrator.errors import error_report
from orchestrator.operations.operation import Manner, Operation
from orchestrator.operations.parameters import Parameters
from orchestrator.operations.table import OPERATIONS
from orchestrator.progress import Progress

Carry = Callable[[Operation[Any, Any], Any, Progress], object]
"""An operation carried out: its result; of a stream, its results in a list."""


@dataclass
class FakeApi:
    """The server.

    Attributes
    ----------
    carry
        What operations do; None: whatever is asked breaks the connection.
    token
        What it asks for.
    asked
        Names of operations, in order, and what was asked of them.
    break_after
        Of the next responses with events, after how many events each breaks.
    headers
        Of all responses.
    ids
        Whether events have numbers.
    """

    carry: Carry | None
    token: str | None = None
    address: str = ""
    asked: list[tuple[str, Parameters]] = field(default_factory=list[tuple[str, Parameters]])
    last_ids: list[str | None] = field(default_factory=list[str | None])
    break_after: list[int] = field(default_factory=list[int])
    busy: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    ids: bool = False
    texts: dict[str, str] = field(default_factory=dict[str, str])
    long: dict[str, list[tuple[str, dict[str, Any]]]] = field(
        default_factory=dict[str, list[tuple[str, dict[str, Any]]]]
    )


@contextmanager
def served(carry: Carry | None, **others: Any) -> Generator[FakeApi]:
    """The server for the time of a block."""
    fake = FakeApi(carry, **others)

    class Handler(_Handler):
        api = fake

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    api: FakeApi
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        """Respond to GET."""
        self._respond()

    def do_POST(self) -> None:
        """Respond to POST."""
        self._respond()

    def _respond(self) -> None:
        api, parts = self.api, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if api.token and self.headers.get("Authorization") != f"Bearer {api.token}":
            error = {"type": "Unauthorized", "message": "the token is unknown", "exit_status": 2}
            return self._send(401, {"error": error})
        if api.busy:
            api.busy -= 1
            return self._send(429, {"error": {"type": "TooMany", "message": "", "exit_status": 2}})
        if parts.path in api.texts:
            return self._write(200, api.texts[parts.path].encode())
        operation, given = _found(self.command, parts.path.removeprefix("/api/v1/"))
        given |= dict(parse_qsl(parts.query)) | (msgspec.json.decode(body) if body else {})
        asked = msgspec.convert(given, operation.parameters, strict=self.command == "POST")
        api.asked.append((operation.name, asked))
        api.last_ids.append(self.headers.get("Last-Event-ID"))
        if api.carry is None:
            self.close_connection = True
            return None
        if operation.name == "operation-events":
            return self._events(api.long[given["operation"]])
        told: list[tuple[str, dict[str, Any]]] = []
        name = f"{operation.name}-{len(api.asked)}"

        def status(state: str, step: str = "", detail: str = "", **end: object) -> None:
            event = {"name": name, "operation": operation.name, "state": state, "by": "test",
                     "begun_us": 0, "step": step, "detail": detail, "result": None,
                     "error": None, **end}  # fmt: skip
            told.append(("progress" if state == "running" else state, event))

        try:
            result = api.carry(
                operation, asked, lambda step, detail: status("running", step, detail)
            )
        except BaseException as raised:  # noqa: BLE001  It is told to the client.
            error = error_report(raised).document
            if not operation.long:
                return self._send(503 if error["error"]["exit_status"] == 3 else 422, error)
            status("failed", error=error["error"])
        else:
            if operation.manner is Manner.STREAM:
                events = msgspec.convert(result, list[Any])
                return self._events([("tuples", each) for each in events])
            if not operation.long:
                return self._send(200, result)
            status("done", result=result)
        api.long[name] = told
        begun = {**told[-1][1], "state": "running", "result": None, "error": None}
        return self._send(202, begun)

    def _events(self, events: list[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        first = 0
        if self.api.ids and (last := self.headers.get("Last-Event-ID")) is not None:
            first = int(last) + 1
        left = self.api.break_after.pop(0) if self.api.break_after else None
        for number, (name, data) in [*enumerate(events)][first:]:
            if left is not None and number - first >= left:
                # Half an event, and the end.
                self._chunk(b"event: progress\n")
                return
            numbered = f"id: {number}\n".encode() if self.api.ids else b""
            self._chunk(
                f": \n\nevent: {name}\n".encode() + numbered + b"data: "
                + msgspec.json.encode(data) + b"\n\n"
            )  # fmt: skip

        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _send(self, status: int, document: object) -> None:
        self._write(status, msgspec.json.encode(document))

    def _write(self, status: int, body: bytes) -> None:
        self.send_response(status)
        for name, value in self.api.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _found(method: str, path: str) -> tuple[Operation[Any, Any], dict[str, Any]]:
    """The operation of a route, and the fields in its path."""
    given = path.split("/")
    for operation in OPERATIONS:
        route = operation.path.split("/")
        if operation.method != method or len(route) != len(given):
            continue
        pairs: Mapping[str, str] = dict(zip(route, given, strict=True))
        if all(name.startswith("{") or name == value for name, value in pairs.items()):
            return operation, {
                name.strip("{}"): unquote(value)
                for name, value in pairs.items()
                if name.startswith("{")
            }
    raise AssertionError(f"{method} {path}")
